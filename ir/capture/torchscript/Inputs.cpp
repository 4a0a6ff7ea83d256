//===- Inputs.cpp - Arguments of a scripted forward -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/Inputs.h"

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <algorithm>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

/// Of those that models take as inputs.
std::optional<at::ScalarType> parseType(const std::string &name) {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  if (NUMBER != 0 && name == MLIRTEXT)                                         \
    return at::ScalarType::TORCH;
#include "support/ElementTypes.def"
  return std::nullopt;
}

const c10::TypePtr &withoutOptional(const c10::TypePtr &type) {
  const auto *optional = type->castRaw<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

bool isTensor(const c10::TypePtr &type) {
  return c10::TensorType::get()->isSubtypeOf(*type);
}

/// A dict with keys of text, a list or a tuple, all of tensors.
bool isContainer(const c10::TypePtr &type) {
  if (const auto *dict = type->castRaw<c10::DictType>())
    return dict->getKeyType()->kind() == c10::TypeKind::StringType &&
           isTensor(dict->getValueType());
  if (const auto *list = type->castRaw<c10::ListType>())
    return isTensor(list->getElementType());
  if (const auto *tuple = type->castRaw<c10::TupleType>())
    return std::all_of(tuple->elements().begin(), tuple->elements().end(),
                       isTensor);
  return false;
}

at::Tensor declareInput(const InputShape &shape, JointCapture &capture) {
  std::optional<at::ScalarType> type = parseType(shape.dtype);
  if (!type)
    throw Error(ErrorId::InputNotKnown,
                "--input=" + shape.name + ": '" + shape.dtype +
                    "' is not a dtype; use f32, bf16, i64, i1, ...");
  Input input;
  input.name = shape.name;
  input.type = TensorType::contiguous(*type, shape.shape);
  return capture.addInput(std::move(input));
}

/// "0", "1", … for the elements of a row without names.
std::vector<std::string> numberKeys(size_t count) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i)
    keys.push_back(std::to_string(i));
  return keys;
}

} // namespace

TorchScriptInputs::TorchScriptInputs(const c10::FunctionSchema &schema,
                                     const std::vector<InputShape> &shapes)
    : arguments(schema.arguments().begin() + 1, schema.arguments().end()),
      givenFor(arguments.size()) {
  for (const InputShape &shape : shapes)
    assign(shape);
}

/// "x (Tensor), mask (Optional[Tensor])".
std::string TorchScriptInputs::list() const {
  std::string text;
  for (const c10::Argument &argument : arguments)
    text += (text.empty() ? "" : ", ") + argument.name() + " (" +
            argument.type()->annotation_str() + ")";
  return text;
}

void TorchScriptInputs::assign(const InputShape &shape) {
  // The argument of that name, else the container with the longest name that
  // is its beginning.
  std::optional<size_t> found;
  std::string key;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &name = arguments[i].name();
    if (shape.name == name) {
      found = i;
      key.clear();
      break;
    }
    if (isContainer(withoutOptional(arguments[i].real_type())) &&
        shape.name.starts_with(name + "_") &&
        (!found || name.size() > arguments[*found].name().size())) {
      found = i;
      key = shape.name.substr(name.size() + 1);
    }
  }
  if (!found)
    throw Error(
        ErrorId::InputNotKnown,
        "--input names '" + shape.name +
            "', but the arguments of the model's forward are: " + list());
  givenFor[*found].push_back({&shape, key});
}

std::vector<c10::IValue> TorchScriptInputs::declare(JointCapture &capture) {
  std::vector<c10::IValue> values;
  for (size_t i = 0; i < arguments.size(); ++i)
    values.push_back(declare(arguments[i], givenFor[i], capture));
  return values;
}

c10::IValue TorchScriptInputs::declare(const c10::Argument &argument,
                                       const std::vector<Given> &given,
                                       JointCapture &capture) {
  if (!given.empty()) {
    if (auto value = declareType(
            argument, withoutOptional(argument.real_type()), given, capture))
      return *value;
    throw Error(ErrorId::InputNotKnown,
                "--input gives a tensor for '" + given.front().shape->name +
                    "', which is a " + argument.type()->annotation_str() +
                    "; the arguments of the model's forward are: " + list());
  }
  if (argument.default_value())
    return *argument.default_value();
  const c10::TypePtr &type = withoutOptional(argument.real_type());
  std::string suffix = !isContainer(type)               ? ""
                       : type->castRaw<c10::DictType>() ? "_KEY"
                                                        : "_0";
  throw Error(
      ErrorId::InputShapeMissing,
      "a .pt file does not state the shape of its inputs, and '" +
          argument.name() +
          "' has none; the arguments of the model's forward are: " + list() +
          "; give each tensor's as --input=" + argument.name() + suffix +
          ":f32[4,64]");
}

/// None if `given` does not fit the type.
std::optional<c10::IValue> TorchScriptInputs::declareType(
    const c10::Argument &argument, const c10::TypePtr &type,
    const std::vector<Given> &given, JointCapture &capture) {
  if (isTensor(type))
    return declareInput(*given.back().shape, capture);
  if (!isContainer(type) || given.front().key.empty())
    return std::nullopt;
  if (const auto *dict = type->castRaw<c10::DictType>()) {
    c10::impl::GenericDict values(dict->getKeyType(), dict->getValueType());
    for (const Given &row : given)
      values.insert_or_assign(row.key, declareInput(*row.shape, capture));
    return values;
  }
  if (type->castRaw<c10::ListType>()) {
    c10::List<at::Tensor> values;
    for (const at::Tensor &tensor :
         declareRow(argument, numberKeys(given.size()), given, capture))
      values.push_back(tensor);
    return values;
  }
  c10::TupleTypePtr tuple = type->cast<c10::TupleType>();
  std::vector<std::string> keys = numberKeys(tuple->elements().size());
  if (tuple->schema())
    for (size_t i = 0; i < keys.size(); ++i)
      keys[i] = tuple->schema()->arguments()[i].name();
  std::vector<c10::IValue> values;
  for (const at::Tensor &tensor : declareRow(argument, keys, given, capture))
    values.push_back(tensor);
  return tuple->schema()
             ? c10::IValue(c10::ivalue::Tuple::createNamed(values, tuple))
             : c10::IValue(c10::ivalue::Tuple::create(values));
}

/// The tensors of `keys`, each of which must be given, and no other.
std::vector<at::Tensor> TorchScriptInputs::declareRow(
    const c10::Argument &argument, const std::vector<std::string> &keys,
    const std::vector<Given> &given, JointCapture &capture) {
  for (const Given &row : given)
    if (std::find(keys.begin(), keys.end(), row.key) == keys.end()) {
      std::string names;
      for (const std::string &key : keys)
        names +=
            (names.empty() ? "'" : ", '") + argument.name() + "_" + key + "'";
      throw Error(ErrorId::InputNotKnown,
                  "--input names '" + row.shape->name + "', but '" +
                      argument.name() + "' is a " +
                      argument.type()->annotation_str() +
                      ", whose tensors are named " + names);
    }
  std::vector<at::Tensor> tensors;
  for (const std::string &key : keys) {
    auto row = std::find_if(given.begin(), given.end(),
                            [&](const Given &row) { return row.key == key; });
    if (row == given.end())
      throw Error(ErrorId::InputShapeMissing,
                  "'" + argument.name() + "_" + key +
                      "' has no shape; give it as --input=" + argument.name() +
                      "_" + key + ":f32[4,64]");
    tensors.push_back(declareInput(*row->shape, capture));
  }
  return tensors;
}
