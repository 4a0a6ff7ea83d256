//===- Progress.h - What fsdp-opt is at -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_PROGRESS_H
#define FSDP_TOOLS_FSDPOPT_INPUT_PROGRESS_H

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace fsdp {

/// While it lives, a line on the terminal says what takes longer than a second:
/// " 12 s  plan 3: schedule, fsdp-recompute". Where stderr is no terminal it
/// says nothing. One at a time; the line is gone with it.
class Progress {
public:
  Progress();
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// What is done from now on, if there is one to say it.
  static void enter(std::string activity);
  /// The next of several plans begins.
  static void enterPlan();

private:
  void show(std::stop_token stop);

  std::mutex mutex;
  std::condition_variable_any ended;
  std::string activity; ///< guarded by `mutex`
  int plans = 0;        ///< guarded by `mutex`
  std::jthread thread;
};

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_PROGRESS_H
