//===- Layout.cpp - Where the elements of a tensor lie --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Layout.h"

#include "ir/aten/Aten.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

SmallVector<int64_t> aten::getContiguousStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

bool aten::isContiguous(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  if (llvm::is_contained(shape, 0))
    return true;
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1)
      continue;
    if (strides[i] != expected)
      return false;
    expected *= shape[i];
  }
  return true;
}

/// Strides of a batch of images or volumes whose channels lie side by side.
static SmallVector<int64_t> getChannelsLastStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  int64_t next = shape[1];
  for (size_t i = shape.size(); i-- > 2; next *= shape[i])
    strides[i] = next;
  strides[0] = next;
  return strides;
}

/// Whether kernels take it for such a batch: they read the format from all
/// strides, those of dims of size 1, too (LibTorch, MemoryFormat.h,
/// is_channels_last_strides).
static bool isTakenForChannelsLast(ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> strides) {
  SmallVector<size_t> dims = {1};
  for (size_t i = shape.size(); i-- > 2;)
    dims.push_back(i);
  dims.push_back(0);
  int64_t least = 0;
  for (size_t i : dims) {
    if (shape[i] == 0 || strides[i] < least || (i == 0 && least == strides[1]))
      return false;
    least = strides[i] * std::max<int64_t>(shape[i], 1);
  }
  return true;
}

RankedTensorType aten::getTensorType(ArrayRef<int64_t> shape,
                                     ArrayRef<int64_t> strides,
                                     Type elementType) {
  if (isContiguous(shape, strides))
    return RankedTensorType::get(shape, elementType);
  auto make = [&](ArrayRef<int64_t> all) {
    return RankedTensorType::get(
        shape, elementType, StridesAttr::get(elementType.getContext(), all));
  };
  // The stride of a dim of size 1 is never used: derive it from the next dim,
  // unless kernels would take the tensor for one in another format.
  SmallVector<int64_t> normal(strides);
  for (size_t i = shape.size(); i-- > 0;)
    if (shape[i] == 1)
      normal[i] = i + 1 < shape.size() ? normal[i + 1] * shape[i + 1] : 1;
  if (shape.size() != 4 && shape.size() != 5)
    return make(normal);
  bool isLast = isTakenForChannelsLast(shape, strides);
  SmallVector<int64_t> last = getChannelsLastStrides(shape);
  if (isLast &&
      llvm::all_of(llvm::zip_equal(shape, strides, last), [](auto dim) {
        return std::get<0>(dim) == 1 || std::get<1>(dim) == std::get<2>(dim);
      }))
    return make(last);
  return make(isTakenForChannelsLast(shape, normal) == isLast
                  ? ArrayRef<int64_t>(normal)
                  : strides);
}

SmallVector<int64_t> aten::getStrides(RankedTensorType type) {
  if (auto strides = dyn_cast_or_null<StridesAttr>(type.getEncoding()))
    return SmallVector<int64_t>(strides.getStrides());
  return getContiguousStrides(type.getShape());
}

bool aten::isContiguous(RankedTensorType type) {
  return !isa_and_nonnull<StridesAttr>(type.getEncoding());
}

int64_t aten::getElementBytes(Type elementType) {
  if (auto complex = dyn_cast<ComplexType>(elementType))
    return 2 * getElementBytes(complex.getElementType());
  return llvm::divideCeil(elementType.getIntOrFloatBitWidth(), 8);
}

int64_t aten::getStorageBytes(RankedTensorType type) {
  if (llvm::is_contained(type.getShape(), 0))
    return 0;
  int64_t last = 0;
  for (auto [size, stride] : llvm::zip(type.getShape(), getStrides(type)))
    last += (size - 1) * stride;
  return (last + 1) * getElementBytes(type.getElementType());
}
