//===- SimulatedMemory.cpp - Whose bytes a device's streams use -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SimulatedStreams.h"

#include <string>

using namespace fsdp;
using namespace fsdp::test;

void SimulatedDevice::addMemory(const void *begin, size_t bytes,
                                const std::string &name, bool isPinned) {
  std::lock_guard lock(mutex);
  order.forget(begin, bytes);
  blocks[reinterpret_cast<uintptr_t>(begin)] = {bytes, name, isPinned};
}

void SimulatedDevice::removeMemory(const void *begin) {
  std::lock_guard lock(mutex);
  auto found = blocks.find(reinterpret_cast<uintptr_t>(begin));
  if (found == blocks.end())
    return;
  // Giving it back waits for what uses it.
  synchronizeAll();
  order.forget(begin, found->second.bytes);
  blocks.erase(found);
}

bool SimulatedDevice::isPinned(const void *begin) const {
  std::lock_guard lock(mutex);
  auto at = reinterpret_cast<uintptr_t>(begin);
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin())
    return false;
  --found;
  return found->second.isPinned && at < found->first + found->second.bytes;
}

bool SimulatedDevice::reaches(const void *begin, size_t bytes) const {
  std::lock_guard lock(mutex);
  auto at = static_cast<const char *>(begin);
  if (const Issuer *by = issuer())
    for (const Issuer::Named &value : by->values)
      if (at >= value.begin && at + bytes <= value.begin + value.bytes)
        return true;
  auto found = blocks.upper_bound(reinterpret_cast<uintptr_t>(begin));
  if (found == blocks.begin())
    return bytes == 0;
  --found;
  return reinterpret_cast<uintptr_t>(begin) + bytes <=
         found->first + found->second.bytes;
}

SimulatedDevice *&SimulatedDevice::used() {
  static thread_local SimulatedDevice *device = nullptr;
  return device;
}

const Issuer *&SimulatedDevice::issuer() {
  static thread_local const Issuer *current = nullptr;
  return current;
}

StreamHandle &SimulatedDevice::current() {
  static thread_local StreamHandle stream = nullptr;
  return stream;
}

std::string SimulatedDevice::describe(const void *begin) const {
  std::lock_guard lock(mutex);
  const Issuer *by = issuer();
  std::string text = by ? by->what : "the host between programs";
  auto *at = static_cast<const char *>(begin);
  if (by)
    for (const Issuer::Named &value : by->values)
      if (at >= value.begin && at < value.begin + value.bytes)
        return text + ", of " + value.name + ",";
  auto found = blocks.upper_bound(reinterpret_cast<uintptr_t>(begin));
  if (found != blocks.begin()) {
    --found;
    uintptr_t offset = reinterpret_cast<uintptr_t>(begin) - found->first;
    if (offset < found->second.bytes)
      return text + ", of " + found->second.name + " at " +
             std::to_string(offset) + ",";
  }
  return text + ",";
}
