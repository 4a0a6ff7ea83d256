//===- Dialect.cpp - Registration of the aten dialect ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Aten.h"
#include "ir/aten/OpIds.h"
#include "ir/aten/OpModel.h"
#include "ir/aten/Schema.h"

using namespace mlir;
using namespace fsdp::aten;

#include "ir/aten/Dialect.cpp.inc"

// Ids are addresses in one array, so that an id also gives the index.
static SelfOwningTypeID *getIds() {
  static auto *ids = new SelfOwningTypeID[getNumSchemas()];
  return ids;
}

TypeID fsdp::aten::getOpId(size_t index) { return getIds()[index].getTypeID(); }

std::optional<size_t> fsdp::aten::getOpIndex(TypeID id) {
  auto *begin = reinterpret_cast<const char *>(getIds());
  auto *address = static_cast<const char *>(id.getAsOpaquePointer());
  std::less<const char *> less;
  const char *end = begin + getNumSchemas() * sizeof(SelfOwningTypeID);
  if (less(address, begin) || !less(address, end))
    return std::nullopt;
  return size_t(address - begin) / sizeof(SelfOwningTypeID);
}

void AtenDialect::initialize() {
  registerAttributes();
  registerOps();
}

void AtenDialect::registerOps() {
  for (size_t i = 0, e = getNumSchemas(); i < e; ++i)
    RegisteredOperationName::insert(makeOpModel(i, this), {});
}
