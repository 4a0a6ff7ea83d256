//===- IssuingThread.h - A thread that calls for another --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_EXEC_ISSUINGTHREAD_H
#define FSDP_RUNTIME_EXEC_ISSUINGTHREAD_H

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace fsdp {

/// For calls that need a thread which libraries know nothing of yet.
class IssuingThread {
public:
  IssuingThread();
  ~IssuingThread();
  IssuingThread(const IssuingThread &) = delete;
  IssuingThread &operator=(const IssuingThread &) = delete;

  /// Calls `work` on the thread, and returns or throws as it does.
  void call(const std::function<void()> &work);

private:
  void serve();

  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void()> *next = nullptr; ///< under way
  std::exception_ptr error;
  bool isOver = false;
  std::thread thread;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_ISSUINGTHREAD_H
