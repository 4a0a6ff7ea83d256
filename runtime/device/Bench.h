//===- Bench.h - A GPU that is measured -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a calibration asks of a device: to put work on its one stream, and how
// long the stream took for it. So what is measured, and how, can be tested on a
// device whose costs are made up.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_DEVICE_BENCH_H
#define FSDP_RUNTIME_DEVICE_BENCH_H

#include "plan/Traffic.h"

#include <cstdint>
#include <functional>
#include <string>

namespace fsdp {

/// What is known of a device without measuring times.
struct BenchFacts {
  std::string name;      ///< "NVIDIA H100 80GB HBM3"
  uint64_t memory = 0;   ///< bytes
  uint64_t reserved = 0; ///< of them, context and libraries, once all ran
  uint64_t cache = 0;    ///< bytes of its last level
  int units = 1;         ///< multiprocessors
  uint64_t communicator =
      0; ///< bytes that a communicator took; 0: there is none
};

/// One piece of work.
struct BenchWork {
  enum class Kind {
    product,           ///< (rows, depth) x (depth, columns)
    attention,         ///< causal, of one sequence: `rows` long, as below
    attentionBackward, ///< of the same
    convolution,       ///< of `rows` images, as below
    add,               ///< of `elements` each: reads two, writes one
    copy,              ///< within the device: reads one, writes one
    upload,            ///< from pinned memory of the host
    download,
    hostCopy, ///< of the host's memory, by the host, which waits for nothing
    transfer  ///< `elements` are bytes of the whole tensors
  };
  Kind kind;
  plan::DType dtype = plan::DType::f32;
  bool isTransposed = false; ///< the first operand's columns lie together
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t elements = 0;
  bool isCold = true; ///< operands come from memory, not from a cache
  CollectiveKind collective = CollectiveKind::all_gather; ///< of a transfer
};

/// Of attention: heads and their width. Of convolutions: channels in and out,
/// the images' sides and the kernel's.
inline constexpr int64_t kBenchHeads = 16, kBenchWidth = 128;
inline constexpr int64_t kBenchChannels = 256, kBenchSide = 56,
                         kBenchKernel = 3;

/// Used by one thread. Throws fsdp::Error.
class Bench {
public:
  virtual ~Bench() = default;

  virtual BenchFacts facts() = 0;
  /// GPUs that are measured together, of which this is `rank`.
  virtual int ranks() const = 0;
  virtual int rank() const = 0;
  /// The mean of all ranks' numbers; the same on all of them.
  virtual double average(double own) = 0;

  /// Each call puts the work on the stream once; memory is there when this
  /// returns, until the function ends. Transfers are collective.
  virtual std::function<void()> prepare(const BenchWork &work) = 0;
  /// Each call: a start of a transfer, `count` times `beside`, and the wait.
  virtual std::function<void()> prepareBeside(const BenchWork &transfer,
                                              const BenchWork &beside,
                                              int count) = 0;

  /// From here on the stream's time is measured;
  virtual void begin() = 0;
  /// up to here: seconds between both on the device, for which the host waits.
  virtual double end() = 0;
  /// The host's clock, in seconds.
  virtual double now() = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_BENCH_H
