//===- Communicator.h - Transfers by NCCL -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_NCCL_COMMUNICATOR_H
#define FSDP_RUNTIME_COMM_NCCL_COMMUNICATOR_H

#include "runtime/comm/nccl/Abort.h"
#include "runtime/comm/nccl/CapturedTransfers.h"
#include "runtime/comm/nccl/Rank.h"
#include "runtime/comm/nccl/Reduction.h"

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fsdp {

/// One NCCL communicator on a stream of its own. A bucket is one call, or one
/// group of a call for each of its members; nothing is copied. No call blocks
/// for longer than NCCL takes to put its work on the stream, which for the
/// first one includes connecting.
///
/// NCCL is used without blocking (unless FSDP_NCCL_BLOCKING is set), which lets
/// another thread end what never would: `mutex` is held for each of its calls
/// and never longer.
///
/// A CUDA graph that holds transfers must be destroyed before it.
class NcclCommunicator final : public Communicator {
public:
  /// Collective over the ranks of `group`, which are two or more. `key` is the
  /// same on all of them, and theirs alone.
  NcclCommunicator(std::shared_ptr<NcclRank> rank, const GroupRanks &group,
                   const std::string &key);
  /// Waits for what is in flight; if some of it was never waited for, ends it
  /// and fails the peers.
  ~NcclCommunicator() override;

  int rank() const override { return place; }
  int size() const override { return static_cast<int>(ranks.size()); }

  void rehearse(const Transfer &transfer) override;
  Ticket start(const Transfer &transfer) override;
  void wait(Ticket ticket) override;
  void abandon() override;
  size_t stagingBytes() const override { return taken; }
  uint64_t keepCaptured() override;
  void launchCaptured(uint64_t graph, uint64_t step) override;

  const std::string &groupName() const { return name; }

  /// Lets NCCL reach `bytes` at `base` on all ranks without copies. Collective.
  /// False if it does not, for this group.
  bool registerMemory(void *base, size_t bytes);

  /// What the watching thread finds.
  struct Trouble {
    std::string self; ///< "rank 1: all_gather of bucket 'b' in step 3"
    bool isLate;
    /// If it is not late.
    ErrorId id = ErrorId::NcclFailed;
    std::string reason;
    /// If it is: who takes part, and how many transfers were before.
    std::vector<int> ranks;
    uint64_t position = 0;
  };
  /// Called by the watching thread, again and again.
  std::optional<Trouble> inspect(std::chrono::steady_clock::time_point now);
  /// How many transfers were before the one that this rank is in; empty: it is
  /// in none.
  std::optional<uint64_t> position();
  /// Where the group's ranks tell each other of it.
  std::string meetingPoint() const { return key + "stuck/"; }

  /// Ends what is in flight. From any thread; later calls throw what made the
  /// rank fail. Graphs that hold its transfers may be destroyed afterwards.
  void abort() noexcept;

private:
  using Clock = std::chrono::steady_clock;

  /// A transfer between its start and its wait, or its end if that is later.
  struct Flight {
    TransferLabel label;
    uint64_t position = 0; ///< unless it is captured
    EventHandle ready = nullptr, done = nullptr;
    bool isCaptured = false;
    bool isWaited = false, isComplete = false;
    /// When it was first seen that nothing of this rank is in its way.
    std::optional<Clock::time_point> began = std::nullopt;
  };
  using Describe = std::function<std::string()>;
  /// Makes the call for one member that is not empty.
  using Call = std::function<nccl::Result(size_t member)>;
  /// Puts on the stream what comes behind the calls, for one member.
  using Behind = std::function<void(size_t member)>;

  void connect();
  /// Fills `present` and `reductions`, and looks at what is new.
  void prepare(const Transfer &transfer);
  /// By a function of NCCL's that is like ncclReduceScatter.
  template <typename Function>
  Ticket reduce(const Transfer &transfer, const char *name, Function function);
  Ticket rotate(const Transfer &transfer);
  Ticket exchange(const Transfer &transfer);
  /// Puts the calls of NCCL's `function` for `members` on the stream.
  Ticket enqueue(const TransferLabel &label, const char *function,
                 std::span<const size_t> members, const Call &call,
                 const Behind &behind = nullptr);
  /// Makes the calls, as a group if there are several, and returns once they
  /// are on the stream. Throws fsdp::Error.
  void issue(const Describe &self, const char *function,
             std::span<const size_t> members, const Call &call);
  /// How it is known whether NCCL is through with a call.
  enum class Settled {
    says, ///< by what it returns
    ask   ///< the communicator knows: the call says success before it is
  };
  /// Waits until NCCL is through with `call`, which returned `result`; `lock`
  /// holds the mutex. Throws fsdp::Error, without the mutex.
  void settle(std::unique_lock<std::mutex> &lock, const Describe &self,
              const char *call, nccl::Result result,
              Settled settled = Settled::says);
  /// The operation of `reduction`, made when it is first needed. Throws
  /// fsdp::Error.
  nccl::RedOp operation(const NcclReduction &reduction, const Describe &self);
  /// Whether the bucket was not moved before.
  bool isFirst(const TransferLabel &label) {
    return looked.emplace(label.kind, label.bucket).second;
  }
  /// Makes NCCL's calls in `body`, and counts the memory that it took for them.
  template <typename Body>
  void measure(Body body);
  /// Whether NCCL can move the member 16 bytes at a time, or need not; says so
  /// if it cannot.
  bool isAligned(const TransferLabel &label, const Member &member);
  // The caller holds the mutex:
  /// Forgets flights that are over.
  void reap();
  /// The first transfer that is not over, whether its own or a graph's.
  std::optional<CapturedTransfers::Transfer> findTurn(Clock::time_point now);
  EventHandle takeEvent();
  /// Ends NCCL's side in good order; false if it had to be aborted.
  bool finish();
  void release() noexcept;

  const std::shared_ptr<NcclRank> shared;
  const NcclLibrary &nccl;
  Streams &streams;
  const std::string name;
  const std::string key;
  const std::vector<int> ranks;
  const int place;
  FlightGroup *const flightGroup; ///< may be null
  StreamHandle stream = nullptr;

  std::mutex mutex;
  nccl::Comm comm = nullptr; ///< null: ended
  nccl::Window window = nullptr;
  std::map<std::pair<nccl::DataType, double>, nccl::RedOp> operations;
  std::deque<Flight> flights; ///< of tickets `first` on
  Ticket first = 0;
  /// Transfers that were put on the stream, with graphs and without: the same
  /// numbers on all ranks, whichever of them run which steps as graphs.
  uint64_t issued = 0;
  std::optional<CapturedTransfers> captured;
  /// Of the device's memory, as far as it was seen to go: NCCL takes some when
  /// it connects, and with the first call of a kind.
  std::atomic<size_t> taken = 0;
  NcclAbort ending;
  std::vector<EventHandle> freeEvents;
  /// Members that are not empty, of the bucket at hand.
  std::vector<size_t> present;
  std::vector<NcclReduction> reductions; ///< of all members, if they have any
  bool isNew = false; ///< whether that bucket was not moved before
  /// Buckets whose addresses were looked at.
  std::set<std::pair<CollectiveKind, std::string_view>> looked;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_NCCL_COMMUNICATOR_H
