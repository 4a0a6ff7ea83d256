//===- RunSettings.h - What a run is told, in both forms --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The settings of the run as the module and as the artifact hold them. A config
// is read as the latter, which needs no MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_EMIT_RUN_SETTINGS_H
#define FSDP_PASSES_EMIT_RUN_SETTINGS_H

#include "ir/fsdp/Fsdp.h"
#include "plan/plan_generated.h"

#include <memory>

namespace fsdp {

ScheduleAttr toSetting(mlir::MLIRContext *context,
                       const plan::ScheduleT &schedule);
std::unique_ptr<plan::ScheduleT> fromSetting(ScheduleAttr schedule);

std::unique_ptr<plan::AveragesT> fromSetting(EmaAttr ema);

DataAttr toSetting(mlir::MLIRContext *context, const plan::DataT &data);
std::unique_ptr<plan::DataT> fromSetting(DataAttr data);

ValidationAttr toSetting(mlir::MLIRContext *context,
                         const plan::ValidationT &validation);
std::unique_ptr<plan::ValidationT> fromSetting(ValidationAttr validation);

ArithmeticAttr toSetting(mlir::MLIRContext *context,
                         const plan::ArithmeticT &arithmetic);
std::unique_ptr<plan::ArithmeticT> fromSetting(ArithmeticAttr arithmetic);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_RUN_SETTINGS_H
