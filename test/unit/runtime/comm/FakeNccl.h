//===- FakeNccl.h - A libnccl.so.2 that takes notes -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libfake-nccl.so has NCCL's functions and plays one rank alone: what it is
// asked for is recorded, and done in the host's memory, with data for the other
// ranks that is made up; or ranks that are threads meet. It is as strict as
// NCCL about the order of calls:
// * A call that answers that it is in progress has put nothing on a stream yet.
//   That has happened when the communicator says that it is through, and until
//   then every other call on it is an invalid argument.
// * ncclCommAbort lets the communicator's kernels go, but does not return while
//   any of its work is still queued, behind another communicator's, say.
// * ncclCommWindowRegister says success, and writes the window later.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_FAKENCCL_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_FAKENCCL_H

#include "runtime/comm/nccl/Abi.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace fsdp::test {

inline size_t elementBytes(nccl::DataType type) {
  switch (type) {
  case nccl::DataType::int8:
  case nccl::DataType::uint8:
    return 1;
  case nccl::DataType::float16:
  case nccl::DataType::bfloat16:
    return 2;
  case nccl::DataType::int32:
  case nccl::DataType::uint32:
  case nccl::DataType::float32:
    return 4;
  default:
    return 8;
  }
}

/// One call of a function that does something.
struct NcclCall {
  std::string name; ///< "ncclAllGather"
  int comm = -1;    ///< number of the communicator, from 0
  int ranks = 0;    ///< of the communicator
  const void *send = nullptr;
  void *receive = nullptr;
  size_t count = 0; ///< elements a rank
  nccl::DataType type = nccl::DataType::int8;
  nccl::RedOp op = nccl::RedOp::sum;
  StreamHandle stream = nullptr;
  int group = 0; ///< number of the group that it is in, from 1; 0: none
  int peer = -1; ///< of ncclSend and ncclRecv

  size_t bytes() const { return count * elementBytes(type); } ///< of one rank
};

/// What a call does to memory when its turn has come.
struct NcclWork {
  /// Whether all ranks that take part have come to it; this one has by asking.
  /// Null: they have.
  std::function<bool()> isReady;
  std::function<void()> run; ///< then
};

/// Of rank `rank` of a communicator, where this process's, `own`, has `value`:
/// a byte that it gathers, and a number that it reduces (as value + this).
inline std::byte peerByte(std::byte value, int own, int rank) {
  return rank == own ? value
                     : value ^ static_cast<std::byte>(1 + (rank ^ own) % 255);
}
inline int peerSummand(int own, int rank) { return rank - own; }

/// What the library did, and how it is to behave. Set between calls.
struct NcclScript {
  std::mutex mutex;
  std::vector<NcclCall> calls;

  int version = nccl::version(2, 28, 9);
  /// How often work is still in progress when it is asked about.
  int initPolls = 3, callPolls = 2;
  bool initEnds = true;
  /// The next call of a function fails with this, once.
  std::map<std::string, nccl::Result> failing;
  /// Memory that a communicator takes when it is made, and with its first call.
  size_t initBytes = 0, callBytes = 0;
  /// What every communicator says when it is asked; not success: an error.
  nccl::Result asyncError = nccl::Result::success;
  std::string lastError;
  /// Whether GPUs reach each other's memory. If they do not, 2.28 gives a
  /// window that is of no use, and 2.29 none.
  bool makesWindows = true;
  /// As if all ranks had this rank's data.
  bool ranksAreAlike = false;
  /// Whether ranks are there, as threads that make communicators of one id. To
  /// be with `put`.
  bool ranksMeet = false;
  /// Whether there is a graph that holds what was captured: until it is gone,
  /// ncclCommAbort of its communicators does not return.
  std::atomic<bool> isGraphAlive = false;
  /// Puts what a call does on its stream, without the mutex; null: it is done
  /// at once.
  std::function<void(const NcclCall &, NcclWork)> put;
  /// Told of each collective when it is put on its stream, without the mutex.
  std::function<void(const NcclCall &)> observer;
  /// Whether work on the stream is captured; null: none is.
  std::function<bool(StreamHandle)> isCapturing;
  /// The communicator's kernels let go, by its number; and whether all of its
  /// work is done, which ncclCommAbort waits for. Without the mutex. Null:
  /// there is none.
  std::function<void(int)> letGo;
  /// Told of the device's memory that is taken.
  std::function<void(size_t)> take;
  std::function<bool(int)> isIdle;

  /// Communicators that were made and neither destroyed nor aborted.
  int alive = 0;
  int aborting = 0, aborted = 0, destroyed = 0;
  std::vector<nccl::Config> configs; ///< by communicator
  /// Factors of operations that ncclRedOpCreatePreMulSum made, by operation.
  std::map<int, double> factors;
};

/// Loads the library at `path`, or where nothing lies there the one of that
/// name that the loader finds, names it in FSDP_NCCL_LIBRARY and puts its
/// script back to the beginning.
NcclScript &useFakeNccl(const char *path);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_FAKENCCL_H
