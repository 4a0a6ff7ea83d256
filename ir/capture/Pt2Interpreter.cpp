//===- Pt2Interpreter.cpp - Runs an exported graph ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Pt2Interpreter.h"
#include "ir/capture/Pt2Enums.h"
#include "ir/capture/Pt2Metadata.h"
#include "ir/capture/Pt2Operators.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>

#include <limits>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

double getFloat(const json::Value &value) {
  if (std::optional<double> number = value.getAsNumber())
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

/// The number of a symbolic value that export could bind.
const json::Value &getBound(const json::Value &value, llvm::StringRef tag) {
  auto [kind, inner] = json::getUnion(value);
  if (kind == tag)
    return inner;
  throw Error(ErrorId::DynamicDimension,
              "the program computes with the symbolic size '" +
                  json::asString(inner) +
                  "'; export the model without dynamic_shapes, at the shapes "
                  "to train with");
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
    break;
  default:
    return value;
  }
  const c10::Type &element = *type.castRaw<c10::ListType>()->getElementType();
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

} // namespace

const c10::IValue &Pt2Interpreter::get(const std::string &name) const {
  if (auto it = values.find(name); it != values.end())
    return it->second;
  json::fail("a value named '" + name + "' before its use");
}

c10::IValue Pt2Interpreter::evaluate(const json::Value &argument) const {
  auto [tag, value] = json::getUnion(argument);
  auto byName = [&](const json::Value &reference) {
    return get(json::getString(json::asObject(reference), "name"));
  };
  if (tag == "as_tensor")
    return byName(value);
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
  if (tag == "as_optional_tensor") {
    auto [kind, inner] = json::getUnion(value);
    return kind == "as_none" ? c10::IValue() : byName(inner);
  }
  if (tag == "as_none")
    return {};
  if (tag == "as_int")
    return json::asInt(value);
  if (tag == "as_ints")
    return readList<int64_t>(value, json::asInt);
  if (tag == "as_float")
    return getFloat(value);
  if (tag == "as_floats")
    return readList<double>(value, getFloat);
  if (tag == "as_bool")
    return json::asBool(value);
  if (tag == "as_bools")
    return readList<bool>(value, json::asBool);
  if (tag == "as_string")
    return json::asString(value);
  if (tag == "as_strings")
    return readList<std::string>(value, json::asString);
  if (tag == "as_sym_int")
    return json::asInt(getBound(value, "as_int"));
  if (tag == "as_sym_ints")
    return readList<int64_t>(value, [](const json::Value &element) {
      return json::asInt(getBound(element, "as_int"));
    });
  if (tag == "as_sym_float")
    return getFloat(getBound(value, "as_float"));
  if (tag == "as_sym_bool")
    return json::asBool(getBound(value, "as_bool"));
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
  op.callBoxed(stack);
  bindOutputs(node, stack);
}

void Pt2Interpreter::callRegion(const json::Object &node) {
  const json::Array &inputs = json::getArray(node, "inputs");
  std::vector<c10::IValue> arguments;
  for (const json::Value &input : inputs) {
    const json::Value &argument = json::get(json::asObject(input), "arg");
    if (json::getUnion(argument).first != "as_graph")
      arguments.push_back(evaluate(argument));
  }
  const json::Object *graph = getPt2SubGraph(node);
  if (!graph || arguments.empty() || !arguments[0].isBool())
    json::fail("a flag and a graph as arguments of a gradient region");
  Pt2Interpreter region(device, recorder);
  const json::Array &parameters = json::getArray(*graph, "inputs");
  if (parameters.size() + 1 != arguments.size())
    json::fail("one argument for each input of a gradient region");
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto [tag, value] = json::getUnion(parameters[i]);
    if (tag == "as_tensor")
      region.bind(json::getString(json::asObject(value), "name"),
                  arguments[i + 1]);
  }
  {
    at::AutoGradMode mode(arguments[0].toBool());
    region.run(*graph);
  }
  std::vector<c10::IValue> results;
  for (const json::Value &output : json::getArray(*graph, "outputs"))
    results.push_back(region.evaluate(output));
  bindOutputs(node, results);
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
    } else if (tag == "as_sym_int" || tag == "as_sym_float" ||
               tag == "as_sym_bool") {
      throw Error(ErrorId::DynamicDimension,
                  "the program computes with symbolic sizes; export the model "
                  "without dynamic_shapes, at the shapes to train with");
    } else {
      take();
    }
  }
}

void Pt2Interpreter::run(const json::Object &graph) {
  for (const json::Value &value : json::getArray(graph, "nodes")) {
    const json::Object &node = json::asObject(value);
    Pt2Target target = resolvePt2Target(node);
    if (target.kind == Pt2NodeKind::Assertion)
      continue;
    Location location = getPt2Location(node);
    if (recorder)
      recorder->setLocation(location);
    if (target.kind == Pt2NodeKind::GradRegion) {
      callRegion(node);
      continue;
    }
    try {
      callOperator(*target.op, node);
    } catch (const c10::Error &error) {
      std::string message = error.what_without_backtrace();
      std::string where = location.describe();
      throw Error(ErrorId::OperatorFailed,
                  getOperatorName(*target.op) +
                      (where.empty() ? "" : " (" + where + ")") +
                      " refuses its arguments: " +
                      message.substr(0, message.find('\n')));
    }
  }
}
