//===- SmallProfile.h - A profile as fsdp-run writes it ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_SIMULATE_SMALLPROFILE_H
#define FSDP_TEST_UNIT_SIMULATE_SMALLPROFILE_H

#include "plan/plan_generated.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp::test {

class SmallProfile {
public:
  /// Of runs of the plan's last program.
  explicit SmallProfile(const plan::PlanT &plan) : plan(plan) {}

  /// A step that is one run, in which each instruction takes so many
  /// milliseconds, one after another from `begin` milliseconds on.
  void add(uint32_t rank, int64_t step, double begin,
           const std::vector<double> &milliseconds);
  std::string text() const;

private:
  void slice(uint32_t rank, const std::string &name, const char *category,
             double begin, double length, nlohmann::json arguments);

  const plan::PlanT &plan;
  nlohmann::json events = nlohmann::json::array();
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_SIMULATE_SMALLPROFILE_H
