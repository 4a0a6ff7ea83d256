//===- PlanViews.cpp - A predicted step, as it was asked for --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/predict/PlanViews.h"

#include "simulate/PredictionText.h"

#include <algorithm>
#include <optional>

using namespace fsdp;

static bool isTrace(const std::string &path) {
  return path.ends_with(".trace");
}

bool fsdp::showsFusion(const CommandLine &line) {
  return !std::ranges::all_of(line.planViews, isTrace);
}

/// The command line knows no other suffixes.
static std::string makeView(const std::string &path, const plan::PlanT &plan,
                            const Prediction &prediction,
                            const Profile *measured, const Fusion *fusion) {
  if (path.ends_with(".json"))
    return printPredictionJson(plan, prediction, measured, fusion);
  if (isTrace(path))
    return printPredictionTrace(plan, prediction, measured);
  if (path.ends_with(".html"))
    return printPredictionPage(plan, prediction, measured, fusion);
  return printPrediction(plan, prediction, measured, fusion);
}

std::vector<PlanView> fsdp::makePlanViews(const plan::PlanT &plan,
                                          const Prediction &prediction,
                                          const CommandLine &line,
                                          const Fusion *fusion) {
  std::optional<Profile> measured;
  if (!line.profile.empty())
    measured = Profile::read(line.profile, plan);
  std::vector<PlanView> views;
  for (const std::string &path : line.planViews)
    views.push_back({path, makeView(path, plan, prediction,
                                    measured ? &*measured : nullptr, fusion)});
  return views;
}
