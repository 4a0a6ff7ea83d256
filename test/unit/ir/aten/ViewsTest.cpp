//===- ViewsTest.cpp - The table's views against real storages ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls functional operators on real CPU tensors and compares which storages
// results and arguments share with what the table says. An operator that
// returns its argument's storage without an alias letter must stand in
// ir/aten/Facts.def, else the planner would free memory in use.
//
//===----------------------------------------------------------------------===//

#include "ir/aten/Schema.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <set>

using namespace fsdp::aten;

namespace {

const Schema *lookup(const c10::OperatorName &name) {
  std::string full = "aten." + name.name.substr(6);
  if (!name.overload_name.empty())
    full += "." + name.overload_name;
  return lookupSchema(full);
}

/// A value for an argument of that type: floats of `shape`, small numbers.
std::optional<c10::IValue> makeValue(const c10::Argument &argument,
                                     at::IntArrayRef shape, int64_t number) {
  if (argument.default_value())
    return *argument.default_value();
  const c10::TypePtr type = argument.type();
  switch (type->kind()) {
  case c10::TypeKind::OptionalType:
    return c10::IValue();
  case c10::TypeKind::TensorType:
    return at::ones(shape);
  case c10::TypeKind::IntType:
    if (argument.real_type()->kind() != c10::TypeKind::IntType &&
        argument.real_type()->kind() != c10::TypeKind::SymIntType)
      return int64_t(c10::ScalarType::Float);
    return number;
  case c10::TypeKind::SymIntType:
    return number;
  case c10::TypeKind::FloatType:
    return 0.0;
  case c10::TypeKind::NumberType:
    return at::Scalar(number);
  case c10::TypeKind::BoolType:
    return false;
  case c10::TypeKind::ListType: {
    c10::TypePtr element = type->castRaw<c10::ListType>()->getElementType();
    if (element->kind() == c10::TypeKind::TensorType)
      return c10::List<at::Tensor>({at::ones(shape), at::ones(shape)});
    if (element->kind() == c10::TypeKind::IntType ||
        element->kind() == c10::TypeKind::SymIntType) {
      const std::string &name = argument.name();
      bool sizes = name.find("size") != std::string::npos || name == "shape";
      return sizes ? c10::List<int64_t>(shape.vec())
                   : c10::List<int64_t>({0, 1});
    }
    return std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

/// The tensors of a value that have a storage.
std::vector<at::Tensor> flatten(const c10::IValue &value) {
  std::vector<at::Tensor> tensors;
  if (value.isTensor())
    tensors = {value.toTensor()};
  else if (value.isTensorList())
    tensors = value.toTensorVector();
  std::erase_if(tensors, [](const at::Tensor &tensor) {
    return !tensor.defined() || !tensor.has_storage();
  });
  return tensors;
}

/// Indices of the arguments whose storage `tensor` shares.
std::vector<int32_t> getSharers(const at::Tensor &tensor,
                                const std::vector<c10::IValue> &arguments) {
  std::vector<int32_t> sharers;
  for (size_t i = 0; i < arguments.size(); ++i)
    for (const at::Tensor &argument : flatten(arguments[i]))
      if (argument.storage().unsafeGetStorageImpl() ==
          tensor.storage().unsafeGetStorageImpl())
        sharers.push_back(int32_t(i));
  return sharers;
}

struct Sweep {
  int called = 0;
  std::set<std::string> sharing;  // operators that return an argument's storage
  std::set<std::string> unlisted; // results that do so unknown to the table
};

/// Calls `op` once and compares; false if the arguments do not suit it.
bool compareOnce(const c10::OperatorHandle &op, const Schema &schema,
                 at::IntArrayRef shape, int64_t number, Sweep &sweep) {
  std::vector<c10::IValue> arguments;
  for (const c10::Argument &argument : op.schema().arguments()) {
    std::optional<c10::IValue> value = makeValue(argument, shape, number);
    if (!value)
      return false;
    arguments.push_back(*value);
  }
  std::vector<c10::IValue> stack = arguments;
  try {
    op.callBoxed(stack);
  } catch (const std::exception &) {
    return false;
  }
  ++sweep.called;
  for (size_t r = 0; r < stack.size(); ++r)
    for (const at::Tensor &tensor : flatten(stack[r]))
      for (int32_t sharer : getSharers(tensor, arguments)) {
        sweep.sharing.insert(schema.name.str());
        if (schema.getViewSource(r) != sharer)
          sweep.unlisted.insert(schema.name.str() + " result " +
                                std::to_string(r) + " of argument " +
                                std::to_string(sharer));
      }
  return true;
}

// Operators of other devices and layouts, and those that crash or print when
// their arguments make no sense.
bool isExcluded(const std::string &name) {
  for (const char *part : {"cuda",
                           "mkldnn",
                           "miopen",
                           "cudnn",
                           "mps",
                           "xnnpack",
                           "fbgemm",
                           "nnpack",
                           "vulkan",
                           "sparse",
                           "nested",
                           "quantize",
                           "record_stream",
                           "from_file",
                           "_test_",
                           "_cslt",
                           "pin_memory",
                           "_rowwise_prune",
                           "_validate_",
                           "_print",
                           "_assert",
                           "_resize",
                           "batch_dim",
                           "_thnn_",
                           "_dyn_quant_",
                           "_foobar",
                           "_transform_bias_rescale_qkv",
                           "batch_norm",
                           "_transformer_encoder",
                           "_triton"})
    if (name.find(part) != std::string::npos)
      return true;
  return false;
}

TEST(Views, StoragesAreWhatTheTableSays) {
  c10::impl::ExcludeDispatchKeyGuard noAutograd(c10::autograd_dispatch_keyset);
  c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
  const std::vector<int64_t> shapes[] = {{4, 4}, {2, 3, 4}, {4}, {1, 1}};
  Sweep sweep;
  std::set<std::string> tried;
  for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0 || isExcluded(name.name))
      continue;
    auto op = dispatcher.findSchema(name);
    const Schema *schema = op ? lookup(name) : nullptr;
    if (!schema || schema->writes() || schema->is(NondeterministicSeeded))
      continue;
    bool returnsTensor = false;
    for (const Result &result : schema->results)
      returnsTensor |= result.isTensor();
    if (!returnsTensor || !op->schema().arguments().size())
      continue;
    for (const std::vector<int64_t> &shape : shapes)
      for (int64_t number : {0, 1, 2})
        if (compareOnce(*op, *schema, shape, number, sweep))
          tried.insert(schema->name.str());
  }
  std::printf("%zu operators, %d calls, %zu share storage\n", tried.size(),
              sweep.called, sweep.sharing.size());
  for (const std::string &view : sweep.unlisted)
    ADD_FAILURE() << view << " shares its storage; add it to "
                  << "ir/aten/Facts.def";
  // The sweep is worth something only while most operators can be called.
  EXPECT_GT(tried.size(), 500u);
  for (const char *name : {"aten._unsafe_view",
                           "aten.t",
                           "aten.transpose.int",
                           "aten.view",
                           "aten.expand",
                           "aten.unsqueeze",
                           "aten.select.int",
                           "aten.slice.Tensor",
                           "aten.split.Tensor",
                           "aten.unbind.int",
                           "aten.detach",
                           "aten.alias",
                           "aten.permute",
                           "aten.diagonal",
                           "aten.unfold",
                           "aten.as_strided",
                           "aten.unsafe_split.Tensor",
                           "aten.unsafe_chunk",
                           "aten.lift",
                           "aten.atleast_1d",
                           "aten.broadcast_tensors"})
    EXPECT_TRUE(sweep.sharing.count(name)) << name << " was not seen to share";
}

} // namespace
