//===- StreamMemory.cpp - Memory that the host reaches in turn ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/StreamMemory.h"

#include "support/Error.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

using namespace fsdp;

StreamMemory::StreamMemory(std::shared_ptr<Streams> streams, Waiting waiting)
    : streams(std::move(streams)), waiting(std::move(waiting)) {}

void StreamMemory::write(char *to, const void *from, uint64_t bytes) {
  streams->upload(to, from, bytes, streams->compute());
}

void StreamMemory::read(void *to, const char *from, uint64_t bytes) {
  if (bytes == 0)
    return;
  // A copy into pageable memory blocks until the stream comes to it.
  synchronize();
  streams->download(to, from, bytes, streams->compute());
  auto step = lastWait;
  synchronize();
  lastWait = step;
}

void StreamMemory::fill(char *to, unsigned char byte, uint64_t bytes) {
  streams->fill(to, byte, bytes, streams->compute());
}

void StreamMemory::synchronize() {
  // A wait without an end would not see that a peer is gone.
  using namespace std::chrono;
  auto begin = steady_clock::now();
  auto nextCheck = begin + milliseconds(100);
  auto end = begin + waiting.deadline;
  // Steps take about as long as the one before. Until shortly before then the
  // processor is others', and for some time around then the end is seen at
  // once.
  const auto early = begin + lastWait - lastWait / 16 - microseconds(200);
  const auto late = begin + lastWait + lastWait / 16 + microseconds(200);
  while (!streams->isDone(streams->compute())) {
    auto now = steady_clock::now();
    if (now >= nextCheck) {
      waiting.check();
      if (now >= end)
        throw Error(ErrorId::DeadlinePassed,
                    "expected the GPU to finish what was put on it within " +
                        std::to_string(waiting.deadline.count() / 1000) +
                        " s, but it did not: a transfer waits for a rank that "
                        "is gone, or a kernel does not end");
      nextCheck = now + milliseconds(100);
    }
    if (now < early)
      std::this_thread::sleep_until(std::min(early, nextCheck));
    else if (now < late)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(microseconds(50));
  }
  lastWait = steady_clock::now() - begin;
}
