//===- FlightRuns.h - Folders of flight records -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_FLIGHTS_FLIGHTRUNS_H
#define FSDP_RUNTIME_FLIGHTS_FLIGHTRUNS_H

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// "20260131T235959-1a2b3c": the time (UTC) and a number that no other run has,
/// so that names have the order of the runs.
std::string makeRunName();
bool isRunName(std::string_view name);

/// "rank_3.json".
std::string recordName(int rank);
bool isRecordName(std::string_view name);

/// Those in `folder`, the oldest first. None if it cannot be read.
std::vector<std::string> listRuns(const std::string &folder);

/// Removes the records of the oldest runs, until `kept` are left, and their
/// folders, unless they hold something else. Never those of `own`. What cannot
/// be removed stays.
void removeOldRuns(const std::string &folder, size_t kept,
                   const std::string &own);

} // namespace fsdp

#endif // FSDP_RUNTIME_FLIGHTS_FLIGHTRUNS_H
