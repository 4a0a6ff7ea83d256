//===- ThreadCopiesTest.cpp - Copies by threads of the host ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/ThreadCopies.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <vector>

using namespace fsdp;
using Clock = std::chrono::steady_clock;

namespace {

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<int> counted(size_t size) {
  std::vector<int> numbers(size);
  std::iota(numbers.begin(), numbers.end(), 1);
  return numbers;
}

Copies::Part part(std::vector<int> &to, const std::vector<int> &from) {
  return {to.data(), from.data(), from.size() * sizeof(int)};
}

TEST(ThreadCopies, AllPartsAreThereBehindTheWait) {
  auto copies = makeThreadCopies(0);
  std::vector<int> a = counted(1 << 20), b = counted(3), x(a.size()),
                   y(b.size());
  Copies::Slot slot = copies->reserve(plan::Stream::upload);
  Copies::Part parts[] = {part(x, a), part(y, b)};
  for (int step = 0; step < 3; ++step) {
    std::fill(x.begin(), x.end(), 0);
    copies->start(slot, parts);
    copies->wait(slot);
    EXPECT_EQ(x, a);
    EXPECT_EQ(y, b);
    a[7] = step;
  }
}

TEST(ThreadCopies, OneDirectionKeepsItsOrder) {
  auto copies = makeThreadCopies(0);
  std::vector<int> a = counted(1 << 18), b(a.size()), c(a.size());
  Copies::Slot first = copies->reserve(plan::Stream::upload),
               second = copies->reserve(plan::Stream::upload);
  Copies::Part ab[] = {part(b, a)}, bc[] = {part(c, b)};
  copies->start(first, ab);
  copies->start(second, bc); // reads what the first one writes
  copies->wait(second);
  EXPECT_EQ(c, a);
  copies->wait(first);
}

TEST(ThreadCopies, ABandwidthHoldsForEachDirectionOnItsOwn) {
  auto copies = makeThreadCopies(40e6);
  std::vector<int> a = counted(1'000'000), b(a.size()), c(a.size());
  Copies::Slot up = copies->reserve(plan::Stream::upload),
               down = copies->reserve(plan::Stream::download);
  Copies::Part ab[] = {part(b, a)}, ac[] = {part(c, a)};
  auto begin = Clock::now();
  copies->start(up, ab);
  copies->start(down, ac);
  EXPECT_LT(secondsSince(begin), 0.05) << "the caller has to wait";
  copies->wait(up);
  copies->wait(down);
  double seconds = secondsSince(begin); // 4 MB at 40 MB/s
  EXPECT_GE(seconds, 0.09);
  EXPECT_LT(seconds, 0.19) << "one direction waited for the other";
  EXPECT_EQ(b, a);
  EXPECT_EQ(c, a);
}

TEST(ThreadCopies, NothingIsLostThatNobodyWaitedFor) {
  std::vector<int> a = counted(1 << 16), b(a.size());
  Copies::Part ab[] = {part(b, a)};
  {
    auto copies = makeThreadCopies(0);
    copies->start(copies->reserve(plan::Stream::download), ab);
  }
  EXPECT_EQ(b, a);
}

} // namespace
