//===- Mesh.cpp - Axes of ranks, and groups of them -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Mesh.h"

using namespace mlir;
using namespace fsdp;

FailureOr<MeshAttr> fsdp::getDataMesh(ModuleOp module) {
  auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr);
  if (!mesh)
    return module.emitError(
        "expects a sharded program; run fsdp-shard-parameters first");
  ArrayRef<StringAttr> names = mesh.getNames();
  if (!names.empty() && names.front() == kReplicateAxis)
    names = names.drop_front();
  bool hasShard = !names.empty() && names.front() == kShardAxis;
  if (!hasShard || names.size() > 2 ||
      (names.size() == 2 && names.back() != kTensorAxis))
    return module.emitError("expects a mesh with the axis 'shard', or with "
                            "'replicate' and 'shard', found ")
           << mesh << "; 'tp' alone may stand behind them";
  return mesh;
}

int64_t fsdp::getShardSize(MeshAttr mesh) {
  return mesh.getGroup(kShardAxis).getSize();
}

int64_t fsdp::getTensorSize(MeshAttr mesh) {
  GroupAttr group = mesh.getGroup(kTensorAxis);
  return group ? group.getSize() : 1;
}

GroupAttr fsdp::getDataGroup(MeshAttr mesh) {
  int64_t stride = getTensorSize(mesh);
  if (stride == 1)
    return mesh.getWorldGroup();
  int64_t size = mesh.getWorldSize() / stride;
  for (StringRef axis : {kShardAxis, kReplicateAxis})
    if (GroupAttr group = mesh.getGroup(axis); group && group.getSize() == size)
      return group;
  MLIRContext *context = mesh.getContext();
  return GroupAttr::get(context, StringAttr::get(context, "data"), size,
                        stride);
}

GroupAttr fsdp::getTensorGroup(ParallelAttr told) {
  MLIRContext *context = told.getContext();
  return GroupAttr::get(context, StringAttr::get(context, kTensorAxis),
                        told.getTp(), 1);
}

GroupAttr fsdp::getContextGroup(ParallelAttr told) {
  MLIRContext *context = told.getContext();
  return GroupAttr::get(context, StringAttr::get(context, kContextAxis),
                        told.getCp(), told.getTp());
}
