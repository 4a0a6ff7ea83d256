//===- CompareFlights.h - Which rank is behind, and where -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_FLIGHTS_COMPAREFLIGHTS_H
#define FSDP_RUNTIME_FLIGHTS_COMPAREFLIGHTS_H

#include "runtime/flights/FlightRecord.h"

#include <string>
#include <vector>

namespace fsdp {

struct FlightComparison {
  /// Whether a rank is behind, a record is missing, or ranks started different
  /// collectives in one place.
  bool isParted = false;
  std::string text; ///< for people
  /// The ranks that the others wait for, ascending, and what for; empty: none.
  std::vector<int> behind;
  std::string collective; ///< "all_gather of bucket 'layers.0' in step 3"
};

/// Puts the records of one run side by side, collective by collective of each
/// group. Throws fsdp::Error (FlightRecordInvalid) if they are not of one run.
FlightComparison compareFlights(std::vector<FlightRecord> records);

/// The records in `folder`, or in the newest run's folder in it, whose name is
/// put into `folder`. Throws fsdp::Error: FileNotReadable, FileImplausible,
/// FlightRecordInvalid.
std::vector<FlightRecord> readRecords(std::string &folder);

/// fsdp-run --compare-records: prints the comparison on stdout; whether nothing
/// parts.
bool printComparison(const std::string &folder);

} // namespace fsdp

#endif // FSDP_RUNTIME_FLIGHTS_COMPAREFLIGHTS_H
