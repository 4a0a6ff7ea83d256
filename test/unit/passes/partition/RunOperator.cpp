//===- RunOperator.cpp - LibTorch computes an op of the dialect -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "RunOperator.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

using namespace fsdp::test;

static c10::IValue toValue(const StaticArgument &argument) {
  return std::visit(
      [](const auto &value) -> c10::IValue {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::vector<int64_t>>) {
          return c10::IValue(c10::List<int64_t>(value));
        } else if constexpr (std::is_same_v<Value, std::vector<bool>>) {
          c10::List<bool> list;
          for (bool each : value)
            list.push_back(each);
          return c10::IValue(list);
        } else if constexpr (std::is_same_v<Value, std::string>) {
          for (std::string_view prefix : {"dtype:", "format:"})
            if (value.starts_with(prefix))
              return c10::IValue(
                  int64_t(std::stoll(value.substr(prefix.size()))));
          return c10::IValue(value);
        } else {
          return c10::IValue(value);
        }
      },
      argument.value);
}

std::vector<at::Tensor>
fsdp::test::runOperator(const std::string &name,
                        const std::vector<TensorArgument> &tensors,
                        const std::vector<StaticArgument> &statics) {
  std::string base = name.substr(5), overload;
  if (size_t dot = base.find('.'); dot != std::string::npos) {
    overload = base.substr(dot + 1);
    base.resize(dot);
  }
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      ("aten::" + base).c_str(), overload.c_str());
  torch::jit::Stack stack;
  for (const c10::Argument &argument : op.schema().arguments()) {
    auto isNamed = [&](const auto &each) {
      return each.name == argument.name();
    };
    if (auto it = std::find_if(tensors.begin(), tensors.end(), isNamed);
        it != tensors.end()) {
      if (it->isList)
        stack.emplace_back(c10::List<at::Tensor>(it->tensors));
      else
        stack.emplace_back(it->tensors.front());
    } else if (auto given =
                   std::find_if(statics.begin(), statics.end(), isNamed);
               given != statics.end()) {
      stack.push_back(toValue(*given));
    } else {
      stack.push_back(argument.default_value().value_or(c10::IValue()));
    }
  }
  op.callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue &value : stack)
    if (value.isTensor())
      results.push_back(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &each : value.toTensorVector())
        results.push_back(each);
  return results;
}
