//===- OpModel.cpp - How MLIR handles an op of the aten dialect -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every overload is an op of its own name, made from a row of the table. MLIR's
// extensible dialects offer the same, but their ops are never merged by CSE and
// have neither properties nor traits.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/OpModel.h"

#include "ir/aten/OpIds.h"
#include "ir/aten/Schema.h"
#include "mlir/Bytecode/BytecodeImplementation.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

namespace {

//===----------------------------------------------------------------------===//
// Interfaces
//===----------------------------------------------------------------------===//

struct PureEffects : MemoryEffectOpInterface::FallbackModel<PureEffects> {
  void getEffects(Operation *,
                  SmallVectorImpl<MemoryEffects::EffectInstance> &) const {}
};

/// In-place and `out=` ops: they read their operands and write some.
struct WriteEffects : MemoryEffectOpInterface::FallbackModel<WriteEffects> {
  void
  getEffects(Operation *op,
             SmallVectorImpl<MemoryEffects::EffectInstance> &effects) const {
    effects.emplace_back(MemoryEffects::Read::get());
    effects.emplace_back(MemoryEffects::Write::get());
  }
};

struct Speculatable : ConditionallySpeculatable::FallbackModel<Speculatable> {
  Speculation::Speculatability getSpeculatability(Operation *) const {
    return Speculation::Speculatable;
  }
};

struct Bytecode : BytecodeOpInterface::FallbackModel<Bytecode> {
  static LogicalResult readProperties(DialectBytecodeReader &reader,
                                      OperationState &state) {
    DictionaryAttr property;
    if (failed(reader.readAttribute(property)))
      return failure();
    state.propertiesAttr = property;
    return success();
  }
  void writeProperties(Operation *op, DialectBytecodeWriter &writer) const {
    writer.writeAttribute(getProperty(op));
  }
};

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

DictionaryAttr &asDictionary(OpaqueProperties storage) {
  return *storage.as<DictionaryAttr *>();
}

/// The property is a dictionary, never null.
class OpModel final : public OperationName::Impl {
public:
  OpModel(size_t index, Dialect *dialect, mlir::detail::InterfaceMap interfaces)
      : Impl(getSchemaName(index), dialect, getOpId(index),
             std::move(interfaces)),
        index(index) {}

  LogicalResult foldHook(Operation *, ArrayRef<Attribute>,
                         SmallVectorImpl<OpFoldResult> &) override {
    return failure();
  }
  void getCanonicalizationPatterns(RewritePatternSet &,
                                   MLIRContext *) override {}
  // Not Commutative, ever: `alpha` scales the second operand of an addition.
  bool hasTrait(TypeID id) override {
    return id == TypeID::get<OpTrait::ZeroRegions>() ||
           id == TypeID::get<OpTrait::ZeroSuccessors>();
  }

  OperationName::ParseAssemblyFn getParseAssemblyFn() override {
    return [index = index](OpAsmParser &parser, OperationState &state) {
      return parseAtenOp(getSchema(index), parser, state);
    };
  }
  void printAssembly(Operation *op, OpAsmPrinter &printer, StringRef) override {
    printAtenOp(getSchema(index), op, printer);
  }
  LogicalResult verifyInvariants(Operation *op) override {
    return verifyAtenOp(getSchema(index), op);
  }
  LogicalResult verifyRegionInvariants(Operation *) override {
    return success();
  }

  std::optional<Attribute> getInherentAttr(Operation *op,
                                           StringRef name) override {
    if (Attribute value = getProperty(op).get(name))
      return value;
    return std::nullopt;
  }
  void setInherentAttr(Operation *op, StringAttr name,
                       Attribute value) override {
    NamedAttrList list(getProperty(op));
    if (value)
      list.set(name, value);
    else
      list.erase(name);
    asDictionary(op->getPropertiesStorage()) =
        list.getDictionary(op->getContext());
  }
  void populateInherentAttrs(Operation *op, NamedAttrList &list) override {
    for (NamedAttribute entry : getProperty(op))
      list.push_back(entry);
  }
  void populateDefaultAttrs(const OperationName &, NamedAttrList &) override {}
  LogicalResult
  verifyInherentAttrs(OperationName, NamedAttrList &,
                      function_ref<InFlightDiagnostic()>) override {
    return success();
  }

  int getOpPropertyByteSize() override { return sizeof(DictionaryAttr); }
  void initProperties(OperationName name, OpaqueProperties storage,
                      OpaqueProperties init) override {
    new (storage.as<void *>()) DictionaryAttr(
        init ? asDictionary(init) : DictionaryAttr::get(name.getContext()));
  }
  void deleteProperties(OpaqueProperties) override {}
  void populateDefaultProperties(OperationName, OpaqueProperties) override {}
  LogicalResult
  setPropertiesFromAttr(OperationName, OpaqueProperties storage, Attribute attr,
                        function_ref<InFlightDiagnostic()> emitError) override {
    auto dictionary = dyn_cast_or_null<DictionaryAttr>(attr);
    if (!dictionary)
      return emitError() << "expected a dictionary of static arguments";
    asDictionary(storage) = dictionary;
    return success();
  }
  Attribute getPropertiesAsAttr(Operation *op) override {
    return getProperty(op);
  }
  void copyProperties(OpaqueProperties to, OpaqueProperties from) override {
    asDictionary(to) = asDictionary(from);
  }
  bool compareProperties(OpaqueProperties a, OpaqueProperties b) override {
    return asDictionary(a) == asDictionary(b);
  }
  llvm::hash_code hashProperties(OpaqueProperties storage) override {
    return llvm::hash_value(asDictionary(storage).getAsOpaquePointer());
  }

private:
  size_t index;
};

} // namespace

DictionaryAttr aten::getProperty(Operation *op) {
  return asDictionary(op->getPropertiesStorage());
}

std::unique_ptr<OperationName::Impl> aten::makeOpModel(size_t index,
                                                       Dialect *dialect) {
  mlir::detail::InterfaceMap interfaces;
  if (getSchemaWrites(index))
    interfaces.insertModels<WriteEffects, Bytecode>();
  else
    interfaces.insertModels<PureEffects, Speculatable, Bytecode>();
  return std::make_unique<OpModel>(index, dialect, std::move(interfaces));
}
