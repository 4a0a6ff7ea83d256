//===- Dims.cpp - Dynamic dimensions of an archive ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Dims.h"

#include "support/Error.h"
#include "support/Nearest.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace fsdp;
using namespace fsdp::capture;

/// Beyond any tensor; far from overflow.
static constexpr int64_t kMaxSize = int64_t(1) << 60;

//===----------------------------------------------------------------------===//
// What the archive says
//===----------------------------------------------------------------------===//

/// Mul(2, s17) rather than Mul(Integer(2), Symbol('s17', positive=True, …)).
static std::string shorten(std::string text) {
  for (llvm::StringRef opening : {"Symbol('", "Integer("})
    for (size_t at; (at = text.find(opening)) != std::string::npos;) {
      llvm::StringRef rest = llvm::StringRef(text).substr(at + opening.size());
      size_t end = rest.find(')');
      if (end == llvm::StringRef::npos)
        break;
      std::string name = rest.take_front(end).split('\'').first.str();
      text.replace(at, opening.size() + end + 1, name);
    }
  return text;
}

Pt2Dims::Size Pt2Dims::readSize(const json::Value &value) const {
  auto [tag, inner] = json::getUnion(value);
  Size size;
  if (tag == "as_int") {
    size.number = json::asInt(inner);
    return size;
  }
  if (tag != "as_expr")
    json::fail("a number or an expression as a size, found '" + tag.str() +
               "'");
  const json::Object &object = json::asObject(inner);
  std::string text = json::getString(object, "expr_str");
  size.expr = SymbolicExpr::parse(text);
  size.text = shorten(text);
  if (const json::Object *hint = json::findObject(object, "hint"))
    size.exported = json::findInt(*hint, "as_int");
  return size;
}

void Pt2Dims::addPlace(const Size &size, const std::string &place) {
  if (!size.expr)
    return;
  for (const std::string &name : size.expr->getSymbols()) {
    Symbol *symbol = find(name);
    if (!symbol) {
      symbols.push_back({name, {}, {}, {}, {}, {}, false});
      symbol = &symbols.back();
    }
    bool isAlone = size.expr->getAsSymbol() == name;
    symbol->places.push_back(isAlone ? place : place + " = " + size.text);
    symbol->isPositive |= size.expr->isPositive(name);
    if (symbol->exported || !size.exported)
      continue;
    if (isAlone)
      symbol->exported = size.exported;
    else if (size.expr->getSymbols().size() == 1)
      symbol->exported = solve(size, name, *size.exported);
  }
}

void Pt2Dims::addInput(const json::Object &spec, const json::Object &graph) {
  auto [tag, value] = json::getUnion(json::get(spec, "arg"));
  Input input;
  if (tag == "as_tensor") {
    input.name = json::getString(json::asObject(value), "name");
    const json::Object &meta =
        json::getObject(json::getObject(graph, "tensor_values"), input.name);
    for (const json::Value &size : json::getArray(meta, "sizes")) {
      input.sizes.push_back(readSize(size));
      addPlace(input.sizes.back(),
               input.name + "." + std::to_string(input.sizes.size() - 1));
    }
    for (const json::Value &stride : json::getArray(meta, "strides"))
      input.strides.push_back(readSize(stride));
  } else if (tag == "as_sym_int") {
    input.name = json::getString(json::asObject(value), "as_name");
    input.value = readSize(
        json::get(json::getObject(graph, "sym_int_values"), input.name));
    addPlace(*input.value, input.name);
  }
  inputs.push_back(std::move(input));
}

void Pt2Dims::readRanges(const json::Object &document) {
  if (const json::Object *table =
          json::findObject(document, "range_constraints"))
    for (const auto &[text, value] : *table) {
      const json::Object &limits = json::asObject(value);
      Range range{text, SymbolicExpr::parse(text),
                  json::findInt(limits, "min_val"),
                  json::findInt(limits, "max_val")};
      if (Symbol *symbol = find(range.expr.getAsSymbol())) {
        symbol->min = range.min;
        symbol->max = range.max;
      }
      ranges.push_back(std::move(range));
    }
  if (const json::Array *guards = json::findArray(document, "guards_code"))
    for (const json::Value &guard : *guards)
      conditions.push_back(json::asString(guard));
}

Pt2Dims Pt2Dims::read(const json::Object &document) {
  Pt2Dims dims;
  const json::Object &module = json::getObject(document, "graph_module");
  const json::Object &graph = json::getObject(module, "graph");
  const json::Object &signature = json::getObject(module, "signature");
  for (const json::Value &spec : json::getArray(signature, "input_specs")) {
    auto [tag, value] = json::getUnion(spec);
    if (tag == "user_input")
      dims.addInput(json::asObject(value), graph);
    else if (tag == "constant_input")
      dims.inputs.push_back(
          {json::getString(json::asObject(value), "name"), {}, {}, {}});
  }
  dims.readRanges(document);
  return dims;
}

//===----------------------------------------------------------------------===//
// Names and values
//===----------------------------------------------------------------------===//

Pt2Dims::Symbol *Pt2Dims::find(llvm::StringRef name) {
  auto found = llvm::find_if(
      symbols, [&](const Symbol &symbol) { return symbol.name == name; });
  return found == symbols.end() ? nullptr : &*found;
}

const Pt2Dims::Symbol *Pt2Dims::find(llvm::StringRef name) const {
  return const_cast<Pt2Dims *>(this)->find(name);
}

/// The size that "x.0" names, or the value of the input "k".
const Pt2Dims::Size *Pt2Dims::findPlace(llvm::StringRef name) const {
  auto [inputName, dimName] = name.rsplit('.');
  for (const Input &input : inputs) {
    if (input.value && input.name == name)
      return &*input.value;
    size_t dim;
    if (input.name == inputName && !dimName.getAsInteger(10, dim) &&
        dim < input.sizes.size())
      return &input.sizes[dim];
  }
  return nullptr;
}

std::optional<Number> Pt2Dims::lookup(llvm::StringRef name) const {
  const Symbol *symbol = find(name);
  return symbol && symbol->bound ? std::optional<Number>(*symbol->bound)
                                 : std::nullopt;
}

const Pt2Dims::Input *Pt2Dims::findInput(const SymbolicSource &source) const {
  // A strict export numbers the arguments.
  llvm::StringRef name = source.input;
  size_t position;
  if (name.consume_front("flat_args_") && !name.getAsInteger(10, position))
    return position < inputs.size() ? &inputs[position] : nullptr;
  auto found = llvm::find_if(
      inputs, [&](const Input &input) { return input.name == source.input; });
  return found == inputs.end() ? nullptr : &*found;
}

std::optional<Number> Pt2Dims::lookup(const SymbolicSource &source) const {
  const Input *input = findInput(source);
  if (!input)
    return std::nullopt;
  const Size *size = nullptr;
  auto index = static_cast<size_t>(source.index);
  if (source.property.empty() && input->value)
    size = &*input->value;
  else if (source.property == "size" && index < input->sizes.size())
    size = &input->sizes[index];
  else if (source.property == "stride" && index < input->strides.size())
    size = &input->strides[index];
  if (!size)
    return std::nullopt;
  if (size->number)
    return *size->number;
  return size->expr->evaluate(
      {[&](llvm::StringRef name) { return lookup(name); },
       [](const SymbolicSource &) { return std::nullopt; }});
}

/// The symbol's size at which an expression of nothing else has `value`;
/// nullopt if there is none, or the expression is not linear.
std::optional<int64_t> Pt2Dims::solve(const Size &size, llvm::StringRef symbol,
                                      int64_t value) const {
  auto at = [&](int64_t candidate) -> int64_t {
    auto lookupSymbol = [&](llvm::StringRef name) {
      return name == symbol ? std::optional<Number>(candidate) : std::nullopt;
    };
    Number number = size.expr->evaluate(
        {lookupSymbol, [](const SymbolicSource &) { return std::nullopt; }});
    const int64_t *integer = std::get_if<int64_t>(&number);
    return integer ? *integer : INT64_MIN;
  };
  int64_t first = at(1), slope;
  if (__builtin_sub_overflow(at(2), first, &slope) || slope == 0)
    return std::nullopt;
  int64_t distance;
  if (__builtin_sub_overflow(value, first, &distance) ||
      distance <= -kMaxSize || distance >= kMaxSize)
    return std::nullopt;
  int64_t candidate = 1 + distance / slope;
  if (candidate < 1 || at(candidate) != value)
    return std::nullopt;
  return candidate;
}

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

[[noreturn]] static void refuse(const std::string &message) {
  throw Error(ErrorId::InputNotKnown, message);
}

static std::string describeRange(std::optional<int64_t> min,
                                 std::optional<int64_t> max) {
  if (!min && !max)
    return "any size";
  if (!max)
    return "at least " + std::to_string(*min);
  if (!min)
    return "at most " + std::to_string(*max);
  return std::to_string(*min) + " to " + std::to_string(*max);
}

std::string Pt2Dims::describe(const Symbol &symbol) const {
  std::string text = symbol.name + " (" + llvm::join(symbol.places, ", ");
  if (symbol.min || symbol.max)
    text += "; " + describeRange(symbol.min, symbol.max);
  if (symbol.exported)
    text += "; exported with " + std::to_string(*symbol.exported);
  return text + ")";
}

/// "x = [4, 5], y = [4]".
std::string Pt2Dims::describeSizes() const {
  std::string text;
  for (const Input &input : inputs) {
    if (input.sizes.empty())
      continue;
    text += (text.empty() ? "" : ", ") + input.name + " = [";
    for (size_t dim = 0; dim < input.sizes.size(); ++dim) {
      std::optional<Number> size =
          lookup(SymbolicSource{input.name, "size", int64_t(dim)});
      text += (dim ? ", " : "") + (size ? toString(*size) : "?");
    }
    text += "]";
  }
  return text;
}

void Pt2Dims::refuseName(const std::string &name) const {
  std::vector<std::string> known;
  for (const Symbol &symbol : symbols)
    known.push_back(symbol.name);
  for (const Input &input : inputs) {
    if (input.value && input.value->expr)
      known.push_back(input.name);
    for (size_t dim = 0; dim < input.sizes.size(); ++dim)
      if (input.sizes[dim].expr)
        known.push_back(input.name + "." + std::to_string(dim));
  }
  if (symbols.empty())
    refuse("--dim=" + name +
           ": the model has no dynamic dimensions; export it with "
           "dynamic_shapes, or leave --dim out");
  std::vector<std::string_view> candidates(known.begin(), known.end());
  std::string_view nearest = findNearest(name, candidates);
  std::string all;
  for (const Symbol &symbol : symbols)
    all += (all.empty() ? "" : ", ") + describe(symbol);
  refuse("--dim=" + name + ": the model has no such dimension" +
         (nearest.empty() ? ""
                          : "; did you mean '" + std::string(nearest) + "'?") +
         (nearest.empty() ? "; it has " : " It has ") + all);
}

void Pt2Dims::bindSymbol(Symbol &symbol, int64_t value,
                         const std::string &given) {
  if (symbol.bound && *symbol.bound != value)
    refuse("--dim=" + given + " makes " + symbol.name + " " +
           std::to_string(value) + ", and another --dim makes it " +
           std::to_string(*symbol.bound) +
           "; both are one dimension: " + llvm::join(symbol.places, ", "));
  if (symbol.isPositive && value < 1)
    refuse("--dim=" + given + ": expected a size of at least 1, found " +
           std::to_string(value));
  symbol.bound = value;
}

void Pt2Dims::bindName(const std::string &name, int64_t value) {
  std::string given = name + "=" + std::to_string(value);
  if (Symbol *symbol = find(name))
    return bindSymbol(*symbol, value, given);
  const Size *size = findPlace(name);
  if (!size)
    refuseName(name);
  if (size->number) {
    if (*size->number == value)
      return;
    refuse("--dim=" + given + ": the model was exported with " + name +
           " fixed to " + std::to_string(*size->number) +
           "; name it in dynamic_shapes when exporting");
  }
  std::vector<std::string> names = size->expr->getSymbols();
  if (names.size() != 1)
    refuse("--dim=" + given + ": " + name + " is " + size->text +
           ", which is computed from several dimensions; give " +
           llvm::join(names, " and ") + " sizes instead");
  if (size->expr->getAsSymbol() == names[0])
    return bindSymbol(*find(names[0]), value, given);
  std::optional<int64_t> solution = solve(*size, names[0], value);
  if (!solution)
    refuse("--dim=" + given + ": " + name + " is " + size->text +
           ", which no size of " + names[0] + " makes " +
           std::to_string(value) + "; give " + names[0] + " a size instead");
  bindSymbol(*find(names[0]), *solution, given);
}

void Pt2Dims::refuseUnbound(const std::string &path) const {
  std::string open, command;
  for (const Symbol &symbol : symbols) {
    if (!symbol.bound)
      open += (open.empty() ? "" : ", ") + describe(symbol);
    // The place says more than the symbol, where it is the symbol.
    llvm::StringRef place = symbol.places.front();
    std::optional<int64_t> size = symbol.bound ? symbol.bound : symbol.exported;
    command += " --dim=" + (place.contains(" = ") ? symbol.name : place.str()) +
               "=" + (size ? std::to_string(*size) : "N");
  }
  throw Error(ErrorId::DynamicDimension,
              "the model has dynamic dimensions without a size: " + open +
                  "; give each one: fsdp-opt " + path + command);
}

/// As torch.export does it: its own lower bound of 2 only says that the graph
/// was not exported with 0 or 1, which it may still be right for.
void Pt2Dims::checkRanges() const {
  for (const Range &range : ranges) {
    std::vector<std::string> names = range.expr.getSymbols();
    if (!llvm::all_of(names, [&](const std::string &name) {
          return lookup(name).has_value();
        }))
      continue; // a size that comes from data, or from nowhere
    Number value = range.expr.evaluate(
        {[&](llvm::StringRef name) { return lookup(name); },
         [](const SymbolicSource &) { return std::nullopt; }});
    double number = toDouble(value);
    bool isLow = range.min && *range.min > 2 && number < double(*range.min);
    bool isHigh = range.max && number > double(*range.max);
    if (!isLow && !isHigh)
      continue;
    std::string places;
    if (const Symbol *symbol = find(range.expr.getAsSymbol()))
      places = " (" + llvm::join(symbol->places, ", ") + ")";
    refuse(range.text + places + " is " + toString(value) +
           ", and the model was exported for " +
           describeRange(range.min, range.max) +
           "; give a size in that range, or export it with a wider one");
  }
}

bool Pt2Dims::isExported() const {
  return llvm::all_of(symbols, [](const Symbol &symbol) {
    return symbol.exported && symbol.bound == symbol.exported;
  });
}

/// torch.export leaves out of the graph what follows from conditions on sizes,
/// for example the branch that was not taken.
void Pt2Dims::checkConditions() const {
  if (isExported())
    return; // the conditions are what held then
  for (const std::string &text : conditions) {
    SymbolicExpr condition = SymbolicExpr::parse(text);
    Number holds = condition.evaluate(
        {[&](llvm::StringRef name) { return lookup(name); },
         [&](const SymbolicSource &source) { return lookup(source); }});
    if (isTrue(holds))
      continue;
    std::string shown = condition.print([&](const SymbolicSource &source) {
      const Input *input = findInput(source);
      std::string name = input ? input->name : source.input;
      if (source.property == "size")
        return name + "." + std::to_string(source.index);
      if (source.property.empty())
        return name;
      return name + "." + source.property + "(" + std::to_string(source.index) +
             ")";
    });
    refuse("the exported program is right only if " + shown +
           ", which does not hold for " + describeSizes() +
           "; give the dimensions other sizes, or export the model at these");
  }
}

void Pt2Dims::bind(const DimSizes &sizes, const std::string &path) {
  for (const auto &[name, value] : sizes.sizes)
    bindName(name, value);
  if (sizes.keepExported)
    for (Symbol &symbol : symbols)
      if (!symbol.bound)
        symbol.bound = symbol.exported;
  for (const Symbol &symbol : symbols)
    if (!symbol.bound)
      refuseUnbound(path);
  checkRanges();
  checkConditions();
}

//===----------------------------------------------------------------------===//
// Use
//===----------------------------------------------------------------------===//

int64_t Pt2Dims::evaluate(const json::Value &value,
                          const std::string &what) const {
  Size size = readSize(value);
  if (size.number)
    return *size.number;
  std::vector<std::string> names = size.expr->getSymbols();
  for (const std::string &name : names)
    if (!lookup(name))
      throw Error(ErrorId::DataDependent,
                  what + " is " + size.text +
                      ", which is known only when the model runs; write it "
                      "so that sizes do not depend on data");
  Number number = size.expr->evaluate(
      {[&](llvm::StringRef name) { return lookup(name); },
       [](const SymbolicSource &) { return std::nullopt; }});
  if (const int64_t *integer = std::get_if<int64_t>(&number))
    return *integer;
  throw Error(ErrorId::DynamicDimension,
              what + " is " + size.text + ", which is " + toString(number) +
                  ", not an integer; give its dimensions other sizes");
}

std::optional<Number> Pt2Dims::getNumber(const std::string &input) const {
  return lookup(SymbolicSource{input, "", 0});
}

std::vector<DynamicDim> Pt2Dims::describe() const {
  std::vector<DynamicDim> dims;
  for (const Symbol &symbol : symbols)
    dims.push_back({symbol.name,
                    symbol.places,
                    describeRange(symbol.min, symbol.max),
                    symbol.exported,
                    {symbol.bound.value()}});
  return dims;
}
