//===- ScratchBound.cpp - Temporaries of kernels --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rule of an op, by what LibTorch's CPU kernels do:
//
//   none      writes its results straight away
//   copies    makes its strided operands contiguous and computes a result that
//             it then casts or moves (what an op without a rule is taken for)
//   reorders  copies operands and results into the layout of a library, both
//             ways, and may keep partial sums for each thread
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/ScratchBound.h"

#include "ir/aten/Aten.h"
#include "ir/fsdp/Fsdp.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

namespace {

enum class Rule { None, Copies, Reorders };

struct Row {
  StringLiteral name; // all overloads
  Rule rule;
};

constexpr Row kRows[] = {
    {"_foreach_norm", Rule::None},
    {"_log_softmax", Rule::None},
    {"_log_softmax_backward_data", Rule::None},
    {"_softmax", Rule::None},
    {"_softmax_backward_data", Rule::None},
    {"_to_copy", Rule::None},
    {"addmm", Rule::None},
    {"arange", Rule::None},
    {"baddbmm", Rule::None},
    {"bmm", Rule::None},
    {"cat", Rule::None},
    {"clone", Rule::None},
    {"embedding", Rule::None},
    {"empty", Rule::None},
    {"fill", Rule::None},
    {"full", Rule::None},
    {"full_like", Rule::None},
    {"gather", Rule::None},
    {"index_select", Rule::None},
    {"mm", Rule::None},
    {"native_layer_norm", Rule::None},
    {"nll_loss_forward", Rule::None},
    {"ones", Rule::None},
    {"ones_like", Rule::None},
    {"stack", Rule::None},
    {"sum", Rule::None},
    {"zeros", Rule::None},
    {"zeros_like", Rule::None},
    {"_scaled_dot_product_flash_attention_for_cpu", Rule::Reorders},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", Rule::Reorders},
    {"convolution", Rule::Reorders},
    {"convolution_backward", Rule::Reorders},
    {"native_batch_norm_backward", Rule::Reorders},
    {"native_group_norm_backward", Rule::Reorders},
    {"native_layer_norm_backward", Rule::Reorders},
};

Rule ruleOf(Operation *op, const aten::Schema &schema) {
  static const llvm::StringMap<Rule> *rules = [] {
    auto *map = new llvm::StringMap<Rule>;
    for (const Row &row : kRows)
      map->try_emplace(row.name, row.rule);
    return map;
  }();
  // "aten.add.Tensor": the base name is the part between the dots.
  StringRef name = schema.name.drop_front(StringRef("aten.").size());
  auto it = rules->find(name.split('.').first);
  if (it != rules->end())
    return it->second;
  return schema.is(aten::Flags::Pointwise) ? Rule::None : Rule::Copies;
}

int64_t bytesOf(TypeRange types, bool onlyStrided) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (!onlyStrided || !aten::isContiguous(tensor))
        bytes += tensor.getNumElements() *
                 aten::getElementBytes(tensor.getElementType());
  return bytes;
}

int64_t boundOf(Operation *op) {
  const aten::Schema *schema = aten::lookupSchema(op);
  // The project's own ops work in place, or in the communicator's buffers.
  if (!schema)
    return 0;
  if (llvm::any_of(op->getResults(), [](OpResult result) {
        return aten::getViewSource(result) != nullptr;
      }))
    return 0;
  switch (ruleOf(op, *schema)) {
  case Rule::None:
    return 0;
  case Rule::Copies:
    return bytesOf(op->getOperandTypes(), /*onlyStrided=*/true) +
           bytesOf(op->getResultTypes(), /*onlyStrided=*/false);
  case Rule::Reorders:
    return 2 * (bytesOf(op->getOperandTypes(), /*onlyStrided=*/false) +
                bytesOf(op->getResultTypes(), /*onlyStrided=*/false));
  }
  llvm_unreachable("unknown rule");
}

} // namespace

int64_t fsdp::getScratchBound(func::FuncOp program) {
  int64_t bound = 0;
  for (Operation &op : program.getBody().front())
    bound = std::max(bound, boundOf(&op));
  return bound;
}
