//===- Collect.cpp - The records of all ranks in one place ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/profile/Collect.h"

#include "runtime/profile/Clocks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>

#include <unistd.h>

using namespace fsdp;

/// What a rank receives of all ranks at once.
static constexpr size_t kBlockBytes = 8 << 20;
static constexpr int kClockRounds = 64;

namespace {

/// Pieces of memory that follow one another in what is sent.
using Pieces = std::vector<std::span<char>>;

template <typename T>
std::span<char> bytesOf(std::vector<T> &values) {
  return {reinterpret_cast<char *>(values.data()), values.size() * sizeof(T)};
}

/// Copies up to `bytes`, from `offset` of the pieces on, to or from `memory`.
void copy(const Pieces &pieces, size_t offset, char *memory, size_t bytes,
          bool isInto) {
  for (std::span<char> piece : pieces) {
    if (offset < piece.size() && bytes > 0) {
      size_t count = std::min(bytes, piece.size() - offset);
      char *place = piece.data() + offset;
      std::memcpy(isInto ? place : memory, isInto ? memory : place, count);
      memory += count;
      bytes -= count;
      offset = 0;
    } else {
      offset -= std::min(offset, piece.size());
    }
  }
}

Pieces piecesOf(RankProfile &profile) {
  return {bytesOf(profile.steps), bytesOf(profile.runs),
          bytesOf(profile.records), bytesOf(profile.moves)};
}

void shift(RankProfile &profile, int64_t offset) {
  for (ProfileStep &step : profile.steps) {
    step.begin += offset;
    step.end += offset;
  }
  for (ProfileRun &run : profile.runs) {
    run.begin += offset;
    run.loaded += offset;
    run.end += offset;
  }
  for (auto *records : {&profile.records, &profile.moves})
    for (ProfileRecord &record : *records) {
      record.begin += offset;
      record.end += offset;
    }
}

std::string hostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// Sends this rank's pieces to all. `all` are the pieces of all ranks, by rank,
/// where they are wanted, else empty; `totals` their sizes in any case.
void gather(Communicator &communicator, const Pieces &own,
            const std::vector<Pieces> &all, const std::vector<size_t> &totals) {
  size_t world = totals.size();
  size_t longest = std::ranges::max(totals);
  size_t block =
      std::min(longest, std::max<size_t>(kBlockBytes / world, 1 << 12));
  std::vector<char> sent(block), received(block * world);
  uint64_t number = 0;
  for (size_t offset = 0; offset < longest; offset += block) {
    copy(own, offset, sent.data(), block, /*isInto=*/false);
    Member member{sent.data(), received.data(), block};
    communicator.wait(communicator.start(
        {{CollectiveKind::all_gather, "profile", number++}, {&member, 1}}));
    for (size_t peer = 0; peer < all.size(); ++peer)
      copy(all[peer], offset, received.data() + peer * block, block,
           /*isInto=*/true);
  }
}

} // namespace

RankProfile fsdp::profileOf(const ProfileRecorder &recorder) {
  RankProfile own;
  own.steps = recorder.steps();
  own.runs = recorder.runs();
  own.records.assign(recorder.records(),
                     recorder.records() + recorder.recordCount());
  return own;
}

std::vector<RankProfile> fsdp::collectProfiles(RankProfile own,
                                               Fabric &fabric) {
  own.host = hostName();
  auto world = static_cast<size_t>(fabric.worldSize());
  auto rank = static_cast<size_t>(fabric.rank());
  if (world == 1)
    return {std::move(own)};

  std::vector<int> all(world);
  std::iota(all.begin(), all.end(), 0);
  std::unique_ptr<Communicator> communicator =
      fabric.createHostCommunicator({"profile", all});
  std::vector<std::string> clocks =
      fabric.exchange("profile/clock", describeClock());
  bool isOneClock = std::ranges::all_of(
      clocks, [&](auto &each) { return each == clocks[0]; });
  ClockOffset clock;
  if (!isOneClock)
    clock = measureClock(*communicator, kClockRounds, ProfileRecorder::now);
  // Between hosts alone: ranks on rank 0's read its very clock.
  if (clocks[rank] == clocks[0])
    clock = {};
  shift(own, clock.offset);

  nlohmann::json head{{"host", own.host},
                      {"uncertainty", clock.uncertainty},
                      {"steps", own.steps.size()},
                      {"runs", own.runs.size()},
                      {"records", own.records.size()},
                      {"moves", own.moves.size()},
                      {"on_device", own.isOnDevice},
                      {"lost", own.lost}};
  std::vector<std::string> heads =
      fabric.exchange("profile/sizes", head.dump());
  std::vector<RankProfile> profiles;
  std::vector<Pieces> pieces;
  std::vector<size_t> totals;
  for (const std::string &text : heads) {
    nlohmann::json peer = nlohmann::json::parse(text);
    size_t steps = peer["steps"], runs = peer["runs"], count = peer["records"];
    size_t moves = peer["moves"];
    totals.push_back(steps * sizeof(ProfileStep) + runs * sizeof(ProfileRun) +
                     (count + moves) * sizeof(ProfileRecord));
    if (rank != 0)
      continue;
    RankProfile &profile = profiles.emplace_back();
    profile.host = peer["host"];
    profile.clockUncertainty = peer["uncertainty"];
    profile.steps.resize(steps);
    profile.runs.resize(runs);
    profile.isOnDevice = peer["on_device"];
    profile.lost = peer["lost"];
    profile.records.resize(count);
    profile.moves.resize(moves);
  }
  for (RankProfile &profile : profiles)
    pieces.push_back(piecesOf(profile));
  gather(*communicator, piecesOf(own), pieces, totals);
  return profiles;
}
