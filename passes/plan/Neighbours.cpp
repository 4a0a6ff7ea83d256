//===- Neighbours.cpp - To the rank behind, and to the one in front -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/plan/Neighbours.h"

using namespace mlir;
using namespace fsdp;

Neighbours::Future Neighbours::start(ArrayRef<Value> tensors, GroupAttr over) {
  MLIRContext *context = group.getContext();
  SmallVector<Type> types = llvm::map_to_vector(
      tensors, [](Value tensor) { return tensor.getType(); });
  return StartOp::create(
             ops.get(), ops.getLoc(), FutureType::get(context, types), tensors,
             Collective::Rotate, over, Purpose::Step, Stream::Replicate,
             StringAttr::get(context, over.getName().getValue()))
      .getFuture();
}

SmallVector<Value> Neighbours::await(Future future) {
  auto wait = WaitOp::create(ops.get(), ops.getLoc(),
                             future.getType().getTensors(), future);
  return llvm::to_vector(ValueRange(wait.getResults()));
}

GroupAttr Neighbours::getSubgroup(int64_t size, int64_t step) const {
  if (size == ranks)
    return group;
  std::string name = group.getName().getValue().str() + "_" +
                     std::to_string(size) + "x" + std::to_string(step);
  return GroupAttr::get(group.getContext(),
                        StringAttr::get(group.getContext(), name), size,
                        group.getStride() * step);
}

Neighbours::Future Neighbours::startBack(ArrayRef<Value> tensors, int64_t size,
                                         int64_t step) {
  return start(tensors, getSubgroup(size % 2 == 0 ? 2 : size, step));
}

SmallVector<Value> Neighbours::finishBack(Future future, int64_t size,
                                          int64_t step) {
  SmallVector<Value> came = await(future);
  if (size % 2 != 0) {
    for (int64_t turn = 2; turn < size; ++turn)
      came = await(start(came, getSubgroup(size, step)));
    return came;
  }
  if (size == 2)
    return came;
  SmallVector<Value> next =
      finishBack(startBack(came, size / 2, 2 * step), size / 2, 2 * step);
  for (auto [even, odd] : llvm::zip(came, next)) {
    int64_t rows = getTensor(even).getDimSize(dim);
    SmallVector<int64_t> starts;
    for (int64_t rank = 0; rank < ranks; ++rank)
      starts.push_back(rank / step % 2 == 0 ? 0 : rows);
    even = ops.selectRows(ops.cat({even, odd}, dim), dim, starts, rows, group);
  }
  return came;
}
