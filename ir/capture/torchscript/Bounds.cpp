//===- Bounds.cpp - Bounds of what a model's code makes -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/Bounds.h"

#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <string_view>

using namespace fsdp;
using namespace fsdp::capture;
namespace jit = torch::jit;
namespace prim = c10::prim;

namespace {

constexpr int64_t kMostIterations = 1'000'000;
constexpr int64_t kMostElements = 16'000'000;
constexpr int64_t kLongestText = 1 << 16;

// Of the one run that there is at a time; forked parts of it count too.
std::atomic<int64_t> iterations, elements;

int64_t lengthOf(const c10::IValue &value) {
  if (value.isString())
    return static_cast<int64_t>(value.toStringRef().size());
  if (value.isList())
    return static_cast<int64_t>(value.toList().size());
  if (value.isInt())
    return std::max<int64_t>(value.toInt(), 0);
  return 0;
}

void countElements(int64_t count) {
  if (count > kMostElements || (elements += count) > kMostElements)
    throw std::runtime_error("it makes texts and lists of more than " +
                             std::to_string(kMostElements) +
                             " elements, which no model needs");
}

/// Counts one more iteration of a loop.
void countIteration(jit::Stack &) {
  if (++iterations > kMostIterations)
    throw std::runtime_error("its loops run more than " +
                             std::to_string(kMostIterations) +
                             " times, and may have no end");
}

/// Of what was made.
void countSize(jit::Stack &stack) {
  c10::IValue value = jit::pop(stack);
  if (value.isString() && lengthOf(value) > kLongestText)
    throw std::runtime_error("it makes a text of more than " +
                             std::to_string(kLongestText) + " bytes");
  countElements(lengthOf(value));
}

/// Of what is about to be made out of two.
void countProduct(jit::Stack &stack) {
  int64_t b = lengthOf(jit::pop(stack)), a = lengthOf(jit::pop(stack));
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    product = INT64_MAX;
  countElements(product);
}

const jit::RegisterOperators bounds({
    jit::Operator("fsdp_bounds::iteration() -> ()", countIteration,
                  c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("fsdp_bounds::size(Any value) -> ()", countSize,
                  c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("fsdp_bounds::product(Any a, Any b) -> ()", countProduct,
                  c10::AliasAnalysisKind::CONSERVATIVE),
});

jit::Node *makeBound(jit::Node *at, const char *name,
                     at::ArrayRef<jit::Value *> inputs) {
  jit::Node *node = at->owningGraph()->create(
      c10::Symbol::fromQualString(std::string("fsdp_bounds::") + name), inputs,
      /*num_outputs=*/0);
  node->setSourceRange(at->sourceRange());
  return node;
}

bool mayGrow(const c10::TypePtr &type) {
  return type->kind() == c10::TypeKind::StringType ||
         type->kind() == c10::TypeKind::ListType;
}

} // namespace

void capture::putBounds(jit::Block *block) {
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    jit::Node *node = *it++;
    for (jit::Block *inner : node->blocks())
      putBounds(inner);
    if (node->hasAttribute(c10::attr::Subgraph))
      putBounds(node->g(c10::attr::Subgraph)->block());
    if (node->kind() == prim::Loop)
      makeBound(node, "iteration", {})
          ->insertAfter(node->blocks()[0]->param_node());
    std::string_view name = node->kind().toQualString();
    if (name == "prim::rangelist")
      makeBound(node, "size", {node->input(0)})->insertBefore(node);
    if (!node->kind().is_aten())
      continue;
    if (name == "aten::mul" &&
        (mayGrow(node->input(0)->type()) || mayGrow(node->input(1)->type())))
      makeBound(node, "product", {node->input(0), node->input(1)})
          ->insertBefore(node);
    if (name == "aten::extend")
      makeBound(node, "size", {node->input(1)})->insertBefore(node);
    for (jit::Value *output : node->outputs())
      if (mayGrow(output->type()))
        makeBound(node, "size", {output})->insertAfter(node);
  }
}

void capture::resetBounds() { iterations = elements = 0; }
