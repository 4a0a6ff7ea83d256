//===- PredictionJson.cpp - A prediction for tools ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/PredictionText.h"

#include "plan/Activities.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace fsdp;
using nlohmann::ordered_json;

static ordered_json describe(const plan::PlanT &plan,
                             const PredictedProgram &program) {
  const plan::ProgramT &each = *plan.programs[program.program];
  std::vector<Activity> activities = describeActivities(plan, each);
  ordered_json json = {{"name", each.name},
                       {"entry", getEntryName(getEntry(each))},
                       {"runs", program.runs},
                       {"seconds", program.seconds},
                       {"compute_seconds", program.compute},
                       {"exposed_seconds", program.exposed},
                       {"issue_seconds", program.idle},
                       {"flops", program.flops}};
  for (size_t kind = 1; kind < kWorkKinds; ++kind)
    json["kernel_seconds"][getName(WorkKind(kind))] = program.byKind[kind];
  json["transfers"] = ordered_json::array();
  for (const PredictedTransfer &transfer : program.transfers)
    json["transfers"].push_back({{"bucket", transfer.bucket},
                                 {"kind", transfer.kind},
                                 {"bytes", transfer.bytes},
                                 {"start", transfer.start},
                                 {"wait", transfer.wait},
                                 {"started_at", transfer.given},
                                 {"begin", transfer.begin},
                                 {"end", transfer.end},
                                 {"waited_at", transfer.asked},
                                 {"alone_seconds", transfer.alone},
                                 {"exposed_seconds", transfer.exposed()}});
  const PredictedUse *highest = nullptr;
  for (const PredictedUse &use : program.uses)
    if (!highest || use.bytes > highest->bytes)
      highest = &use;
  if (highest) {
    const Activity &at = activities[highest->instruction];
    json["highest_use"] = {{"bytes", highest->bytes},
                           {"at", highest->at},
                           {"instruction", highest->instruction},
                           {"name", at.name},
                           {"module", at.module},
                           {"source", at.source}};
  }
  return json;
}

std::string fsdp::printPredictionJson(const plan::PlanT &plan,
                                      const Prediction &prediction) {
  ordered_json json = {{"cluster", prediction.cluster},
                       {"ranks", prediction.ranks},
                       {"nodes", prediction.nodes},
                       {"seconds", prediction.seconds},
                       {"compute_seconds", prediction.compute},
                       {"exposed_seconds", prediction.exposed},
                       {"issue_seconds", prediction.idle},
                       {"flops", prediction.flops},
                       {"wire_bytes", prediction.wireBytes},
                       {"memory",
                        {{"planned", prediction.planned},
                         {"scratch", prediction.scratch},
                         {"reserved", prediction.reserved},
                         {"held", prediction.held()},
                         {"capacity", prediction.capacity},
                         {"fits", prediction.fits()},
                         {"host", prediction.hostPlanned}}}};
  json["programs"] = ordered_json::array();
  for (const PredictedProgram &program : prediction.programs)
    json["programs"].push_back(describe(plan, program));
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}
