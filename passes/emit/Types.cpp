//===- Types.cpp - Types and constants in the artifact's terms ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/emit/Types.h"

using namespace mlir;
using namespace fsdp;

std::optional<plan::DType> fsdp::toDType(Type type) {
  using plan::DType;
  if (type.isF32())
    return DType::f32;
  if (type.isF64())
    return DType::f64;
  if (type.isF16())
    return DType::f16;
  if (type.isBF16())
    return DType::bf16;
  if (isa<Float8E4M3FNType>(type))
    return DType::f8e4m3fn;
  if (isa<Float8E5M2Type>(type))
    return DType::f8e5m2;
  if (auto complex = dyn_cast<ComplexType>(type)) {
    if (complex.getElementType().isF32())
      return DType::c64;
    if (complex.getElementType().isF64())
      return DType::c128;
    return std::nullopt;
  }
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return std::nullopt;
  bool isUnsigned = integer.isUnsigned();
  switch (integer.getWidth()) {
  case 1:
    return DType::bool_;
  case 8:
    return isUnsigned ? DType::u8 : DType::i8;
  case 16:
    return isUnsigned ? DType::u16 : DType::i16;
  case 32:
    return isUnsigned ? DType::u32 : DType::i32;
  case 64:
    return isUnsigned ? DType::u64 : DType::i64;
  default:
    return std::nullopt;
  }
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
