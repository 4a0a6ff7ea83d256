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

std::optional<std::vector<uint8_t>> fsdp::toBytes(Attribute value) {
  std::vector<uint8_t> bytes;
  if (auto number = dyn_cast<FloatAttr>(value)) {
    append(number.getValue().bitcastToAPInt(), bytes);
    return bytes;
  }
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    append(number.getValue(), bytes);
    return bytes;
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return std::nullopt;
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
