//===- FakeCupti.h - CUPTI without a GPU ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What CUPTI's documentation says of the functions that are used, and no more:
// records come in whatever order, and only when they are complete; a call bears
// the mark of its thread if calls are listed; buffers are asked for and may be
// refused. A test fails where CUPTI is used in another order than it asks for.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_RUNTIME_CUDA_FAKECUPTI_H
#define FSDP_TEST_UNIT_RUNTIME_CUDA_FAKECUPTI_H

#include "runtime/cuda/Cupti.h"

#include <cstdint>
#include <set>

namespace fsdp::test {

/// One at a time.
class FakeCupti {
public:
  FakeCupti();
  ~FakeCupti();

  const CuptiFunctions &functions() const { return table; }
  bool isListing() const { return !enabled.empty(); }

  /// A call of this thread, at this time of the host, and the work that it puts
  /// on a device. Work without an end is not complete yet. Returns its number.
  uint32_t launch(CUpti_ActivityKind kind, uint64_t asked, uint64_t begin,
                  uint64_t end, bool byDriver = false);
  /// What the device does when the host waits for it.
  void complete(uint32_t call, uint64_t begin, uint64_t end);

  uint32_t version = CUPTI_API_VERSION;
  CUptiResult enabling = CUPTI_SUCCESS; ///< of all kinds
  size_t dropped = 0;                   ///< to be told once

private:
  friend struct FakeCuptiCalls;
  CuptiFunctions table;
  std::set<CUpti_ActivityKind> enabled;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CUDA_FAKECUPTI_H
