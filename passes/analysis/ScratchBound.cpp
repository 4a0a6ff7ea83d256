//===- ScratchBound.cpp - Temporaries of kernels --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rule of an op, by what LibTorch's CPU kernels do:
//
//   none       writes its results straight away
//   promotes   converts operands of another type than the widest one's
//   widens     converts operands and results of half types to single ones, and
//              back, where the processor does not multiply them
//   strided    makes its strided operands contiguous first
//   batched    widens, or is strided
//   copies     holds as much again as its operands and results (what an op
//              without a rule is taken for)
//   reorders   copies operands and results into the layout of a library, both
//              ways, and may keep partial sums for each thread
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/ScratchBound.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/Programs.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

namespace {

enum class Rule { None, Promotes, Widens, Strided, Batched, Copies, Reorders };

struct Row {
  StringLiteral name; // all overloads
  Rule rule;
};

constexpr Row kRows[] = {
    {"_foreach_norm", Rule::None},
    {"_to_copy", Rule::None},
    {"all", Rule::None},
    {"any", Rule::None},
    {"arange", Rule::None},
    {"argmax", Rule::None},
    {"argmin", Rule::None},
    {"cat", Rule::None},
    {"clone", Rule::None},
    {"constant_pad_nd", Rule::None},
    {"cumsum", Rule::None},
    {"embedding", Rule::None},
    {"empty", Rule::None},
    {"fill", Rule::None},
    {"full", Rule::None},
    {"full_like", Rule::None},
    {"linalg_vector_norm", Rule::None},
    {"mean", Rule::None},
    {"new_empty", Rule::None},
    {"new_full", Rule::None},
    {"new_ones", Rule::None},
    {"new_zeros", Rule::None},
    {"nll_loss_backward", Rule::None},
    {"nll_loss_forward", Rule::None},
    {"ones", Rule::None},
    {"ones_like", Rule::None},
    {"scalar_tensor", Rule::None},
    {"select_backward", Rule::None},
    {"slice_backward", Rule::None},
    {"stack", Rule::None},
    {"sum", Rule::None},
    {"tril", Rule::None},
    {"triu", Rule::None},
    {"zeros", Rule::None},
    {"zeros_like", Rule::None},
    {"add", Rule::Promotes},
    {"div", Rule::Promotes},
    {"eq", Rule::Promotes},
    {"ge", Rule::Promotes},
    {"gt", Rule::Promotes},
    {"le", Rule::Promotes},
    {"lt", Rule::Promotes},
    {"maximum", Rule::Promotes},
    {"minimum", Rule::Promotes},
    {"mul", Rule::Promotes},
    {"ne", Rule::Promotes},
    {"pow", Rule::Promotes},
    {"sub", Rule::Promotes},
    {"addmm", Rule::Widens},
    {"mm", Rule::Widens},
    {"_log_softmax", Rule::Strided},
    {"_log_softmax_backward_data", Rule::Strided},
    {"_softmax", Rule::Strided},
    {"_softmax_backward_data", Rule::Strided},
    {"baddbmm", Rule::Batched},
    {"bmm", Rule::Batched},
    {"embedding_dense_backward", Rule::Strided},
    {"gather", Rule::Strided},
    {"index_select", Rule::Strided},
    {"native_group_norm", Rule::Strided},
    {"native_layer_norm", Rule::Strided},
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

/// What the heap makes of an allocation.
int64_t allocated(int64_t bytes) {
  constexpr int64_t kRounding = 64;
  return bytes == 0 ? 0 : bytes + kRounding;
}

int64_t bytesOf(TypeRange types, bool onlyStrided = false) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (!onlyStrided || !aten::isContiguous(tensor))
        bytes += allocated(tensor.getNumElements() *
                           aten::getElementBytes(tensor.getElementType()));
  return bytes;
}

/// A number, a tensor without dims, is converted in passing.
int64_t convertedBytes(TypeRange operands) {
  int64_t widest = 0;
  Type common;
  for (Type type : operands) {
    auto tensor = cast<RankedTensorType>(type);
    int64_t bytes = aten::getElementBytes(tensor.getElementType());
    if (tensor.getRank() != 0 && bytes > widest) {
      widest = bytes;
      common = tensor.getElementType();
    }
  }
  int64_t converted = 0;
  for (Type type : operands) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getRank() != 0 && tensor.getElementType() != common)
      converted += allocated(tensor.getNumElements() * widest);
  }
  return converted;
}

bool isHalf(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
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
  int64_t all = bytesOf(op->getOperandTypes()) + bytesOf(op->getResultTypes());
  int64_t strided = bytesOf(op->getOperandTypes(), /*onlyStrided=*/true);
  bool hasHalf = llvm::any_of(op->getOperandTypes(), isHalf);
  switch (ruleOf(op, *schema)) {
  case Rule::None:
    return 0;
  case Rule::Promotes:
    return convertedBytes(op->getOperandTypes());
  case Rule::Widens:
    return hasHalf ? 2 * all : 0;
  case Rule::Strided:
    return strided;
  case Rule::Batched:
    return hasHalf ? 2 * all : strided;
  case Rule::Copies:
    return all;
  case Rule::Reorders:
    return 2 * all;
  }
  llvm_unreachable("unknown rule");
}

} // namespace

std::optional<int64_t> fsdp::getScratchBound(ModuleOp module) {
  if (getDevice(module) != "cpu")
    return std::nullopt;
  int64_t bound = 0;
  for (func::FuncOp program : getPrograms(module))
    for (Operation &op : program.getBody().front())
      bound = std::max(bound, boundOf(&op));
  return bound;
}
