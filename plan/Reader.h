//===- Reader.h - From an artifact to a plan --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_READER_H
#define FSDP_PLAN_READER_H

#include "plan/Operators.h"
#include "plan/plan_generated.h"

#include <string>
#include <string_view>

namespace fsdp {

/// An artifact that was read and verified: every index, offset and byte range
/// of its plan holds, so that its users need no checks of their own.
class PlanFile {
public:
  /// Throws fsdp::Error: FileNotReadable, NotAnArtifact, ArtifactNewer,
  /// ArtifactOlder, ArtifactCorrupted, ArtifactNotTrusted.
  static PlanFile read(const std::string &path, Trust trust = Trust::stranger);

  /// The artifact in `bytes`; errors call it `name`. Throws as `read`.
  static PlanFile fromBytes(std::string_view bytes, const std::string &name,
                            Trust trust = Trust::stranger);

  const plan::PlanT &plan() const { return contents; }

  /// The fingerprint: XXH3-128 of the plan, 32 hex digits. The plan holds
  /// graph, mesh, options and the compiler's version; it is equal if all these
  /// are.
  const std::string &hash() const { return fingerprint; }

  uint32_t formatVersion() const { return version; }

  /// Whether `bytes` start like an artifact of any version.
  static bool isArtifact(std::string_view bytes);

private:
  plan::PlanT contents;
  std::string fingerprint;
  uint32_t version = 0;
};

} // namespace fsdp

#endif // FSDP_PLAN_READER_H
