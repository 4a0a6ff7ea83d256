//===- Abort.cpp - End a communicator's kernels ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/Abort.h"

#include <memory>
#include <system_error>
#include <thread>

using namespace fsdp;

void NcclAbort::begin(const NcclLibrary &nccl, nccl::Comm comm) {
  auto task = std::make_shared<std::packaged_task<void()>>(
      [abort = nccl.CommAbort, comm] { (void)abort(comm); });
  through = task->get_future();
  // Not joined: work that never ends would hold up whoever waits for it.
  try {
    std::thread([task] { (*task)(); }).detach();
  } catch (const std::system_error &) {
    (*task)();
  }
}

bool NcclAbort::wait(std::chrono::milliseconds time) noexcept {
  return !through.valid() ||
         through.wait_for(time) == std::future_status::ready;
}
