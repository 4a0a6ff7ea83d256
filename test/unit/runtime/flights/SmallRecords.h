//===- SmallRecords.h - Flight records, made by hand ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_FLIGHTS_SMALLRECORDS_H
#define FSDP_TEST_UNIT_RUNTIME_FLIGHTS_SMALLRECORDS_H

#include "runtime/flights/FlightRecord.h"

namespace fsdp::test {

/// One of `world` ranks, with the groups "a" and "b" of all of them.
inline FlightRecord makeRecord(int rank, int world) {
  FlightRecord record;
  record.run = "20260102T030405-abcdef";
  record.plan = "0123";
  record.backend = "gloo";
  record.host = "host";
  record.world = static_cast<uint64_t>(world);
  record.rank = rank;
  record.process = 100 + rank;
  record.cause = "error[fsdp-E091]: late";
  record.written = 1'000'000'000'000;
  record.step = 4;
  record.place = {"train/step", 12, "aten::mm", "layers.3.mlp (model.py:12)"};
  std::vector<int> all;
  for (int each = 0; each < world; ++each)
    all.push_back(each);
  for (const char *name : {"a", "b"})
    record.groups.push_back({name, all, 0, 0, {}});
  return record;
}

enum class Until { started, waited, completed };

/// The group's next transfer, a second behind the last one.
inline FlightRecord::Collective &addFlight(FlightRecord &record, size_t group,
                                           Until until,
                                           const std::string &bucket = "x") {
  FlightRecord::Collective flight;
  flight.number = record.recorded++;
  flight.group = group;
  flight.position = record.groups[group].issued++;
  flight.bucket = bucket;
  flight.bytes = 64;
  flight.step = 4;
  flight.place = {"train/step", 10, "all_gather", "layers.3 (model.py:11)"};
  flight.issued =
      100'000'000'000 + static_cast<int64_t>(flight.number) * 1'000'000'000;
  if (until != Until::started)
    flight.waited = flight.issued + 1'000'000;
  if (until == Until::completed)
    flight.completed = flight.issued + 2'000'000;
  record.collectives.push_back(flight);
  return record.collectives.back();
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_FLIGHTS_SMALLRECORDS_H
