//===- Attributes.cpp - Attributes and types of the fsdp dialect ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

#include "ir/fsdp/Enums.cpp.inc"

// `shard = 4, replicate = 2`
static ParseResult parseAxes(AsmParser &parser,
                             SmallVectorImpl<StringAttr> &names,
                             SmallVectorImpl<int64_t> &sizes) {
  return parser.parseCommaSeparatedList([&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    names.push_back(StringAttr::get(parser.getContext(), name));
    sizes.push_back(size);
    return success();
  });
}

static void printAxes(AsmPrinter &printer, ArrayRef<StringAttr> names,
                      ArrayRef<int64_t> sizes) {
  llvm::interleaveComma(llvm::zip(names, sizes), printer, [&](auto axis) {
    printer.printKeywordOrString(std::get<0>(axis).getValue());
    printer << " = " << std::get<1>(axis);
  });
}

// `(0.0, 2.0e-2)`, or nothing for no number.
static ParseResult parseNumbers(AsmParser &parser, DenseF64ArrayAttr &numbers) {
  SmallVector<double> values;
  if (parser.parseCommaSeparatedList(
          AsmParser::Delimiter::OptionalParen,
          [&]() { return parser.parseFloat(values.emplace_back()); }))
    return failure();
  numbers = DenseF64ArrayAttr::get(parser.getContext(), values);
  return success();
}

static void printNumbers(AsmPrinter &printer, DenseF64ArrayAttr numbers) {
  if (numbers.empty())
    return;
  printer << "(";
  llvm::interleaveComma(numbers.asArrayRef(), printer, [&](double number) {
    printer.printFloat(APFloat(number));
  });
  printer << ")";
}

#define GET_ATTRDEF_CLASSES
#include "ir/fsdp/Attributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/fsdp/Types.cpp.inc"

void FsdpDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/fsdp/Attributes.cpp.inc"
      >();
}

void FsdpDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/fsdp/Types.cpp.inc"
      >();
}

int64_t MeshAttr::getWorldSize() const {
  int64_t size = 1;
  for (int64_t axis : getSizes())
    size *= axis;
  return size;
}

GroupAttr MeshAttr::getGroup(StringRef name) const {
  int64_t stride = 1;
  for (size_t i = getNames().size(); i-- > 0;) {
    if (getNames()[i] == name)
      return GroupAttr::get(getContext(), getNames()[i], getSizes()[i], stride);
    stride *= getSizes()[i];
  }
  return {};
}

GroupAttr MeshAttr::getWorldGroup() const {
  for (auto [name, size] : llvm::zip(getNames(), getSizes()))
    if (size == getWorldSize())
      return getGroup(name.getValue());
  return GroupAttr::get(getContext(), StringAttr::get(getContext(), "world"),
                        getWorldSize(), /*stride=*/1);
}

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<StringAttr> names,
                               ArrayRef<int64_t> sizes) {
  llvm::SmallSet<StringRef, 4> seen;
  for (auto [name, size] : llvm::zip(names, sizes)) {
    if (size < 1)
      return emitError() << "expected a positive size of mesh axis '"
                         << name.getValue() << "', found " << size;
    if (!seen.insert(name.getValue()).second)
      return emitError() << "expected distinct mesh axes, found '"
                         << name.getValue() << "' twice";
  }
  return success();
}

LogicalResult GroupAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringAttr name, int64_t size, int64_t stride) {
  if (size >= 1 && stride >= 1)
    return success();
  return emitError() << "expected a positive size and stride of group '"
                     << name.getValue() << "', found " << size << " : "
                     << stride;
}

LogicalResult PartsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t blocks, bool) {
  if (blocks >= 1)
    return success();
  return emitError() << "expected at least one block, found " << blocks;
}

LogicalResult InitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               InitKind kind, DenseF64ArrayAttr arguments) {
  int64_t expected = 0;
  switch (kind) {
  case InitKind::Normal:
  case InitKind::Uniform:
    expected = 2;
    break;
  case InitKind::TruncNormal:
    expected = 4;
    break;
  case InitKind::Rope:
  case InitKind::Pissa:
    expected = 1;
    break;
  case InitKind::Eye:
  case InitKind::Loftq:
  case InitKind::Norms:
  case InitKind::Owner:
    break;
  }
  if (arguments.size() == expected)
    return success();
  return emitError() << "expected " << expected << " numbers for '"
                     << stringifyInitKind(kind) << "', found "
                     << arguments.size();
}

Attribute WeightAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> names;
  int64_t file = -1, offset = 0, bytes = 0;
  Type type;
  auto parseName = [&]() {
    return parser.parseAttribute(names.emplace_back());
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(parseName))
    return {};
  if (succeeded(parser.parseOptionalKeyword("in")))
    if (parser.parseInteger(file) || parser.parseKeyword("at") ||
        parser.parseInteger(offset) || parser.parseColon() ||
        parser.parseInteger(bytes) || parser.parseType(type))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<WeightAttr>(parser.getContext(), names, file, offset,
                                       bytes, type);
}

void WeightAttr::print(AsmPrinter &printer) const {
  printer << "<";
  llvm::interleaveComma(getNames(), printer);
  if (getFile() >= 0)
    printer << " in " << getFile() << " at " << getOffset() << " : "
            << getBytes() << " " << getType();
  printer << ">";
}

LogicalResult WeightAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<StringAttr> names, int64_t file,
                                 int64_t offset, int64_t bytes, Type type) {
  if (names.empty())
    return emitError() << "expected the name of a tensor";
  if (file < -1 || offset < 0 || bytes < 0 || (file >= 0) != bool(type))
    return emitError() << "expected a file, an offset, a size and an element "
                          "type of weight '"
                       << names.front().getValue() << "'";
  return success();
}

// `local, reduce bf16`
Attribute GradientRuleAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  bool isLocal = succeeded(parser.parseOptionalKeyword("local"));
  Type reduce;
  if (!isLocal || succeeded(parser.parseOptionalComma()))
    if (parser.parseKeyword("reduce") || parser.parseType(reduce))
      return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<GradientRuleAttr>(parser.getContext(), isLocal,
                                             reduce);
}

void GradientRuleAttr::print(AsmPrinter &printer) const {
  printer << "<" << (getLocal() ? "local" : "");
  if (getReduce())
    printer << (getLocal() ? ", " : "") << "reduce " << getReduce();
  printer << ">";
}

LogicalResult
GradientRuleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                         bool isLocal, Type reduce) {
  if (isLocal || reduce)
    return success();
  return emitError() << "expected 'local' or 'reduce'";
}

RankedTensorType fsdp::getQuantizedType(RankedTensorType type,
                                        const BlockForm &form) {
  auto byte = IntegerType::get(type.getContext(), 8, IntegerType::Unsigned);
  return RankedTensorType::get(
      {form.countRows(type.getNumElements()), form.getRowBytes()}, byte);
}

/// Both enums have the artifact's numbers.
static_assert(int(QuantizedKind::Nf4) == int(BlockKind::Nf4) &&
              int(QuantizedKind::Int8) == int(BlockKind::Int8) &&
              int(QuantizedKind::Fp4) == int(BlockKind::Fp4));

BlockForm QuantizedAttr::getForm() const {
  return {BlockKind(getKind()), getBlockSize(), getDoubleQuant()};
}

RankedTensorType QuantizedAttr::getBlocksType() const {
  return getQuantizedType(getType(), getForm());
}

LogicalResult
QuantizedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      QuantizedKind kind, int64_t blockSize, bool isDouble,
                      RankedTensorType type) {
  if (!BlockForm{BlockKind(kind), blockSize, isDouble}.isValid())
    return emitError() << "expected blocks of 32, 64 ... 4096 elements, found "
                       << blockSize;
  Type element = type.getElementType();
  if (type.hasStaticShape() && type.getNumElements() != 0 &&
      !type.getEncoding() &&
      isa<Float32Type, BFloat16Type, Float16Type>(element))
    return success();
  return emitError() << "expected a contiguous tensor with elements of f32, "
                        "bf16 or f16 to be quantized, found "
                     << type;
}

LogicalResult AdapterAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  FlatSymbolRefAttr, FlatSymbolRefAttr,
                                  FlatSymbolRefAttr, FloatAttr scale, bool,
                                  FlatSymbolRefAttr,
                                  FlatSymbolRefAttr firstDown,
                                  FlatSymbolRefAttr firstUp, int64_t experts) {
  if (!scale.getType().isF64() || !scale.getValue().isFinite())
    return emitError() << "expected a finite scale (f64) of an adapter, found "
                       << scale;
  if (!firstDown != !firstUp)
    return emitError() << "expected both matrices of which an adapter began, "
                          "or none, found one";
  if (experts < 0 || experts > std::numeric_limits<uint32_t>::max())
    return emitError() << "expected a number of an adapter's experts, found "
                       << experts;
  return success();
}

LogicalResult FutureType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<Type> tensors) {
  for (Type type : tensors)
    if (!isa<RankedTensorType>(type))
      return emitError() << "expected ranked tensors in a future, found "
                         << type;
  return success();
}
