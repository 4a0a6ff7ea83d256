//===- MeasuredTimes.h - What a profile says of kernels ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SIMULATE_MEASUREDTIMES_H
#define FSDP_SIMULATE_MEASUREDTIMES_H

#include "plan/Activities.h"

#include <map>
#include <optional>
#include <string>

namespace fsdp {

/// Seconds of a transfer: of the thread that computes, before and after it
/// moves, and of the move.
struct MeasuredTransfer {
  double start = 0, seconds = 0, finish = 0;
};

/// What a run of this plan or one like it took, from the trace of
/// `fsdp-run --profile`: kernels by name and operands, transfers by kind, bytes
/// and ranks. Of a GPU, which lists what it does, a kernel's time is that in
/// which it ran, and a transfer's that in which it moved; its start and its
/// wait take nothing of the stream that computes.
class MeasuredTimes {
public:
  /// Of all ranks and steps the median of each kernel and start; of a move and
  /// of what its wait does the shortest, since the others waited for late ranks
  /// or were done long before anybody looked. Throws fsdp::Error
  /// (ProfileInvalid, FileNotReadable, NotARegularFile) if the file is no such
  /// trace.
  static MeasuredTimes read(const std::string &path);

  /// That it was measured on, as plans name it: "cuda:sm_90"; empty: a host.
  const std::string &device() const { return measuredOn; }

  /// Empty: the profile has no such kernel, or transfer.
  std::optional<double> kernel(const Activity &activity) const;
  std::optional<MeasuredTransfer> transfer(const Activity &activity) const;

private:
  std::string measuredOn;
  std::map<std::string, double> kernels;
  std::map<std::string, MeasuredTransfer> transfers;
};

} // namespace fsdp

#endif // FSDP_SIMULATE_MEASUREDTIMES_H
