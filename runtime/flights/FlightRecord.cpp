//===- FlightRecord.cpp - What one rank was doing -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/flights/FlightRecord.h"

#include "plan/Instructions.h"
#include "plan/Operators.h"
#include "plan/Version.h"
#include "support/Error.h"
#include "support/JsonIntegers.h"
#include "support/Nesting.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>

using namespace fsdp;
using Json = nlohmann::ordered_json;

static constexpr const char *kFormat = "fsdp-opt flight record";
/// Raised by a change that an older fsdp-run would misread.
static constexpr uint64_t kVersion = 1;
// More than a run has of each.
static constexpr uint64_t kMostRanks = 1 << 16;
static constexpr size_t kMostGroups = 1000, kMostCollectives = 2000;
static constexpr size_t kMostText = 8192;
static constexpr int64_t kMostTime = INT64_MAX / 2; // ns: of the year 2116
static constexpr size_t kMostQuoted = 200;

//===----------------------------------------------------------------------===//
// Of a ring
//===----------------------------------------------------------------------===//

static std::string nameOf(const plan::PlanT &plan,
                          const plan::InstructionT &instruction) {
  if (const plan::CallT *call = instruction.body.AsCall()) {
    const plan::OperatorT &op = *plan.operators[call->op];
    return fullName(op.name, op.overload);
  }
  return kindOf(instruction);
}

/// The line of the model that an instruction is of. That of a gather is the
/// first that computes behind its wait: it is for what reads the parameters,
/// and names only these itself.
static std::string sourceOf(const plan::PlanT &plan,
                            const plan::ProgramT &program, size_t index) {
  auto locationOf = [&](size_t i) -> std::string_view {
    int32_t at = program.instructions[i]->at;
    return at < 0 ? std::string_view() : plan.locations[at];
  };
  std::string own(locationOf(index));
  auto hasLine = [](std::string_view text) {
    return text.find(" (") != std::string_view::npos;
  };
  const plan::InstructionT &instruction = *program.instructions[index];
  const plan::TransferT *gather = gatherOf(instruction);
  if (hasLine(own) || (!gather && !instruction.body.AsWait()))
    return own;
  size_t i = index;
  if (gather)
    for (bool isWait = false; i < program.instructions.size() && !isWait; ++i) {
      const plan::WaitT *wait = program.instructions[i]->body.AsWait();
      isWait = wait && wait->future == gather->future;
    }
  for (; i < program.instructions.size(); ++i)
    if (hasLine(locationOf(i)))
      return std::string(locationOf(i));
  return own;
}

/// The program that has the instruction; null: none has.
static const plan::ProgramT *findProgram(const plan::PlanT &plan,
                                         int64_t program, int64_t instruction) {
  if (program < 0 || program >= static_cast<int64_t>(plan.programs.size()))
    return nullptr;
  const plan::ProgramT &in = *plan.programs[static_cast<size_t>(program)];
  bool has = instruction >= 0 &&
             instruction < static_cast<int64_t>(in.instructions.size());
  return has ? &in : nullptr;
}

static FlightPlace placeOf(const plan::PlanT &plan, int64_t program,
                           int64_t instruction) {
  const plan::ProgramT *in = findProgram(plan, program, instruction);
  if (!in)
    return {};
  auto index = static_cast<size_t>(instruction);
  return {in->name, instruction, nameOf(plan, *in->instructions[index]),
          sourceOf(plan, *in, index)};
}

/// In full, where an instruction of the plan started it.
static std::string bucketOf(const plan::PlanT &plan,
                            const FlightEntry &flight) {
  if (const auto *in = findProgram(plan, flight.program, flight.instruction))
    if (const auto *start = transferOf(*in->instructions[flight.instruction]))
      return start->bucket;
  return std::string(flight.bucketText());
}

FlightRecord fsdp::takeRecord(const FlightRing &ring, const plan::PlanT &plan) {
  FlightRing::Snapshot snapshot = ring.snapshot();
  FlightRecord record;
  using std::chrono::duration_cast, std::chrono::nanoseconds;
  record.written = duration_cast<nanoseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  int64_t shift = record.written - FlightRing::now();
  auto toWall = [&](int64_t time) { return time ? time + shift : 0; };
  record.rank = ring.rank();
  record.step = snapshot.step;
  record.microBatch = snapshot.microBatch;
  if (snapshot.where != FlightRing::kBetween)
    record.place = placeOf(plan, static_cast<int64_t>(snapshot.where >> 32),
                           static_cast<int64_t>(snapshot.where & 0xFFFFFFFF));
  record.recorded = snapshot.recorded;
  for (const auto &[group, issued] : snapshot.groups) {
    FlightRecord::Group &out = record.groups.emplace_back(FlightRecord::Group{
        group->name, group->ranks, group->ordinal, issued, {}});
    out.awaited = group->getAwaited();
    if (group->reportsTurns()) {
      auto [turn, began] = group->getTurn();
      out.turn = turn;
      out.turnBegan = toWall(began);
    }
  }
  for (const FlightEntry &flight : snapshot.flights) {
    FlightRecord::Collective &out = record.collectives.emplace_back();
    out.number = flight.number;
    if (flight.group != FlightEntry::kNoGroup)
      out.group = flight.group;
    out.position = flight.position;
    out.kind = flight.kind;
    out.bucket = bucketOf(plan, flight);
    out.bytes = flight.bytes;
    out.step = flight.step;
    out.microBatch = flight.microBatch;
    out.place = placeOf(plan, flight.program, flight.instruction);
    out.issued = toWall(flight.issued);
    out.waited = toWall(flight.waited);
    out.completed = toWall(flight.completed);
  }
  return record;
}

//===----------------------------------------------------------------------===//
// As text
//===----------------------------------------------------------------------===//

/// One line, as readers take it.
static std::string oneLine(std::string text) {
  std::ranges::replace_if(
      text,
      [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; },
      ' ');
  if (text.size() > kMostText / 2)
    text = text.substr(0, kMostText / 2) + " …";
  return text;
}

static Json printPlace(const FlightPlace &place) {
  if (place.program.empty())
    return nullptr;
  return {{"program", oneLine(place.program)},
          {"instruction", place.instruction},
          {"operation", oneLine(place.operation)},
          {"source", oneLine(place.source)}};
}

std::string fsdp::printRecord(const FlightRecord &record) {
  Json json{{"format", kFormat},
            {"format_version", kVersion},
            {"fsdp_run", kCompilerVersion},
            {"run", record.run},
            {"plan", record.plan},
            {"backend", record.backend},
            {"world_size", record.world},
            {"rank", record.rank},
            {"host", oneLine(record.host)},
            {"pid", record.process},
            {"cause", oneLine(record.cause)},
            {"asked", record.isAsked},
            {"written_ns", record.written},
            {"step", record.step},
            {"micro_batch", record.microBatch},
            {"at", printPlace(record.place)},
            {"recorded", record.recorded},
            {"groups", Json::array()},
            {"collectives", Json::array()}};
  for (const FlightRecord::Group &group : record.groups) {
    Json each{{"name", oneLine(group.name)},
              {"ranks", group.ranks},
              {"ordinal", group.ordinal},
              {"issued", group.issued}};
    if (group.turn) {
      each["turn"] = *group.turn;
      each["turn_began_ns"] = group.turnBegan;
    }
    if (group.awaited >= 0)
      each["waits_for"] = group.awaited;
    json["groups"].push_back(std::move(each));
  }
  for (const FlightRecord::Collective &flight : record.collectives) {
    Json each{{"number", flight.number}};
    if (flight.group) {
      each["group"] = *flight.group;
      each["position"] = flight.position;
    }
    each["kind"] = getName(flight.kind);
    each["bucket"] = oneLine(flight.bucket);
    each["bytes"] = flight.bytes;
    each["step"] = flight.step;
    each["micro_batch"] = flight.microBatch;
    each["at"] = printPlace(flight.place);
    each["issued_ns"] = flight.issued;
    each["waited_ns"] = flight.waited;
    each["completed_ns"] = flight.completed;
    json["collectives"].push_back(std::move(each));
  }
  // Names are bytes, and may have been cut off within a letter.
  return json.dump(1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace) +
         "\n";
}

namespace {

class Reader {
public:
  explicit Reader(const std::string &path) : path(path) {}

  [[noreturn]] void refuse(const std::string &what) const {
    throw Error(ErrorId::FlightRecordInvalid,
                "'" + path + "' is no flight record: " + what +
                    "; name a folder with the files that the ranks of a run "
                    "wrote, as they wrote them");
  }

  FlightRecord read(const Json &json) const;

private:
  /// What terminals and tables take.
  std::string text(const Json &json) const {
    if (!json.is_string())
      refuse("expected a string, found " + json.dump().substr(0, kMostQuoted));
    auto value = json.get<std::string>();
    if (value.size() > kMostText)
      refuse("a text has " + std::to_string(value.size()) + " bytes");
    if (std::ranges::any_of(value, [](char c) {
          return static_cast<unsigned char>(c) < 32 || c == 127;
        }))
      refuse("a text holds control characters");
    return value;
  }
  int64_t time(const Json &json) const {
    auto value = readInteger<int64_t>(json);
    if (value < 0 || value > kMostTime)
      refuse("a time is out of range: " + std::to_string(value));
    return value;
  }
  const Json &list(const Json &json, size_t most, const char *what) const {
    if (!json.is_array())
      refuse(std::string("expected a list of ") + what);
    if (json.size() > most)
      refuse("it has " + std::to_string(json.size()) + " " + what);
    return json;
  }
  FlightPlace place(const Json &json) const;
  FlightRecord::Group group(const Json &json, const FlightRecord &in) const;
  FlightRecord::Collective collective(const Json &json,
                                      const FlightRecord &in) const;

  const std::string &path;
};

} // namespace

FlightPlace Reader::place(const Json &json) const {
  if (json.is_null())
    return {};
  return {text(json.at("program")),
          readInteger<uint32_t>(json.at("instruction")),
          text(json.at("operation")), text(json.at("source"))};
}

FlightRecord::Group Reader::group(const Json &json,
                                  const FlightRecord &in) const {
  FlightRecord::Group group;
  group.name = text(json.at("name"));
  group.ranks =
      readIntegers<int>(list(json.at("ranks"), in.world, "ranks of a group"));
  bool ascends = std::ranges::adjacent_find(
                     group.ranks, std::greater_equal()) == group.ranks.end();
  if (!ascends || !std::ranges::binary_search(group.ranks, in.rank) ||
      group.ranks.front() < 0 ||
      static_cast<uint64_t>(group.ranks.back()) >= in.world)
    refuse("group '" + group.name +
           "' is none of the run's ranks in their order with rank " +
           std::to_string(in.rank) + " among them");
  group.ordinal = readInteger<uint64_t>(json.at("ordinal"));
  group.issued = readInteger<uint64_t>(json.at("issued"));
  if (json.contains("turn")) {
    group.turn = readInteger<uint64_t>(json.at("turn"));
    group.turnBegan = time(json.at("turn_began_ns"));
  }
  if (json.contains("waits_for")) {
    group.awaited = readInteger<int>(json.at("waits_for"));
    if (!std::ranges::binary_search(group.ranks, group.awaited))
      refuse("group '" + group.name + "' waits for a rank of another group");
  }
  return group;
}

FlightRecord::Collective Reader::collective(const Json &json,
                                            const FlightRecord &in) const {
  FlightRecord::Collective flight;
  flight.number = readInteger<uint64_t>(json.at("number"));
  if (flight.number >= in.recorded)
    refuse("a collective has the number " + std::to_string(flight.number) +
           " of " + std::to_string(in.recorded));
  std::string name = text(json.at("kind"));
  std::optional<FlightKind> kind = findFlightKind(name);
  if (!kind)
    refuse("a collective has the unknown kind '" + name + "'");
  flight.kind = *kind;
  if (flight.kind != FlightKind::exchange) {
    flight.group = readInteger<size_t>(json.at("group"));
    if (*flight.group >= in.groups.size())
      refuse("a collective is of a group that is not listed");
    flight.position = readInteger<uint64_t>(json.at("position"));
    if (flight.kind != FlightKind::connect &&
        flight.position >= in.groups[*flight.group].issued)
      refuse("a collective stands behind the last of its group");
  }
  flight.bucket = text(json.at("bucket"));
  flight.bytes = readInteger<uint64_t>(json.at("bytes"));
  flight.step = readInteger<uint64_t>(json.at("step"));
  flight.microBatch = readInteger<uint64_t>(json.at("micro_batch"));
  flight.place = place(json.at("at"));
  flight.issued = time(json.at("issued_ns"));
  flight.waited = time(json.at("waited_ns"));
  flight.completed = time(json.at("completed_ns"));
  return flight;
}

FlightRecord Reader::read(const Json &json) const {
  FlightRecord record;
  record.run = text(json.at("run"));
  record.plan = text(json.at("plan"));
  record.backend = text(json.at("backend"));
  record.world = readInteger<uint64_t>(json.at("world_size"));
  if (record.world == 0 || record.world > kMostRanks)
    refuse("its run has " + std::to_string(record.world) + " ranks");
  record.rank = readInteger<int>(json.at("rank"));
  if (record.rank < 0 || static_cast<uint64_t>(record.rank) >= record.world)
    refuse("it is of rank " + std::to_string(record.rank) + " of " +
           std::to_string(record.world));
  record.host = text(json.at("host"));
  record.process = readInteger<int64_t>(json.at("pid"));
  record.cause = text(json.at("cause"));
  const Json &asked = json.at("asked");
  if (!asked.is_boolean())
    refuse("whether it was asked for is neither true nor false");
  record.isAsked = asked.get<bool>();
  record.written = time(json.at("written_ns"));
  record.step = readInteger<uint64_t>(json.at("step"));
  record.microBatch = readInteger<uint64_t>(json.at("micro_batch"));
  record.place = place(json.at("at"));
  record.recorded = readInteger<uint64_t>(json.at("recorded"));
  for (const Json &each : list(json.at("groups"), kMostGroups, "groups"))
    record.groups.push_back(group(each, record));
  for (const Json &each :
       list(json.at("collectives"), kMostCollectives, "collectives")) {
    record.collectives.push_back(collective(each, record));
    size_t last = record.collectives.size() - 1;
    if (last > 0 &&
        record.collectives[last].number <= record.collectives[last - 1].number)
      refuse("its collectives are out of order");
  }
  return record;
}

FlightRecord fsdp::parseRecord(const std::string &text,
                               const std::string &path) {
  checkJsonDepth(text, "the flight record '" + path + "'");
  Json json = Json::parse(text, /*callback=*/nullptr,
                          /*allow_exceptions=*/false);
  Reader reader(path);
  if (!json.is_object() || json.value("format", Json()) != kFormat)
    reader.refuse("expected a JSON object of the format '" +
                  std::string(kFormat) + "'");
  if (json.value("format_version", Json()) != kVersion)
    reader.refuse(
        "expected version " + std::to_string(kVersion) +
        " of the format, found " +
        json.value("format_version", Json()).dump().substr(0, kMostQuoted));
  try {
    return reader.read(json);
  } catch (const nlohmann::json::exception &error) {
    // It quotes the file, whose line may be as long as the file.
    reader.refuse(oneLine(std::string(error.what()).substr(0, kMostQuoted)));
  }
}
