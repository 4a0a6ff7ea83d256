//===- Rank.h - What one rank's NCCL communicators share --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCL_RANK_H
#define FSDP_RUNTIME_COMM_NCCL_RANK_H

#include "runtime/comm/Peers.h"
#include "runtime/comm/Unpinned.h"
#include "runtime/comm/nccl/Library.h"
#include "runtime/device/Streams.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace fsdp {

class NcclCommunicator;

/// Whether a variable of the environment is set, and not to 0.
bool isAskedFor(const char *variable);

/// One rank's failure, if there is one, and the thread that looks for it: calls
/// on a device do not block, so nobody else would notice that a transfer never
/// ends. What fails one transfer ends all of the rank's communicators, since no
/// step can go on without it.
class NcclRank {
public:
  NcclRank(std::shared_ptr<Peers> peers, std::shared_ptr<Streams> streams,
           std::function<void(const std::string &)> note);
  ~NcclRank();
  NcclRank(const NcclRank &) = delete;
  NcclRank &operator=(const NcclRank &) = delete;

  Peers &peers() const { return *others; }
  const std::shared_ptr<Peers> &sharedPeers() const { return others; }
  Streams &streams() const { return *device; }
  std::shared_ptr<Streams> sharedStreams() const { return device; }
  /// That NCCL's threads may run on.
  const cpu_set_t &allProcessors() const { return processors; }
  /// Loads NCCL when it is first asked for: groups of one rank need none.
  /// Throws fsdp::Error (NcclUnusable).
  const NcclLibrary &library();
  /// Whether calls are to block, as FSDP_NCCL_BLOCKING=1 asks for.
  bool isBlocking() const { return blocking; }
  /// Says something that a person may want to know.
  void note(const std::string &text) const;

  /// Ends all communicators, unless something already did, and tells the other
  /// ranks. `self` says who fails in what. Returns the error that counts: this
  /// one, unless another rank failed before. The caller holds no
  /// communicator's mutex.
  Error fail(ErrorId id, const std::string &self, const std::string &reason);
  /// Ends all communicators because of what another rank published.
  void interrupt() noexcept;
  /// Throws that error if this rank failed, or if it learned that another did:
  /// then `describeSelf` says who asks. The caller holds no communicator's
  /// mutex.
  template <typename Describe>
  void check(Describe describeSelf) {
    if (hasFailed.load(std::memory_order_acquire))
      throwFailure(describeSelf());
  }

  /// Orders work that two communicators put on the device, where NCCL does not
  /// do it itself. Both are called around each call, by the rank's thread.
  void beforeCall(StreamHandle stream);
  void afterCall(StreamHandle stream);
  /// A capture is over, kept or not: what comes is not ordered with it.
  void endCapture();

  void add(NcclCommunicator *communicator);
  void remove(NcclCommunicator *communicator);
  /// Calls `visit` with each of them, in the order in which they were made;
  /// they live meanwhile.
  void forEach(const std::function<void(NcclCommunicator &)> &visit);

private:
  [[noreturn]] void throwFailure(const std::string &self);
  void watch();
  void inspect();
  /// Where several transfers hang, ranks may find another one first: they tell
  /// each other of all that they are in.
  void leavePositions(const std::string &except);
  void endAll() noexcept;

  const std::shared_ptr<Peers> others;
  const std::shared_ptr<Streams> device;
  const std::function<void(const std::string &)> tell;
  const cpu_set_t processors = allowedProcessors();
  const bool blocking = isAskedFor("FSDP_NCCL_BLOCKING");

  std::mutex libraryMutex;
  std::shared_ptr<const NcclLibrary> loaded;
  /// After the last call of any communicator; null: NCCL keeps the order.
  EventHandle order = nullptr;
  enum class Ordered { nothing, work, capture } ordered = Ordered::nothing;

  std::atomic<bool> hasFailed = false;
  std::mutex failureMutex;
  std::optional<Error> failure; ///< without: another rank's
  /// Guards the list while it is walked.
  std::mutex listMutex;
  std::vector<NcclCommunicator *> list;

  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  int interruptHandle;
  std::thread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_RANK_H
