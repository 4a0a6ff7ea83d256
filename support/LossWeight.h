//===- LossWeight.h - What a mean over labels is divided by -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_LOSSWEIGHT_H
#define FSDP_SUPPORT_LOSSWEIGHT_H

namespace fsdp {

/// The result of programs that is the share of labels that count in a batch,
/// by which its loss was multiplied: of means over ranks and batches, the one
/// of the loss over this one is the mean over labels.
inline constexpr const char *kLossWeight = "loss/weight";

} // namespace fsdp

#endif // FSDP_SUPPORT_LOSSWEIGHT_H
