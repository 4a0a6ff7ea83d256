//===- Matchers.cpp - Operators that passes look for ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Matchers.h"

#include "ir/aten/Aten.h"

using namespace mlir;
using namespace fsdp;

static bool isCalled(Operation *op, StringRef name) {
  return op && op->getName().getStringRef() == name;
}

bool aten::isCast(Operation *op) { return isCalled(op, "aten._to_copy"); }

bool aten::isPlainCast(Operation *op) {
  if (!isCast(op))
    return false;
  auto arguments =
      dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute());
  return arguments && arguments.size() == 1 && arguments.get("dtype");
}

bool aten::isClone(Operation *op) { return isCalled(op, "aten.clone"); }

bool aten::isAddedProduct(Operation *op) { return isCalled(op, "aten.addmm"); }

bool aten::isMask(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isInteger(1) || element.isUnsignedInteger(8);
}

std::optional<double> aten::getNumber(Attribute value) {
  if (auto number = dyn_cast_or_null<FloatAttr>(value))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_or_null<IntegerAttr>(value);
      number && !isa<BoolAttr>(value))
    return static_cast<double>(number.getInt());
  return std::nullopt;
}

std::optional<double> aten::getStaticNumber(Operation *op, StringRef name) {
  return getNumber(getStaticArgument(op, name));
}

bool aten::isNorm(Operation *op) {
  return isCalled(op, "aten._foreach_norm.Scalar") ||
         isCalled(op, "aten.linalg_vector_norm");
}

std::optional<aten::Slice> aten::matchSlice(Operation *op) {
  if (!isCalled(op, "aten.slice.Tensor"))
    return std::nullopt;
  auto get = [&](StringRef name) -> std::optional<int64_t> {
    auto value = dyn_cast_or_null<IntegerAttr>(getStaticArgument(op, name));
    return value ? std::optional(value.getInt()) : std::nullopt;
  };
  return Slice{get("dim").value_or(0), get("start").value_or(0),
               get("step").value_or(1), get("end")};
}

std::optional<llvm::SmallVector<int64_t>> aten::matchPermute(Operation *op) {
  if (!isCalled(op, "aten.permute"))
    return std::nullopt;
  auto dims = cast<ArrayAttr>(getStaticArgument(op, "dims"));
  return llvm::map_to_vector(
      dims.getAsRange<IntegerAttr>(), [&](IntegerAttr dim) {
        return dim.getInt() < 0 ? dim.getInt() + int64_t(dims.size())
                                : dim.getInt();
      });
}
