//===- Profile.h - What was measured of a plan ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads what `fsdp-run --profile` wrote (docs/Profile.md), in the terms of a
// prediction: by instruction of the plan.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SIMULATE_PROFILE_H
#define FSDP_SIMULATE_PROFILE_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// An instruction that is no start and no wait.
struct ProfiledKernel {
  uint32_t instruction;
  double seconds;    ///< median of all runs
  double begin, end; ///< in the run that is shown
};

struct ProfiledTransfer {
  uint32_t start, wait; ///< instructions
  double starting;      ///< median of what the start takes of the rank's thread
  double flight;        ///< median from the start's begin to the wait's end
  double exposed;       ///< median of the wait
  /// In the run that is shown. The program sees an end only when it waits, so
  /// the transfer may have been done before.
  double begin, started, end, asked; ///< started: the start is over
};

/// One program of the plan. All runs of all ranks count alike in medians; shown
/// is the one whose length is the median, so that its parts belong together.
/// Seconds, from the begin of the run where they are moments.
struct ProfiledProgram {
  uint32_t program; ///< of the plan
  size_t runs = 0;  ///< of all ranks and steps
  double seconds = 0;
  double inputs = 0; ///< bringing in rows, in the run that is shown
  uint32_t rank = 0; ///< whose run is shown
  int64_t step = 0;  ///< in which that was
  std::vector<ProfiledKernel> kernels;     ///< in the order of the plan
  std::vector<ProfiledTransfer> transfers; ///< in the order of their starts

  /// Null: nothing was measured of it.
  const ProfiledKernel *findKernel(uint32_t instruction) const;
  const ProfiledTransfer *findTransfer(uint32_t start) const;
};

struct Profile {
  size_t ranks = 0, steps = 0;
  double seconds = 0; ///< median of a rank's steps
  std::vector<ProfiledProgram>
      programs; ///< in the plan's order, those that ran

  /// Null: it did not run.
  const ProfiledProgram *findProgram(uint32_t program) const;

  /// `text` is the profile's JSON; errors name `file`. `plan` was verified.
  /// Throws fsdp::Error: ProfileInvalid, FileImplausible.
  static Profile parse(std::string_view text, const std::string &file,
                       const plan::PlanT &plan);
  /// Throws as `parse`, and FileNotReadable, NotARegularFile.
  static Profile read(const std::string &path, const plan::PlanT &plan);
};

} // namespace fsdp

#endif // FSDP_SIMULATE_PROFILE_H
