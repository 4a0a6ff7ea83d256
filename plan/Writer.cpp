//===- Writer.cpp - From a plan to an artifact ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Writer.h"

#include "plan/Operators.h"
#include "plan/Verify.h"
#include "plan/Version.h"
#include "support/AtomicFile.h"
#include "support/Hash.h"

using namespace fsdp;

std::string fsdp::serializePlan(const plan::PlanT &plan) {
  verifyPlan(plan);
  verifyOperators(plan, Trust::own);
  flatbuffers::FlatBufferBuilder inner;
  inner.Finish(plan::Plan::Pack(inner, &plan));
  std::string_view payload(
      reinterpret_cast<const char *>(inner.GetBufferPointer()),
      inner.GetSize());

  flatbuffers::FlatBufferBuilder outer;
  // The payload is a buffer of its own and keeps its alignment in the file.
  outer.ForceVectorAlignment(payload.size(), 1, 16);
  auto bytes = outer.CreateVector(inner.GetBufferPointer(), inner.GetSize());
  auto hash = outer.CreateString(hash128(payload));
  plan::FinishArtifactBuffer(
      outer, plan::CreateArtifact(outer, kFormatVersion, hash, bytes));
  return std::string(reinterpret_cast<const char *>(outer.GetBufferPointer()),
                     outer.GetSize());
}

void fsdp::writePlan(const plan::PlanT &plan, const std::string &path) {
  writeFileAtomically(path, serializePlan(plan));
}
