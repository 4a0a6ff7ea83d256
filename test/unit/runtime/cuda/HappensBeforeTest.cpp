//===- HappensBeforeTest.cpp - Which accesses nothing orders --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "HappensBefore.h"

#include "SimulatedStreams.h"
#include "runtime/device/Memory.h"
#include "runtime/device/StreamAheadWriter.h"
#include "runtime/device/StreamCopies.h"
#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

using namespace fsdp;
using namespace fsdp::test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

namespace {

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

class Clocks : public testing::Test {
protected:
  void use(HappensBefore::Actor actor, size_t from, size_t bytes, bool isWrite,
           const std::string &what) {
    order.begin(actor);
    order.access(actor, memory + from, bytes, isWrite, what);
  }
  void read(HappensBefore::Actor actor, size_t from, size_t bytes) {
    use(actor, from, bytes, false, order.name(actor));
  }
  void write(HappensBefore::Actor actor, size_t from, size_t bytes) {
    use(actor, from, bytes, true, order.name(actor));
  }

  HappensBefore order;
  const HappensBefore::Actor a = order.add("a"), b = order.add("b"),
                             c = order.add("c");
  char memory[64];
};

TEST_F(Clocks, TwoWritesThatNothingOrdersAreNamed) {
  use(a, 0, 8, true, "a kernel");
  use(b, 4, 8, true, "a copy");
  EXPECT_THAT(order.races(),
              ElementsAre("a kernel writes on a, and nothing orders it before "
                          "a copy writes on b (4 bytes)"));
}

TEST_F(Clocks, ReadsAreNoConflict) {
  read(a, 0, 8);
  read(b, 0, 8);
  EXPECT_THAT(order.races(), IsEmpty());
}

TEST_F(Clocks, BytesBesideAreNone) {
  write(a, 0, 8);
  write(b, 8, 8);
  EXPECT_THAT(order.races(), IsEmpty());
  EXPECT_EQ(order.compared(), 0u);
}

TEST_F(Clocks, WhoFollowsKnows) {
  write(a, 0, 8);
  order.follow(b, order.clock(a));
  write(b, 0, 8);
  // Of what b knows, too.
  order.follow(c, order.clock(b));
  read(c, 0, 8);
  EXPECT_THAT(order.races(), IsEmpty());
  EXPECT_EQ(order.compared(), 2u);
}

TEST_F(Clocks, WhatComesBehindIsNotKnown) {
  HappensBefore::Clock before = order.clock(a);
  write(a, 0, 8);
  order.follow(b, before);
  read(b, 0, 8);
  EXPECT_THAT(order.races(), SizeIs(1));
}

TEST_F(Clocks, AWriteComesBehindAllReaders) {
  read(a, 0, 8);
  read(b, 0, 8);
  order.follow(c, order.clock(a));
  write(c, 0, 8);
  EXPECT_THAT(order.races(), ElementsAre(HasSubstr("b reads on b")));
}

TEST_F(Clocks, NewMemoryHasNoHistory) {
  write(a, 0, 16);
  order.forget(memory + 4, 8);
  write(b, 4, 8);
  EXPECT_THAT(order.races(), IsEmpty());
  write(b, 0, 5);
  EXPECT_THAT(order.races(), SizeIs(1));
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

/// Numbers on the device, or pinned.
struct Block {
  Block(SimulatedDevice &device, const std::string &name, bool isPinned)
      : device(device) {
    device.addMemory(data, sizeof(data), name, isPinned);
  }
  ~Block() { device.removeMemory(data); }
  Block(const Block &) = delete;

  SimulatedDevice &device;
  char data[64] = {};
};

/// Two streams, and what is put there.
class Faults : public testing::Test {
protected:
  void kernel(StreamHandle stream, Block &block, bool isWrite,
              const std::string &what) {
    device->put(stream, nullptr,
                {{block.data, sizeof(block.data), isWrite, what}});
  }

  const std::shared_ptr<SimulatedDevice> device =
      std::make_shared<SimulatedDevice>(Lateness{Lateness::Kind::most});
  const std::shared_ptr<SimulatedStreams> streams =
      std::make_shared<SimulatedStreams>(device);
  const StreamHandle compute = streams->compute(),
                     side = device->createStream("side");
  Block block{*device, "block", false}, other{*device, "other", false},
      pinned{*device, "pinned", true};
};

TEST_F(Faults, AMissingWait) {
  EventHandle event = device->createEvent();
  kernel(compute, block, true, "the gradient");
  device->record(event, compute);
  // Nobody waits.
  kernel(side, block, false, "its download");
  EXPECT_THAT(device->races(),
              ElementsAre(AllOf(HasSubstr("the gradient writes on stream "
                                          "compute"),
                                HasSubstr("its download reads on stream "
                                          "side"))));
}

TEST_F(Faults, AWaitForTheWrongEvent) {
  EventHandle right = device->createEvent(), wrong = device->createEvent();
  device->record(wrong, compute);
  kernel(compute, block, true, "the gradient");
  device->record(right, compute);
  device->wait(side, wrong);
  kernel(side, block, false, "its download");
  EXPECT_THAT(device->races(), SizeIs(1));
  device->wait(side, right);
  kernel(side, block, false, "its second download");
  EXPECT_THAT(device->races(), SizeIs(1));
}

TEST_F(Faults, AnEarlyFree) {
  EventHandle made = device->createEvent(), read = device->createEvent();
  kernel(compute, block, true, "an activation");
  device->record(made, compute);
  device->wait(side, made);
  kernel(side, block, false, "its download");
  device->record(read, side);
  // Its place is taken while the download still reads.
  kernel(compute, block, true, "the next activation");
  EXPECT_THAT(device->races(),
              ElementsAre(HasSubstr("its download reads on stream side, and "
                                    "nothing orders it before the next "
                                    "activation writes")));
}

TEST_F(Faults, AHostBufferThatIsUsedAgain) {
  streams->upload(block.data, pinned.data, sizeof(block.data), side);
  std::memset(pinned.data, 1, sizeof(pinned.data));
  device->hostUses({pinned.data, sizeof(pinned.data), true, "the host"});
  EXPECT_THAT(device->races(),
              ElementsAre(HasSubstr("nothing orders it before the host "
                                    "writes")));
  // And what was uploaded is what nobody meant.
  device->synchronize(side);
  EXPECT_EQ(block.data[0], 1);
}

TEST_F(Faults, PageableMemoryMayBeUsedAgain) {
  char here[64] = {5};
  streams->upload(block.data, here, sizeof(here), side);
  here[0] = 6;
  device->hostUses({here, sizeof(here), true, "the host"});
  device->synchronize(side);
  EXPECT_EQ(block.data[0], 5);
  char there[64] = {};
  device->synchronize(compute);
  streams->download(there, block.data, sizeof(there), side);
  EXPECT_EQ(there[0], 5);
  device->hostUses({there, sizeof(there), false, "the host"});
  EXPECT_THAT(device->races(), IsEmpty());
}

TEST_F(Faults, ACaptureThatWaitsForWhatIsOutside) {
  EventHandle outside = device->createEvent();
  kernel(side, block, true, "a copy");
  device->record(outside, side);
  device->beginCapture(compute);
  EXPECT_THROW(device->wait(compute, outside), Error);
  EXPECT_THROW(device->endCapture(), Error);
}

TEST_F(Faults, ACaptureThatLeavesAStreamBehind) {
  EventHandle forked = device->createEvent();
  device->beginCapture(compute);
  device->record(forked, compute);
  device->wait(side, forked);
  kernel(side, block, true, "a copy");
  EXPECT_THROW(device->endCapture(), Error);
}

TEST_F(Faults, AnEventOfACaptureIsAskedAbout) {
  EventHandle event = device->createEvent();
  device->beginCapture(compute);
  device->record(event, compute);
  device->endCapture();
  EXPECT_THROW(device->query(event), Error);
}

TEST_F(Faults, AGraphIsNotBehindStreamsThatItDidNotWaitFor) {
  EventHandle forked = device->createEvent(), joined = device->createEvent();
  device->beginCapture(compute);
  device->record(forked, compute);
  device->wait(side, forked);
  kernel(side, block, true, "a copy of the graph's");
  device->record(joined, side);
  device->wait(compute, joined);
  auto graph = device->endCapture();
  // The same stream, but the launch is on another one.
  kernel(side, block, false, "a copy before");
  device->launch(*graph);
  EXPECT_THAT(device->races(), ElementsAre(HasSubstr("a copy before reads")));
}

TEST_F(Faults, AGraphsStreamsKeepTheirOrderInEachLaunch) {
  EventHandle forked = device->createEvent(), joined = device->createEvent();
  device->beginCapture(compute);
  kernel(compute, block, true, "a kernel");
  device->record(forked, compute);
  device->wait(side, forked);
  kernel(side, block, false, "a copy");
  device->record(joined, side);
  device->wait(compute, joined);
  kernel(compute, block, true, "a kernel behind");
  auto graph = device->endCapture();
  for (int i = 0; i < 3; ++i)
    device->launch(*graph);
  kernel(compute, block, true, "a kernel behind the graphs");
  EXPECT_THAT(device->races(), IsEmpty());
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// Of either kind, from the heap.
class TestMemory final : public Memory {
public:
  TestMemory(SimulatedDevice &device, SimulatedStreams &streams, bool isPinned)
      : device(device), streams(streams), isPinned(isPinned) {}
  bool isHost() const override { return isPinned; }
  char *map(uint64_t bytes) override {
    char *begin = new char[bytes];
    device.addMemory(begin, bytes, isPinned ? "pinned" : "device", isPinned);
    if (!isPinned)
      fill(begin, 0, bytes);
    return begin;
  }
  void unmap(char *begin, uint64_t) noexcept override {
    device.removeMemory(begin);
    delete[] begin;
  }
  void clear(char *begin, uint64_t bytes) override { fill(begin, 0, bytes); }
  void write(char *to, const void *from, uint64_t bytes) override {
    device.hostUses({to, bytes, true, "the host"});
    std::memcpy(to, from, bytes);
  }
  void read(void *, const char *, uint64_t) override {}
  void fill(char *to, unsigned char byte, uint64_t bytes) override {
    streams.fill(to, byte, bytes, streams.compute());
  }

private:
  SimulatedDevice &device;
  SimulatedStreams &streams;
  const bool isPinned;
};

class Ahead : public testing::TestWithParam<Lateness::Kind> {};

TEST_P(Ahead, BringsWhatItWasGivenAndNothingLater) {
  auto device = std::make_shared<SimulatedDevice>(Lateness{GetParam(), 3});
  auto streams = std::make_shared<SimulatedStreams>(device);
  TestMemory pinned(*device, *streams, true), far(*device, *streams, false);
  Block place(*device, "place", false);
  {
    StreamAheadWriter ahead(streams, pinned, far);
    auto begin = [&](char value, size_t bytes) {
      std::vector<std::byte> rows(bytes, static_cast<std::byte>(value));
      std::span<const std::byte> part = rows;
      ahead.begin({&part, 1});
      std::ranges::fill(rows, std::byte(0xee));
    };
    std::vector<char> seen;
    for (char value = 1; value <= 6; ++value) {
      // Larger ones take new memory.
      begin(value, value < 4 ? 64 : 5000);
      if (value == 3) // inputs that nobody wanted
        begin(++value, 64);
      device->put(streams->compute(), [&] { seen.push_back(place.data[0]); },
                  {{place.data, 64, false, "the step"}});
      static char room[5000];
      ahead.put(0, value < 4 ? place.data : room);
      if (value >= 4)
        streams->copy(place.data, room, 64, streams->compute());
    }
    streams->finish();
    EXPECT_THAT(seen, ElementsAre(0, 1, 2, 4, 5));
    EXPECT_EQ(place.data[0], 6);
  }
  EXPECT_THAT(device->races(), IsEmpty());
  EXPECT_GT(device->compared(), 10u);
}

TEST(AheadFaults, ABufferThatIsFilledAgainTooEarlyIsFound) {
  auto device =
      std::make_shared<SimulatedDevice>(Lateness{Lateness::Kind::most});
  auto streams = std::make_shared<SimulatedStreams>(device);
  TestMemory pinned(*device, *streams, true), far(*device, *streams, false);
  std::byte rows[64] = {};
  std::span<const std::byte> part = rows;
  device->plant({PlantedFault::Kind::missingSync, 1});
  StreamAheadWriter ahead(streams, pinned, far);
  for (int i = 0; i < 3; ++i)
    ahead.begin({&part, 1});
  EXPECT_THAT(device->races(), Not(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(, Ahead,
                         testing::Values(Lateness::Kind::none,
                                         Lateness::Kind::most,
                                         Lateness::Kind::random));

} // namespace
