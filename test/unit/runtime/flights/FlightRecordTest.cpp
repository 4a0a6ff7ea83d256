//===- FlightRecordTest.cpp - Flight records as files ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/FlightRecord.h"
#include "runtime/flights/CompareFlights.h"
#include "runtime/flights/FlightRuns.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"
#include "test/unit/runtime/flights/SmallRecords.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>

using namespace fsdp;
using namespace fsdp::test;
using testing::HasSubstr;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

FlightRecord makeFull() {
  FlightRecord record = makeRecord(1, 3);
  addFlight(record, 0, Until::completed, "layers.0");
  addFlight(record, 1, Until::waited).kind =
      toFlight(CollectiveKind::reduce_scatter);
  FlightRecord::Collective &exchange = addFlight(record, 0, Until::completed);
  --record.groups[0].issued;
  exchange.group.reset();
  exchange.position = 0;
  exchange.kind = FlightKind::exchange;
  exchange.place = {};
  record.groups[1].turn = 0;
  record.groups[1].turnBegan = 5;
  record.groups[0].awaited = 2;
  return record;
}

void write(const fs::path &path, const std::string &text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

ErrorId refusalOf(const std::string &text) {
  try {
    parseRecord(text, "rank_1.json");
  } catch (const Error &error) {
    return error.id();
  }
  ADD_FAILURE() << "was read: " << text.substr(0, 2000);
  return ErrorId::BadUsage;
}

TEST(FlightRecord, IsReadAsItWasWritten) {
  FlightRecord record = makeFull();
  std::string text = printRecord(record);
  FlightRecord read = parseRecord(text, "rank_1.json");
  EXPECT_EQ(printRecord(read), text);
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.collectives[1].kind, toFlight(CollectiveKind::reduce_scatter));
  EXPECT_EQ(read.collectives[1].waited, record.collectives[1].waited);
  EXPECT_EQ(read.collectives[0].place.source, "layers.3 (model.py:11)");
  EXPECT_FALSE(read.collectives[2].group);
  EXPECT_EQ(read.groups[1].turn, 0u);
  EXPECT_EQ(read.groups[0].awaited, 2);
}

TEST(FlightRecord, AnyBytesOfNamesAreWritten) {
  FlightRecord record = makeFull();
  record.collectives[0].bucket = "caf\xc3"; // a letter that was cut off
  record.cause = "two\nlines\x1b[31m";
  FlightRecord read = parseRecord(printRecord(record), "rank_1.json");
  EXPECT_THAT(read.collectives[0].bucket, HasSubstr("caf"));
  EXPECT_EQ(read.cause, "two lines [31m");
}

TEST(FlightRecord, NoPartOfAFileIsTakenForIt) {
  std::string text = printRecord(makeFull());
  for (size_t bytes = 0; bytes + 2 < text.size(); bytes += 3)
    EXPECT_EQ(refusalOf(text.substr(0, bytes)), ErrorId::FlightRecordInvalid);
}

TEST(FlightRecord, DamageIsRefused) {
  const Json good = Json::parse(printRecord(makeFull()));
  auto refuses = [&](const char *what,
                     const std::function<void(Json &)> &damage) {
    SCOPED_TRACE(what);
    Json json = good;
    damage(json);
    EXPECT_EQ(refusalOf(json.dump()), ErrorId::FlightRecordInvalid);
  };
  for (const auto &[key, value] : good.items())
    if (key != "fsdp_run") {
      refuses(key.c_str(), [&](Json &json) { json.erase(key); });
      refuses(key.c_str(), [&](Json &json) { json[key] = Json::array({1.5}); });
    }
  for (const char *list : {"groups", "collectives"})
    for (const auto &[key, value] : good[list][1].items()) {
      std::string path = std::string(list) + "." + key;
      refuses(path.c_str(), [&](Json &json) { json[list][1][key] = true; });
      if (key != "turn") // a file without is one of another back end
        refuses(path.c_str(), [&](Json &json) { json[list][1].erase(key); });
    }
  refuses("rank", [](Json &json) { json["rank"] = 3; });
  refuses("rank", [](Json &json) { json["rank"] = -1; });
  refuses("world", [](Json &json) { json["world_size"] = 0; });
  refuses("world", [](Json &json) { json["world_size"] = 1 << 20; });
  refuses("version", [](Json &json) { json["format_version"] = 2; });
  refuses("ranks", [](Json &j) { j["groups"][0]["ranks"] = {0, 2}; });
  refuses("ranks", [](Json &j) { j["groups"][0]["ranks"] = {0, 1, 3}; });
  refuses("ranks", [](Json &j) { j["groups"][0]["ranks"] = {1, 0}; });
  refuses("ranks", [](Json &j) { j["groups"][0]["ranks"] = {-1, 1}; });
  refuses("ranks", [](Json &j) { j["groups"][0]["ranks"] = Json::array(); });
  refuses("ranks", [](Json &j) { j["groups"][0]["ranks"] = {1, 1}; });
  refuses("waits", [](Json &j) { j["groups"][0]["waits_for"] = 3; });
  refuses("group", [](Json &j) { j["collectives"][0]["group"] = 2; });
  refuses("position", [](Json &j) { j["collectives"][0]["position"] = 9; });
  refuses("number", [](Json &j) { j["collectives"][1]["number"] = 0; });
  refuses("number", [](Json &j) { j["collectives"][1]["number"] = 1000; });
  refuses("kind", [](Json &j) { j["collectives"][0]["kind"] = "gather"; });
  refuses("time", [](Json &j) { j["collectives"][0]["issued_ns"] = -1; });
  refuses("time", [](Json &j) { j["written_ns"] = INT64_MAX; });
  refuses("bytes", [](Json &j) { j["collectives"][0]["bytes"] = 1e30; });
  refuses("text", [](Json &j) { j["cause"] = "\x1b[2J"; });
  refuses("text", [](Json &j) { j["cause"] = std::string(100'000, 'x'); });
  refuses("many", [](Json &j) {
    for (int i = 0; i < 3000; ++i)
      j["collectives"].push_back(j["collectives"][0]);
  });
  refuses("many", [](Json &j) {
    for (int i = 0; i < 3000; ++i)
      j["groups"].push_back(j["groups"][0]);
  });
  EXPECT_EQ(refusalOf("[]"), ErrorId::FlightRecordInvalid);
  EXPECT_EQ(refusalOf("\xff\xfe"), ErrorId::FlightRecordInvalid);
  EXPECT_EQ(refusalOf(std::string(100'000, '[')), ErrorId::FileImplausible);
}

TEST(FlightRecord, FoldersAreRead) {
  TemporaryFolder temporary;
  fs::path folder = temporary.path();
  auto refused = [&](const fs::path &path) {
    std::string name = path.string();
    try {
      compareFlights(readRecords(name));
    } catch (const Error &error) {
      return error.format();
    }
    return std::string();
  };
  EXPECT_THAT(refused(folder), HasSubstr("E121"));
  EXPECT_THAT(refused(folder / "none"), HasSubstr("E001"));
  for (int rank : {0, 1})
    write(folder / "20260102T030405-abcdef" / recordName(rank),
          printRecord(makeRecord(rank, 2)));
  write(folder / "20250102T030405-abcdef" / recordName(0), "older");
  std::string name = folder.string();
  EXPECT_EQ(readRecords(name).size(), 2u);
  EXPECT_EQ(name, (folder / "20260102T030405-abcdef").string());
  EXPECT_EQ(readRecords(name).size(), 2u);
  // Of another rank than its name says, of another run, too large.
  write(folder / "a" / recordName(1), printRecord(makeRecord(0, 2)));
  EXPECT_THAT(refused(folder / "a"), HasSubstr("is of rank 0"));
  FlightRecord other = makeRecord(1, 2);
  other.run = "20260102T030405-000000";
  write(folder / "b" / recordName(0), printRecord(makeRecord(0, 2)));
  write(folder / "b" / recordName(1), printRecord(other));
  EXPECT_THAT(refused(folder / "b"), HasSubstr("not of one run"));
  write(folder / "c" / recordName(0), std::string(17 << 20, ' '));
  EXPECT_THAT(refused(folder / "c"), HasSubstr("E014"));
  fs::create_directories(folder / "d" / recordName(0));
  EXPECT_THAT(refused(folder / "d"), HasSubstr("E013"));
}

TEST(FlightRuns, NamesAreTold) {
  EXPECT_TRUE(isRunName(makeRunName()));
  EXPECT_NE(makeRunName(), makeRunName());
  for (const char *name : {"", ".", "..", "20260102T030405", "a/b",
                           "20260102T030405-ABCDEF", "20260102T030405-abcdef/"})
    EXPECT_FALSE(isRunName(name)) << name;
  EXPECT_TRUE(isRecordName(recordName(12)));
  for (const char *name : {"rank_.json", "rank_1.jsonx", "rank_-1.json", "x"})
    EXPECT_FALSE(isRecordName(name)) << name;
}

TEST(FlightRuns, OldOnesAreRemovedAndNothingElse) {
  TemporaryFolder temporary;
  fs::path folder = temporary.path();
  auto nameOf = [](int i) {
    return "2026010" + std::to_string(i) + "T030405-abcdef";
  };
  for (int i = 1; i < 8; ++i)
    write(folder / nameOf(i) / "rank_0.json", "");
  write(folder / nameOf(2) / "notes.txt", "mine");
  write(folder / "other" / "rank_0.json", "");
  fs::create_directory_symlink(folder / "other",
                               folder / "20250101T030405-abcdef");
  removeOldRuns(folder.string(), 3, nameOf(1));
  EXPECT_THAT(listRuns(folder.string()),
              testing::ElementsAre(nameOf(1), nameOf(2), nameOf(5), nameOf(6),
                                   nameOf(7)));
  EXPECT_TRUE(fs::exists(folder / nameOf(2) / "notes.txt"));
  EXPECT_FALSE(fs::exists(folder / nameOf(2) / "rank_0.json"));
  EXPECT_TRUE(fs::exists(folder / "other" / "rank_0.json"));
}

} // namespace
