//===- Operators.cpp - Operators that a node may call ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Operators.h"
#include "ir/capture/joint/DataDependence.h"
#include "ir/capture/pt2/FlexAttention.h"
#include "ir/capture/pt2/Metadata.h"
#include "ir/capture/symbolic/Number.h"

#include "llvm/ADT/STLExtras.h"

#include <torch/version.h>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

/// Results, if there are any, are tokens that only other assertions take.
constexpr const char *assertions[] = {
    "aten::_assert_tensor_metadata",
    "aten::_assert_async",
    "aten::_functional_assert_async",
    "aten::_functional_assert_scalar",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
    "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size",
    "aten::_make_dep_token",
    "aten::_print",
};

/// Operators of libraries that are registered in ir/capture/meta as PyTorch's
/// own that they stand for.
constexpr const char *decomposed[] = {"transformers::grouped_mm_fallback"};

void checkOperator(const json::Object &node, const c10::OperatorHandle &op) {
  std::string name = getOperatorName(op);
  // A number that no size gives: item, and its kin.
  for (const json::Value &output : json::getArray(node, "outputs"))
    if (json::getUnion(output).first.starts_with("as_sym_"))
      refusePt2Node(
          ErrorId::DataDependent, node, name,
          "makes a size of a tensor's values, which are known only when the "
          "model runs; write the model so that shapes and control flow do not "
          "depend on them");
  // What arguments decide, as masks of an index, is seen when it runs.
  if (alwaysDependsOnData(op))
    refusePt2Node(
        ErrorId::DataDependent, node, name,
        "needs a tensor's values while the program is built; write the "
        "model so that shapes and control flow do not depend on them");
}

} // namespace

void fsdp::capture::refusePt2Node(ErrorId id, const json::Object &node,
                                  const std::string &name,
                                  const std::string &why) {
  std::string where = getPt2Location(node).describe();
  // A region may know its place by its nodes only.
  if (where.empty())
    forEachPt2SubGraph(node, [&](const json::Object &graph) {
      for (const json::Value &inner : json::getArray(graph, "nodes"))
        if (where.empty())
          where = getPt2Location(json::asObject(inner)).describe();
    });
  throw Error(id, name + (where.empty() ? "" : " (" + where + ")") + " " + why);
}

std::string Pt2Target::describe() const {
  return op ? getOperatorName(*op) : function;
}

Pt2Target fsdp::capture::resolvePt2Target(const json::Object &node) {
  std::string target = json::getString(node, "target");
  llvm::StringRef rest = target;
  if (!rest.consume_front("torch.ops.")) {
    // _operator.mul, math.trunc, torch.sym_max
    std::string function = rest.rsplit('.').second.str();
    if (!isNumberFunction(function))
      refusePt2Node(ErrorId::DynamicDimension, node,
                    "the Python operation '" + target + "'",
                    "is not known; export the model without dynamic_shapes, at "
                    "the shapes to train with");
    return {Pt2NodeKind::NumberFunction, std::nullopt, std::nullopt,
            std::move(function)};
  }
  if (rest.consume_front("higher_order."))
    return {Pt2NodeKind::Region, std::nullopt, readPt2Region(node, rest), {}};
  auto [space, operation] = rest.split('.');
  auto [name, overload] = operation.split('.');
  std::string full = (space + "::" + name).str();
  if (full == "aten::_assert_scalar")
    return {Pt2NodeKind::SizeAssertion, std::nullopt, std::nullopt, {}};
  if (llvm::is_contained(assertions, full))
    return {Pt2NodeKind::Assertion, std::nullopt, std::nullopt, {}};
  if (full == "aten::sym_size" || full == "aten::sym_stride" ||
      full == "aten::sym_numel" || full == "aten::sym_storage_offset")
    return {Pt2NodeKind::SizeQuery, std::nullopt, std::nullopt, name.str()};
  std::string shown =
      full + (overload == "default" ? "" : "." + overload.str());
  std::optional<c10::OperatorHandle> op =
      c10::Dispatcher::singleton().findSchema(
          {full, overload == "default" ? "" : overload.str()});
  if (space != "aten" && !llvm::is_contained(decomposed, full))
    refusePt2Node(
        ErrorId::CustomOperator, node, shown,
        "is an operator of a library, not of PyTorch; say what it stands for "
        "before the model is saved: exported.run_decompositions({torch.ops." +
            (space + "." + name).str() +
            ".default: function}) (docs/Operators.md), or write the model "
            "without it");
  if (!op)
    refusePt2Node(ErrorId::UnknownOperator, node, shown,
                  "is not an operator of PyTorch " TORCH_VERSION
                  "; export the model with that version");
  checkOperator(node, *op);
  return {Pt2NodeKind::Operator, op, std::nullopt, {}};
}

void fsdp::capture::findPt2Problems(const json::Object &graph,
                                    std::vector<CaptureProblem> &problems) {
  for (const json::Value &value : json::getArray(graph, "nodes")) {
    const json::Object &node = json::asObject(value);
    try {
      if (std::optional<Pt2Region> region = resolvePt2Target(node).region) {
        if (region->kind == Pt2Region::Kind::Attention)
          checkPt2FlexAttention(*region, node);
        else
          for (const json::Object *inner : region->graphs)
            findPt2Problems(*inner, problems);
      }
    } catch (const Error &error) {
      problems.push_back({error.id(), error.what()});
    }
  }
}
