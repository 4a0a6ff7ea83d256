//===- FlightRing.cpp - A rank's last transfers ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/FlightRing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

using namespace fsdp;

static_assert(std::is_trivially_copyable_v<FlightEntry>);
static_assert(sizeof(FlightEntry) % sizeof(uint64_t) == 0);
static_assert(offsetof(FlightEntry, number) == 0);

const char *fsdp::getName(FlightKind kind) {
  switch (kind) {
  case FlightKind::exchange:
    return "exchange";
  case FlightKind::connect:
    return "connect";
  default:
    return getName(static_cast<CollectiveKind>(
        static_cast<uint32_t>(kind) -
        static_cast<uint32_t>(FlightKind::collective)));
  }
}

std::optional<FlightKind> fsdp::findFlightKind(std::string_view name) {
  for (FlightKind kind : {FlightKind::exchange, FlightKind::connect})
    if (name == getName(kind))
      return kind;
  for (CollectiveKind kind : plan::EnumValuesCollectiveKind())
    if (name == getName(kind))
      return toFlight(kind);
  return std::nullopt;
}

void FlightEntry::setBucket(std::string_view text) {
  bucketBytes = static_cast<uint32_t>(std::min(text.size(), bucket.size()));
  std::memcpy(bucket.data(), text.data(), bucketBytes);
}

FlightRing::FlightRing(int rank)
    : place(rank), slots(std::make_unique<std::array<Slot, kCapacity>>()) {}

FlightGroup &FlightRing::addGroup(const std::string &name,
                                  const std::vector<int> &ranks) {
  std::lock_guard lock(mutex);
  auto ordinal = std::ranges::count_if(groups, [&](const FlightGroup &group) {
    return group.name == name && group.ranks == ranks;
  });
  return groups.emplace_back(static_cast<uint32_t>(groups.size()), name, ranks,
                             static_cast<uint32_t>(ordinal));
}

uint64_t FlightRing::add(FlightEntry flight) noexcept {
  flight.number = next.fetch_add(1, std::memory_order_relaxed);
  flight.microBatch = microBatch.load(std::memory_order_relaxed);
  if (flight.program >= 0)
    begun.store(true, std::memory_order_relaxed);
  auto words = std::bit_cast<std::array<uint64_t, kWords>>(flight);
  Slot &slot = (*slots)[flight.number % kCapacity];
  // Whoever still writes there was overtaken by a thousand others; of the two,
  // the one that came later is not written down.
  uint64_t before = slot.version.load(std::memory_order_relaxed);
  if (before % 2 != 0 || before > 2 * flight.number ||
      !slot.version.compare_exchange_strong(before, 2 * flight.number + 1,
                                            std::memory_order_acquire,
                                            std::memory_order_relaxed))
    return flight.number;
  // Each release keeps the odd version in front of what is written.
  for (size_t i = 0; i < kWords; ++i)
    slot.words[i].store(words[i], std::memory_order_release);
  slot.waited.store(flight.waited, std::memory_order_release);
  slot.completed.store(flight.completed, std::memory_order_release);
  slot.version.store(2 * flight.number + 2, std::memory_order_release);
  return flight.number;
}

FlightRing::Slot *FlightRing::find(uint64_t number) const noexcept {
  Slot &slot = (*slots)[number % kCapacity];
  return slot.version.load(std::memory_order_relaxed) == 2 * number + 2
             ? &slot
             : nullptr;
}

// Between `find` and the store a thousand others would have to come to spoil
// one of them.
void FlightRing::setWaited(uint64_t number, int64_t time) noexcept {
  if (Slot *slot = find(number))
    slot->waited.store(time, std::memory_order_relaxed);
}

void FlightRing::setCompleted(uint64_t number, int64_t time) noexcept {
  if (Slot *slot = find(number))
    slot->completed.store(time, std::memory_order_relaxed);
}

FlightRing::Snapshot FlightRing::snapshot() const {
  Snapshot result;
  // What comes while the slots are looked at is left out, or there would be
  // gaps.
  uint64_t end = next.load(std::memory_order_acquire);
  {
    std::lock_guard lock(mutex);
    for (const FlightGroup &group : groups)
      result.groups.push_back({&group, group.issued()});
  }
  result.step = step.load(std::memory_order_relaxed);
  result.microBatch = microBatch.load(std::memory_order_relaxed);
  result.where = instruction.load(std::memory_order_relaxed);
  result.flights.reserve(kCapacity);
  for (const Slot &slot : *slots) {
    uint64_t version = slot.version.load(std::memory_order_acquire);
    if (version % 2 != 0 || version == 0)
      continue;
    std::array<uint64_t, kWords> words;
    for (size_t i = 0; i < kWords; ++i)
      words[i] = slot.words[i].load(std::memory_order_acquire);
    auto flight = std::bit_cast<FlightEntry>(words);
    flight.waited = slot.waited.load(std::memory_order_acquire);
    flight.completed = slot.completed.load(std::memory_order_acquire);
    if (slot.version.load(std::memory_order_relaxed) == version &&
        flight.number < end &&
        (flight.group == FlightEntry::kNoGroup ||
         flight.group < result.groups.size()))
      result.flights.push_back(flight);
  }
  std::ranges::sort(result.flights, {}, &FlightEntry::number);
  if (!result.flights.empty())
    result.recorded = result.flights.back().number + 1;
  for (const FlightEntry &flight : result.flights)
    if (flight.group != FlightEntry::kNoGroup &&
        flight.kind != FlightKind::connect)
      result.groups[flight.group].issued = flight.position + 1;
  return result;
}
