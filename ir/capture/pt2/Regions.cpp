//===- Regions.cpp - Sub-graphs of an exported graph ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Regions.h"
#include "ir/capture/joint/Autocast.h"
#include "ir/capture/pt2/Enums.h"
#include "ir/capture/pt2/Operators.h"

#include "llvm/ADT/STLExtras.h"

using namespace fsdp;
using namespace fsdp::capture;
using Kind = Pt2Region::Kind;

namespace {

constexpr std::pair<const char *, Kind> supported[] = {
    {"wrap_with_set_grad_enabled", Kind::Grad},
    {"wrap_with_autocast", Kind::Autocast},
    {"cond", Kind::Branch},
    {"wrap", Kind::Plain},
    {"hints_wrapper", Kind::Plain},
    {"invoke_subgraph", Kind::Plain},
    {"strict_mode", Kind::Plain},
    // Whether to keep activations is the compiler's choice.
    {"tag_activation_checkpoint", Kind::Plain},
    {"wrap_activation_checkpoint", Kind::Plain},
    // As the Python package writes it (python/fsdp_opt/_flex.py).
    {"fsdp_flex_attention", Kind::Attention},
};

struct Refusal {
  const char *name;
  ErrorId id;
  const char *why;
};

constexpr const char *loop =
    "is a loop that is not supported; write it as a Python loop, which "
    "torch.export unrolls, or without a loop";
constexpr const char *custom =
    "calls an operator of a library, not of PyTorch, which is not supported; "
    "replace it by PyTorch's own (aten::…)";

constexpr Refusal refused[] = {
    {"while_loop", ErrorId::DataDependent,
     "depends on tensors' values, which is not supported; write it as a Python "
     "loop with a fixed number of steps, which torch.export unrolls"},
    {"scan", ErrorId::UnsupportedRegion, loop},
    {"associative_scan", ErrorId::UnsupportedRegion, loop},
    {"map", ErrorId::UnsupportedRegion, loop},
    {"map_impl", ErrorId::UnsupportedRegion, loop},
    {"flex_attention", ErrorId::UnsupportedRegion,
     "is not in the form that is read; write the file by fsdp_opt.export of "
     "the "
     "Python package"},
    {"auto_functionalized", ErrorId::CustomOperator, custom},
    {"auto_functionalized_v2", ErrorId::CustomOperator, custom},
    {"triton_kernel_wrapper_functional", ErrorId::CustomOperator, custom},
    {"triton_kernel_wrapper_mutation", ErrorId::CustomOperator, custom},
    {"call_torchbind", ErrorId::CustomOperator, custom},
};

const json::Value &getSetting(const Pt2Region &region, size_t index,
                              llvm::StringRef tag) {
  if (index < region.settings.size())
    if (auto [found, value] = json::getUnion(*region.settings[index]);
        found == tag)
      return value;
  json::fail("a region's rule of the kind '" + tag.str() + "'");
}

/// Names and hints say nothing about what is computed.
bool isOperand(const json::Value &argument) {
  llvm::StringRef tag = json::getUnion(argument).first;
  return tag != "as_string" && tag != "as_string_to_argument" &&
         tag != "as_none";
}

} // namespace

void fsdp::capture::forEachPt2SubGraph(
    const json::Object &node,
    llvm::function_ref<void(const json::Object &)> visit) {
  for (const json::Value &input : json::getArray(node, "inputs")) {
    auto [tag, value] = json::getUnion(json::get(json::asObject(input), "arg"));
    if (tag == "as_graph")
      visit(json::getObject(json::asObject(value), "graph"));
  }
}

Pt2Region fsdp::capture::readPt2Region(const json::Object &node,
                                       llvm::StringRef name) {
  std::string shown = "the region '" + name.str() + "'";
  for (const Refusal &row : refused)
    if (name == row.name)
      refusePt2Node(row.id, node, shown, row.why);
  const auto *found = llvm::find_if(
      supported, [&](const auto &row) { return name == row.first; });
  if (found == std::end(supported))
    refusePt2Node(ErrorId::UnsupportedRegion, node, shown,
                  "is not supported; export the model without it");

  Pt2Region region;
  region.kind = found->second;
  for (const json::Value &value : json::getArray(node, "inputs")) {
    const json::Object &input = json::asObject(value);
    const json::Value &argument = json::get(input, "arg");
    if (auto [tag, graph] = json::getUnion(argument); tag == "as_graph")
      region.graphs.push_back(&json::getObject(json::asObject(graph), "graph"));
    else if (region.graphs.empty())
      region.settings.push_back(&argument);
    else if (json::getString(input, "name").empty() && isOperand(argument))
      region.operands.push_back(&argument);
  }
  bool hasTwo = region.kind == Kind::Branch || region.kind == Kind::Attention;
  if (region.graphs.size() != (hasTwo ? 2 : 1))
    json::fail("the graphs of " + shown);

  if (region.kind == Kind::Branch) {
    if (region.settings.size() != 1)
      json::fail("a condition of " + shown);
    if (json::getUnion(*region.settings[0]).first == "as_tensor")
      refusePt2Node(ErrorId::DataDependent, node, shown,
                    "depends on tensors' values, which is not supported; "
                    "torch.where computes both sides");
  }
  if (region.kind == Kind::Autocast) {
    std::string device = json::asString(getSetting(region, 0, "as_string"));
    if (device != "cpu" && device != "cuda" &&
        json::asBool(getSetting(region, 2, "as_bool")))
      refusePt2Node(ErrorId::UnsupportedRegion, node, shown,
                    "is one for the device '" + device +
                        "', which is not supported; use torch.autocast for "
                        "'cpu' or 'cuda'");
  }
  return region;
}

Pt2Autocast fsdp::capture::readPt2Autocast(const Pt2Region &region) {
  Pt2Autocast result;
  if (json::asString(getSetting(region, 0, "as_string")) == "cuda")
    result.device = c10::kCUDA;
  result.enabled = json::asBool(getSetting(region, 2, "as_bool"));
  result.dtype = json::getUnion(*region.settings[1]).first == "as_none"
                     ? getAutocastDtype(result.device)
                     : getPt2ScalarType(json::asInt(
                           getSetting(region, 1, "as_scalar_type")));
  return result;
}
