//===- RawArtifact.h - Artifacts that nobody checked ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PLAN_RAWARTIFACT_H
#define FSDP_TEST_UNIT_PLAN_RAWARTIFACT_H

#include "plan/Version.h"
#include "plan/plan_generated.h"
#include "plan/worlds_generated.h"
#include "support/Hash.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp::test {

/// An artifact around the payload, with the hash that fits.
inline std::string wrapPayload(std::string_view payload,
                               uint32_t version = kFormatVersion) {
  flatbuffers::FlatBufferBuilder outer;
  outer.ForceVectorAlignment(payload.size(), 1, 16);
  auto bytes = outer.CreateVector(
      reinterpret_cast<const uint8_t *>(payload.data()), payload.size());
  auto hash = outer.CreateString(hash128(payload));
  plan::FinishArtifactBuffer(outer,
                             plan::CreateArtifact(outer, version, hash, bytes));
  return std::string(reinterpret_cast<const char *>(outer.GetBufferPointer()),
                     outer.GetSize());
}

/// The plan's bytes, whatever it says.
inline std::string payloadOf(const plan::PlanT &plan) {
  flatbuffers::FlatBufferBuilder inner;
  inner.Finish(plan::Plan::Pack(inner, &plan));
  return {reinterpret_cast<const char *>(inner.GetBufferPointer()),
          inner.GetSize()};
}

/// As serializePlan, whatever the plan says.
inline std::string rawArtifact(const plan::PlanT &plan) {
  return wrapPayload(payloadOf(plan));
}

/// Artifacts with the numbers of ranks that they are said to be for, and what
/// is said of their training, whatever that is.
inline std::string
rawWorlds(const std::vector<std::pair<uint32_t, std::string>> &plans,
          const std::string &training, uint32_t version = 1) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<plan::WorldPlan>> tables;
  for (const auto &[world, bytes] : plans) {
    builder.ForceVectorAlignment(bytes.size(), 1, 16);
    auto artifact = builder.CreateVector(
        reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
    tables.push_back(plan::CreateWorldPlan(builder, world, artifact));
  }
  auto own = builder.CreateString(training);
  auto all = builder.CreateVector(tables);
  plan::FinishWorldsBuffer(builder,
                           plan::CreateWorlds(builder, version, own, all));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PLAN_RAWARTIFACT_H
