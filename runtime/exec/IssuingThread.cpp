//===- IssuingThread.cpp - A thread that calls for another ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/IssuingThread.h"

#include <ATen/Parallel.h>

#include <utility>

using namespace fsdp;

IssuingThread::IssuingThread() {
  // LibTorch's pool is each thread's own.
  thread = std::thread([this, threads = at::get_num_threads()] {
    at::set_num_threads(threads);
    serve();
  });
}

IssuingThread::~IssuingThread() {
  {
    std::lock_guard lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  thread.join();
}

void IssuingThread::call(const std::function<void()> &work) {
  std::unique_lock lock(mutex);
  next = &work;
  changed.notify_all();
  changed.wait(lock, [&] { return !next; });
  if (std::exception_ptr thrown = std::exchange(error, nullptr))
    std::rethrow_exception(thrown);
}

void IssuingThread::serve() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return next || isOver; });
    if (!next)
      return;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      (*next)();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    error = thrown;
    next = nullptr;
    changed.notify_all();
  }
}
