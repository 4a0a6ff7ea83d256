//===- DeviceAllocator.cpp - Kernels write where the plan says ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/DeviceAllocator.h"

#include "runtime/device/Arena.h"
#include "runtime/device/PlannedAllocator.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <mutex>
#include <unordered_map>
#include <utility>

using namespace fsdp;
namespace caching = c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;

namespace {

RankMemory *currentMemory() {
  return RankMemory::current(RankMemory::Kind::device);
}

class DeviceAllocator final : public caching::CUDAAllocator {
public:
  explicit DeviceAllocator(caching::CUDAAllocator *base) : base(base) {}

  //===--------------------------------------------------------------------===//
  // Requests
  //===--------------------------------------------------------------------===//

  c10::DataPtr allocate(size_t bytes) override {
    if (!currentMemory() || bytes == 0)
      return base->allocate(bytes); // keeps its own deleter
    if (void *address = currentMemory()->place(bytes))
      return {address, address, &releaseNothing, device()};
    void *pointer = takeElsewhere(bytes, obtain(bytes));
    return {pointer, pointer, &release, device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void *raw_alloc(size_t bytes) override {
    if (!currentMemory() || bytes == 0)
      return base->raw_alloc(bytes);
    if (void *address = currentMemory()->place(bytes))
      return address;
    return takeElsewhere(bytes, obtain(bytes));
  }
  void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override {
    // Another stream's memory is none of the plan's.
    void *pointer = base->raw_alloc_with_stream(bytes, stream);
    return currentMemory() && bytes ? takeElsewhere(bytes, pointer) : pointer;
  }
  void raw_delete(void *pointer) override { release(pointer); }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    base->copy_data(to, from, bytes);
  }
  void recordStream(const c10::DataPtr &data,
                    c10::cuda::CUDAStream stream) override {
    // The plan keeps memory until all streams are done with it. The base only
    // knows data with its own deleter.
    if (data.get_deleter() != &releaseNothing && data.get_deleter() != &release)
      base->recordStream(data, stream);
  }
  void *getBaseAllocation(void *pointer, size_t *size) override {
    return base->getBaseAllocation(pointer, size);
  }

  //===--------------------------------------------------------------------===//
  // Passed on as it is
  //===--------------------------------------------------------------------===//

  void init(int devices) override { base->init(devices); }
  bool initialized() override { return base->initialized(); }
  double getMemoryFraction(DeviceIndex device) override {
    return base->getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, DeviceIndex device) override {
    base->setMemoryFraction(fraction, device);
  }
  std::vector<caching::StreamSegmentSize>
  getExpandableSegmentSizes(DeviceIndex device) override {
    return base->getExpandableSegmentSizes(device);
  }
  void emptyCache(MempoolId_t pool = {0, 0}) override {
    base->emptyCache(pool);
  }
  void enable(bool value) override { base->enable(value); }
  bool isEnabled() const override { return base->isEnabled(); }
  void cacheInfo(DeviceIndex device, size_t *largest) override {
    base->cacheInfo(device, largest);
  }
  c10::CachingDeviceAllocator::DeviceStats
  getDeviceStats(DeviceIndex device) override {
    return base->getDeviceStats(device);
  }
  void resetAccumulatedStats(DeviceIndex device) override {
    base->resetAccumulatedStats(device);
  }
  void resetPeakStats(DeviceIndex device) override {
    base->resetPeakStats(device);
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex device) override {
    return base->getMemoryInfo(device);
  }
  caching::SnapshotInfo snapshot(MempoolId_t pool, bool traces) override {
    return base->snapshot(pool, traces);
  }
  void beginAllocateToPool(DeviceIndex device, MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    base->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(DeviceIndex device, MempoolId_t pool) override {
    base->endAllocateToPool(device, pool);
  }
  void releasePool(DeviceIndex device, MempoolId_t pool) override {
    base->releasePool(device, pool);
  }
  int getPoolUseCount(DeviceIndex device, MempoolId_t pool) override {
    return base->getPoolUseCount(device, pool);
  }
  void
  createOrIncrefPool(DeviceIndex device, MempoolId_t pool,
                     std::shared_ptr<caching::CUDAAllocator> other) override {
    base->createOrIncrefPool(device, pool, std::move(other));
  }
  void setUseOnOOM(DeviceIndex device, MempoolId_t pool, bool use) override {
    base->setUseOnOOM(device, pool, use);
  }
  void setNoSplit(DeviceIndex device, MempoolId_t pool) override {
    base->setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(
      DeviceIndex device, MempoolId_t pool,
      const std::unordered_set<void *> &expected) override {
    return base->checkPoolLiveAllocations(device, pool, expected);
  }
  caching::ShareableHandle shareIpcHandle(void *pointer) override {
    return base->shareIpcHandle(pointer);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return base->getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return base->isHistoryEnabled(); }
  void recordHistory(bool enabled, caching::CreateContextFn recorder,
                     size_t most, caching::RecordContext when, bool clears,
                     const std::vector<std::string> &skipped) override {
    base->recordHistory(enabled, recorder, most, when, clears, skipped);
  }
  void recordAnnotation(
      const std::vector<std::pair<std::string, std::string>> &notes) override {
    base->recordAnnotation(notes);
  }
  void pushCompileContext(std::string &context) override {
    base->pushCompileContext(context);
  }
  void popCompileContext() override { base->popCompileContext(); }
  void setUserMetadata(const std::string &metadata) override {
    base->setUserMetadata(metadata);
  }
  std::string getUserMetadata() override { return base->getUserMetadata(); }
  void
  attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    base->attachOutOfMemoryObserver(std::move(observer));
  }
  void
  attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    base->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(DeviceIndex from, DeviceIndex to) override {
    base->enablePeerAccess(from, to);
  }
  cudaError_t memcpyAsync(void *to, int toDevice, const void *from,
                          int fromDevice, size_t bytes, cudaStream_t stream,
                          bool hasPeerAccess) override {
    return base->memcpyAsync(to, toDevice, from, fromDevice, bytes, stream,
                             hasPeerAccess);
  }
  std::shared_ptr<caching::AllocatorState>
  getCheckpointState(DeviceIndex device, MempoolId_t pool) override {
    return base->getCheckpointState(device, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(
      DeviceIndex device,
      std::shared_ptr<caching::AllocatorState> state) override {
    return base->setCheckpointPoolState(device, std::move(state));
  }
  /// Asked for by code that adapts to the caching allocator, which this is.
  std::string name() override { return base->name(); }

private:
  static c10::Device device() {
    return {c10::kCUDA, c10::cuda::current_device()};
  }
  /// The memory belongs to an arena.
  static void releaseNothing(void *) {}
  static void release(void *pointer);

  /// From LibTorch, or from what a plan lends.
  void *obtain(size_t bytes) {
    try {
      return base->raw_alloc(bytes);
    } catch (const c10::OutOfMemoryError &) {
      if (void *lent = currentMemory()->borrow(bytes))
        return lent;
      throw;
    }
  }

  void *takeElsewhere(size_t bytes, void *pointer) {
    if (!Arena::anyContains(pointer)) {
      std::lock_guard lock(mutex);
      elsewhere[pointer] = bytes;
    }
    currentMemory()->noteElsewhere(pointer, bytes, bytes);
    return pointer;
  }

  caching::CUDAAllocator *const base;
  std::mutex mutex;
  /// Of requests that no plan served: what was asked for.
  std::unordered_map<void *, size_t> elsewhere;
};

DeviceAllocator &deviceAllocator() {
  // Never destroyed: storages keep its address.
  static DeviceAllocator &instance =
      *new DeviceAllocator(caching::allocator.load());
  return instance;
}

void DeviceAllocator::release(void *pointer) {
  if (!pointer)
    return;
  if (Arena::anyContains(pointer)) {
    if (currentMemory())
      currentMemory()->noteReturn(pointer);
    return;
  }
  DeviceAllocator &self = deviceAllocator();
  size_t bytes = 0;
  {
    std::lock_guard lock(self.mutex);
    if (auto found = self.elsewhere.find(pointer);
        found != self.elsewhere.end()) {
      bytes = found->second;
      self.elsewhere.erase(found);
    }
  }
  if (bytes != 0 && currentMemory())
    currentMemory()->noteRelease(pointer, bytes);
  self.base->raw_delete(pointer);
}

} // namespace

void fsdp::installDeviceAllocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    DeviceAllocator &allocator = deviceAllocator();
    caching::allocator.store(&allocator);
    c10::SetAllocator(c10::kCUDA, &allocator, /*priority=*/255);
  });
}
