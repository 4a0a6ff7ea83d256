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

LogicalResult FutureType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<Type> tensors) {
  for (Type type : tensors)
    if (!isa<RankedTensorType>(type))
      return emitError() << "expected ranked tensors in a future, found "
                         << type;
  return success();
}
