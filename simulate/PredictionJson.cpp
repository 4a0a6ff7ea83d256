//===- PredictionJson.cpp - A prediction for tools ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/PredictionText.h"

#include "plan/Activities.h"
#include "simulate/Comparison.h"
#include "simulate/FusionText.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace fsdp;
using nlohmann::ordered_json;

static ordered_json describe(const SecondsPair &pair) {
  return {{"count", pair.count},
          {"predicted_seconds", pair.predicted},
          {"measured_seconds", pair.measured},
          {"ratio", pair.ratio()}};
}

static ordered_json describe(const Comparison &comparison,
                             const Profile &profile) {
  ordered_json json = {{"ranks", profile.ranks},
                       {"steps", profile.steps},
                       {"step", describe(comparison.step)},
                       {"compute", describe(comparison.compute)},
                       {"exposed", describe(comparison.exposed)},
                       {"starting_seconds", comparison.starting},
                       {"input_seconds", comparison.inputs},
                       {"kernels", ordered_json::object()},
                       {"operators", ordered_json::object()}};
  for (size_t kind = 0; kind < kWorkKinds; ++kind)
    if (comparison.kinds[kind].count != 0)
      json["kernels"][getName(WorkKind(kind))] =
          describe(comparison.kinds[kind]);
  for (const auto &[name, pair] : comparison.operators)
    json["operators"][name] = describe(pair);
  return json;
}

static ordered_json describe(const PredictedTransfer &predicted,
                             const ProfiledTransfer &measured) {
  SecondsPair flight{getFlight(predicted), measured.flight, 1};
  return {{"starting_seconds", measured.starting},
          {"in_flight_seconds", measured.flight},
          {"exposed_seconds", measured.exposed},
          {"ratio", flight.ratio()}};
}

static ordered_json describe(const plan::PlanT &plan,
                             const PredictedProgram &program,
                             const ProfiledProgram *measured) {
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
  for (const PredictedTransfer &transfer : program.transfers) {
    ordered_json row = {{"bucket", transfer.bucket},
                        {"kind", transfer.kind},
                        {"bytes", transfer.bytes},
                        {"start", transfer.start},
                        {"wait", transfer.wait},
                        {"started_at", transfer.given},
                        {"begin", transfer.begin},
                        {"end", transfer.end},
                        {"waited_at", transfer.asked},
                        {"alone_seconds", transfer.alone},
                        {"in_flight_seconds", getFlight(transfer)},
                        {"exposed_seconds", transfer.exposed()}};
    if (const ProfiledTransfer *found =
            measured ? measured->findTransfer(transfer.start) : nullptr)
      row["measured"] = describe(transfer, *found);
    json["transfers"].push_back(std::move(row));
  }
  if (measured)
    json["measured"] = {{"seconds", measured->seconds},
                        {"ratio", program.seconds / measured->seconds},
                        {"runs", measured->runs},
                        {"shown_rank", measured->rank},
                        {"shown_step", measured->step}};
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
                                      const Prediction &prediction,
                                      const Profile *measured,
                                      const Fusion *fusion) {
  ordered_json json = {{"cluster", prediction.cluster},
                       {"ranks", prediction.ranks},
                       {"nodes", prediction.nodes},
                       {"seconds", prediction.seconds},
                       {"compute_seconds", prediction.compute},
                       {"exposed_seconds", prediction.exposed},
                       {"issue_seconds", prediction.idle},
                       {"flops", prediction.flops},
                       {"tokens", prediction.tokens},
                       {"wire_bytes", prediction.wireBytes},
                       {"memory",
                        {{"planned", prediction.planned},
                         {"scratch", prediction.scratch},
                         {"scratch_unknown", prediction.scratchUnknown},
                         {"reserved", prediction.reserved},
                         {"communicators", prediction.communicators},
                         {"communicator_count", prediction.communicatorCount},
                         {"held", prediction.held()},
                         {"capacity", prediction.capacity},
                         {"fits", prediction.fits()},
                         {"host", prediction.hostPlanned}}}};
  if (measured)
    json["measured"] =
        describe(compare(plan, prediction, *measured), *measured);
  if (fusion)
    json["own_kernels"] = describeFusion(*fusion);
  json["programs"] = ordered_json::array();
  for (const PredictedProgram &program : prediction.programs)
    json["programs"].push_back(
        describe(plan, program,
                 measured ? measured->findProgram(program.program) : nullptr));
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}
