//===- Types.cpp - Types and constants in the artifact's terms ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/Types.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

std::optional<plan::DType> fsdp::toDType(Type type) {
  Builder builder(type.getContext());
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  if (type == MLIR)                                                            \
    return plan::DType::ENUMERATOR;
#include "support/ElementTypes.def"
  return std::nullopt;
}

Type fsdp::toType(plan::DType dtype, MLIRContext *context) {
  Builder builder(context);
  switch (dtype) {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  case plan::DType::ENUMERATOR:                                                \
    return MLIR;
#include "support/ElementTypes.def"
  }
  llvm_unreachable("all types of an artifact have a counterpart");
}

/// Appends the low bytes of `bits`, lowest first; a bool takes a whole byte.
static void append(const APInt &bits, std::vector<uint8_t> &bytes) {
  unsigned width = (bits.getBitWidth() + 7) / 8;
  for (unsigned i = 0; i < width; ++i)
    bytes.push_back(bits.extractBitsAsZExtValue(
        std::min(8u, bits.getBitWidth() - 8 * i), 8 * i));
}

std::optional<std::vector<uint8_t>> fsdp::toBytes(ElementsAttr elements) {
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  if (!dense)
    return std::nullopt;
  std::vector<uint8_t> bytes;
  Type type = dense.getElementType();
  if (isa<FloatType>(type)) {
    for (const APFloat &value : dense.getValues<APFloat>())
      append(value.bitcastToAPInt(), bytes);
  } else if (isa<IntegerType>(type)) {
    for (const APInt &value : dense.getValues<APInt>())
      append(value, bytes);
  } else if (auto complex = dyn_cast<ComplexType>(type);
             complex && isa<FloatType>(complex.getElementType())) {
    for (const std::complex<APFloat> &value :
         dense.getValues<std::complex<APFloat>>()) {
      append(value.real().bitcastToAPInt(), bytes);
      append(value.imag().bitcastToAPInt(), bytes);
    }
  } else {
    return std::nullopt;
  }
  return bytes;
}

std::optional<std::vector<uint8_t>> fsdp::toBytes(Attribute number, Type type) {
  if (auto elements = dyn_cast<ElementsAttr>(number)) {
    if (elements.getNumElements() != 1 || elements.getElementType() != type)
      return std::nullopt;
    return toBytes(elements);
  }
  std::vector<uint8_t> bytes;
  if (auto floating = dyn_cast<FloatType>(type)) {
    APFloat value(0.0);
    if (auto attr = dyn_cast<FloatAttr>(number))
      value = attr.getValue();
    else if (auto attr = dyn_cast<IntegerAttr>(number))
      value = APFloat(static_cast<double>(attr.getInt()));
    else
      return std::nullopt;
    bool lossy;
    value.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &lossy);
    append(value.bitcastToAPInt(), bytes);
    return bytes;
  }
  auto integer = dyn_cast<IntegerType>(type);
  auto attr = dyn_cast<IntegerAttr>(number);
  if (!integer || !attr)
    return std::nullopt;
  append(attr.getValue().sextOrTrunc(integer.getWidth()), bytes);
  return bytes;
}
