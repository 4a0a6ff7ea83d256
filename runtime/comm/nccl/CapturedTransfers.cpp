//===- CapturedTransfers.cpp - Where a launched graph is ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/CapturedTransfers.h"

using namespace fsdp;

/// Rises of the counter a transfer: when it begins and when it is over.
static constexpr uint64_t kRises = 2;

CapturedTransfers::CapturedTransfers(Streams &streams, StreamHandle stream)
    : streams(streams), stream(stream), counter(streams.createCounter()) {}

CapturedTransfers::~CapturedTransfers() {
  if (!isLeft)
    streams.destroyCounter(counter);
}

void CapturedTransfers::begin(const TransferLabel &label) {
  captured.push_back(label);
  streams.raise(counter, stream);
}

void CapturedTransfers::end() { streams.raise(counter, stream); }

void CapturedTransfers::abandon() { captured.clear(); }

uint64_t CapturedTransfers::keep() {
  graphs.push_back(std::move(captured));
  captured.clear();
  return graphs.size() - 1;
}

void CapturedTransfers::launch(uint64_t graph, uint64_t step,
                               uint64_t position) {
  if (graphs.at(graph).empty())
    return;
  launches.push_back({graph, step, position, launched});
  launched += kRises * graphs[graph].size();
}

std::optional<CapturedTransfers::Transfer>
CapturedTransfers::current(Clock::time_point now) {
  if (launches.empty())
    return std::nullopt;
  uint64_t count = streams.read(counter);
  auto end = [&](const Launch &launch) {
    return launch.count + kRises * graphs[launch.graph].size();
  };
  while (!launches.empty() && count >= end(launches.front()))
    launches.pop_front();
  if (launches.empty())
    return std::nullopt;
  const Launch &launch = launches.front();
  uint64_t index = (count - launch.count) / kRises;
  Transfer transfer{graphs[launch.graph][index], launch.position + index,
                    std::nullopt};
  transfer.label.step = launch.step;
  if ((count - launch.count) % kRises == 0)
    return transfer;
  if (seen != count) {
    seen = count;
    began = now;
  }
  transfer.began = began;
  return transfer;
}
