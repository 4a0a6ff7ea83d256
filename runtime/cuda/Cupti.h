//===- Cupti.h - A GPU's activities, by CUPTI -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUPTI comes with LibTorch's wheels and is loaded when it is asked for. Its
// functions are behind a table, so that another one can stand for it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CUDA_CUPTI_H
#define FSDP_RUNTIME_CUDA_CUPTI_H

#include "runtime/profile/DeviceActivities.h"

#include <functional>
#include <memory>

#include <cupti.h>

namespace fsdp {

/// The functions that are used, by CUPTI's names.
struct CuptiFunctions {
  decltype(&cuptiGetVersion) GetVersion;
  decltype(&cuptiGetResultString) GetResultString;
  decltype(&cuptiActivityRegisterTimestampCallback)
      ActivityRegisterTimestampCallback;
  decltype(&cuptiActivityRegisterCallbacks) ActivityRegisterCallbacks;
  decltype(&cuptiActivityEnable) ActivityEnable;
  decltype(&cuptiActivityDisable) ActivityDisable;
  decltype(&cuptiActivityFlushAll) ActivityFlushAll;
  decltype(&cuptiActivityGetNextRecord) ActivityGetNextRecord;
  decltype(&cuptiActivityGetNumDroppedRecords) ActivityGetNumDroppedRecords;
  decltype(&cuptiActivityPushExternalCorrelationId)
      ActivityPushExternalCorrelationId;
  decltype(&cuptiActivityPopExternalCorrelationId)
      ActivityPopExternalCorrelationId;
};

/// The process's CUPTI. Throws fsdp::Error (RuntimeUnsupported) where it is
/// missing, or lacks a function.
const CuptiFunctions &loadCupti();

/// Activities of all devices of the process. CUPTI calls functions and no
/// objects: at most one lists at a time. `drain` waits for what is on the
/// devices.
std::unique_ptr<DeviceActivities>
makeCuptiActivities(const CuptiFunctions &cupti, std::function<void()> drain);

} // namespace fsdp

#endif // FSDP_RUNTIME_CUDA_CUPTI_H
