//===- FakeNccl.cpp - A libnccl.so.2 that takes notes ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FakeNccl.h"
#include "FakeNcclData.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using nccl::Result;

struct ncclComm {
  int number;
  int ranks;
  NcclData data;
  int polls = 0; ///< left until what was asked for last is done
  bool isInitialised = false;
  bool isFinalized = false;
  bool wasCaptured = false;
  bool wasCalled = false;
  /// What is done then.
  std::vector<NcclCall> pending = {};
  nccl::Window made = nullptr, *window = nullptr;
};

struct ncclWindow_vidmem {
  int comm;
};

static NcclScript script;
static int groups = 0, ids = 0;
/// Of communicators whose ranks meet, by the number in their id.
static std::map<int, std::weak_ptr<NcclMeeting>> meetings;
static thread_local int depth = 0;
static thread_local std::vector<std::pair<nccl::Comm, NcclCall>> grouped;

static std::optional<Result> failure(const char *name) {
  auto found = script.failing.find(name);
  if (found == script.failing.end())
    return std::nullopt;
  Result result = found->second;
  script.failing.erase(found);
  return result;
}

static Result refuse(const char *reason, Result result = Result::invalidUsage) {
  script.lastError = reason;
  return result;
}

/// NCCL's ncclCommEnsureReady.
static std::optional<Result> notReady(nccl::Comm comm) {
  if (comm->polls || !comm->isInitialised)
    return refuse("Attempt to use communicator before the previous operation "
                  "returned ncclSuccess",
                  Result::invalidArgument);
  if (comm->isFinalized)
    return refuse("communicator was finalized", Result::invalidArgument);
  return std::nullopt;
}

static Combination combinationOf(const NcclCall &call) {
  Combination combination(plan::Reduction::sum);
  if (call.op == nccl::RedOp::max)
    combination.reduction = plan::Reduction::max;
  else if (call.op == nccl::RedOp::avg)
    combination.reduction = plan::Reduction::avg;
  else if (call.op != nccl::RedOp::sum)
    combination.pre = 1 / script.factors.at(static_cast<int>(call.op));
  return combination;
}

/// Puts the calls on their streams; the caller holds no mutex.
static void launch(nccl::Comm comm, std::vector<NcclCall> calls) {
  auto isSend = [](const NcclCall &call) { return call.name == "ncclSend"; };
  std::vector<NcclCall> sends;
  std::ranges::copy_if(calls, std::back_inserter(sends), isSend);
  // A group is one kernel, in which nothing that is sent waits.
  if (!comm->data.isAlone())
    std::ranges::stable_partition(calls, isSend);
  size_t received = 0;
  for (const NcclCall &call : calls) {
    NcclWork work;
    std::function<void(const NcclCall &, NcclWork)> put;
    std::function<void(const NcclCall &)> observer;
    std::function<bool(StreamHandle)> isCapturing;
    {
      std::lock_guard lock(script.mutex);
      work = call.name == "ncclRecv"
                 ? comm->data.receive(call, sends.at(received++),
                                      script.ranksAreAlike)
                 : comm->data.move(call, combinationOf(call),
                                   script.ranksAreAlike);
      put = script.put;
      if (!put)
        work.run();
      script.calls.push_back(call);
      if (!std::exchange(comm->wasCalled, true) && script.take)
        script.take(script.callBytes);
      observer = script.observer;
      isCapturing = script.isCapturing;
    }
    if (put)
      put(call, std::move(work));
    if (observer)
      observer(call);
    if (isCapturing && isCapturing(call.stream))
      comm->wasCaptured = true;
  }
}

/// Begins the calls; the caller holds no mutex.
static Result begin(std::vector<std::pair<nccl::Comm, NcclCall>> calls) {
  Result result = Result::success;
  std::map<nccl::Comm, std::vector<NcclCall>> now;
  {
    std::lock_guard lock(script.mutex);
    for (auto &[comm, call] : calls) {
      if (!script.callPolls) {
        now[comm].push_back(call);
        continue;
      }
      comm->pending.push_back(call);
      comm->polls = script.callPolls;
      result = Result::inProgress;
    }
  }
  for (auto &[comm, each] : now)
    launch(comm, each);
  return result;
}

/// Of a group's calls between two ranks: as many are received as sent, of the
/// same sizes. NCCL would wait for what never comes.
static bool
arePaired(const std::vector<std::pair<nccl::Comm, NcclCall>> &calls) {
  std::map<nccl::Comm, std::vector<size_t>> sent, received;
  for (const auto &[comm, call] : calls) {
    if (call.name == "ncclSend")
      sent[comm].push_back(call.bytes());
    else if (call.name == "ncclRecv")
      received[comm].push_back(call.bytes());
  }
  return sent == received;
}

static Result collective(nccl::Comm comm, NcclCall call) {
  {
    std::lock_guard lock(script.mutex);
    if (auto failed = failure(call.name.c_str()))
      return *failed;
    if (auto refused = notReady(comm))
      return *refused;
    call.comm = comm->number;
    call.ranks = comm->ranks;
    if (call.name == "ncclSend" || call.name == "ncclRecv") {
      if (call.peer < 0 || call.peer >= comm->ranks)
        return refuse("invalid peer", Result::invalidArgument);
      if (!depth)
        return refuse("a ring of calls without a group waits for itself");
    }
    if (depth) {
      if (grouped.size() >= nccl::kMostGrouped)
        return refuse("too many operations in a group");
      call.group = groups;
      grouped.emplace_back(comm, call);
      return Result::success;
    }
  }
  return begin({{comm, call}});
}

extern "C" {

NcclScript *fakeNcclScript() { return &script; }

Result ncclGetVersion(int *version) {
  *version = script.version;
  return Result::success;
}

const char *ncclGetErrorString(Result result) {
  switch (result) {
  case Result::success:
    return "no error";
  case Result::unhandledCudaError:
    return "unhandled cuda error";
  case Result::systemError:
    return "unhandled system error";
  case Result::internalError:
    return "internal error";
  case Result::invalidArgument:
    return "invalid argument";
  case Result::invalidUsage:
    return "invalid usage";
  case Result::remoteError:
    return "remote process exited or there was a network error";
  case Result::inProgress:
    return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char *ncclGetLastError(nccl::Comm) { return script.lastError.c_str(); }

Result ncclGetUniqueId(nccl::UniqueId *id) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclGetUniqueId"))
    return *failed;
  std::memset(id->internal, 'i', sizeof(id->internal));
  ++ids;
  std::memcpy(id->internal + 1, &ids, sizeof(ids));
  return Result::success;
}

Result ncclCommInitRankConfig(nccl::Comm *comm, int ranks, nccl::UniqueId id,
                              int rank, nccl::Config *config) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclCommInitRankConfig"))
    return *failed;
  if (id.internal[0] != 'i' || id.internal[127] != 'i')
    return refuse("unique id is not the one that was made");
  if (config->magic != 0xcafebeef || config->size != sizeof(nccl::Config) ||
      rank < 0 || rank >= ranks)
    return refuse("configuration or rank is not valid");
  std::shared_ptr<NcclMeeting> meeting;
  if (script.ranksMeet) {
    int number = 0;
    std::memcpy(&number, id.internal + 1, sizeof(number));
    meeting = meetings[number].lock();
    if (!meeting)
      meetings[number] = meeting = std::make_shared<NcclMeeting>();
  }
  *comm = new ncclComm{static_cast<int>(script.configs.size()), ranks,
                       NcclData(rank, std::move(meeting))};
  (*comm)->polls = script.initPolls;
  script.configs.push_back(*config);
  ++script.alive;
  if (script.take)
    script.take(script.initBytes);
  return Result::inProgress;
}

Result ncclCommGetAsyncError(nccl::Comm comm, Result *result) {
  std::unique_lock lock(script.mutex);
  *result = script.asyncError;
  if (*result != Result::success)
    return Result::success;
  if (!comm->isInitialised && !script.initEnds) {
    *result = Result::inProgress;
    return Result::success;
  }
  if (comm->polls > 1) {
    --comm->polls;
    *result = Result::inProgress;
    return Result::success;
  }
  if (comm->window)
    *std::exchange(comm->window, nullptr) = comm->made;
  std::vector<NcclCall> pending = std::exchange(comm->pending, {});
  lock.unlock();
  launch(comm, pending);
  lock.lock();
  comm->polls = 0;
  comm->isInitialised = true;
  return Result::success;
}

Result ncclCommFinalize(nccl::Comm comm) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclCommFinalize"))
    return *failed;
  if (auto refused = notReady(comm))
    return *refused;
  comm->isFinalized = true;
  comm->polls = 1;
  return Result::inProgress;
}

Result ncclCommDestroy(nccl::Comm comm) {
  std::lock_guard lock(script.mutex);
  --script.alive;
  ++script.destroyed;
  delete comm;
  return Result::success;
}

Result ncclCommAbort(nccl::Comm comm) {
  std::function<void(int)> letGo;
  std::function<bool(int)> isIdle;
  {
    std::lock_guard lock(script.mutex);
    ++script.aborting;
    letGo = script.letGo;
    isIdle = script.isIdle;
  }
  if (letGo)
    letGo(comm->number);
  while ((comm->wasCaptured && script.isGraphAlive) ||
         (isIdle && !isIdle(comm->number)))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::lock_guard lock(script.mutex);
  --script.alive;
  ++script.aborted;
  delete comm;
  return Result::success;
}

Result ncclGroupStart() {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclGroupStart"))
    return *failed;
  if (!depth++)
    ++groups;
  return Result::success;
}

Result ncclGroupEnd() {
  {
    std::lock_guard lock(script.mutex);
    if (!depth)
      return refuse("ncclGroupEnd without ncclGroupStart");
    --depth;
    if (auto failed = failure("ncclGroupEnd")) {
      grouped.clear();
      return *failed;
    }
    if (!depth && !arePaired(grouped)) {
      grouped.clear();
      return refuse("a send without a receive");
    }
  }
  return depth ? Result::success : begin(std::exchange(grouped, {}));
}

Result ncclAllGather(const void *send, void *receive, size_t count,
                     nccl::DataType type, nccl::Comm comm,
                     StreamHandle stream) {
  return collective(comm, {"ncclAllGather", -1, 0, send, receive, count, type,
                           nccl::RedOp::sum, stream});
}

Result ncclReduceScatter(const void *send, void *receive, size_t count,
                         nccl::DataType type, nccl::RedOp op, nccl::Comm comm,
                         StreamHandle stream) {
  return collective(comm, {"ncclReduceScatter", -1, 0, send, receive, count,
                           type, op, stream});
}

Result ncclAllReduce(const void *send, void *receive, size_t count,
                     nccl::DataType type, nccl::RedOp op, nccl::Comm comm,
                     StreamHandle stream) {
  return collective(
      comm, {"ncclAllReduce", -1, 0, send, receive, count, type, op, stream});
}

Result ncclSend(const void *send, size_t count, nccl::DataType type, int peer,
                nccl::Comm comm, StreamHandle stream) {
  NcclCall call{"ncclSend", -1, 0, send, nullptr, count, type};
  call.stream = stream;
  call.peer = peer;
  return collective(comm, call);
}

Result ncclRecv(void *receive, size_t count, nccl::DataType type, int peer,
                nccl::Comm comm, StreamHandle stream) {
  NcclCall call{"ncclRecv", -1, 0, nullptr, receive, count, type};
  call.stream = stream;
  call.peer = peer;
  return collective(comm, call);
}

Result ncclRedOpCreatePreMulSum(nccl::RedOp *op, void *scalar,
                                nccl::DataType type, nccl::ScalarResidence,
                                nccl::Comm comm) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclRedOpCreatePreMulSum"))
    return *failed;
  if (auto refused = notReady(comm))
    return *refused;
  auto read = [&](auto value) {
    std::memcpy(&value, scalar, sizeof(value));
    return static_cast<double>(value);
  };
  double factor = 0;
  if (type == nccl::DataType::float32)
    factor = read(0.0f);
  else if (type == nccl::DataType::float64)
    factor = read(0.0);
  else if (type == nccl::DataType::float16)
    factor = read(c10::Half());
  else if (type == nccl::DataType::bfloat16)
    factor = read(c10::BFloat16());
  else
    return refuse("no such type");
  int number = 5 + static_cast<int>(script.factors.size());
  script.factors[number] = factor;
  *op = static_cast<nccl::RedOp>(number);
  return Result::success;
}

Result ncclRedOpDestroy(nccl::RedOp, nccl::Comm) { return Result::success; }

Result ncclMemAlloc(void **memory, size_t bytes) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclMemAlloc"))
    return *failed;
  script.calls.push_back({"ncclMemAlloc"});
  script.calls.back().count = bytes;
  *memory = std::aligned_alloc(nccl::kWindowAlignment, bytes);
  return *memory ? Result::success : Result::systemError;
}

Result ncclMemFree(void *memory) {
  std::lock_guard lock(script.mutex);
  script.calls.push_back({"ncclMemFree"});
  std::free(memory);
  return Result::success;
}

Result ncclCommWindowRegister(nccl::Comm comm, void *memory, size_t bytes,
                              nccl::Window *window, int flags) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclCommWindowRegister"))
    return *failed;
  if (auto refused = notReady(comm))
    return *refused;
  if (reinterpret_cast<uintptr_t>(memory) % nccl::kWindowAlignment ||
      flags != nccl::kWindowCollSymmetric)
    return refuse("window is not aligned");
  NcclCall call{"ncclCommWindowRegister", comm->number, comm->ranks};
  call.send = memory;
  call.count = bytes;
  script.calls.push_back(call);
  // Later; but since 2.28 the call itself says success.
  comm->polls = std::max(script.callPolls, 1);
  comm->window = window;
  comm->made = script.makesWindows || script.version < nccl::version(2, 29, 0)
                   ? new ncclWindow_vidmem{comm->number}
                   : nullptr;
  return script.version < nccl::version(2, 28, 0) ? Result::inProgress
                                                  : Result::success;
}

Result ncclCommWindowDeregister(nccl::Comm comm, nccl::Window window) {
  std::lock_guard lock(script.mutex);
  if (auto refused = notReady(comm))
    return *refused;
  script.calls.push_back(
      {"ncclCommWindowDeregister", comm->number, comm->ranks});
  delete window;
  return Result::success;
}

} // extern "C"
