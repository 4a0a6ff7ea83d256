//===- AlignFlights.h - The same collective on all ranks --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Ranks that run one plan start the same collectives of a group in the same
// order, so a group and a position name one collective on all of its ranks.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_FLIGHTS_ALIGNFLIGHTS_H
#define FSDP_RUNTIME_FLIGHTS_ALIGNFLIGHTS_H

#include "runtime/flights/FlightRecord.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp {

/// What has one order on all of its ranks.
struct FlightLine {
  bool isGroup; ///< else one exchange, or the making of one communicator
  std::string name;
  const std::vector<int> *ranks; ///< ascending; of a record, or all
};

/// One collective, whichever rank's.
struct FlightKey {
  size_t line = 0; ///< into the alignment's lines
  uint64_t position = 0;
  auto operator<=>(const FlightKey &) const = default;
};

enum class FlightState {
  unknown,    ///< no longer in the record
  notReached, ///< the rank did not start it
  started,    ///< and does not wait for it
  waiting,
  complete
};

/// The records of one run, which it refers to, side by side, as they were when
/// the first of them was written: what ranks did afterwards, such as one that
/// was stopped and went on, comes of the others' end.
class FlightAlignment {
public:
  using Collective = FlightRecord::Collective;
  struct Known {
    const FlightRecord *record;
    int64_t end; ///< of what counts
    std::map<FlightKey, const Collective *> flights;
    struct Group {
      const FlightRecord::Group *recorded;
      uint64_t issued; ///< the position of the next transfer
    };
    std::map<size_t, Group> groups; ///< by line
  };

  /// Throws fsdp::Error (FlightRecordInvalid) if they are not of one run.
  explicit FlightAlignment(const std::vector<FlightRecord> &records);

  uint64_t world() const { return worldSize; }
  /// That left a record.
  const std::map<int, Known> &ranks() const { return known; }
  /// That did not, ascending.
  const std::vector<int> &missing() const { return absent; }
  /// When the first record was written.
  int64_t moment() const { return firstWritten; }
  const FlightLine &lineOf(const FlightKey &key) const {
    return lines[key.line];
  }

  FlightState stateOf(const Known &rank, const Collective &flight) const;
  /// Of a rank that left a record; another one waits for it since `since`.
  FlightState stateOf(int rank, const FlightKey &key, int64_t since) const;
  /// What is complete for one rank, all have taken part in.
  bool isCompleteAnywhere(const FlightKey &key) const;

  /// Where a rank waits.
  struct Wait {
    int rank;
    FlightKey key;
    const Collective *flight;
    int64_t since;
    int awaited; ///< whose part, as the back end knows; -1: unknown
    // Of the others, ascending:
    std::vector<int> notReached, elsewhere, noRecord;
    bool isDone = false; ///< some rank has it complete

    /// Who keeps it waiting, by the strongest evidence that there is.
    std::vector<int> blamed() const;
  };
  /// Of all ranks, the longest first.
  std::vector<Wait> findWaits() const;

private:
  void add(const FlightRecord &record, int64_t end);
  size_t addLine(const std::string &name, FlightLine line);
  size_t addLine(const FlightRecord::Group &group, bool isGroup);
  void blame(Wait &wait) const;
  void believeEarliest(std::vector<Wait> &waits) const;

  uint64_t worldSize = 1;
  int64_t firstWritten = 0;
  std::vector<int> everyone;
  std::map<int, Known> known;
  std::vector<int> absent;
  std::map<std::string, size_t> lineNames;
  std::vector<FlightLine> lines;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_FLIGHTS_ALIGNFLIGHTS_H
