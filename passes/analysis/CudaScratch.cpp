//===- CudaScratch.cpp - Temporaries of CUDA kernels ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts.def says which operators take none, or what many take, and which have
// a rule here, from the sources of LibTorch 2.11. A program knows its device's
// architecture and not how many multiprocessors it has; the most that one of
// any has stands for it.
//
//===----------------------------------------------------------------------===//

#include "passes/analysis/CudaScratch.h"

#include "passes/analysis/OperatorRules.h"

#include "ir/aten/Aten.h"
#include "ir/aten/Matchers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp;
using llvm::alignTo;
using llvm::divideCeil;

namespace {

constexpr int64_t kMiB = int64_t(1) << 20;
constexpr int64_t kMultiprocessors = 160;
constexpr int64_t kThreads = 2048; ///< of a multiprocessor at a time
constexpr int64_t kFloat = sizeof(float), kIndex = sizeof(int64_t);

int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * aten::getElementBytes(type.getElementType());
}

/// Of an op's tensors by the names of its schema.
class Operands {
public:
  explicit Operands(Operation *op) : bound(aten::getTensorArguments(op)) {}

  /// Null if it is None, or a list.
  RankedTensorType operator[](StringRef name) const {
    ArrayRef<Value> tensors = list(name);
    return tensors.size() == 1 && tensors[0]
               ? cast<RankedTensorType>(tensors[0].getType())
               : RankedTensorType();
  }
  ArrayRef<Value> list(StringRef name) const {
    for (const aten::BoundTensors &each : bound)
      if (each.argument->name == name && !each.none)
        return each.tensors;
    return {};
  }

private:
  SmallVector<aten::BoundTensors> bound;
};

int64_t stridedBytes(Operation *op) {
  int64_t bytes = 0;
  for (Type type : op->getOperandTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (!aten::isContiguous(tensor))
        bytes += bytesOf(tensor);
  return bytes;
}

RankedTensorType resultOf(Operation *op, unsigned index = 0) {
  return cast<RankedTensorType>(op->getResult(index).getType());
}

/// Each output's partial results of all blocks that share it (Reduce.cuh): at
/// most two for each thread that runs at a time, of 16 bytes at most.
KernelScratch partialSums(Operation *op) {
  constexpr int64_t kPartial = 16;
  constexpr int64_t kMost = 2 * kMultiprocessors * kThreads * kPartial;
  int64_t elements = 0;
  for (Type type : op->getOperandTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      elements = std::max(elements, tensor.getNumElements());
  return {std::min(kMost, elements * kPartial)};
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Whether cuBLAS takes the last two dims as they are, one of them contiguous
/// (Blas.cpp, prepare_matrix_for_cublas).
bool isTaken(RankedTensorType type) {
  int64_t rank = type.getRank();
  SmallVector<int64_t> strides = aten::getStrides(type);
  int64_t rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1);
  int64_t rowStride = strides[rank - 2], columnStride = strides[rank - 1];
  bool byRows = (columns == 1 || columnStride == 1) &&
                (rows == 1 || rowStride >= std::max<int64_t>(1, columns));
  bool byColumns = (rows == 1 || rowStride == 1) &&
                   (columns == 1 || columnStride >= std::max<int64_t>(1, rows));
  return byRows || byColumns;
}

KernelScratch product(Operation *op, const CudaUse &) {
  KernelScratch scratch;
  for (Type type : op->getOperandTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        tensor && tensor.getRank() >= 2 && !isTaken(tensor))
      scratch.bytes += bytesOf(tensor);
  return scratch;
}

/// Pointers, sizes and strides of each group, and what CUTLASS works in.
KernelScratch groupedProduct(Operation *op, const CudaUse &) {
  constexpr int64_t kGroup = 256;
  int64_t groups = 0;
  for (Type type : op->getOperandTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      groups = std::max(groups, tensor.getDimSize(0));
  return {groups * kGroup, /*isBounded=*/false};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

struct AttentionShape {
  int64_t heads, keyHeads; ///< of all batches
  int64_t queries, keys, width;
  int64_t sequences = 1; ///< one behind the other in `queries`
  bool isTold;

  /// Operands are [batch, heads, length, width]; told flash attention's are
  /// [batch, length, heads, width], or, with sequences one behind the other,
  /// [positions, heads, width].
  explicit AttentionShape(Operation *op) {
    Operands operands(op);
    RankedTensorType query = operands["query"], key = operands["key"];
    isTold = op->getName().getStringRef().starts_with("aten._flash_attention_");
    int64_t rank = query.getRank(), ofHeads = isTold ? rank - 2 : 1;
    int64_t ofLength = isTold ? rank - 3 : 2;
    int64_t batch = rank == 4 ? query.getDimSize(0) : 1;
    heads = batch * query.getDimSize(ofHeads);
    keyHeads = batch * key.getDimSize(ofHeads);
    queries = query.getDimSize(ofLength);
    keys = key.getDimSize(ofLength);
    width = query.getDimSize(rank - 1);
    if (RankedTensorType bounds = operands["cum_seq_q"]; bounds && rank == 3)
      sequences = bounds.getDimSize(0) - 1;
  }
};

/// Where few blocks have work, several share the keys of one and add up f32
/// results (flash_api.cpp, num_splits_heuristic); but not of sequences one
/// behind the other.
KernelScratch flashForward(Operation *op, const CudaUse &) {
  constexpr int64_t kQueries = 64, kMostSplits = 128;
  constexpr int64_t kBlocks = 2 * kMultiprocessors * 8 / 10;
  AttentionShape shape(op);
  int64_t keys = shape.width <= 64 ? 256 : shape.width <= 128 ? 128 : 64;
  if (shape.sequences > 1 ||
      shape.heads * int64_t(divideCeil(shape.queries, kQueries)) >= kBlocks)
    return {};
  int64_t splits = std::min<int64_t>(kMostSplits, divideCeil(shape.keys, keys));
  if (splits <= 1)
    return {};
  return {splits * shape.heads * shape.queries * kFloat *
          (int64_t(alignTo(shape.width, 32)) + 1)};
}

/// The gradient of the queries in f32, once, or for each block that adds to it
/// if the order has to be one, with 128 rows more for each of sequences one
/// behind the other; keys' and values' of each head where heads share them
/// (flash_api.cpp, mha_bwd and mha_varlen_bwd). Output and its gradient are
/// copied where they have gaps (attention_backward.cu), which in the other
/// order of dims they have for the kernel alone.
KernelScratch flashBackward(Operation *op, const CudaUse &use) {
  constexpr int64_t kQueries = 128;
  AttentionShape shape(op);
  Operands operands(op);
  int64_t rows = shape.sequences > 1
                     ? shape.queries + kQueries * shape.sequences
                     : int64_t(alignTo(shape.queries, kQueries));
  int64_t width = int64_t(alignTo(shape.width, shape.width <= 128 ? 32 : 64));
  int64_t blocks = std::max<int64_t>(shape.heads * shape.sequences, 1);
  int64_t copies =
      use.isDeterministic ? int64_t(divideCeil(kMultiprocessors, blocks)) : 1;
  int64_t bytes = shape.heads * rows * kFloat * (copies * width + 1);
  if (shape.keyHeads != shape.heads)
    bytes += 2 * shape.heads * shape.keys * shape.width *
             aten::getElementBytes(operands["key"].getElementType());
  if (shape.isTold)
    for (StringRef name : {"grad_out", "out"})
      bytes += aten::isContiguous(operands[name]) ? 0 : bytesOf(operands[name]);
  return {bytes};
}

/// cuDNN's plans say when they are built what they work in; the backward's hold
/// the gradient of the queries in f32.
KernelScratch cudnnForward(Operation *, const CudaUse &) {
  return {0, /*isBounded=*/false};
}
KernelScratch cudnnBackward(Operation *op, const CudaUse &) {
  AttentionShape shape(op);
  return {shape.heads * shape.queries * (shape.width + 1) * kFloat,
          /*isBounded=*/false};
}

/// f32 sums of what does not stay in registers, for wide heads of narrow types
/// (kernel_forward.h, kNeedsOutputAccumulatorBuffer).
KernelScratch efficientForward(Operation *op, const CudaUse &) {
  RankedTensorType value = Operands(op)["value"];
  if (value.getDimSize(3) <= 128 || value.getElementType().isF32())
    return {};
  return {resultOf(op).getNumElements() * kFloat};
}

/// Output and its gradient in f32 and their product, and f32 sums of the
/// gradients of narrow types; how many blocks share keys, the kernel decides
/// (attention_backward.cu, kernel_backward.h).
KernelScratch efficientBackward(Operation *op, const CudaUse &) {
  Operands operands(op);
  int64_t elements = 3 * operands["out"].getNumElements();
  if (!operands["query"].getElementType().isF32())
    for (StringRef name : {"query", "key", "value"})
      elements += operands[name].getNumElements();
  return {elements * kFloat, /*isBounded=*/false};
}

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

/// What a radix sort of as many pairs of numbers works in.
int64_t sortBytes(int64_t pairs) { return 2 * 2 * pairs * kIndex + 4 * kMiB; }

/// Indices are sorted, and the rows of each run of equal ones added up in f32
/// by parts of ten (EmbeddingBackwardKernel.cu).
KernelScratch embeddingBackward(Operation *op, const CudaUse &) {
  constexpr int64_t kDirect = 3072, kPart = 10, kWarp = 32;
  Operands operands(op);
  RankedTensorType gradient = operands["grad_output"];
  int64_t count = operands["indices"].getNumElements();
  int64_t bytes = aten::isContiguous(gradient) ? 0 : bytesOf(gradient);
  auto scale = dyn_cast_or_null<BoolAttr>(
      aten::getStaticArgument(op, "scale_grad_by_freq"));
  if (count <= kDirect && !(scale && scale.getValue()))
    return {bytes};
  RankedTensorType table = resultOf(op);
  int64_t runs = std::min(count, table.getDimSize(0));
  int64_t parts = count / kPart + runs;
  // Sorted ones, where they were, and how often each is there.
  bytes += 3 * count * kIndex + sortBytes(count);
  bytes += (3 * runs + parts) * kIndex;
  return {bytes +
          parts * int64_t(alignTo(table.getDimSize(1), kWarp)) * kFloat};
}

/// Elements that the indices of a list name, broadcast to each other; a mask
/// names as many as it has at most, each by one index for each dim.
struct IndexList {
  int64_t count = 1;
  int64_t masks = 0; ///< bytes that they become
  bool isConverted = false;
  bool beginsWithHole = false;

  explicit IndexList(ArrayRef<Value> indices) {
    SmallVector<int64_t> shape;
    beginsWithHole = indices.empty() || !indices[0];
    for (Value index : indices) {
      if (!index)
        continue;
      auto type = cast<RankedTensorType>(index.getType());
      SmallVector<int64_t> own(type.getShape());
      if (aten::isMask(type)) {
        masks += 2 * type.getRank() * type.getNumElements() * kIndex + kMiB;
        own = {type.getNumElements()};
      }
      isConverted |= type.getElementType().isInteger(32);
      if (own.size() > shape.size())
        shape.insert(shape.begin(), own.size() - shape.size(), 1);
      for (size_t i = 1; i <= own.size(); ++i)
        shape[shape.size() - i] =
            std::max(shape[shape.size() - i], own[own.size() - i]);
    }
    for (int64_t size : shape)
      count *= size;
  }
  int64_t converted(size_t lists) const {
    return isConverted ? int64_t(lists) * count * kIndex : 0;
  }
};

KernelScratch index(Operation *op, const CudaUse &) {
  Operands operands(op);
  IndexList list(operands.list("indices"));
  return {list.masks + list.converted(operands.list("indices").size())};
}

/// In one order, which sums need: linear indices, sorted, and the values as
/// often as they are written (Indexing.cu, index_put_with_sort_kernel).
KernelScratch indexPut(Operation *op, const CudaUse &use) {
  constexpr int64_t kLinear = 6; ///< indices, wrapped and multiplied, and sums
  Operands operands(op);
  ArrayRef<Value> indices = operands.list("indices");
  IndexList list(indices);
  int64_t bytes = list.masks + list.converted(indices.size());
  auto accumulate =
      dyn_cast_or_null<BoolAttr>(aten::getStaticArgument(op, "accumulate"));
  if (!(accumulate && accumulate.getValue()) && !use.isDeterministic)
    return {bytes};
  RankedTensorType self = resultOf(op);
  int64_t named = 1, dim = 0;
  for (Value each : indices) {
    int64_t dims = each && aten::isMask(each.getType())
                       ? cast<RankedTensorType>(each.getType()).getRank()
                       : 1;
    for (int64_t i = 0; i < dims && dim < self.getRank(); ++i, ++dim)
      if (each)
        named *= std::max<int64_t>(self.getDimSize(dim), 1);
  }
  int64_t slice = self.getNumElements() / named;
  bytes += (kLinear + 2) * list.count * kIndex + sortBytes(list.count);
  bytes += list.count * slice * aten::getElementBytes(self.getElementType());
  if (list.beginsWithHole)
    bytes += bytesOf(self);
  return {bytes};
}

//===----------------------------------------------------------------------===//
// Norms and scans
//===----------------------------------------------------------------------===//

KernelScratch norm(Operation *op, const CudaUse &) {
  return {stridedBytes(op)};
}

/// Of very many rows, blocks add up parts of the gradients of weights and bias
/// (layer_norm_kernel.cu, dgamma_blocks).
KernelScratch normBackward(Operation *op, const CudaUse &) {
  constexpr int64_t kRows = int64_t(1) << 16;
  RankedTensorType input = Operands(op)["input"];
  int64_t width = input.getRank() ? input.getShape().back() : 1;
  int64_t rows = input.getNumElements() / std::max<int64_t>(width, 1);
  return {stridedBytes(op) +
          (rows > kRows ? input.getNumElements() * kFloat : 0)};
}

/// A tensor of one dim: what its tiles tell each other.
KernelScratch scan(Operation *op, const CudaUse &) {
  constexpr int64_t kTile = 128, kState = 16;
  return {resultOf(op).getNumElements() / kTile * kState + kMiB};
}

/// A number for each chunk of each tensor (ForeachReduceOp.cu).
KernelScratch foreachNorm(Operation *op, const CudaUse &) {
  constexpr int64_t kChunk = 65536;
  int64_t chunks = 0;
  for (Type type : op->getOperandTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      chunks = std::max(chunks,
                        int64_t(divideCeil(tensor.getNumElements(), kChunk)));
  return {chunks * int64_t(op->getNumOperands()) * kIndex};
}

using ScratchRule = KernelScratch (*)(Operation *, const CudaUse &);

/// One for each operator with CudaScratchRule, in the order of their names.
constexpr std::pair<StringLiteral, ScratchRule> kScratchRules[] = {
    {"_flash_attention_backward", flashBackward},
    {"_flash_attention_forward", flashForward},
    {"_foreach_norm", foreachNorm},
    {"_fused_rms_norm", norm},
    {"_fused_rms_norm_backward", normBackward},
    {"_grouped_mm", groupedProduct},
    {"_index_put_impl", indexPut},
    {"_scaled_dot_product_cudnn_attention", cudnnForward},
    {"_scaled_dot_product_cudnn_attention_backward", cudnnBackward},
    {"_scaled_dot_product_efficient_attention", efficientForward},
    {"_scaled_dot_product_efficient_attention_backward", efficientBackward},
    {"_scaled_dot_product_flash_attention", flashForward},
    {"_scaled_dot_product_flash_attention_backward", flashBackward},
    {"_unsafe_index", index},
    {"_unsafe_index_put", indexPut},
    {"addmm", product},
    {"baddbmm", product},
    {"bmm", product},
    {"cumsum", scan},
    {"embedding_dense_backward", embeddingBackward},
    {"index", index},
    {"index_put", indexPut},
    {"mm", product},
    {"native_layer_norm", norm},
    {"native_layer_norm_backward", normBackward},
};

ScratchRule findScratchRule(StringRef name) {
  return findOperatorRule(kScratchRules, name);
}

} // namespace

bool fsdp::hasCudaScratchRule(StringRef name) {
  return findScratchRule(name) != nullptr;
}

KernelScratch fsdp::getCudaScratch(Operation *op, const CudaUse &use) {
  const aten::Schema *schema = aten::lookupSchema(op);
  if (!schema || llvm::any_of(op->getResults(), [](OpResult result) {
        return aten::getViewSource(result) != nullptr;
      }))
    return {};
  if (schema->is(aten::CudaScratchRule))
    return findScratchRule(schema->name)(op, use);
  if (schema->is(aten::CudaScratchSums))
    return partialSums(op);
  if (schema->is(aten::CudaScratchStrided))
    return {stridedBytes(op)};
  if (schema->is(aten::CudaScratchNone) || schema->is(aten::Pointwise))
    return {};
  return {0, /*isBounded=*/false};
}

int64_t fsdp::getCudaWorkspaces(const CudaUse &use) {
  // Two, unless they are one and the same (CublasHandlePool.cpp).
  int64_t each = use.capability >= 90 || use.isDeterministic
                     ? 32 * kMiB
                     : 8 * kMiB + 128 * 1024;
  return 2 * each;
}
