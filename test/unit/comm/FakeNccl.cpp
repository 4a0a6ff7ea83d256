//===- FakeNccl.cpp - A libnccl.so.2 that takes notes ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FakeNccl.h"
#include "runtime/comm/Reduce.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using nccl::Result;

struct ncclComm {
  int number;
  int ranks, rank;
  int polls = 0; ///< left until what was asked for last is done
  bool isInitialised = false;
  bool isFinalized = false;
};

struct ncclWindow_vidmem {
  int comm;
};

static NcclScript script;
static int groups = 0;
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

static Result refuse(const char *reason) {
  script.lastError = reason;
  return Result::invalidUsage;
}

static plan::DType toDType(nccl::DataType type) {
  switch (type) {
  case nccl::DataType::int8:
    return plan::DType::i8;
  case nccl::DataType::uint8:
    return plan::DType::u8;
  case nccl::DataType::int32:
    return plan::DType::i32;
  case nccl::DataType::uint32:
    return plan::DType::u32;
  case nccl::DataType::int64:
    return plan::DType::i64;
  case nccl::DataType::uint64:
    return plan::DType::u64;
  case nccl::DataType::float16:
    return plan::DType::f16;
  case nccl::DataType::float32:
    return plan::DType::f32;
  case nccl::DataType::float64:
    return plan::DType::f64;
  case nccl::DataType::bfloat16:
    return plan::DType::bf16;
  }
  std::abort();
}

/// All ranks have what this one has.
static void reduce(const NcclCall &call, const void *source) {
  std::vector<const void *> sources(call.ranks, source);
  Combination combination(plan::Reduction::sum);
  if (call.op == nccl::RedOp::max)
    combination.reduction = plan::Reduction::max;
  else if (call.op == nccl::RedOp::avg)
    combination.reduction = plan::Reduction::avg;
  else if (call.op != nccl::RedOp::sum)
    combination.pre = 1 / script.factors.at(static_cast<int>(call.op));
  void *output = call.receive;
  reduceRows(sources, {&output, 1}, call.count, toDType(call.type),
             combination);
}

static void execute(nccl::Comm comm, const NcclCall &call) {
  auto *receive = static_cast<std::byte *>(call.receive);
  if (call.name == "ncclAllGather") {
    for (int rank = 0; rank < call.ranks; ++rank)
      if (receive + rank * call.bytes() != call.send)
        std::memmove(receive + rank * call.bytes(), call.send, call.bytes());
  } else if (call.name == "ncclReduceScatter") {
    reduce(call, static_cast<const std::byte *>(call.send) +
                     comm->rank * call.bytes());
  } else {
    reduce(call, call.send);
  }
}

/// Puts the calls on their streams; the caller holds no mutex.
static Result launch(std::vector<std::pair<nccl::Comm, NcclCall>> calls) {
  Result result = Result::success;
  for (auto &[comm, call] : calls) {
    std::function<void(const NcclCall &)> observer;
    {
      std::lock_guard lock(script.mutex);
      execute(comm, call);
      comm->polls = script.callPolls;
      if (comm->polls)
        result = Result::inProgress;
      script.calls.push_back(call);
      observer = script.observer;
    }
    if (observer)
      observer(call);
  }
  return result;
}

static Result collective(nccl::Comm comm, NcclCall call) {
  {
    std::lock_guard lock(script.mutex);
    if (auto failed = failure(call.name.c_str()))
      return *failed;
    if (comm->polls)
      return refuse("communicator is used while it is in progress");
    if (!comm->isInitialised || comm->isFinalized)
      return refuse("communicator is not ready");
    call.comm = comm->number;
    call.ranks = comm->ranks;
    if (depth) {
      call.group = groups;
      grouped.emplace_back(comm, call);
      return Result::success;
    }
  }
  return launch({{comm, call}});
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
  *comm = new ncclComm{static_cast<int>(script.configs.size()), ranks, rank};
  (*comm)->polls = script.initPolls;
  script.configs.push_back(*config);
  ++script.alive;
  return Result::inProgress;
}

Result ncclCommGetAsyncError(nccl::Comm comm, Result *result) {
  std::lock_guard lock(script.mutex);
  *result = script.asyncError;
  if (*result != Result::success)
    return Result::success;
  if (!comm->isInitialised && !script.initEnds)
    *result = Result::inProgress;
  else if (comm->polls > 0 && --comm->polls)
    *result = Result::inProgress;
  else
    comm->isInitialised = true;
  return Result::success;
}

Result ncclCommFinalize(nccl::Comm comm) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclCommFinalize"))
    return *failed;
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
  {
    std::lock_guard lock(script.mutex);
    ++script.aborting;
  }
  while (script.isGraphAlive)
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
  }
  return depth ? Result::success : launch(std::exchange(grouped, {}));
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

Result ncclRedOpCreatePreMulSum(nccl::RedOp *op, void *scalar,
                                nccl::DataType type, nccl::ScalarResidence,
                                nccl::Comm) {
  std::lock_guard lock(script.mutex);
  if (auto failed = failure("ncclRedOpCreatePreMulSum"))
    return *failed;
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
  if (reinterpret_cast<uintptr_t>(memory) % nccl::kWindowAlignment ||
      flags != nccl::kWindowCollSymmetric)
    return refuse("window is not aligned");
  NcclCall call{"ncclCommWindowRegister", comm->number, comm->ranks};
  call.send = memory;
  call.count = bytes;
  script.calls.push_back(call);
  comm->polls = script.callPolls;
  if (script.makesWindows)
    *window = new ncclWindow_vidmem{comm->number};
  return Result::inProgress;
}

Result ncclCommWindowDeregister(nccl::Comm comm, nccl::Window window) {
  std::lock_guard lock(script.mutex);
  script.calls.push_back(
      {"ncclCommWindowDeregister", comm->number, comm->ranks});
  delete window;
  return Result::success;
}

} // extern "C"
