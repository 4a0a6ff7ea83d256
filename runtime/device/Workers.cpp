//===- Workers.cpp - The threads that help a rank -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled for OpenMP, as LibTorch is and nothing else here.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Workers.h"

#include <omp.h>

void fsdp::forEachWorker(int threads, const std::function<void()> &visit) {
  if (threads <= 1)
    return;
#pragma omp parallel num_threads(threads)
  {
    if (omp_get_thread_num() != 0)
      visit();
  }
}
