//===- PlanViews.cpp - A predicted step, as it was asked for --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/predict/PlanViews.h"

#include "simulate/PredictionText.h"
#include "support/Error.h"

using namespace fsdp;

/// The command line knows no other suffixes.
static std::string makeView(const std::string &path, const plan::PlanT &plan,
                            const Prediction &prediction) {
  if (path.ends_with(".json"))
    return printPredictionJson(plan, prediction);
  if (path.ends_with(".trace"))
    return printPredictionTrace(plan, prediction);
  if (path.ends_with(".html"))
    return printPredictionPage(plan, prediction);
  return printPrediction(plan, prediction);
}

void fsdp::checkCluster(const std::string &cluster) {
  if (cluster.empty())
    throw Error(ErrorId::BadUsage,
                "--print-plan needs to know the hardware; add "
                "--cluster=NAME, such as --cluster=h100x8, or 'cluster' to the "
                "config");
  Cluster::load(cluster);
}

std::vector<PlanView> fsdp::makePlanViews(const plan::PlanT &plan,
                                          const CommandLine &line,
                                          const std::string &cluster) {
  Prediction prediction = simulate(plan, Cluster::load(cluster));
  std::vector<PlanView> views;
  for (const std::string &path : line.planViews)
    views.push_back({path, makeView(path, plan, prediction)});
  return views;
}
