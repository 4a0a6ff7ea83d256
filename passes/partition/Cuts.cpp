//===- Cuts.cpp - How ranks may compute an operator in parts --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Cuts.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fsdp;

using Family = void (*)(const WholeOp &, std::vector<Cut> &);

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
    auto add = [&](Family family, std::initializer_list<StringRef> names) {
      for (StringRef name : names)
        (*families)[("aten." + name).str()] = family;
    };
    add(cuts::addPointwise, {"_to_copy", "zeros_like", "ones_like", "full_like",
                             "empty_like", "lift_fresh", "fill.Scalar"});
    add(cuts::addViews, {"t", "transpose.int", "permute", "unsqueeze",
                         "squeeze", "squeeze.dim", "squeeze.dims", "select.int",
                         "slice.Tensor", "split.Tensor", "split_with_sizes",
                         "chunk", "unbind.int", "detach", "alias", "expand"});
    add(cuts::addReshapes, {"view", "_unsafe_view"});
    add(cuts::addJoins,
        {"cat", "stack", "slice_backward", "select_backward", "constant_pad_nd",
         "new_zeros", "new_ones", "new_full", "new_empty"});
    add(cuts::addProducts, {"mm", "addmm", "bmm", "baddbmm"});
    add(cuts::addAttention,
        {"_scaled_dot_product_flash_attention_for_cpu",
         "_scaled_dot_product_flash_attention_for_cpu_backward",
         "_scaled_dot_product_flash_attention",
         "_scaled_dot_product_flash_attention_backward",
         "_scaled_dot_product_efficient_attention",
         "_scaled_dot_product_efficient_attention_backward",
         "_scaled_dot_product_cudnn_attention",
         "_scaled_dot_product_cudnn_attention_backward"});
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
    return families;
  }();
  return *table;
}

static Family findFamily(StringRef name) {
  auto it = getFamilies().find(name);
  if (it != getFamilies().end())
    return it->second;
  const aten::Schema *schema = aten::lookupSchema(name);
  return schema && schema->is(aten::Pointwise) && !schema->writes()
             ? cuts::addPointwise
             : nullptr;
}

bool fsdp::hasRule(StringRef name) { return findFamily(name); }

bool fsdp::isProduct(Operation *op) {
  return findFamily(op->getName().getStringRef()) == cuts::addProducts;
}

bool fsdp::addsToFirst(Operation *op) {
  return isProduct(op) && op->getNumOperands() == 3;
}

static bool isEven(ArrayRef<Place> places, ArrayRef<RankedTensorType> types,
                   int64_t ranks) {
  for (auto [place, type] : llvm::zip_equal(places, types)) {
    if (place == kWholePlace || place == kAnyPlace)
      continue;
    if (!type)
      return false;
    // Sums of whole numbers would wrap round otherwise than the whole's.
    if (place == kPartialPlace) {
      if (!isa<FloatType>(type.getElementType()))
        return false;
      continue;
    }
    int64_t size = type.getDimSize(place);
    if (size == 0 || size % ranks != 0)
      return false;
  }
  return true;
}

std::vector<Cut> fsdp::findCuts(const WholeOp &op, int64_t ranks) {
  Family family = findFamily(op.getName());
  std::vector<Cut> cuts;
  if (!family)
    return cuts;
  family(op, cuts);
  std::erase_if(cuts, [&](const Cut &cut) {
    return !isEven(cut.operands, op.operands, ranks) ||
           !isEven(cut.results, op.results, ranks);
  });
  return cuts;
}
