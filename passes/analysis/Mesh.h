//===- Mesh.h - Axes of ranks, and groups of them ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_ANALYSIS_MESH_H
#define FSDP_PASSES_ANALYSIS_MESH_H

#include "ir/fsdp/Fsdp.h"

namespace fsdp {

/// Names of the mesh axes: parameters are cut along the one, replicas of the
/// shards stand along the other, and along the third what computes a step of
/// one batch together.
inline constexpr llvm::StringLiteral kShardAxis = "shard";
inline constexpr llvm::StringLiteral kReplicateAxis = "replicate";
inline constexpr llvm::StringLiteral kTensorAxis = "tp";
/// No axis of the mesh, but adjacent parts of 'shard'.
inline constexpr llvm::StringLiteral kContextAxis = "cp";

/// The mesh of a sharded module: an axis 'shard', in front of it one
/// 'replicate' if there is more than one replica, and behind it one 'tp' if
/// more than one rank computes a step of one batch. Emits an error if there is
/// no such mesh.
mlir::FailureOr<MeshAttr> getDataMesh(mlir::ModuleOp module);
/// Ranks that a parameter is cut over.
int64_t getShardSize(MeshAttr mesh);
/// Ranks that hold parts of what one rank has of a parameter's shard.
int64_t getTensorSize(MeshAttr mesh);
/// All ranks whose gradients are added up: those of 'replicate' and 'shard', as
/// far apart as what stands behind these is large. Called as the only axis with
/// more than one of them, else "world" if all ranks do, else "data".
GroupAttr getDataGroup(MeshAttr mesh);

/// Those that compute a step of one batch together, of which `told` says how
/// many: adjacent ranks that have parts of parameters.
GroupAttr getTensorGroup(ParallelAttr told);
/// Those that compute parts of the sequences of one batch, with whole
/// parameters each but for `tp`: as far apart as that is large.
GroupAttr getContextGroup(ParallelAttr told);

} // namespace fsdp

#endif // FSDP_PASSES_ANALYSIS_MESH_H
