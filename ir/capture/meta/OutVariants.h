//===- OutVariants.h - Overloads that write to their results ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_META_OUTVARIANTS_H
#define FSDP_IR_CAPTURE_META_OUTVARIANTS_H

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace fsdp::meta {

/// The functional overload that has the results of the overload `out`, which
/// writes to them; none unless `out` is in OutVariants.cpp's table.
std::optional<c10::OperatorHandle> getFunctional(const c10::OperatorName &out);

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_OUTVARIANTS_H
