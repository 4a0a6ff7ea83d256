//===- FlightRecord.h - What one rank was doing -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank's last collectives as the file rank_N.json holds them: in words, so
// that it is read without the artifact.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_FLIGHTS_FLIGHTRECORD_H
#define FSDP_RUNTIME_FLIGHTS_FLIGHTRECORD_H

#include "plan/plan_generated.h"
#include "runtime/comm/FlightRing.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Where in a program something is.
struct FlightPlace {
  std::string program;      ///< "train/step"; empty: in none
  int64_t instruction = -1; ///< its number in the artifact's text
  std::string operation;    ///< "aten::mm"
  /// "layers.3.mlp (model.py:12)", of the instruction, or of the one that a
  /// transfer is for; empty: unknown.
  std::string source;
};

/// Times are nanoseconds since 1970; 0: not yet.
struct FlightRecord {
  struct Group {
    std::string name; ///< "dp_shard/gather"
    std::vector<int> ranks;
    uint64_t ordinal = 0;
    uint64_t issued = 0; ///< the position of the next transfer
    /// Where a wait does not say it: the position of the first transfer that
    /// is not over, as the back end has seen it.
    std::optional<uint64_t> turn;
    int64_t turnBegan = 0; ///< when nothing of this rank was in its way
    int awaited = -1;      ///< the rank whose part is waited for
  };
  struct Collective {
    uint64_t number = 0;
    std::optional<size_t> group; ///< into `groups`; none: an exchange
    uint64_t position = 0;
    FlightKind kind = FlightKind::collective;
    std::string bucket;
    uint64_t bytes = 0, step = 0, microBatch = 0;
    FlightPlace place;
    int64_t issued = 0, waited = 0, completed = 0;
  };

  std::string run;  ///< the same for all ranks of a run, and of no other
  std::string plan; ///< the artifact's fingerprint
  std::string backend, host;
  uint64_t world = 1;
  int rank = 0;
  int64_t process = 0;
  std::string cause;    ///< why it was written
  bool isAsked = false; ///< by SIGUSR1, of a run that goes on
  int64_t written = 0;
  uint64_t step = 0, microBatch = 0;
  FlightPlace place;
  uint64_t recorded = 0; ///< collectives, also those that are gone
  std::vector<Group> groups;
  std::vector<Collective> collectives; ///< the last ones, by number
};

/// What `ring` holds now, and with it `written`; the rest is the caller's.
/// `plan` is what its programs are of.
FlightRecord takeRecord(const FlightRing &ring, const plan::PlanT &plan);

std::string printRecord(const FlightRecord &record);

/// Throws fsdp::Error (FlightRecordInvalid, FileImplausible): files may come
/// from anywhere. `path` is for messages.
FlightRecord parseRecord(const std::string &text, const std::string &path);

/// More than a file ever has.
inline constexpr uint64_t kMostRecordBytes = 16 << 20;

} // namespace fsdp

#endif // FSDP_RUNTIME_FLIGHTS_FLIGHTRECORD_H
