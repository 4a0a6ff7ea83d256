//===- DataDependence.h - Results that depend on values ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_DATADEPENDENCE_H
#define FSDP_IR_CAPTURE_JOINT_DATADEPENDENCE_H

#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace fsdp::capture {

/// Whether `op` makes numbers, or sizes of its results, of its operands' values
/// whatever its arguments are. LibTorch tags operators that may do so.
bool alwaysDependsOnData(const c10::OperatorHandle &op);

/// The same for these arguments, all that the schema has.
bool dependsOnData(const c10::OperatorHandle &op,
                   const std::vector<c10::IValue> &arguments);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_DATADEPENDENCE_H
