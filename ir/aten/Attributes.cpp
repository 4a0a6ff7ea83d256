//===- Attributes.cpp - Attributes of the aten dialect --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp::aten;

#define GET_ATTRDEF_CLASSES
#include "ir/aten/Attributes.cpp.inc"

void AtenDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/aten/Attributes.cpp.inc"
      >();
}

LogicalResult StridesAttr::verifyEncoding(
    ArrayRef<int64_t> shape, Type elementType,
    function_ref<InFlightDiagnostic()> emitError) const {
  // SD-1.
  if (shape.size() != getStrides().size())
    return emitError() << "expected one stride for each of " << shape.size()
                       << " dims, found " << getStrides().size();
  // SD-2.
  if (isContiguous(shape, getStrides()))
    return emitError() << "expected strides of a tensor that is not "
                          "contiguous, found "
                       << *this << "; leave them out";
  return success();
}
