//===- Pt2Operators.cpp - Operators that a node may call ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/Pt2Operators.h"
#include "ir/capture/Pt2Metadata.h"

#include <torch/version.h>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

[[noreturn]] void refuse(ErrorId id, const json::Object &node,
                         const std::string &name, const std::string &why) {
  std::string where = getPt2Location(node).describe();
  // A region may know its place by its nodes only.
  if (const json::Object *graph =
          where.empty() ? getPt2SubGraph(node) : nullptr)
    for (const json::Value &inner : json::getArray(*graph, "nodes"))
      if (where = getPt2Location(json::asObject(inner)).describe();
          !where.empty())
        break;
  throw Error(id, name + (where.empty() ? "" : " (" + where + ")") + " " + why);
}

/// The number or flag that the node passes for `name`, else the default.
std::optional<double> findNumber(const json::Object &node,
                                 const c10::OperatorHandle &op,
                                 llvm::StringRef name) {
  for (const json::Value &value : json::getArray(node, "inputs")) {
    const json::Object &input = json::asObject(value);
    if (json::getString(input, "name") != name)
      continue;
    auto [tag, number] = json::getUnion(json::get(input, "arg"));
    if (std::optional<bool> flag = number.getAsBoolean())
      return *flag;
    return number.getAsNumber();
  }
  for (const c10::Argument &argument : op.schema().arguments())
    if (argument.name() == name && argument.default_value()) {
      const c10::IValue &value = *argument.default_value();
      if (value.isBool())
        return value.toBool();
      if (value.isDouble())
        return value.toDouble();
    }
  return std::nullopt;
}

/// Dropout and other random operators, unless their arguments switch them off.
bool drawsNumbers(const json::Object &node, const c10::OperatorHandle &op) {
  if (op.operator_name().name.find("dropout") == std::string::npos &&
      !op.hasTag(at::Tag::nondeterministic_seeded))
    return false;
  for (const char *name : {"p", "dropout_p", "dropout", "train", "training"})
    if (findNumber(node, op, name) == 0.0)
      return false;
  return true;
}

void checkOperator(const json::Object &node, const c10::OperatorHandle &op) {
  std::string name = getOperatorName(op);
  if (drawsNumbers(node, op))
    refuse(ErrorId::RandomOperator, node, name,
           "draws random numbers, which is not supported yet; set dropout "
           "probabilities to 0 before exporting the model");
  // Indexing is seen to use masks only when it runs.
  bool index = op.operator_name().name == "aten::index";
  if (op.hasTag(at::Tag::data_dependent_output) ||
      (op.hasTag(at::Tag::dynamic_output_shape) && !index))
    refuse(ErrorId::DataDependent, node, name,
           "needs a tensor's values while the program is built; write the "
           "model so that shapes and control flow do not depend on them");
}

} // namespace

Pt2Target fsdp::capture::resolvePt2Target(const json::Object &node) {
  std::string target = json::getString(node, "target");
  llvm::StringRef rest = target;
  if (!rest.consume_front("torch.ops."))
    refuse(ErrorId::DynamicDimension, node,
           "the Python operation '" + target + "'",
           "computes with symbolic sizes; export the model without "
           "dynamic_shapes, at the shapes to train with");
  if (rest.consume_front("higher_order.")) {
    if (rest == "wrap_with_set_grad_enabled")
      return {Pt2NodeKind::GradRegion, std::nullopt};
    bool branch = rest == "cond" || rest == "while_loop";
    refuse(branch ? ErrorId::DataDependent : ErrorId::UnsupportedRegion, node,
           "the region '" + rest.str() + "'",
           branch ? "depends on tensors' values, which is not supported; "
                    "torch.where computes both sides"
           : rest == "wrap_with_autocast"
               ? "is not supported yet: export the model without autocast"
               : "is not supported yet; export the model without it");
  }
  auto [space, operation] = rest.split('.');
  auto [name, overload] = operation.split('.');
  std::string full = (space + "::" + name).str();
  if (full == "aten::_assert_tensor_metadata")
    return {Pt2NodeKind::Assertion, std::nullopt};
  std::string shown =
      full + (overload == "default" ? "" : "." + overload.str());
  std::optional<c10::OperatorHandle> op =
      c10::Dispatcher::singleton().findSchema(
          {full, overload == "default" ? "" : overload.str()});
  if (space != "aten")
    refuse(ErrorId::CustomOperator, node, shown,
           "is an operator of a library, not of PyTorch, which is not "
           "supported; replace it by PyTorch's own (aten::…)");
  if (!op)
    refuse(ErrorId::UnknownOperator, node, shown,
           "is not an operator of PyTorch " TORCH_VERSION
           "; export the model with that version");
  checkOperator(node, *op);
  return {Pt2NodeKind::Operator, op};
}

void fsdp::capture::findPt2Problems(const json::Object &graph,
                                    std::vector<CaptureProblem> &problems) {
  for (const json::Value &value : json::getArray(graph, "nodes")) {
    const json::Object &node = json::asObject(value);
    try {
      if (resolvePt2Target(node).kind == Pt2NodeKind::GradRegion)
        if (const json::Object *inner = getPt2SubGraph(node))
          findPt2Problems(*inner, problems);
    } catch (const Error &error) {
      problems.push_back({error.id(), error.what()});
    }
  }
}
