//===- Interpreter.cpp - Runs an exported graph ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Interpreter.h"
#include "ir/capture/pt2/Enums.h"
#include "ir/capture/pt2/Layouts.h"
#include "ir/capture/pt2/Metadata.h"
#include "ir/capture/pt2/Operators.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <limits>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

double getFloat(const json::Value &value) {
  if (std::optional<double> number = json::toNumber(value))
    return *number;
  // JSON has no numbers for these.
  std::string text = json::asString(value);
  if (text == "Infinity")
    return std::numeric_limits<double>::infinity();
  if (text == "-Infinity")
    return -std::numeric_limits<double>::infinity();
  if (text == "NaN")
    return std::numeric_limits<double>::quiet_NaN();
  json::fail("a number");
}

Number toNumber(const c10::IValue &value) {
  if (value.isBool())
    return value.toBool();
  if (value.isDouble())
    return value.toDouble();
  if (value.isInt())
    return value.toInt();
  json::fail("a number as operand of a computation with sizes");
}

c10::IValue toIValue(const Number &number) {
  return std::visit([](auto value) { return c10::IValue(value); }, number);
}

template <typename T, typename Read>
c10::IValue readList(const json::Value &value, Read read) {
  c10::List<T> list;
  for (const json::Value &element : json::asArray(value))
    list.push_back(read(element));
  return list;
}

/// A number in a tensor's place takes part in type promotion as a number.
at::Tensor wrapNumber(const c10::Scalar &number) {
  c10::ScalarType type = number.isFloatingPoint() ? c10::ScalarType::Double
                         : number.isBoolean()     ? c10::ScalarType::Bool
                         : number.isComplex() ? c10::ScalarType::ComplexDouble
                                              : c10::ScalarType::Long;
  // Not a factory of the program.
  c10::impl::ExcludeDispatchKeyGuard quiet(c10::DispatchKeySet(
      {c10::DispatchKey::Fake, c10::DispatchKey::Functionalize}));
  at::Tensor tensor = at::scalar_tensor(number, at::TensorOptions(type));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

template <typename T, typename Element>
c10::IValue convertList(const c10::IValue &value, Element element) {
  c10::List<T> list;
  for (const c10::IValue &item : value.toListRef())
    list.push_back(element(item));
  return list;
}

/// One value that is no list stands for `length` of them.
c10::IValue convertToList(c10::IValue value, const c10::Type &element,
                          std::optional<int32_t> length) {
  if (element.kind() == c10::TypeKind::OptionalType) {
    if (!value.isTensorList() && !value.toListRef().empty())
      return value;
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue &item : value.toListRef())
      list.push_back(item.toTensor());
    return list;
  }
  if (!value.isList()) {
    std::vector<c10::IValue> items(length.value_or(1), value);
    c10::impl::GenericList list(c10::AnyType::get());
    for (const c10::IValue &item : items)
      list.push_back(item);
    value = list;
  }
  switch (element.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    return convertList<int64_t>(value, [](const c10::IValue &item) {
      return item.isBool() ? int64_t(item.toBool()) : item.toInt();
    });
  case c10::TypeKind::FloatType:
    return convertList<double>(value, [](const c10::IValue &item) {
      return item.toScalar().toDouble();
    });
  case c10::TypeKind::BoolType:
    return convertList<bool>(value, [](const c10::IValue &item) {
      return item.isInt() ? item.toInt() != 0 : item.toBool();
    });
  case c10::TypeKind::TensorType:
    return convertList<at::Tensor>(
        value, [](const c10::IValue &item) { return item.toTensor(); });
  default:
    return value;
  }
}

/// `value` as the schema's type wants it: the archive keeps Python's looser
/// types, int for float, number for tensor, one number for a list.
c10::IValue convert(c10::IValue value, const c10::Type &type,
                    std::optional<int32_t> length) {
  if (const auto *optional = type.castRaw<c10::OptionalType>())
    return value.isNone()
               ? value
               : convert(std::move(value), *optional->getElementType(), length);
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    return value.isScalar() ? c10::IValue(wrapNumber(value.toScalar())) : value;
  case c10::TypeKind::FloatType:
    return value.isInt() ? c10::IValue(double(value.toInt())) : value;
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    return value.isBool() ? c10::IValue(int64_t(value.toBool())) : value;
  case c10::TypeKind::BoolType:
    return value.isInt() ? c10::IValue(value.toInt() != 0) : value;
  case c10::TypeKind::ListType:
    return convertToList(std::move(value),
                         *type.castRaw<c10::ListType>()->getElementType(),
                         length);
  default:
    return value;
  }
}

} // namespace

const c10::IValue &Pt2Interpreter::get(const std::string &name) const {
  if (auto it = values.find(name); it != values.end())
    return it->second;
  json::fail("a value named '" + name + "' before its use");
}

/// As the node that runs means it.
const c10::IValue &Pt2Interpreter::read(const std::string &name) const {
  return get(casts.resolve(name, module));
}

/// {"as_name": "sym_size_int"}, or a number that needs no name.
c10::IValue
Pt2Interpreter::evaluateSymbolic(const json::Value &argument) const {
  auto [tag, value] = json::getUnion(argument);
  return tag == "as_name" ? get(json::asString(value)) : evaluate(argument);
}

std::optional<c10::IValue>
Pt2Interpreter::evaluateList(llvm::StringRef tag,
                             const json::Value &value) const {
  auto byName = [&](const json::Value &reference) {
    return read(json::getString(json::asObject(reference), "name"));
  };
  if (tag == "as_tensors")
    return readList<at::Tensor>(value, [&](const json::Value &element) {
      return byName(element).toTensor();
    });
  if (tag == "as_optional_tensors")
    return readList<std::optional<at::Tensor>>(
        value, [&](const json::Value &element) -> std::optional<at::Tensor> {
          auto [kind, inner] = json::getUnion(element);
          if (kind == "as_none")
            return std::nullopt;
          return byName(inner).toTensor();
        });
  if (tag == "as_ints")
    return readList<int64_t>(value, json::asInt);
  if (tag == "as_floats")
    return readList<double>(value, getFloat);
  if (tag == "as_bools")
    return readList<bool>(value, json::asBool);
  if (tag == "as_strings")
    return readList<std::string>(value, json::asString);
  if (tag == "as_sym_ints")
    return readList<int64_t>(value, [&](const json::Value &element) {
      return toIValue(toNumber(evaluateSymbolic(element))).toInt();
    });
  if (tag == "as_sym_floats")
    return readList<double>(value, [&](const json::Value &element) {
      return toDouble(toNumber(evaluateSymbolic(element)));
    });
  if (tag == "as_sym_bools")
    return readList<bool>(value, [&](const json::Value &element) {
      return isTrue(toNumber(evaluateSymbolic(element)));
    });
  return std::nullopt;
}

c10::IValue Pt2Interpreter::evaluate(const json::Value &argument) const {
  auto [tag, value] = json::getUnion(argument);
  if (std::optional<c10::IValue> list = evaluateList(tag, value))
    return *list;
  auto byName = [&](const json::Value &reference) {
    return read(json::getString(json::asObject(reference), "name"));
  };
  if (tag == "as_tensor")
    return byName(value);
  if (tag == "as_optional_tensor") {
    auto [kind, inner] = json::getUnion(value);
    return kind == "as_none" ? c10::IValue() : byName(inner);
  }
  if (tag == "as_none")
    return {};
  if (tag == "as_int")
    return json::asInt(value);
  if (tag == "as_float")
    return getFloat(value);
  if (tag == "as_bool")
    return json::asBool(value);
  if (tag == "as_string")
    return json::asString(value);
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool")
    return evaluateSymbolic(value);
  if (tag == "as_scalar_type")
    return int64_t(getPt2ScalarType(json::asInt(value)));
  if (tag == "as_memory_format")
    return int64_t(getPt2MemoryFormat(json::asInt(value)));
  if (tag == "as_layout") {
    checkPt2Layout(json::asInt(value));
    return int64_t(c10::Layout::Strided);
  }
  if (tag == "as_device")
    return device;
  if (tag == "as_complex") {
    const json::Object &parts = json::asObject(value);
    return c10::complex<double>(getFloat(json::get(parts, "real")),
                                getFloat(json::get(parts, "imag")));
  }
  throw Error(ErrorId::ModelNotSupported,
              "the model has an argument of a kind that is not supported (" +
                  tag.str() + ")");
}

c10::IValue Pt2Interpreter::evaluate(const Pt2UserInput &input) const {
  return input.number ? toIValue(*input.number) : evaluate(*input.constant);
}

/// What the archive says of the first of a node's inputs; null if nothing.
const json::Object *Pt2Interpreter::findMeta(const json::Array &inputs) const {
  if (inputs.empty() || !tensors)
    return nullptr;
  const json::Value &argument = json::get(json::asObject(inputs[0]), "arg");
  const json::Value *meta = json::find(*tensors, getPt2ValueName(argument));
  return meta ? json::toObject(*meta) : nullptr;
}

void Pt2Interpreter::callOperator(const c10::OperatorHandle &op,
                                  const json::Object &node) {
  std::unordered_map<std::string, const json::Value *> given;
  for (const json::Value &value : json::getArray(node, "inputs")) {
    const json::Object &input = json::asObject(value);
    given[json::getString(input, "name")] = &json::get(input, "arg");
  }
  torch::jit::Stack stack;
  size_t used = 0;
  for (const c10::Argument &argument : op.schema().arguments()) {
    if (auto it = given.find(argument.name()); it != given.end()) {
      stack.push_back(
          convert(evaluate(*it->second), *argument.type(), argument.N()));
      ++used;
    } else if (argument.default_value()) {
      stack.push_back(*argument.default_value());
    } else {
      json::fail("the argument '" + argument.name() + "' of " +
                 getOperatorName(op));
    }
  }
  if (used != given.size())
    json::fail("only arguments that " + getOperatorName(op) + " knows");
  if (!stack.empty())
    fitLayout(op, stack, findMeta(json::getArray(node, "inputs")));
  op.callBoxed(stack);
  bindOutputs(node, stack);
}

/// x.to(y.dtype), where x is as wide as in the export and y need not be.
bool Pt2Interpreter::castToAnothers(const json::Object &node) {
  const json::Array &outputs = json::getArray(node, "outputs");
  if (outputs.size() != 1 ||
      !casts.isToAnothers(getPt2ValueName(outputs.front())))
    return false;
  std::optional<c10::ScalarType> dtype = paramDtype();
  c10::IValue operand = evaluate(
      json::get(json::asObject(json::getArray(node, "inputs").front()), "arg"));
  if (!dtype || !operand.isTensor())
    return false;
  bindOutputs(node, {operand.toTensor().to(*dtype)});
  return true;
}

/// LibTorch's norm in the place of one that ends with the node that has run:
/// what it was made of is then read by nobody.
void Pt2Interpreter::fuseNorm(const json::Object &node,
                              const Location &location) {
  const json::Array &outputs = json::getArray(node, "outputs");
  std::string name =
      outputs.size() == 1 ? getPt2ValueName(outputs.front()) : "";
  if (const std::string *why = norms.findUnlike(name))
    notedNorms->push_back({location, *why});
  const Pt2WrittenNorm *norm = norms.find(name);
  if (!norm)
    return;
  std::optional<at::Tensor> weight;
  if (!norm->weight.empty())
    weight = read(norm->weight).toTensor();
  std::string why;
  at::Tensor fused = capture::fuseNorm(*norm, read(norm->source).toTensor(),
                                       get(norm->root).toTensor(), weight,
                                       get(name).toTensor(), why);
  if (why.empty())
    bind(name, std::move(fused));
  notedNorms->push_back({location, std::move(why)});
}

void Pt2Interpreter::bindOutputs(const json::Object &node,
                                 const std::vector<c10::IValue> &results) {
  auto bindName = [&](const json::Value &reference, const c10::IValue &value) {
    bind(json::getString(json::asObject(reference), "name"), value);
  };
  size_t next = 0;
  auto take = [&]() -> const c10::IValue & {
    if (next == results.size())
      json::fail("no more outputs than results at '" +
                 json::getString(node, "name") + "'");
    return results[next++];
  };
  for (const json::Value &output : json::getArray(node, "outputs")) {
    auto [tag, value] = json::getUnion(output);
    if (tag == "as_tensor") {
      bindName(value, take());
    } else if (tag == "as_tensors") {
      const json::Array &names = json::asArray(value);
      // One result that is a list, or a region's results one by one.
      if (next < results.size() && results[next].isTensorList()) {
        auto list = take().toTensorVector();
        if (list.size() != names.size())
          json::fail("one name for each tensor of a list");
        for (size_t i = 0; i < names.size(); ++i)
          bindName(names[i], list[i]);
      } else {
        for (const json::Value &name : names)
          bindName(name, take());
      }
    } else if (std::string name = getPt2ValueName(output); !name.empty()) {
      bind(name, take());
    } else {
      take();
    }
  }
}

/// A node that computes a number from sizes.
void Pt2Interpreter::callNumberFunction(const std::string &function,
                                        const json::Object &node) {
  std::vector<Number> arguments;
  for (const json::Value &input : json::getArray(node, "inputs"))
    arguments.push_back(
        toNumber(evaluate(json::get(json::asObject(input), "arg"))));
  bindOutputs(node,
              {toIValue(capture::callNumberFunction(function, arguments))});
}

/// A node that asks a tensor for a size.
void Pt2Interpreter::callSizeQuery(const std::string &query,
                                   const json::Object &node) {
  const json::Array &inputs = json::getArray(node, "inputs");
  auto get = [&](size_t i) {
    if (i >= inputs.size())
      json::fail("a tensor and a dim at '" + query + "'");
    return evaluate(json::get(json::asObject(inputs[i]), "arg"));
  };
  at::Tensor tensor = get(0).toTensor();
  int64_t result = query == "sym_size"     ? tensor.size(get(1).toInt())
                   : query == "sym_stride" ? tensor.stride(get(1).toInt())
                   : query == "sym_numel"  ? tensor.numel()
                                           : tensor.storage_offset();
  bindOutputs(node, {result});
}

/// A condition on sizes that torch.export could not prove.
void Pt2Interpreter::checkAssertion(const json::Object &node) const {
  const json::Array &inputs = json::getArray(node, "inputs");
  if (inputs.empty() ||
      isTrue(toNumber(evaluate(json::get(json::asObject(inputs[0]), "arg")))))
    return;
  std::string message;
  if (inputs.size() > 1)
    if (auto [tag, text] =
            json::getUnion(json::get(json::asObject(inputs[1]), "arg"));
        tag == "as_string")
      message = json::asString(text);
  std::string where = getPt2Location(node).describe();
  throw Error(ErrorId::InputNotKnown,
              "the model asserts a condition on its sizes that does not hold" +
                  (where.empty() ? "" : " (" + where + ")") + ": " + message +
                  "; give the dimensions other sizes with --dim");
}

/// The tensors that the node is given.
std::vector<at::Tensor>
Pt2Interpreter::getTensors(const json::Object &node) const {
  std::vector<at::Tensor> tensors;
  for (const json::Value &input : json::getArray(node, "inputs")) {
    const json::Value &argument = json::get(json::asObject(input), "arg");
    if (!json::getUnion(argument).first.contains("_tensor"))
      continue;
    c10::IValue value = evaluate(argument);
    if (value.isTensor())
      tensors.push_back(value.toTensor());
    else if (value.isList())
      for (const c10::IValue &element : value.toListRef())
        if (element.isTensor())
          tensors.push_back(element.toTensor());
  }
  return tensors;
}

void Pt2Interpreter::run(const json::Object &graph) {
  running = &graph;
  tensors = json::findObject(graph, "tensor_values");
  if (paramDtype)
    casts = Pt2LostCasts(graph);
  if (notedNorms)
    norms = Pt2WrittenNorms(graph);
  for (const json::Value &value : json::getArray(graph, "nodes")) {
    const json::Object &node = json::asObject(value);
    Pt2Target target = resolvePt2Target(node);
    if (target.kind == Pt2NodeKind::Assertion)
      continue;
    Location location = getPt2Location(node);
    module = location.module;
    if (recorder)
      recorder->setLocation(location);
    if (backwards)
      backwards->inspect(node, at::GradMode::is_enabled(),
                         [&] { return getTensors(node); });
    runNode(node, target, location);
    if (notedNorms)
      fuseNorm(node, location);
  }
}

void Pt2Interpreter::runNode(const json::Object &node, const Pt2Target &target,
                             const Location &location) {
  if (target.region)
    return callRegion(*target.region, node);
  if (target.kind == Pt2NodeKind::NumberFunction)
    return callNumberFunction(target.function, node);
  if (target.kind == Pt2NodeKind::SizeAssertion)
    return checkAssertion(node);
  try {
    if (target.kind == Pt2NodeKind::SizeQuery)
      callSizeQuery(target.function, node);
    else if (!castToAnothers(node))
      callOperator(*target.op, node);
  } catch (const c10::Error &error) {
    std::string message = error.what_without_backtrace();
    std::string where = location.describe();
    throw Error(
        ErrorId::OperatorFailed,
        target.describe() + (where.empty() ? "" : " (" + where + ")") +
            " refuses its arguments: " + message.substr(0, message.find('\n')));
  }
}
