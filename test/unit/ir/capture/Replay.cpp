//===- Replay.cpp - Computes a joint graph on real tensors ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/Replay.h"
#include "ir/capture/joint/RecordData.h"

#include <ATen/core/grad_mode.h>

#include <stdexcept>

using namespace fsdp::capture;

at::Tensor fsdp::capture::loadRecord(const std::string &path,
                                     const Record &record,
                                     const TensorType &type) {
  at::Tensor data = readRecord(path, record, type);
  if (!data.defined())
    throw std::runtime_error("cannot read the record " + record.name);
  return data.clone(
      at::MemoryFormat::Contiguous); // canonical also for dims of size 1
}

std::vector<at::Tensor>
fsdp::capture::replay(const JointGraph &graph,
                      const std::vector<at::Tensor> &states,
                      const std::vector<at::Tensor> &inputs) {
  at::NoGradGuard none;
  std::vector<at::Tensor> values(graph.values.size());
  for (size_t i = 0; i < states.size(); ++i)
    values[graph.states[i].value] = states[i];
  for (size_t i = 0; i < inputs.size(); ++i)
    values[graph.inputs[i].value] = inputs[i];
  for (const Constant &constant : graph.constants)
    values[constant.value] = constant.data;

  auto get = [&](ValueId id) {
    return id == kNoValue ? at::Tensor() : values[id];
  };
  for (const Node &node : graph.nodes) {
    torch::jit::Stack stack;
    const auto &schema = node.op.schema().arguments();
    for (size_t i = 0; i < node.arguments.size(); ++i) {
      const Argument &argument = node.arguments[i];
      bool holes = schema[i].type()->str().find("?[]") != std::string::npos;
      if (argument.kind == Argument::Kind::Static) {
        stack.push_back(argument.value.isDevice() ? c10::IValue(c10::kCPU)
                                                  : argument.value);
      } else if (argument.kind == Argument::Kind::Tensor) {
        at::Tensor tensor = get(argument.tensors[0]);
        // Of none an undefined tensor, where the schema asks for one.
        bool isAsked = schema[i].type()->kind() == c10::TypeKind::TensorType;
        stack.push_back(tensor.defined() || isAsked ? c10::IValue(tensor)
                                                    : c10::IValue());
      } else if (holes) {
        c10::List<std::optional<at::Tensor>> list;
        for (ValueId id : argument.tensors)
          list.push_back(id == kNoValue ? std::nullopt
                                        : std::optional<at::Tensor>(get(id)));
        stack.push_back(list);
      } else {
        c10::List<at::Tensor> list;
        for (ValueId id : argument.tensors)
          list.push_back(get(id));
        stack.push_back(list);
      }
    }
    node.op.callBoxed(stack);
    size_t next = 0;
    auto define = [&](const at::Tensor &tensor) {
      ValueId id = node.results.at(next++);
      if (id == kNoValue)
        return;
      if (TensorType::of(tensor) != graph.values[id])
        throw std::runtime_error(getOperatorName(node.op) +
                                 " gives another type than was captured");
      values[id] = tensor;
    };
    for (const c10::IValue &result : stack) {
      if (result.isTensor())
        define(result.toTensor());
      else if (result.isTensorList())
        for (const at::Tensor &tensor : result.toTensorVector())
          define(tensor);
    }
  }
  std::vector<at::Tensor> results;
  for (const Result &result : graph.results)
    results.push_back(values[result.value]);
  return results;
}
