//===- MomentStorage.h - What is kept of a parameter, in which form -*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moments that are codes lie in blocks of the model's tensor, however it is cut
// (docs/Rationale/States.md).
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_SHARD_MOMENTSTORAGE_H
#define FSDP_PASSES_SHARD_MOMENTSTORAGE_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// The scales of one moment of a state.
struct ScaleLayout {
  /// Of a split's part, as the state's own type: dims that cuts leave whole,
  /// then blocks.
  mlir::RankedTensorType type;
  SplitAttr split;       ///< null: not cut so
  ShardingAttr sharding; ///< the same
  /// Ranks hold parts of one block: each has all scales of the model's tensor.
  bool isShared = false;
};

/// How the moments of one parameter are stored.
struct MomentStorage {
  mlir::Type element;
  /// Of codes alone; of a flat state none, its members have them.
  std::optional<ScaleLayout> scales;
  bool isCoded = false;
  llvm::StringRef suffix; ///< of the moments' names

  bool isShared() const { return scales && scales->isShared; }
};

/// Whether moments of a parameter, which is not flat, are codes.
bool isCoded(StateOp param, StateDType dtype);

/// Those of a parameter that is not flat and coded. `ignoresShards`: as if it
/// were split alone, as members of flat states are.
ScaleLayout getScaleLayout(StateOp param, bool ignoresShards = false);

/// Of a parameter, which may be flat with `members`. Says why not where it
/// fails.
mlir::FailureOr<MomentStorage> getMomentStorage(StateOp param,
                                                llvm::ArrayRef<StateOp> members,
                                                StateDType dtype);

} // namespace fsdp

#endif // FSDP_PASSES_SHARD_MOMENTSTORAGE_H
