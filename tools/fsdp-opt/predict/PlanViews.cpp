//===- PlanViews.cpp - A predicted step, as it was asked for --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/predict/PlanViews.h"

#include "simulate/PredictionText.h"

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

std::vector<PlanView> fsdp::makePlanViews(const plan::PlanT &plan,
                                          const Prediction &prediction,
                                          const CommandLine &line) {
  std::vector<PlanView> views;
  for (const std::string &path : line.planViews)
    views.push_back({path, makeView(path, plan, prediction)});
  return views;
}
