//===- FakeNcclData.cpp - What the fake NCCL moves ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FakeNcclData.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

using namespace fsdp;
using namespace fsdp::test;

static plan::DType toDType(nccl::DataType type) {
  switch (type) {
  case nccl::DataType::int8:
    return plan::DType::i8;
  case nccl::DataType::uint8:
    return plan::DType::u8;
  case nccl::DataType::int32:
    return plan::DType::i32;
  case nccl::DataType::uint32:
    return plan::DType::u32;
  case nccl::DataType::int64:
    return plan::DType::i64;
  case nccl::DataType::uint64:
    return plan::DType::u64;
  case nccl::DataType::float16:
    return plan::DType::f16;
  case nccl::DataType::float32:
    return plan::DType::f32;
  case nccl::DataType::float64:
    return plan::DType::f64;
  case nccl::DataType::bfloat16:
    return plan::DType::bf16;
  }
  std::abort();
}

template <typename Number>
static void addTo(std::vector<std::byte> &data, int summand) {
  for (size_t i = 0; i + sizeof(Number) <= data.size(); i += sizeof(Number)) {
    Number number;
    std::memcpy(&number, &data[i], sizeof(number));
    number = static_cast<Number>(number + static_cast<Number>(summand));
    std::memcpy(&data[i], &number, sizeof(number));
  }
}

/// What `rank` reduces, where this process's has `own`.
static std::vector<std::byte> operand(const NcclCall &call, const void *own,
                                      int summand) {
  auto *begin = static_cast<const std::byte *>(own);
  std::vector<std::byte> data(begin, begin + call.bytes());
  switch (call.type) {
  case nccl::DataType::int8:
  case nccl::DataType::uint8:
    addTo<uint8_t>(data, summand);
    break;
  case nccl::DataType::int32:
  case nccl::DataType::uint32:
    addTo<uint32_t>(data, summand);
    break;
  case nccl::DataType::int64:
  case nccl::DataType::uint64:
    addTo<uint64_t>(data, summand);
    break;
  case nccl::DataType::float16:
    addTo<c10::Half>(data, summand);
    break;
  case nccl::DataType::float32:
    addTo<float>(data, summand);
    break;
  case nccl::DataType::float64:
    addTo<double>(data, summand);
    break;
  case nccl::DataType::bfloat16:
    addTo<c10::BFloat16>(data, summand);
    break;
  }
  return data;
}

static bool isGather(const NcclCall &call) {
  return call.name == "ncclAllGather";
}

/// What a rank gives of its operand: of a reduction that scatters, `part`.
static const std::byte *operandOf(const NcclCall &call, int part) {
  auto *begin = static_cast<const std::byte *>(call.send);
  return call.name == "ncclReduceScatter" ? begin + part * call.bytes() : begin;
}

//===----------------------------------------------------------------------===//
// One rank alone
//===----------------------------------------------------------------------===//

static void reduceAlone(int own, const NcclCall &call,
                        const Combination &combination, bool areAlike) {
  const void *source = operandOf(call, own);
  std::vector<const void *> sources(call.ranks, source);
  std::vector<std::vector<std::byte>> others;
  others.reserve(call.ranks);
  for (int rank = 0; rank < call.ranks && !areAlike; ++rank)
    if (rank != own)
      sources[rank] =
          others.emplace_back(operand(call, source, peerSummand(own, rank)))
              .data();
  void *output = call.receive;
  reduceRows(sources, {&output, 1}, call.count, toDType(call.type),
             combination);
}

static void gatherAlone(int own, const NcclCall &call, bool areAlike) {
  auto *receive = static_cast<std::byte *>(call.receive);
  auto *send = static_cast<const std::byte *>(call.send);
  if (receive + own * call.bytes() != send)
    std::memmove(receive + own * call.bytes(), send, call.bytes());
  send = receive + own * call.bytes();
  for (int rank = 0; rank < call.ranks; ++rank)
    for (size_t i = 0; rank != own && i < call.bytes(); ++i)
      receive[rank * call.bytes() + i] =
          areAlike ? send[i] : peerByte(send[i], own, rank);
}

//===----------------------------------------------------------------------===//
// Ranks that meet
//===----------------------------------------------------------------------===//

NcclWork NcclData::meet(const NcclCall &call, const Combination &combination) {
  // Which call it is turns out when its turn comes: a graph does it again.
  auto number = std::make_shared<std::optional<uint64_t>>();
  auto isReady = [=, meeting = meeting, done = done, rank = rank] {
    std::lock_guard lock(meeting->mutex);
    const bool isFirst = !*number;
    if (isFirst)
      *number = (*done)++;
    NcclMeeting::Round &round = meeting->rounds[**number];
    if (isFirst) {
      auto *send = static_cast<const std::byte *>(call.send);
      bool isWhole = call.name == "ncclReduceScatter";
      round.sent.resize(call.ranks);
      round.sent[rank].assign(send,
                              send + (isWhole ? call.ranks : 1) * call.bytes());
      ++round.come;
    }
    return round.come == call.ranks;
  };
  auto run = [=, meeting = meeting, rank = rank] {
    std::lock_guard lock(meeting->mutex);
    auto found = meeting->rounds.find(number->value());
    NcclMeeting::Round &round = found->second;
    auto *receive = static_cast<std::byte *>(call.receive);
    std::vector<const void *> sources;
    for (const NcclMeeting::Bytes &each : round.sent) {
      if (each.size() != round.sent[rank].size())
        throw std::logic_error(call.name + " of other bytes on another rank");
      if (isGather(call))
        std::memcpy(receive + sources.size() * call.bytes(), each.data(),
                    call.bytes());
      sources.push_back(each.data() + (call.name == "ncclReduceScatter"
                                           ? rank * call.bytes()
                                           : 0));
    }
    void *output = receive;
    if (!isGather(call))
      reduceRows(sources, {&output, 1}, call.count, toDType(call.type),
                 combination);
    if (++round.done == call.ranks)
      meeting->rounds.erase(found);
    number->reset();
  };
  return {isReady, run};
}

NcclWork NcclData::move(const NcclCall &call, const Combination &combination,
                        bool areAlike) {
  if (call.name == "ncclSend") {
    if (isAlone())
      return {nullptr, [] {}};
    return {nullptr, [call, meeting = meeting, rank = rank] {
              auto *send = static_cast<const std::byte *>(call.send);
              std::lock_guard lock(meeting->mutex);
              meeting->sent[{rank, call.peer}].emplace_back(
                  send, send + call.bytes());
            }};
  }
  if (!isAlone())
    return meet(call, combination);
  if (isGather(call))
    return {nullptr, [=, rank = rank] { gatherAlone(rank, call, areAlike); }};
  return {nullptr,
          [=, rank = rank] { reduceAlone(rank, call, combination, areAlike); }};
}

NcclWork NcclData::receive(const NcclCall &call, const NcclCall &sent,
                           bool areAlike) {
  if (isAlone())
    return {nullptr, [=, rank = rank] {
              auto *to = static_cast<std::byte *>(call.receive);
              auto *send = static_cast<const std::byte *>(sent.send);
              for (size_t i = 0; i < call.bytes(); ++i)
                to[i] = areAlike ? send[i] : peerByte(send[i], rank, call.peer);
            }};
  auto isReady = [meeting = meeting, from = call.peer, rank = rank] {
    std::lock_guard lock(meeting->mutex);
    return !meeting->sent[{from, rank}].empty();
  };
  auto run = [call, meeting = meeting, rank = rank] {
    std::lock_guard lock(meeting->mutex);
    auto &come = meeting->sent[{call.peer, rank}];
    if (come.front().size() != call.bytes())
      throw std::logic_error("ncclRecv of other bytes than were sent");
    std::memcpy(call.receive, come.front().data(), call.bytes());
    come.pop_front();
  };
  return {isReady, run};
}
