//===- OpIds.h - Type ids of the ops of the aten dialect --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_ATEN_OP_IDS_H
#define FSDP_IR_ATEN_OP_IDS_H

#include "mlir/Support/TypeID.h"

#include <optional>

namespace fsdp::aten {

/// The id of the op at `index` of the table; one per process, for all contexts.
mlir::TypeID getOpId(size_t index);

/// The index of the op with that id, if it is one of the table's.
std::optional<size_t> getOpIndex(mlir::TypeID id);

} // namespace fsdp::aten

#endif // FSDP_IR_ATEN_OP_IDS_H
