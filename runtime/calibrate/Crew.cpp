//===- Crew.cpp - Ranks that measure together -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/Crew.h"

#include <algorithm>
#include <iostream>
#include <numeric>

using namespace fsdp;

/// A batch of calls takes so long: enough for the clock, too little for the
/// system to take the processor away in most of them.
static constexpr double kBatchSeconds = 0.4e-3;
static constexpr int kBatches = 5;
/// Of what takes long.
static constexpr int kLongBatches = 2;
static constexpr double kLong = 10e-3;

/// The one with so many below it.
static double pick(std::vector<double> &values, size_t place) {
  if (values.empty())
    return 0;
  auto found = values.begin() + std::ptrdiff_t(place);
  std::ranges::nth_element(values, found);
  return *found;
}

double fsdp::median(std::vector<double> values) {
  return pick(values, values.size() / 2);
}

double fsdp::firstQuarter(std::vector<double> values) {
  return pick(values, values.size() / 4);
}

static GroupRanks firstRanks(int size) {
  GroupRanks group;
  group.name = "calibrate." + std::to_string(size);
  group.ranks.resize(size_t(size));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

Crew::Crew(Fabric &fabric, int size)
    : communicator(fabric.createCommunicator(firstRanks(size))) {}

float Crew::average(float own) {
  Member member{&own, &own, 1, plan::DType::f32};
  communicator->wait(
      communicator->start({{CollectiveKind::all_reduce, "meeting"},
                           {&member, 1},
                           plan::Reduction::avg}));
  return own;
}

double Crew::time(const std::function<void()> &call) {
  meet();
  call();
  auto begin = Clock::now();
  call();
  double one = since(begin);
  int calls = std::clamp(int(kBatchSeconds / std::max(one, 1e-9)), 1, 2000);
  std::vector<double> batches;
  for (int i = 0; i < (one > kLong ? kLongBatches : kBatches); ++i) {
    begin = Clock::now();
    for (int k = 0; k < calls; ++k)
      call();
    batches.push_back(since(begin) / calls);
  }
  return firstQuarter(std::move(batches));
}

void fsdp::sayProgress(const Crew &crew, const std::string &what) {
  if (crew.isFirst())
    std::cerr << "calibrate: " << crew.size()
              << (crew.size() == 1 ? " rank: " : " ranks: ") << what
              << std::endl;
}
