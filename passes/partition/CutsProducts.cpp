//===- CutsProducts.cpp - Cuts of matrix products and attention -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/partition/Cuts.h"

using namespace mlir;
using namespace fsdp;

/// Where a summand that is broadcast over the result is cut along its `dim`.
static Place placeSummand(RankedTensorType summand, RankedTensorType result,
                          int64_t dim) {
  int64_t own = dim - (result.getRank() - summand.getRank());
  return own < 0 || summand.getDimSize(own) == 1 ? kWholePlace : Place(own);
}

// [batch] m k times [batch] k n, perhaps with a summand in front.
void cuts::addProducts(const WholeOp &op, std::vector<Cut> &cuts) {
  bool hasSummand = op.operands.size() == 3;
  size_t left = hasSummand ? 1 : 0, right = left + 1;
  RankedTensorType result = op.results.front();
  int64_t rank = result.getRank(), m = rank - 2, n = rank - 1;
  auto add = [&](Place a, Place b, Place to) {
    Cut cut = whole(op);
    cut.operands[left] = a;
    cut.operands[right] = b;
    cut.results[0] = to;
    if (hasSummand)
      cut.operands[0] = to == kPartialPlace
                            ? kPartialPlace
                            : placeSummand(op.operands[0], result, to.dim);
    cuts.push_back(cut);
  };
  if (rank == 3)
    add(0, 0, 0);
  add(m, kWholePlace, m);
  add(kWholePlace, n, n);
  add(n, m, kPartialPlace); // k is the last of the left, the other of the right
}

bool fsdp::isCausalAttention(Operation *op) {
  if (!op->getName().getStringRef().contains("scaled_dot_product"))
    return false;
  auto causal = dyn_cast_or_null<BoolAttr>(
      WholeOp::ofCaptured(op).getStatic("is_causal"));
  return causal && causal.getValue();
}

/// Queries do not know of each other; gradients of keys and values are sums
/// over them. Under a causal mask keys are read up to a query's own place: what
/// ranks compute is lowered by `fsdp-lower-context`, which knows balanced
/// parts.
static void addQueries(const WholeOp &op, const Pieces &pieces,
                       std::vector<Cut> &cuts) {
  StringRef name = op.getName();
  bool isBackward = name.consume_back("_backward");
  // Those whose logarithms of sums are natural ones.
  constexpr StringRef kKernels[] = {
      "aten._scaled_dot_product_flash_attention_for_cpu",
      "aten._scaled_dot_product_flash_attention",
      "aten._scaled_dot_product_cudnn_attention"};
  if (!pieces.isContext || !llvm::is_contained(kKernels, name))
    return;
  SmallVector<StringRef> names = op.getOperandNames();
  auto typeOf = [&](StringRef operand) {
    return op.operands[llvm::find(names, operand) - names.begin()];
  };
  int64_t queries = typeOf("query").getDimSize(2);
  if (isCausalAttention(op.op) &&
      (!pieces.balanced || typeOf("key").getDimSize(2) != queries ||
       llvm::is_contained(names, "attn_mask") ||
       llvm::is_contained(names, "attn_bias")))
    return;
  Cut cut = cuts::whole(op);
  for (auto [i, operand] : llvm::enumerate(names)) {
    RankedTensorType type = op.operands[i];
    if (llvm::is_contained(
            {"query", "grad_out", "grad_out_", "out", "logsumexp"}, operand)) {
      if (type.getRank() < 3 || type.getDimSize(2) != queries)
        return;
      cut.operands[i] = 2;
    } else if (operand == "attn_mask" || operand == "attn_bias") {
      int64_t own = type.getRank() - 2;
      if (own >= 0 && type.getDimSize(own) != 1)
        cut.operands[i] = own;
    }
  }
  // Keys and values that are passed on are parts as the queries are.
  auto isMasked = [&](StringRef operand) {
    return operand == "attn_mask" || operand == "attn_bias";
  };
  bool rings = pieces.ring && typeOf("key").getDimSize(2) == queries &&
               llvm::none_of(names, isMasked);
  cut.results[0] = 2;
  if (isBackward)
    cut.results[1] = cut.results[2] = kPartialPlace;
  else if (op.results[1] && op.results[1].getRank() >= 3 &&
           op.results[1].getDimSize(2) == queries)
    cut.results[1] = 2;
  else
    return;
  cuts.push_back(cut);
  if (!rings)
    return;
  for (auto [i, operand] : llvm::enumerate(names))
    if (operand == "key" || operand == "value")
      cut.operands[i] = 2;
  if (isBackward)
    cut.results[1] = cut.results[2] = 2;
  cuts.push_back(cut);
}

/// Whether it is attention of which a kernel is told what is seen.
static bool isTold(const WholeOp &op) {
  return op.getName().starts_with("aten._flash_attention_");
}

std::optional<int64_t> fsdp::findWindow(const WholeOp &op) {
  if (!isTold(op) || op.results.front().getRank() != 4 ||
      llvm::is_contained(op.getOperandNames(), "cum_seq_q"))
    return std::nullopt;
  auto causal = dyn_cast_or_null<BoolAttr>(op.getStatic("is_causal"));
  std::optional<int64_t> left = op.getInt("window_size_left");
  if ((causal && causal.getValue()) || !left || *left < 0 ||
      op.getInt("window_size_right") != 0)
    return std::nullopt;
  return left;
}

std::optional<Place> fsdp::findDocumentsPlace(const WholeOp &op) {
  if (!isTold(op))
    return std::nullopt;
  SmallVector<StringRef> names = op.getOperandNames();
  if (!llvm::is_contained(names, "cum_seq_q"))
    return std::nullopt;
  std::optional<int64_t> left = op.getInt("window_size_left"),
                         right = op.getInt("window_size_right"),
                         length = op.getInt("max_k");
  bool isWindow = left.value_or(-1) >= 0 || right.value_or(-1) >= 0;
  RankedTensorType key = op.operands[llvm::find(names, "key") - names.begin()];
  if ((isWindow && (left.value_or(-1) < 0 || right != 0)) || !length ||
      *length < 1 || key.getDimSize(0) % *length != 0)
    return std::nullopt;
  return Place(0, key.getDimSize(0) / *length);
}

int64_t fsdp::getTokensDim(const WholeOp &op) { return isTold(op) ? 1 : 2; }

bool fsdp::isRing(const WholeOp &op, const Cut &cut) {
  if (!op.getName().contains("scaled_dot_product") && !findWindow(op))
    return false;
  SmallVector<StringRef> names = op.getOperandNames();
  auto key = llvm::find(names, "key");
  return key != names.end() &&
         cut.operands[key - names.begin()] == Place(getTokensDim(op));
}

/// Each rank would draw other numbers for its part.
static bool dropsOut(const WholeOp &op) {
  auto dropout = dyn_cast_or_null<FloatAttr>(op.getStatic("dropout_p"));
  return dropout && dropout.getValueAsDouble() != 0;
}

/// Operands of attention of which each head has its own part, forward or
/// backward; their sums' logarithms are laid out in an order of their own.
static bool isOfHeads(StringRef operand) {
  return llvm::is_contained(
      {"query", "key", "value", "grad_out", "grad_out_", "out"}, operand);
}

/// Batch and heads are independent of each other.
void cuts::addAttention(const WholeOp &op, const Pieces &pieces,
                        std::vector<Cut> &cuts) {
  if (dropsOut(op))
    return;
  bool isBackward = op.getName().ends_with("_backward");
  SmallVector<StringRef> names = op.getOperandNames();
  for (int64_t dim : {0, 1}) {
    Cut cut = whole(op);
    bool fits = true;
    for (auto [i, name] : llvm::enumerate(names)) {
      RankedTensorType type = op.operands[i];
      if (isOfHeads(name) || name == "logsumexp") {
        fits &= type.getRank() > dim + 1;
        cut.operands[i] = dim;
      } else if (name == "attn_mask" || name == "attn_bias") {
        int64_t own = dim - (4 - type.getRank());
        if (own >= 0 && type.getDimSize(own) != 1)
          cut.operands[i] = own;
      }
    }
    // Of forward the output and the sums; of backward the three gradients. That
    // of a bias would be a sum where the bias is broadcast.
    for (auto [i, type] : llvm::enumerate(op.results)) {
      if (!type || type.getRank() <= dim + 1 || i >= (isBackward ? 3u : 2u)) {
        fits &= !isBackward || !type || i < 3;
        continue;
      }
      cut.results[i] = dim;
    }
    if (fits)
      cuts.push_back(cut);
  }
  addQueries(op, pieces, cuts);
}

/// A window's queries are parts, and so are keys that a rank's neighbours have;
/// all keys where the window reaches beyond them. `fsdp-lower-windows` knows
/// which a rank needs.
static void addWindows(const WholeOp &op, const Pieces &pieces,
                       std::vector<Cut> &cuts) {
  std::optional<int64_t> window = findWindow(op);
  if (!pieces.isContext || !window)
    return;
  bool isBackward = op.getName().ends_with("_backward");
  SmallVector<StringRef> names = op.getOperandNames();
  int64_t length = op.results.front().getDimSize(1);
  auto add = [&](bool passesOn) {
    Cut cut = cuts::whole(op);
    for (auto [i, name] : llvm::enumerate(names)) {
      bool isOfKeys = name == "key" || name == "value";
      if (isOfHeads(name) && (passesOn || !isOfKeys))
        cut.operands[i] = 1;
      else if (name == "logsumexp")
        cut.operands[i] = 2;
    }
    cut.results[0] = 1;
    if (isBackward)
      cut.results[1] = cut.results[2] = passesOn ? Place(1) : kPartialPlace;
    else
      cut.results[1] = 2;
    cuts.push_back(cut);
  };
  add(false);
  if (*window <= length / (pieces.ranks * (pieces.balanced ? 2 : 1)))
    add(true);
}

/// Queries of documents are parts, keys are all there; `fsdp-lower-documents`
/// knows which a rank's queries see.
static void addDocuments(const WholeOp &op, const Pieces &pieces,
                         std::vector<Cut> &cuts) {
  std::optional<Place> place = findDocumentsPlace(op);
  // A call of one query takes heads for queries (flash_api.cpp,
  // seqlenq_ngroups_swapped).
  int64_t number = pieces.ranks * (pieces.balanced ? 2 : 1);
  if (!pieces.isContext || !place || *op.getInt("max_k") < 2 * number)
    return;
  bool isBackward = op.getName().ends_with("_backward");
  Place ofSums(1, place->blocks);
  Cut cut = cuts::whole(op);
  for (auto [i, name] : llvm::enumerate(op.getOperandNames())) {
    if (isOfHeads(name) && name != "key" && name != "value")
      cut.operands[i] = *place;
    else if (name == "logsumexp")
      cut.operands[i] = ofSums;
  }
  cut.results[0] = *place;
  if (isBackward)
    cut.results[1] = cut.results[2] = kPartialPlace;
  else
    cut.results[1] = ofSums;
  cuts.push_back(cut);
}

void cuts::addToldAttention(const WholeOp &op, const Pieces &pieces,
                            std::vector<Cut> &cuts) {
  if (dropsOut(op))
    return;
  bool isBackward = op.getName().ends_with("_backward");
  SmallVector<StringRef> names = op.getOperandNames();
  int64_t rank = op.operands[isBackward ? 1 : 0].getRank();
  auto add = [&](int64_t dim, int64_t ofSums) {
    Cut cut = whole(op);
    for (auto [i, name] : llvm::enumerate(names)) {
      if (isOfHeads(name))
        cut.operands[i] = dim;
      else if (name == "logsumexp")
        cut.operands[i] = ofSums;
    }
    for (size_t i = 0; i < op.results.size(); ++i)
      if (i < (isBackward ? 3u : 1u))
        cut.results[i] = dim;
      else if (i == 1)
        cut.results[i] = ofSums;
    cuts.push_back(cut);
  };
  // Batches; sequences one behind the other are no parts of equal lengths.
  if (rank == 4)
    add(0, 0);
  add(rank - 2, rank == 4 ? 1 : 0);
  addWindows(op, pieces, cuts);
  addDocuments(op, pieces, cuts);
}
