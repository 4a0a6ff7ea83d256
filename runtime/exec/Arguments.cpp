//===- Arguments.cpp - From a plan's arguments to LibTorch's --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Arguments.h"

#include "runtime/device/DTypes.h"
#include "support/Error.h"

#include <ATen/core/List.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/util/complex.h>

using namespace fsdp;
using plan::ArgKind;

static c10::MemoryFormat toMemoryFormat(int64_t format) {
  switch (format) {
  case 0:
    return c10::MemoryFormat::Contiguous;
  case 1:
    return c10::MemoryFormat::Preserve;
  case 2:
    return c10::MemoryFormat::ChannelsLast;
  default:
    return c10::MemoryFormat::ChannelsLast3d;
  }
}

/// Element or optional content of `type`, as deep as it goes.
static c10::TypePtr innermost(c10::TypePtr type) {
  while (true) {
    if (auto optional = type->cast<c10::OptionalType>())
      type = optional->getElementType();
    else if (auto list = type->cast<c10::ListType>())
      type = list->getElementType();
    else
      return type;
  }
}

static c10::IValue makeNumbers(const std::vector<double> &numbers,
                               const c10::TypePtr &element) {
  if (element->kind() != c10::TypeKind::NumberType) {
    c10::List<double> list;
    for (double number : numbers)
      list.push_back(number);
    return list;
  }
  c10::impl::GenericList scalars(c10::NumberType::get());
  for (double number : numbers)
    scalars.push_back(number);
  return scalars;
}

static c10::IValue makeIntegers(const std::vector<int64_t> &ints,
                                const c10::TypePtr &element) {
  if (element->kind() == c10::TypeKind::FloatType)
    return makeNumbers({ints.begin(), ints.end()}, element);
  if (element->kind() == c10::TypeKind::NumberType) {
    c10::impl::GenericList scalars(c10::NumberType::get());
    for (int64_t value : ints)
      scalars.push_back(value);
    return scalars;
  }
  c10::List<int64_t> list;
  for (int64_t value : ints)
    list.push_back(value);
  return list;
}

/// Where a call's tensors are: its results, or else its operands.
static c10::Device deviceOf(const Preparation &p, const plan::CallT &call) {
  for (int32_t result : call.results)
    if (result >= 0)
      return p.deviceOf(static_cast<uint32_t>(result));
  return p.device.torch();
}

static c10::IValue makeArgument(const Preparation &p, const plan::CallT &call,
                                const plan::ArgT &arg,
                                const c10::TypePtr &element) {
  switch (arg.kind) {
  case ArgKind::none:
    return {};
  case ArgKind::tensor:
    return p.values[arg.values[0]];
  case ArgKind::tensors: {
    c10::List<at::Tensor> list;
    for (int32_t value : arg.values)
      list.push_back(p.values[value]);
    return list;
  }
  case ArgKind::optional_tensors: {
    c10::List<std::optional<at::Tensor>> list;
    for (int32_t value : arg.values)
      list.push_back(value < 0 ? std::optional<at::Tensor>()
                               : std::optional<at::Tensor>(p.values[value]));
    return list;
  }
  case ArgKind::integer:
    if (element->kind() == c10::TypeKind::FloatType)
      return static_cast<double>(arg.ints[0]);
    return arg.ints[0];
  case ArgKind::number:
    return arg.doubles[0];
  case ArgKind::boolean:
    return arg.ints[0] != 0;
  case ArgKind::text:
    return arg.text;
  case ArgKind::integers:
    return makeIntegers(arg.ints, element);
  case ArgKind::numbers:
    return makeNumbers(arg.doubles, element);
  case ArgKind::booleans: {
    c10::List<bool> list;
    for (int64_t value : arg.ints)
      list.push_back(value != 0);
    return list;
  }
  case ArgKind::dtype:
    return toScalarType(static_cast<plan::DType>(arg.ints[0]));
  case ArgKind::device:
    return deviceOf(p, call);
  case ArgKind::layout:
    return c10::Layout::Strided;
  case ArgKind::memory_format:
    return toMemoryFormat(arg.ints[0]);
  case ArgKind::complex:
    return c10::IValue(c10::complex<double>(arg.doubles[0], arg.doubles[1]));
  }
  throw Error(ErrorId::ArtifactCorrupted, "an argument has an unknown kind");
}

std::vector<c10::IValue>
fsdp::makeArguments(const Preparation &p, const plan::CallT &call,
                    const c10::FunctionSchema &schema) {
  const std::vector<c10::Argument> &formals = schema.arguments();
  if (call.args.size() != formals.size())
    throw Error(ErrorId::ArtifactCorrupted,
                "the plan passes " + std::to_string(call.args.size()) +
                    " arguments; this LibTorch expects " +
                    std::to_string(formals.size()));
  std::vector<c10::IValue> arguments;
  for (size_t i = 0; i < formals.size(); ++i) {
    // The real type: it tells SymInt and ScalarType, which `type` calls int.
    arguments.push_back(
        makeArgument(p, call, *call.args[i], innermost(formals[i].type())));
    // Some operators take undefined tensors without saying so. Such a one has
    // no type to be asked for.
    if (arguments.back().isNone() &&
        formals[i].type()->kind() == c10::TypeKind::TensorType) {
      arguments.back() = at::Tensor();
      continue;
    }
    const c10::IValue &value = arguments.back();
    bool isOptional = formals[i].type()->kind() == c10::TypeKind::OptionalType;
    if (value.isNone() ? !isOptional
                       : !value.type()->isSubtypeOf(*formals[i].type()) &&
                             innermost(formals[i].type())->kind() !=
                                 c10::TypeKind::NumberType &&
                             !value.isList())
      throw Error(ErrorId::ArtifactCorrupted,
                  "argument '" + formals[i].name() + "' is to be " +
                      formals[i].type()->str() + ", the plan passes " +
                      value.type()->str());
  }
  return arguments;
}
