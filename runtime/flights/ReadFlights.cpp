//===- ReadFlights.cpp - The flight records of a folder -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/CompareFlights.h"
#include "runtime/flights/FlightRuns.h"
#include "support/Error.h"
#include "support/ReadOnlyFile.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

using namespace fsdp;
namespace fs = std::filesystem;

static std::vector<std::string> listRecords(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator each(folder, code), end; !code && each != end;
       each.increment(code))
    if (std::string name = each->path().filename().string(); isRecordName(name))
      names.push_back(std::move(name));
  if (code)
    throw Error(ErrorId::FileNotReadable,
                "folder '" + folder + "' cannot be read: " + code.message());
  std::ranges::sort(names);
  return names;
}

std::vector<FlightRecord> fsdp::readRecords(std::string &folder) {
  std::vector<std::string> names = listRecords(folder);
  if (names.empty()) {
    std::vector<std::string> runs = listRuns(folder);
    if (runs.empty())
      throw Error(ErrorId::FlightRecordInvalid,
                  "'" + folder +
                      "' holds no flight records: expected rank_N.json, or "
                      "folders of runs with them; name what "
                      "fsdp-run --flight-records=DIR wrote");
    folder = (fs::path(folder) / runs.back()).string();
    names = listRecords(folder);
  }
  std::vector<FlightRecord> records;
  for (const std::string &name : names) {
    std::string path = (fs::path(folder) / name).string();
    FlightRecord record = parseRecord(
        readWholeFile(path, "the flight record", kMostRecordBytes), path);
    if (recordName(record.rank) != name)
      throw Error(ErrorId::FlightRecordInvalid,
                  "'" + path +
                      "' is no flight record of its name: it is of rank " +
                      std::to_string(record.rank) +
                      "; name a folder with the files as ranks wrote them");
    records.push_back(std::move(record));
  }
  return records;
}

bool fsdp::printComparison(const std::string &folder) {
  std::string found = folder;
  FlightComparison comparison = compareFlights(readRecords(found));
  std::printf("'%s', %s", found.c_str(), comparison.text.c_str());
  return !comparison.isParted;
}
