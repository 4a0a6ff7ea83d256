//===- Schema.cpp - Read rows of the operator table -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/aten/Schema.h"

#include "ir/aten/OpIds.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"

#include <memory>
#include <mutex>

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

namespace {

struct Row {
  llvm::StringLiteral name;
  uint32_t flags;
  llvm::StringLiteral text;
};

constexpr Row kRows[] = {
#define ATEN_OP(name, flags, text) {name, flags, text},
#include "ir/aten/AtenTable.inc"
};
constexpr size_t kNumRows = std::size(kRows);

//===----------------------------------------------------------------------===//
// Reading a schema
//===----------------------------------------------------------------------===//

/// Length of `text` up to the first `stop` outside brackets and strings.
size_t findAtDepth0(StringRef text, char stop) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '\\') {
      ++i;
      continue;
    }
    if (c == '"')
      quoted = !quoted;
    if (quoted)
      continue;
    if (c == stop && depth == 0)
      return i;
    if (c == '(' || c == '[')
      ++depth;
    if (c == ')' || c == ']')
      --depth;
  }
  return text.size();
}

SmallVector<StringRef> splitList(StringRef text) {
  SmallVector<StringRef> parts;
  while (!text.trim().empty()) {
    size_t end = findAtDepth0(text, ',');
    parts.push_back(text.take_front(end).trim());
    text = text.drop_front(std::min(end + 1, text.size()));
  }
  return parts;
}

/// A type as the schema writes it: `Tensor(a!)[]`, `SymInt[2]?`.
struct TypeText {
  Kind kind = Kind::Other;
  bool optional = false;
  bool writes = false;
  char alias = 0;
  int32_t listSize = 0;
};

Kind getListKind(Kind element, bool optionalElement) {
  switch (element) {
  case Kind::Tensor:
    return optionalElement ? Kind::OptionalTensorList : Kind::TensorList;
  case Kind::Int:
    return Kind::IntList;
  case Kind::Float:
    return Kind::FloatList;
  case Kind::Bool:
    return Kind::BoolList;
  case Kind::Scalar:
    return Kind::ScalarList;
  case Kind::String:
    return Kind::StringList;
  default:
    return Kind::Other;
  }
}

TypeText readType(StringRef text) {
  TypeText type;
  size_t end = std::min(text.find_first_of("([?"), text.size());
  type.kind = llvm::StringSwitch<Kind>(text.take_front(end))
                  .Case("Tensor", Kind::Tensor)
                  .Cases({"int", "SymInt"}, Kind::Int)
                  .Case("float", Kind::Float)
                  .Cases({"bool", "SymBool"}, Kind::Bool)
                  .Case("Scalar", Kind::Scalar)
                  .Case("str", Kind::String)
                  .Case("ScalarType", Kind::DType)
                  .Case("MemoryFormat", Kind::MemoryFormat)
                  .Case("Layout", Kind::Layout)
                  .Case("Device", Kind::Device)
                  .Case("Generator", Kind::Generator)
                  .Default(Kind::Other);
  text = text.drop_front(end);
  if (text.consume_front("(")) { // (a), (a!), (a -> *)
    size_t close = text.find(')');
    StringRef set = text.take_front(close);
    type.alias = set.front();
    type.writes = set.contains('!');
    text = text.drop_front(close + 1);
  }
  while (!text.empty()) {
    if (text.consume_front("?")) {
      type.optional = true;
      continue;
    }
    if (!text.consume_front("["))
      break;
    text.consumeInteger(10, type.listSize);
    text.consume_front("]");
    type.kind = getListKind(type.kind, type.optional);
    type.optional = false;
  }
  return type;
}

Argument readArgument(StringRef text) {
  Argument argument;
  size_t equal = findAtDepth0(text, '=');
  if (equal != text.size()) {
    argument.hasDefault = true;
    argument.defaultText = text.drop_front(equal + 1);
    text = text.take_front(equal);
  }
  size_t space = findAtDepth0(text, ' ');
  TypeText type = readType(text.take_front(space));
  argument.name = text.drop_front(space).trim();
  argument.kind = type.kind;
  argument.optional = type.optional;
  argument.writes = type.writes;
  argument.alias = type.alias;
  argument.listSize = type.listSize;
  return argument;
}

Result readResult(StringRef text) {
  size_t space = findAtDepth0(text, ' ');
  TypeText type = readType(text.take_front(space));
  Result result;
  result.name = text.drop_front(space).trim();
  result.kind = type.kind;
  result.writes = type.writes;
  result.alias = type.alias;
  return result;
}

void readSchema(const Row &row, Schema &schema) {
  schema.name = row.name;
  schema.text = row.text;
  schema.flags = row.flags;
  // "(arguments) -> result" or "(arguments) -> (results)"
  StringRef text = row.text;
  size_t close = findAtDepth0(text.drop_front(), ')') + 1;
  for (StringRef part : splitList(text.slice(1, close)))
    if (part != "*") // what follows is by keyword
      schema.arguments.push_back(readArgument(part));
  StringRef results = text.drop_front(close + 1).trim();
  results.consume_front("-> ");
  if (results.consume_front("("))
    results.consume_back(")");
  for (StringRef part : splitList(results))
    schema.results.push_back(readResult(part));
}

//===----------------------------------------------------------------------===//
// Defaults
//===----------------------------------------------------------------------===//

Attribute readNumber(StringRef text, bool asFloat, MLIRContext *context) {
  int64_t integer;
  if (!asFloat && !text.getAsInteger(10, integer))
    return IntegerAttr::get(IntegerType::get(context, 64), integer);
  double number = 0;
  if (text.getAsDouble(number))
    llvm::report_fatal_error("the operator table has a default that is no "
                             "number: " +
                             text);
  return FloatAttr::get(Float64Type::get(context), number);
}

std::string unescape(StringRef text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size())
      ++i;
    out += text[i];
  }
  return out;
}

Attribute readValue(StringRef text, Kind kind, MLIRContext *context) {
  switch (kind) {
  case Kind::Int:
  case Kind::IntList:
  case Kind::Scalar:
  case Kind::ScalarList:
    return readNumber(text, /*asFloat=*/false, context);
  case Kind::Float:
  case Kind::FloatList:
    return readNumber(text, /*asFloat=*/true, context);
  case Kind::Bool:
  case Kind::BoolList:
    return BoolAttr::get(context, text == "True");
  case Kind::String:
  case Kind::StringList:
    text.consume_front("\"");
    text.consume_back("\"");
    return StringAttr::get(context, unescape(text));
  case Kind::DType: // c10::ScalarType, printed as a number; only int64 occurs
    return TypeAttr::get(IntegerType::get(context, 64));
  case Kind::MemoryFormat: // c10::MemoryFormat; only the first occurs
    return StringAttr::get(context, "contiguous");
  default:
    return {};
  }
}

} // namespace

Attribute Argument::getDefault(MLIRContext *context) const {
  if (!hasDefault || defaultText == "None" || isTensor())
    return {};
  bool list = kind == Kind::IntList || kind == Kind::FloatList ||
              kind == Kind::BoolList || kind == Kind::ScalarList ||
              kind == Kind::StringList;
  if (!list)
    return readValue(defaultText, kind, context);
  SmallVector<Attribute> values;
  StringRef text = defaultText;
  if (text.consume_front("[")) {
    text.consume_back("]");
    for (StringRef part : splitList(text))
      values.push_back(readValue(part, kind, context));
  } else { // one number for all of a list of known size
    values.assign(listSize, readValue(text, kind, context));
  }
  return ArrayAttr::get(context, values);
}

//===----------------------------------------------------------------------===//
// Schema
//===----------------------------------------------------------------------===//

StringRef aten::getKindName(Kind kind) {
  switch (kind) {
  case Kind::Tensor:
    return "tensor";
  case Kind::TensorList:
    return "tensor list";
  case Kind::OptionalTensorList:
    return "list of optional tensors";
  case Kind::Int:
    return "int";
  case Kind::Float:
    return "float";
  case Kind::Bool:
    return "bool";
  case Kind::Scalar:
    return "number";
  case Kind::String:
    return "string";
  case Kind::DType:
    return "dtype";
  case Kind::MemoryFormat:
    return "memory format";
  case Kind::IntList:
    return "int list";
  case Kind::FloatList:
    return "float list";
  case Kind::BoolList:
    return "bool list";
  case Kind::ScalarList:
    return "number list";
  case Kind::StringList:
    return "string list";
  case Kind::Layout:
    return "layout";
  case Kind::Device:
    return "device";
  case Kind::Generator:
    return "generator";
  case Kind::Other:
    return "value that programs do not hold";
  }
  llvm_unreachable("unknown kind");
}

bool Schema::writes() const {
  return llvm::any_of(arguments, [](const Argument &a) { return a.writes; });
}

const Argument *Schema::find(StringRef argument) const {
  auto it = llvm::find_if(arguments, [&](const Argument &candidate) {
    return candidate.name == argument;
  });
  return it == arguments.end() ? nullptr : &*it;
}

int32_t Schema::getViewSource(unsigned index) const {
  const Result &result = results[index];
  if (!result.isTensor() || result.writes)
    return -1;
  if (result.alias)
    for (auto [i, argument] : llvm::enumerate(arguments))
      if (argument.alias == result.alias)
        return int32_t(i);
  return -1;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

StringRef aten::getTableVersion() {
#define ATEN_TORCH_VERSION(version) return version;
#include "ir/aten/AtenTable.inc"
}

size_t aten::getNumSchemas() { return kNumRows; }

const Schema &aten::getSchema(size_t index) {
  struct Slot {
    std::once_flag once;
    Schema schema;
  };
  // Never destroyed: contexts of other translation units may outlive it.
  static Slot *slots = new Slot[kNumRows];
  Slot &slot = slots[index];
  std::call_once(slot.once, [&] { readSchema(kRows[index], slot.schema); });
  return slot.schema;
}

StringRef aten::getSchemaName(size_t index) { return kRows[index].name; }
uint32_t aten::getSchemaFlags(size_t index) { return kRows[index].flags; }
bool aten::getSchemaWrites(size_t index) {
  return StringRef(kRows[index].text).contains("!)");
}

const Schema *aten::lookupSchema(StringRef opName) {
  const Row *row =
      llvm::lower_bound(kRows, opName, [](const Row &r, StringRef name) {
        return r.name < name;
      });
  if (row == std::end(kRows) || row->name != opName)
    return nullptr;
  return &getSchema(row - kRows);
}

const Schema *aten::lookupSchema(Operation *op) {
  std::optional<size_t> index = getOpIndex(op->getName().getTypeID());
  return index ? &getSchema(*index) : nullptr;
}
