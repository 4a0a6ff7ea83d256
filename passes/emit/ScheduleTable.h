//===- ScheduleTable.h - When each bucket moves, and why --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_SCHEDULETABLE_H
#define FSDP_PASSES_EMIT_SCHEDULETABLE_H

#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "plan/Traffic.h"

#include <string>
#include <vector>

namespace fsdp {

/// One transfer of a scheduled program. Places are the module and operator of
/// the computation that stands there.
struct TransferRow {
  explicit TransferRow(mlir::Location place) : place(place) {}

  std::string bucket;
  std::string kind;          ///< gather, regather, reduce, replicate, metrics
  std::string phase;         ///< forward, backward, optimizer
  int64_t bytes = 0;         ///< of the whole tensors, on the network's side
  std::string start;         ///< behind which computation; "the begin"
  std::string wait;          ///< in front of which computation
  int64_t beside = 0;        ///< computations between both
  std::string besideModules; ///< whose they are
  std::string free; ///< behind which computation; empty: nothing is freed
  std::string why;  ///< why it starts there
  /// Of the model's line that a gather is for, or that a reduction is of.
  mlir::Location place;
};

/// Bytes that a start moves, as plan/Traffic.h counts them.
int64_t getTraffic(StartOpInterface start);

/// The transfers of `program`, in the order in which they start.
std::vector<TransferRow> listTransfers(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_SCHEDULETABLE_H
