//===- Cuts.cpp - How ranks may compute an operator in parts --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Cuts.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

namespace {
struct Family {
  /// Dims of operands and results that have the same rows.
  void (*alike)(const WholeOp &, std::vector<Cut> &) = nullptr;
  /// Dims of which one is a part of the other, or lies in it.
  void (*within)(const WholeOp &, const Pieces &, std::vector<Cut> &) = nullptr;
};
} // namespace

Cut cuts::whole(const WholeOp &op) {
  Cut cut;
  cut.operands.assign(op.operands.size(), kWholePlace);
  cut.results.assign(op.results.size(), kWholePlace);
  return cut;
}

void cuts::addEach(const WholeOp &op, ArrayRef<int64_t> resultDims,
                   std::vector<Cut> &cuts) {
  for (auto [dim, to] : llvm::enumerate(resultDims)) {
    if (to == kNoDim)
      continue;
    Cut cut;
    cut.operands.assign(op.operands.size(), dim);
    cut.results.assign(op.results.size(), to);
    cuts.push_back(cut);
  }
}

void cuts::addPartial(const WholeOp &op, std::vector<Cut> &cuts) {
  Cut cut;
  cut.operands.assign(op.operands.size(), kPartialPlace);
  cut.results.assign(op.results.size(), kPartialPlace);
  cuts.push_back(cut);
}

static const llvm::StringMap<Family> &getFamilies() {
  static const auto *table = [] {
    auto *families = new llvm::StringMap<Family>;
    auto add = [&](auto rule, std::initializer_list<StringRef> names) {
      for (StringRef name : names) {
        Family &family =
            (*families)[name.starts_with("fsdp.") ? name.str()
                                                  : ("aten." + name).str()];
        if constexpr (std::is_same_v<decltype(rule), decltype(family.alike)>)
          family.alike = rule;
        else
          family.within = rule;
      }
    };
    add(cuts::addPointwise,
        {"_to_copy", "zeros_like", "ones_like", "full_like", "empty_like",
         "lift_fresh", "fill.Scalar", "fsdp.scale", "fsdp.encode"});
    add(cuts::addGreatest, {"fsdp.amax"});
    add(cuts::addCodes, {"fsdp.dequantize"});
    add(cuts::addViews, {"t", "transpose.int", "permute", "unsqueeze",
                         "squeeze", "squeeze.dim", "squeeze.dims", "select.int",
                         "slice.Tensor", "split.Tensor", "split_with_sizes",
                         "chunk", "unbind.int", "detach", "alias", "expand"});
    add(cuts::addBlocks, {"slice.Tensor", "split.Tensor", "split_with_sizes",
                          "chunk", "cat", "slice_backward"});
    add(cuts::addReshapes, {"view", "_unsafe_view"});
    add(cuts::addRetyped, {"view.dtype", "view_as_complex", "view_as_real"});
    add(cuts::addJoins,
        {"cat", "stack", "slice_backward", "select_backward", "constant_pad_nd",
         "new_zeros", "new_ones", "new_full", "new_empty"});
    add(cuts::addProducts, {"mm", "addmm", "bmm", "baddbmm", "_scaled_mm"});
    add(cuts::addAttention,
        {"_scaled_dot_product_flash_attention_for_cpu",
         "_scaled_dot_product_flash_attention_for_cpu_backward",
         "_scaled_dot_product_flash_attention",
         "_scaled_dot_product_flash_attention_backward",
         "_scaled_dot_product_efficient_attention",
         "_scaled_dot_product_efficient_attention_backward",
         "_scaled_dot_product_cudnn_attention",
         "_scaled_dot_product_cudnn_attention_backward"});
    add(cuts::addToldAttention,
        {"_flash_attention_forward", "_flash_attention_backward"});
    add(cuts::addReductions,
        {"sum", "sum.dim_IntList", "mean", "mean.dim", "amax", "amin",
         "any.dim", "all.dim", "argmax", "argmin", "logsumexp", "prod.dim_int",
         "var.correction", "std.correction", "var_mean.correction",
         "linalg_vector_norm"});
    add(cuts::addAlongOthers,
        {"_softmax", "_log_softmax", "_safe_softmax", "_softmax_backward_data",
         "_log_softmax_backward_data", "cumsum", "cumprod", "logcumsumexp",
         "sort", "topk", "flip"});
    add(cuts::addNorms, {"native_layer_norm", "native_layer_norm_backward",
                         "_fused_rms_norm", "_fused_rms_norm_backward"});
    add(cuts::addEmbeddings, {"embedding", "embedding_dense_backward"});
    add(cuts::addLosses, {"nll_loss_forward", "nll_loss_backward"});
    add(cuts::addExchanges, {"fsdp.all_gather", "fsdp.reduce_scatter",
                             "fsdp.all_reduce", "fsdp.shard", "fsdp.summand"});
    return families;
  }();
  return *table;
}

static Family findFamily(StringRef name) {
  auto it = getFamilies().find(name);
  if (it != getFamilies().end())
    return it->second;
  const aten::Schema *schema = aten::lookupSchema(name);
  Family family;
  if (schema && schema->is(aten::Pointwise) && !schema->writes())
    family.alike = cuts::addPointwise;
  return family;
}

bool fsdp::hasRule(StringRef name) {
  Family family = findFamily(name);
  return family.alike || family.within;
}

bool fsdp::isRetyping(StringRef name) {
  return findFamily(name).alike == cuts::addRetyped;
}

bool fsdp::isProduct(Operation *op) {
  return findFamily(op->getName().getStringRef()).alike == cuts::addProducts;
}

bool fsdp::addsToFirst(Operation *op) {
  return isProduct(op) && op->getNumOperands() == 3;
}

static bool isEven(ArrayRef<Place> places, ArrayRef<RankedTensorType> types,
                   const Pieces &pieces) {
  for (auto [place, type] : llvm::zip_equal(places, types)) {
    if (place == kWholePlace || place == kAnyPlace || place == kGreatestPlace)
      continue;
    if (!type)
      return false;
    // Sums of whole numbers would wrap round otherwise than the whole's.
    if (place == kPartialPlace) {
      if (!isa<FloatType>(type.getElementType()))
        return false;
      continue;
    }
    int64_t size = type.getDimSize(place.dim);
    int64_t number = place.blocks * pieces.ranks * (pieces.balanced ? 2 : 1);
    if (size == 0 || size % number != 0)
      return false;
  }
  return true;
}

/// `cut`, whose parts are of one block, with parts of `blocks`.
static Cut withBlocks(Cut cut, int64_t blocks) {
  for (auto *places : {&cut.operands, &cut.results})
    for (Place &place : *places)
      if (place.isPart())
        place.blocks = blocks;
  return cut;
}

static bool isFloatCast(Operation *op) {
  auto isFloat = [](Type type) {
    return isa<FloatType>(getElementTypeOrSelf(type));
  };
  return op->getName().getStringRef() == "aten._to_copy" &&
         isFloat(op->getOperand(0).getType()) &&
         isFloat(op->getResult(0).getType());
}

/// Whether nothing reads it but the program's end, perhaps through other casts:
/// a gradient is added up in the type that it leaves in, as those of other
/// batches are.
static bool isLastCast(Operation *op) {
  return isFloatCast(op) && llvm::all_of(op->getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>() || isLastCast(user);
         });
}

std::vector<Cut> fsdp::findCuts(const WholeOp &op, const Pieces &pieces) {
  Family family = findFamily(op.getName());
  std::vector<Cut> cuts;
  if (family.within)
    family.within(op, pieces, cuts);
  if (family.alike) {
    std::vector<Cut> simple;
    family.alike(op, simple);
    for (const Cut &cut : simple) {
      cuts.push_back(cut);
      if (isLookupOfRows(op.op, cut))
        continue; // it is told one range of rows
      for (int64_t blocks : pieces.blocks)
        if (Cut other = withBlocks(cut, blocks); other != cut)
          cuts.push_back(other);
    }
  }
  if (pieces.isContext && isLastCast(op.op))
    cuts::addPartial(op, cuts);
  std::erase_if(cuts, [&](const Cut &cut) {
    return !isEven(cut.operands, op.operands, pieces) ||
           !isEven(cut.results, op.results, pieces);
  });
  return cuts;
}
