//===- SimulatedStreams.cpp - Streams that do their work late -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedStreams.h"

#include "plan/DType.h"

#include <atomic>
#include <cstring>
#include <utility>

using namespace fsdp;
using namespace fsdp::test;

SimulatedStreams::SimulatedStreams(std::shared_ptr<SimulatedDevice> device,
                                   const std::string &owner)
    : simulated(std::move(device)), owner(owner),
      computeStream(simulated->createStream("compute" + owner)) {}

void SimulatedStreams::copy(void *to, const void *from, size_t bytes,
                            StreamHandle stream) {
  if (bytes == 0)
    return;
  simulated->put(stream, [=] { std::memmove(to, from, bytes); },
                 {{from, bytes, false, simulated->describe(from)},
                  {to, bytes, true, simulated->describe(to)}});
}

void SimulatedStreams::upload(void *to, const void *from, size_t bytes,
                              StreamHandle stream) {
  if (bytes == 0)
    return;
  ByteUse reads{from, bytes, false, simulated->describe(from)},
      writes{to, bytes, true, simulated->describe(to)};
  // What is captured is read by each launch, wherever it lies.
  if (simulated->isPinned(from) || simulated->isCapturing(stream)) {
    simulated->put(stream, [=] { std::memcpy(to, from, bytes); },
                   {reads, writes});
    return;
  }
  // Other memory is the host's alone: nothing reads it behind the call.
  auto *begin = static_cast<const char *>(from);
  simulated->put(stream,
                 [to, staged = std::vector<char>(begin, begin + bytes)] {
                   std::memcpy(to, staged.data(), staged.size());
                 },
                 {writes});
}

void SimulatedStreams::download(void *to, const void *from, size_t bytes,
                                StreamHandle stream) {
  if (bytes == 0)
    return;
  bool isPinned = simulated->isPinned(to) || simulated->isCapturing(stream);
  std::vector<ByteUse> uses{{from, bytes, false, simulated->describe(from)}};
  if (isPinned)
    uses.push_back({to, bytes, true, simulated->describe(to)});
  simulated->put(
      stream, [=] { std::memcpy(to, from, bytes); }, std::move(uses));
  if (!isPinned)
    simulated->synchronize(stream);
}

void SimulatedStreams::fill(void *to, unsigned char byte, size_t bytes,
                            StreamHandle stream) {
  if (bytes != 0)
    simulated->put(stream, [=] { std::memset(to, byte, bytes); },
                   {{to, bytes, true, simulated->describe(to)}});
}

void SimulatedStreams::divide(void *data, size_t elements, plan::DType dtype,
                              double divisor, StreamHandle stream) {
  size_t bytes = elements * dtypeBytes(dtype);
  if (bytes == 0)
    return;
  simulated->put(stream,
                 [=] {
                   const void *source = data;
                   void *output = data;
                   reduceRows({&source, 1}, {&output, 1}, elements, dtype,
                              {plan::Reduction::sum, 1, divisor});
                 },
                 {{data, bytes, true, simulated->describe(data)}});
}

CounterHandle SimulatedStreams::createCounter() {
  return reinterpret_cast<CounterHandle>(new std::atomic<uint64_t>(0));
}

void SimulatedStreams::destroyCounter(CounterHandle counter) noexcept {
  delete reinterpret_cast<std::atomic<uint64_t> *>(counter);
}

void SimulatedStreams::raise(CounterHandle counter, StreamHandle stream) {
  simulated->put(
      stream, [=] { ++*reinterpret_cast<std::atomic<uint64_t> *>(counter); });
}

uint64_t SimulatedStreams::read(CounterHandle counter) noexcept {
  return *reinterpret_cast<std::atomic<uint64_t> *>(counter);
}

std::function<void(std::span<const void *const>, std::span<void *const>, size_t,
                   plan::DType, const Combination &, StreamHandle)>
fsdp::test::makeSimulatedReduce(std::shared_ptr<SimulatedDevice> device) {
  return [device](std::span<const void *const> sources,
                  std::span<void *const> outputs, size_t elements,
                  plan::DType dtype, const Combination &combination,
                  StreamHandle stream) {
    std::vector<const void *> from(sources.begin(), sources.end());
    std::vector<void *> to(outputs.begin(), outputs.end());
    std::vector<ByteUse> uses;
    for (const void *source : from)
      uses.push_back({source, elements * dtypeBytes(dtype), false,
                      device->describe(source)});
    for (void *output : to)
      uses.push_back({output, elements * dtypeBytes(dtype), true,
                      device->describe(output)});
    device->put(
        stream, [=] { reduceRows(from, to, elements, dtype, combination); },
        std::move(uses));
  };
}
