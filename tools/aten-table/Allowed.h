//===- Allowed.h - What artifacts may call ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_ATENTABLE_ALLOWED_H
#define FSDP_TOOLS_ATENTABLE_ALLOWED_H

#include <ATen/core/dispatch/Dispatcher.h>

namespace fsdp {

/// Whether the operator computes tensors from tensors and plain arguments and
/// does nothing else: it neither reads nor writes files, changes none of its
/// arguments' storages, and neither takes nor gives what no planned tensor can
/// be, such as storages, streams, sparse, nested and packed tensors.
bool mayBeCalledByArtifacts(const c10::OperatorHandle &op);

} // namespace fsdp

#endif // FSDP_TOOLS_ATENTABLE_ALLOWED_H
