//===- StreamCopiesTest.cpp - Copies between a device and the host --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/StreamCopies.h"

#include "SimulatedStreams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

using namespace fsdp;
using namespace fsdp::test;
using testing::IsEmpty;

namespace {

constexpr std::chrono::seconds kPatience(1);

/// Numbers in pinned memory of the host, or of the device.
struct Numbers {
  Numbers(SimulatedDevice &device, const std::string &name, bool isPinned)
      : device(device), data(4) {
    device.addMemory(data.data(), bytes(), name, isPinned);
  }
  size_t bytes() const { return data.size() * sizeof(int); }
  Copies::Part from(const Numbers &other) {
    return {data.data(), other.data.data(), bytes()};
  }
  /// As the host has them.
  int read() {
    device.hostUses({data.data(), bytes(), false, "the host"});
    return data[0];
  }
  void write(int value) {
    device.hostUses({data.data(), bytes(), true, "the host"});
    data.assign(4, value);
  }

  SimulatedDevice &device;
  std::vector<int> data;
};

class StreamCopiesTest : public testing::TestWithParam<Lateness::Kind> {
protected:
  void compute(Numbers &to, int value) {
    device->put(streams->compute(), [&to, value] { to.data.assign(4, value); },
                {{to.data.data(), to.bytes(), true, "a kernel"}});
  }
  Copies::Slot start(plan::Stream stream, const Copies::Part &part) {
    Copies::Slot slot = copies.reserve(stream);
    copies.start(slot, {&part, 1});
    return slot;
  }

  const std::shared_ptr<SimulatedDevice> device =
      std::make_shared<SimulatedDevice>(Lateness{GetParam(), 1});
  const std::shared_ptr<SimulatedStreams> streams =
      std::make_shared<SimulatedStreams>(device);
  StreamCopies copies{streams, kPatience};
  Numbers a{*device, "a", false}, b{*device, "b", false}, x{*device, "x", true},
      y{*device, "y", true};
};

TEST_P(StreamCopiesTest, JoinIsBehindAllThatWasWaitedForInWhateverOrder) {
  compute(a, 1);
  Copies::Slot first = start(plan::Stream::download, x.from(a));
  compute(b, 2);
  Copies::Slot second = start(plan::Stream::download, y.from(b));
  copies.wait(second);
  copies.wait(first);
  copies.join();
  EXPECT_EQ(x.read(), 1);
  EXPECT_EQ(y.read(), 2);
  EXPECT_THAT(device->races(), IsEmpty());
}

TEST_P(StreamCopiesTest, TheHostMayOverwriteWhatWasUploaded) {
  x.write(7);
  y.write(8);
  Copies::Slot first = start(plan::Stream::upload, a.from(x));
  Copies::Slot second = start(plan::Stream::upload, b.from(y));
  copies.wait(second);
  copies.wait(first);
  copies.join();
  y.write(9);
  x.write(9);
  streams->finish();
  EXPECT_EQ(a.data[0], 7);
  EXPECT_EQ(b.data[0], 8);
  EXPECT_THAT(device->races(), IsEmpty());
}

TEST_P(StreamCopiesTest, JoinIsBehindAGraphsCopies) {
  Copies::Slot slot = copies.reserve(plan::Stream::download);
  Copies::Part part = x.from(a);
  auto program = [&] {
    copies.start(slot, {&part, 1});
    copies.wait(slot);
  };
  // Once without a graph, and nobody joined since.
  program();
  device->beginCapture(streams->compute());
  program();
  auto graph = device->endCapture();
  // Events of a capture cannot be asked about.
  copies.join();
  EXPECT_EQ(x.read(), 0);
  for (int value : {3, 4}) {
    compute(a, value);
    device->launch(*graph);
    copies.noteLaunch();
    copies.join();
    EXPECT_EQ(x.read(), value);
  }
  EXPECT_THAT(device->races(), IsEmpty());
}

TEST_P(StreamCopiesTest, ACaptureThatFailsLeavesOthersToBeJoined) {
  Copies::Slot slot = copies.reserve(plan::Stream::download),
               other = copies.reserve(plan::Stream::download);
  Copies::Part part = x.from(a), second = y.from(b);
  compute(b, 5);
  copies.start(other, {&second, 1});
  copies.wait(other);
  device->beginCapture(streams->compute());
  copies.start(slot, {&part, 1}); // nobody waits: it does not come back
  EXPECT_ANY_THROW(device->endCapture());
  copies.join();
  EXPECT_EQ(y.read(), 5);
  compute(a, 6);
  copies.start(slot, {&part, 1});
  copies.wait(slot);
  copies.join();
  EXPECT_EQ(x.read(), 6);
  EXPECT_THAT(device->races(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(, StreamCopiesTest,
                         testing::Values(Lateness::Kind::none,
                                         Lateness::Kind::most,
                                         Lateness::Kind::random),
                         [](const auto &info) {
                           switch (info.param) {
                           case Lateness::Kind::none:
                             return "atOnce";
                           case Lateness::Kind::most:
                             return "late";
                           case Lateness::Kind::random:
                             return "anyTime";
                           }
                           return "";
                         });

} // namespace
