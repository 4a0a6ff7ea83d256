//===- Workers.cpp - The threads that help a rank -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/Workers.h"

// What compilers make of `#pragma omp parallel` for the OpenMP library that
// LibTorch brings: Clang knows only its own library, whose threads would be
// others than LibTorch's.
extern "C" {
void GOMP_parallel(void (*function)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num(void);
}

void fsdp::forEachWorker(int threads, const std::function<void()> &visit) {
  if (threads <= 1)
    return;
  auto visitUnlessFirst = [](void *data) {
    if (omp_get_thread_num() != 0)
      (*static_cast<const std::function<void()> *>(data))();
  };
  GOMP_parallel(visitUnlessFirst, const_cast<std::function<void()> *>(&visit),
                unsigned(threads), 0);
}
