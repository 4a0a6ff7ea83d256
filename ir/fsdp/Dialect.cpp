//===- Dialect.cpp - Registration of the fsdp dialect ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/fsdp/Fsdp.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

#include "ir/fsdp/Dialect.cpp.inc"

namespace {

bool isIdentifier(StringRef name) {
  return !name.empty() && llvm::isAlpha(name.front()) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// Groups and meshes print as aliases: `over #shard`, not the whole attribute.
struct AsmInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (isa<MeshAttr>(attr)) {
      os << "mesh";
      return AliasResult::FinalAlias;
    }
    auto group = dyn_cast<GroupAttr>(attr);
    if (!group || !isIdentifier(group.getName().getValue()))
      return AliasResult::NoAlias;
    os << group.getName().getValue();
    return AliasResult::FinalAlias;
  }
};

} // namespace

void FsdpDialect::initialize() {
  registerAttributes();
  registerTypes();
  registerOps();
  addInterfaces<AsmInterface>();
}
