//===- Spaces.cpp - Rows and columns of a group's values ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/kernels/Spaces.h"

using namespace mlir;
using namespace fsdp;

/// With dims of size 1 in front.
static KernelShape align(ArrayRef<int64_t> shape, size_t rank) {
  KernelShape aligned(rank - shape.size(), 1);
  llvm::append_range(aligned, shape);
  return aligned;
}

static bool isOnes(ArrayRef<int64_t> shape) {
  return llvm::all_of(shape, [](int64_t size) { return size == 1; });
}

KernelFit fsdp::findFit(ArrayRef<int64_t> shape, ArrayRef<int64_t> frame,
                        int64_t rows) {
  if (shape.size() > frame.size())
    return KernelFit::Other;
  KernelShape aligned = align(shape, frame.size());
  ArrayRef<int64_t> all = aligned;
  if (all == frame)
    return KernelFit::Same;
  if (isOnes(all))
    return KernelFit::Single;
  int64_t outside = 1;
  for (size_t i = 0; i <= frame.size(); ++i) {
    if (outside == rows) {
      if (all.take_front(i) == frame.take_front(i) && isOnes(all.drop_front(i)))
        return KernelFit::Row;
      if (all.drop_front(i) == frame.drop_front(i) && isOnes(all.take_front(i)))
        return KernelFit::Column;
    }
    if (i < frame.size())
      outside *= frame[i];
  }
  return KernelFit::Other;
}

/// The rows that a broadcast has between what is one for each row, or for each
/// column; nothing if it asks for none.
static std::optional<int64_t> findBroadcastRows(ArrayRef<int64_t> shape,
                                                ArrayRef<int64_t> frame) {
  int64_t rows = 1;
  for (size_t i = 0; i <= frame.size(); ++i) {
    KernelFit fit = findFit(shape, frame, rows);
    if (fit == KernelFit::Row || fit == KernelFit::Column)
      return rows;
    if (i < frame.size())
      rows *= frame[i];
  }
  return std::nullopt;
}

SmallVector<int64_t> fsdp::listRows(MutableArrayRef<KernelMember> members,
                                    const KernelMakers &makers) {
  SmallVector<int64_t> rows;
  for (KernelMember &member : members) {
    const KernelFrame &frame = member.frame;
    if (frame.columns != 0)
      rows.push_back(countElements(frame.shape) / frame.columns);
    for (auto [operand, shape] :
         llvm::zip_equal(member.op->getOperands(), frame.operands))
      if (makers.contains(operand))
        if (std::optional<int64_t> found =
                findBroadcastRows(shapeOf(operand), shape))
          rows.push_back(*found);
  }
  llvm::sort(rows, std::greater<>());
  rows.erase(llvm::unique(rows), rows.end());
  return rows;
}

/// Whether a member cannot have so many rows.
static bool isTooSmall(const KernelMember &member, int64_t rows) {
  const KernelFrame &frame = member.frame;
  auto isUneven = [&](ArrayRef<int64_t> shape) {
    return countElements(shape) % rows != 0;
  };
  for (const KernelShape &shape : frame.operands)
    if (isUneven(shape))
      return true;
  for (auto [result, isRowSum] :
       llvm::zip_equal(member.op->getResults(), frame.isRowSum))
    if (!isRowSum && isa<RankedTensorType>(result.getType()) &&
        isUneven(shapeOf(result)))
      return true;
  return isUneven(frame.shape) ||
         (frame.columns != 0 && countElements(frame.shape) == frame.columns);
}

LogicalResult fsdp::assignRows(MutableArrayRef<KernelMember> members,
                               const KernelMakers &makers, int64_t rows) {
  for (KernelMember &member : members)
    member.isOneRow = rows > 1 && isTooSmall(member, rows);
  auto visit = [&](KernelMember &member) {
    bool changes = false;
    auto mark = [&](KernelMember &other) {
      changes |= !other.isOneRow;
      other.isOneRow = true;
    };
    for (auto [operand, shape] :
         llvm::zip_equal(member.op->getOperands(), member.frame.operands)) {
      KernelMember *maker = makers.lookup(operand);
      if (!maker)
        continue;
      KernelFit fit =
          findFit(shapeOf(operand), shape, member.isOneRow ? 1 : rows);
      if (member.isOneRow || fit == KernelFit::Column ||
          fit == KernelFit::Single)
        mark(*maker);
      else if (fit == KernelFit::Same && maker->isOneRow)
        mark(member);
    }
    return changes;
  };
  if (rows > 1)
    for (bool changes = true; changes;) {
      changes = false;
      for (KernelMember &member : members)
        changes |= visit(member);
    }
  for (const KernelMember &member : members) {
    int64_t own = member.isOneRow ? 1 : rows;
    int64_t elements = countElements(member.frame.shape);
    if (member.frame.columns != 0 && elements / member.frame.columns != own)
      return failure();
  }
  return success();
}
