//===- CutsTest.cpp - Parts make the whole --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each operator is computed by LibTorch, whole and in the parts of every cut
// that its rule lists; put together again these have to be the whole.
//
//===----------------------------------------------------------------------===//

#include "BindOperator.h"

#include "passes/partition/Localize.h"

#include "ir/aten/OpModel.h"
#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace fsdp;
using namespace fsdp::test;
using namespace mlir;

namespace {

/// An operator, and the cuts that it must have: "0 w -> 0; w 1 -> p", with
/// "1/2" for dim 1 in 2 blocks.
struct Case {
  const char *name, *op, *cuts;
  Pieces pieces{2};
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.name; }

std::string print(ArrayRef<Place> places) {
  std::string text;
  for (Place place : places) {
    text += text.empty() ? "" : " ";
    text += place == kWholePlace     ? "w"
            : place == kPartialPlace ? "p"
            : place == kAnyPlace     ? "any"
                                     : std::to_string(place.dim);
    if (place.blocks != 1)
      text += "/" + std::to_string(place.blocks);
  }
  return text;
}

class CutsTest : public testing::TestWithParam<Case> {
protected:
  CutsTest() {
    context.loadDialect<func::FuncDialect, FsdpDialect, aten::AtenDialect>();
  }

  void parse(const std::string &text) {
    module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
    ASSERT_TRUE(module);
    auto function = *module->getOps<func::FuncOp>().begin();
    op = WholeOp::ofCaptured(&function.getBody().front().front());
  }

  static at::Tensor makeTensor(RankedTensorType type) {
    at::Tensor tensor = at::empty_strided(
        std::vector<int64_t>(type.getShape()), aten::getStrides(type),
        at::TensorOptions(toDtype(type.getElementType())));
    if (isa<FloatType>(type.getElementType()))
      tensor.copy_(at::rand(tensor.sizes()) + 0.5);
    else if (type.getElementType().isInteger(1))
      tensor.copy_(at::randint(0, 2, tensor.sizes()));
    else
      tensor.copy_(at::randint(0, 4, tensor.sizes()));
    return tensor;
  }

  std::vector<TensorArgument>
  bind(const std::vector<at::Tensor> &operands) const {
    return bindTensors(op.op, operands);
  }
  static std::vector<StaticArgument> bind(DictionaryAttr property) {
    return bindStatics(property);
  }

  /// The rows of a dim of `size` that `rank` has.
  static at::Tensor listRows(Place place, int64_t size, const Pieces &pieces,
                             int64_t rank) {
    std::vector<int64_t> numbers{rank};
    if (pieces.balanced)
      numbers.push_back(2 * pieces.ranks - 1 - rank);
    int64_t block = size / place.blocks;
    int64_t piece = block / (pieces.ranks * int64_t(numbers.size()));
    std::vector<int64_t> rows;
    for (int64_t first = 0; first < size; first += block)
      for (int64_t number : numbers)
        for (int64_t i = 0; i < piece; ++i)
          rows.push_back(first + number * piece + i);
    return at::tensor(rows);
  }

  /// What each rank has of `whole`.
  static std::vector<at::Tensor> take(const at::Tensor &whole, Place place,
                                      const Pieces &pieces) {
    std::vector<at::Tensor> parts;
    at::Tensor rest = whole;
    int64_t ranks = pieces.ranks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      if (place.isPart()) {
        at::Tensor rows = listRows(place, whole.size(place.dim), pieces, rank);
        at::Tensor part = whole.index_select(place.dim, rows);
        // In memory as the whole.
        std::vector<int64_t> order(whole.dim()), back(whole.dim());
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
          return whole.stride(a) > whole.stride(b);
        });
        for (size_t i = 0; i < order.size(); ++i)
          back[order[i]] = int64_t(i);
        parts.push_back(part.permute(order).contiguous().permute(back));
      } else if (place == kPartialPlace && rank + 1 < ranks) {
        parts.push_back(at::randn(whole.sizes()));
        rest = rest - parts.back();
      } else {
        parts.push_back(place == kPartialPlace ? rest : whole);
      }
    }
    return parts;
  }

  static at::Tensor join(const std::vector<at::Tensor> &parts, Place place,
                         const Pieces &pieces) {
    if (place.isPart()) {
      std::vector<int64_t> shape(parts.front().sizes().vec());
      shape[place.dim] *= pieces.ranks;
      at::Tensor whole = at::empty(shape, parts.front().options());
      for (int64_t rank = 0; rank < pieces.ranks; ++rank)
        whole.index_copy_(place.dim,
                          listRows(place, shape[place.dim], pieces, rank),
                          parts[rank]);
      return whole;
    }
    at::Tensor sum = parts.front();
    for (size_t i = 1; i < parts.size(); ++i)
      sum = place == kPartialPlace ? sum + parts[i] : sum;
    return sum;
  }

  RankedTensorType typeOf(const at::Tensor &tensor, Type element) {
    return aten::getTensorType(
        {tensor.sizes().begin(), tensor.sizes().end()},
        {tensor.strides().begin(), tensor.strides().end()}, element);
  }

  /// Views of parts lie as LibTorch says.
  void checkViews(const Cut &cut, int64_t ranks,
                  const std::vector<at::Tensor> &operands,
                  const std::vector<at::Tensor> &made) {
    SmallVector<RankedTensorType> types;
    for (auto [tensor, type] : llvm::zip_equal(operands, op.operands))
      types.push_back(typeOf(tensor, type.getElementType()));
    FailureOr<SmallVector<Type>> results =
        localizeResults(op, cut, ranks, types);
    ASSERT_TRUE(succeeded(results));
    for (size_t i = 0; i < made.size() && i < op.results.size(); ++i)
      if (aten::getViewSource(op.op->getResult(i))) {
        EXPECT_EQ((*results)[i],
                  typeOf(made[i], op.results[i].getElementType()));
      }
  }

  /// What `fsdp-lower-lookups` makes of one.
  std::vector<at::Tensor> runLookup(std::vector<at::Tensor> own,
                                    DictionaryAttr statics, int64_t rank) {
    bool isBackward = op.getName() == "aten.embedding_dense_backward";
    int64_t rows = isBackward
                       ? statics.getAs<IntegerAttr>("num_weights").getInt()
                       : own[0].size(0);
    at::Tensor index = own[1] - rank * rows;
    at::Tensor isOwn = (index >= 0).logical_and(index < rows);
    own[1] = index.masked_fill(isOwn.logical_not(), isBackward ? -1 : 0);
    std::vector<at::Tensor> made =
        runOperator(op.getName().str(), bind(own), bind(statics));
    if (!isBackward)
      made[0] = made[0] * isOwn.unsqueeze(-1);
    return made;
  }

  void check(const Cut &cut, const Pieces &pieces) {
    int64_t ranks = pieces.ranks;
    SCOPED_TRACE(print(cut.operands) + " -> " + print(cut.results));
    std::vector<at::Tensor> operands;
    for (RankedTensorType type : op.operands)
      operands.push_back(makeTensor(type));
    // Sequences one behind the other, as many as there are, some of none.
    for (auto [name, bounds] : llvm::zip(op.getOperandNames(), operands))
      if (name.starts_with("cum_seq"))
        bounds.copy_(
            (at::arange(bounds.numel()) * 2).clamp_max(operands[0].size(0)));
    std::vector<at::Tensor> whole =
        runOperator(op.getName().str(), bind(operands), bind(op.property));
    std::vector<std::vector<at::Tensor>> parts, results(whole.size());
    for (auto [tensor, place] : llvm::zip_equal(operands, cut.operands))
      parts.push_back(take(tensor, place, pieces));
    DictionaryAttr statics = localizeStatics(op, cut, ranks);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::vector<at::Tensor> own;
      for (const auto &each : parts)
        own.push_back(each[rank]);
      std::vector<at::Tensor> made =
          isLookupOfRows(op.op, cut)
              ? runLookup(own, statics, rank)
              : runOperator(op.getName().str(), bind(own), bind(statics));
      ASSERT_EQ(made.size(), whole.size());
      checkViews(cut, ranks, own, made);
      for (size_t i = 0; i < made.size(); ++i)
        results[i].push_back(made[i]);
    }
    for (size_t i = 0; i < whole.size(); ++i) {
      if (i >= op.results.size() || !op.results[i] || !whole[i].defined())
        continue;
      at::Tensor joined = join(results[i], cut.results[i], pieces);
      ASSERT_EQ(joined.sizes(), whole[i].sizes());
      EXPECT_TRUE(at::allclose(joined.to(at::kDouble), whole[i].to(at::kDouble),
                               1e-4, 1e-4, /*equal_nan=*/true))
          << "result " << i;
    }
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  WholeOp op;
};

TEST_P(CutsTest, PartsMakeTheWhole) {
  Case each = GetParam();
  std::string line = each.op;
  // Operands are the program's arguments, named as they are in the line.
  size_t types = line.find(" : (") + 4;
  size_t end = line.find(") ->", types);
  std::string operands = line.substr(types, end - types), arguments;
  int depth = 0, number = 0;
  std::string type;
  auto add = [&] {
    if (!type.empty())
      arguments += (arguments.empty() ? "%" : ", %") +
                   std::string(1, char('a' + number++)) + ": " + type;
    type.clear();
  };
  for (char c : operands) {
    depth += c == '<' ? 1 : c == '>' ? -1 : 0;
    if (c == ',' && depth == 0)
      add();
    else if (c != ' ' || depth != 0)
      type += c;
  }
  add();
  parse("func.func @f(" + arguments + ") {\n  " + line + "\n  return\n}\n");
  ASSERT_TRUE(op.op);
  std::vector<Cut> cuts = findCuts(op, each.pieces);
  std::string found;
  for (const Cut &cut : cuts)
    found += (found.empty() ? "" : "; ") + print(cut.operands) + " -> " +
             print(cut.results);
  EXPECT_EQ(found, each.cuts);
  for (const Cut &cut : cuts)
    check(cut, each.pieces);
}

const Case kCases[] = {
    {"Add",
     "%0 = aten.add.Tensor(%a, %b) : (tensor<4x3x6xf32>, tensor<6xf32>) -> "
     "tensor<4x3x6xf32>",
     "0 w -> 0; 2 0 -> 2; p p -> p"},
    {"AddBroadcastsBoth",
     "%0 = aten.mul.Tensor(%a, %b) : (tensor<4x1xf32>, tensor<1x6xf32>) -> "
     "tensor<4x6xf32>",
     "0 w -> 0; w 1 -> 1"},
    {"ScaledSum",
     "%0 = aten.mul.Scalar(%a, other = 2.5) : (tensor<4x6xf32>) -> "
     "tensor<4x6xf32>",
     "0 -> 0; 1 -> 1; p -> p"},
    {"NotLinear", "%0 = aten.exp(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
     "0 -> 0; 1 -> 1"},
    {"Where",
     "%0 = aten.where.self(%a, %b, %c) : (tensor<6xi1>, tensor<4x6xf32>, "
     "tensor<f32>) -> tensor<4x6xf32>",
     "w 0 w -> 0; 0 1 w -> 1"},
    {"Cast",
     "%0 = aten._to_copy(%a, dtype = f32) : (tensor<4x6xi64>) -> "
     "tensor<4x6xf32>",
     "0 -> 0; 1 -> 1"},
    {"Zeros", "%0 = aten.zeros_like(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
     "0 -> 0; 1 -> 1; p -> w"},
    {"Transpose",
     "%0 = aten.t(%a) : (tensor<4x6xf32>) -> tensor<6x4xf32, #aten.strides<1, "
     "6>>",
     "0 -> 1; 1 -> 0; p -> p"},
    {"TransposeDims",
     "%0 = aten.transpose.int(%a, dim0 = 1, dim1 = -1) : (tensor<2x4x6xf32>) "
     "-> tensor<2x6x4xf32, #aten.strides<24, 1, 6>>",
     "0 -> 0; 1 -> 2; 2 -> 1; p -> p"},
    {"Permute",
     "%0 = aten.permute(%a, dims = [2, 0, 1]) : (tensor<2x4x6xf32>) -> "
     "tensor<6x2x4xf32, #aten.strides<1, 24, 6>>",
     "0 -> 1; 1 -> 2; 2 -> 0; p -> p"},
    {"Unsqueeze",
     "%0 = aten.unsqueeze(%a, dim = 1) : (tensor<4x6xf32>) -> "
     "tensor<4x1x6xf32>",
     "0 -> 0; 1 -> 2; p -> p"},
    {"Squeeze",
     "%0 = aten.squeeze.dim(%a, dim = 1) : (tensor<4x1x6xf32>) -> "
     "tensor<4x6xf32>",
     "0 -> 0; 2 -> 1; p -> p"},
    {"Select",
     "%0 = aten.select.int(%a, dim = 1, index = 2) : (tensor<4x3x6xf32>) -> "
     "tensor<4x6xf32, #aten.strides<18, 1>>",
     "0 -> 0; 2 -> 1; p -> p"},
    {"Slice",
     "%0 = aten.slice.Tensor(%a, dim = 1, start = 1, end = 5) : "
     "(tensor<4x6xf32>) -> tensor<4x4xf32, #aten.strides<6, 1>>",
     "0 -> 0; p -> p"},
    {"SliceOfAll",
     "%0 = aten.slice.Tensor(%a, dim = 1, start = 0, end = 6) : "
     "(tensor<4x6xf32>) -> tensor<4x6xf32>",
     "0 -> 0; 1 -> 1; p -> p"},
    {"Split",
     "%0:3 = aten.split.Tensor(%a, split_size = 2, dim = 1) : "
     "(tensor<4x6xf32>) -> (tensor<4x2xf32, #aten.strides<6, 1>>, "
     "tensor<4x2xf32, #aten.strides<6, 1>>, tensor<4x2xf32, #aten.strides<6, "
     "1>>)",
     "0 -> 0 0 0; p -> p p p"},
    {"Unbind",
     "%0:2 = aten.unbind.int(%a) : (tensor<2x4x6xf32>) -> (tensor<4x6xf32>, "
     "tensor<4x6xf32>)",
     "1 -> 0 0; 2 -> 1 1; p -> p p"},
    {"Fresh", "%0 = aten.lift_fresh(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
     "0 -> 0; 1 -> 1"},
    {"Detached", "%0 = aten.detach(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
     "0 -> 0; 1 -> 1; p -> p"},
    {"Expand",
     "%0 = aten.expand(%a, size = [4, 3, -1]) : (tensor<4x1x6xf32>) -> "
     "tensor<4x3x6xf32, #aten.strides<6, 0, 1>>",
     "0 -> 0; 2 -> 2; p -> p"},
    {"ViewMerges",
     "%0 = aten.view(%a, size = [8, 6]) : (tensor<2x4x6xf32>) -> "
     "tensor<8x6xf32>",
     "p -> p; 0 -> 0; 2 -> 1"},
    {"ViewSplits",
     "%0 = aten.view(%a, size = [3, 4, 2]) : (tensor<3x8xf32>) -> "
     "tensor<3x4x2xf32>",
     "p -> p; 1 -> 1"},
    {"ViewOfHeads",
     "%0 = aten.view(%a, size = [4, 3, 4]) : (tensor<4x12xf32>) -> "
     "tensor<4x3x4xf32>",
     "p -> p; 0 -> 0"},
    {"PairsAsComplex",
     "%0 = aten.view_as_complex(%a) : (tensor<4x6x2xf32>) -> "
     "tensor<4x6xcomplex<f32>>",
     "0 -> 0; 1 -> 1"},
    {"PairsOfPartOfRowsAsComplex",
     "%0 = aten.view_as_complex(%a) : (tensor<4x6x2xf32, #aten.strides<24, 4, "
     "1>>) -> tensor<4x6xcomplex<f32>, #aten.strides<12, 2>>",
     "0 -> 0; 1 -> 1"},
    {"ComplexAsPairs",
     "%0 = aten.view_as_real(%a) : (tensor<4x6xcomplex<f32>>) -> "
     "tensor<4x6x2xf32>",
     "0 -> 0; 1 -> 1"},
    {"ElementsOfAnotherSize",
     "%0 = aten.view.dtype(%a, dtype = i16) : (tensor<4x6xf32, "
     "#aten.strides<8, 1>>) -> tensor<4x12xi16, #aten.strides<16, 1>>",
     "0 -> 0"},
    {"ViewWithOnes",
     "%0 = aten.view(%a, size = [1, 4, 1, 6]) : (tensor<4x6xf32>) -> "
     "tensor<1x4x1x6xf32>",
     "p -> p; 0 -> 1; 1 -> 3"},
    {"Clone",
     "%0 = aten.clone(%a, memory_format = \"contiguous\") : (tensor<4x6xf32, "
     "#aten.strides<1, 4>>) -> tensor<4x6xf32>",
     "0 -> 0; 1 -> 1; p -> p"},
    {"Cat",
     "%0 = aten.cat([%a, %b], dim = -1) : (tensor<4x6xf32>, tensor<4x2xf32>) "
     "-> tensor<4x8xf32>",
     "1/3 1 -> 1/4; 0 0 -> 0; p p -> p"},
    {"Stack",
     "%0 = aten.stack([%a, %b], dim = 1) : (tensor<4x6xf32>, tensor<4x6xf32>) "
     "-> tensor<4x2x6xf32>",
     "0 0 -> 0; 1 1 -> 2; p p -> p"},
    {"SliceBackward",
     "%0 = aten.slice_backward(%a, input_sizes = [4, 6], dim = 1, start = 2, "
     "end = 4, step = 1) : (tensor<4x2xf32>) -> tensor<4x6xf32>",
     "1 -> 1/3; 0 -> 0; p -> p"},
    {"SelectBackward",
     "%0 = aten.select_backward(%a, input_sizes = [4, 3, 6], dim = 1, index = "
     "2) : (tensor<4x6xf32>) -> tensor<4x3x6xf32>",
     "0 -> 0; 1 -> 2; p -> p"},
    {"Pad",
     "%0 = aten.constant_pad_nd(%a, pad = [1, 0]) : (tensor<4x6xf32>) -> "
     "tensor<4x7xf32>",
     "0 -> 0"},
    {"NewZeros",
     "%0 = aten.new_zeros(%a, size = [3]) : (tensor<4x6xf32>) -> tensor<3xf32>",
     "any -> w"},
    {"Mm",
     "%0 = aten.mm(%a, %b) : (tensor<4x6xf32>, tensor<6x2xf32>) -> "
     "tensor<4x2xf32>",
     "0 w -> 0; w 1 -> 1; 1 0 -> p"},
    {"Addmm",
     "%0 = aten.addmm(%a, %b, %c) : (tensor<2xf32>, tensor<4x6xf32>, "
     "tensor<6x2xf32>) -> tensor<4x2xf32>",
     "w 0 w -> 0; 0 w 1 -> 1; p 1 0 -> p"},
    {"AddmmMatrix",
     "%0 = aten.addmm(%a, %b, %c, beta = 0.5) : (tensor<4x2xf32>, "
     "tensor<4x6xf32>, tensor<6x2xf32>) -> tensor<4x2xf32>",
     "0 0 w -> 0; 1 w 1 -> 1; p 1 0 -> p"},
    {"Bmm",
     "%0 = aten.bmm(%a, %b) : (tensor<2x4x6xf32>, tensor<2x6x8xf32>) -> "
     "tensor<2x4x8xf32>",
     "0 0 -> 0; 1 w -> 1; w 2 -> 2; 2 1 -> p"},
    {"Attention",
     "%0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%a, %b, %c, %d) "
     ": (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, "
     "tensor<2x1x6x6xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)",
     "0 0 0 0 -> 0 0; 1 1 1 w -> 1 1"},
    {"ToldAttentionOfDocuments",
     "%0:5 = aten._flash_attention_forward(%a, %b, %c, %d, %e, max_q = 6, "
     "max_k = 6, dropout_p = 0.0, is_causal = true, return_debug_mask = false) "
     ": (tensor<12x4x8xbf16>, tensor<12x4x8xbf16>, tensor<12x4x8xbf16>, "
     "tensor<9xi32>, tensor<9xi32>) -> (tensor<12x4x8xbf16>, "
     "tensor<4x12xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)",
     "1 1 1 w w -> 1 0 w w w"},
    {"ToldAttentionOfWindows",
     "%0:5 = aten._flash_attention_forward(%a, %b, %c, max_q = 6, max_k = 6, "
     "dropout_p = 0.0, is_causal = false, return_debug_mask = false, "
     "window_size_left = 2, window_size_right = 0) : (tensor<2x6x4x8xbf16>, "
     "tensor<2x6x4x8xbf16>, tensor<2x6x4x8xbf16>) -> (tensor<2x6x4x8xbf16>, "
     "tensor<2x4x6xf32>, tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)",
     "0 0 0 -> 0 0 w w w; 2 2 2 -> 2 1 w w w"},
    {"ToldAttentionBackward",
     "%0:3 = aten._flash_attention_backward(%a, %b, %c, %d, %e, %f, %g, %h, "
     "%i, %j, max_q = 6, max_k = 6, dropout_p = 0.0, is_causal = true) : "
     "(tensor<12x4x8xbf16>, tensor<12x4x8xbf16>, tensor<12x2x8xbf16>, "
     "tensor<12x2x8xbf16>, tensor<12x4x8xbf16>, tensor<4x12xf32>, "
     "tensor<9xi32>, tensor<9xi32>, tensor<2xui64>, tensor<ui64>) -> "
     "(tensor<12x4x8xbf16>, tensor<12x2x8xbf16>, tensor<12x2x8xbf16>)",
     "1 1 1 1 1 0 w w w w -> 1 1 1"},
    {"PaddedAttention",
     "%0:4 = aten._scaled_dot_product_efficient_attention(%a, %b, %c, %d, "
     "compute_log_sumexp = true, dropout_p = 0.0, is_causal = true) : "
     "(tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, "
     "tensor<2x4x8x8xf32>) -> (tensor<2x4x8x8xf32, #aten.strides<256, 8, 32, "
     "1>>, tensor<2x4x32xf32>, tensor<i64>, tensor<i64>)",
     "0 0 0 0 -> 0 0 w w; 1 1 1 1 -> 1 1 w w"},
    {"PaddedAttentionBackward",
     "%0:4 = aten._scaled_dot_product_efficient_attention_backward(%a, %b, %c, "
     "%d, %e, %f, %g, %h, %i, dropout_p = 0.0, grad_input_mask = [true, true, "
     "true, false], is_causal = true) : (tensor<2x4x8x8xf32>, "
     "tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, "
     "tensor<2x4x8x8xf32>, tensor<2x4x8x8xf32>, tensor<2x4x32xf32>, "
     "tensor<i64>, tensor<i64>) -> (tensor<2x4x8x8xf32, #aten.strides<256, 8, "
     "32, 1>>, tensor<2x4x8x8xf32, #aten.strides<256, 8, 32, 1>>, "
     "tensor<2x4x8x8xf32, #aten.strides<256, 8, 32, 1>>, none)",
     "0 0 0 0 0 0 0 w w -> 0 0 0 w; 1 1 1 1 1 1 1 w w -> 1 1 1 w"},
    {"AttentionDropout",
     "%0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%a, %b, %c, "
     "dropout_p = 0.5) : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, "
     "tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)",
     ""},
    {"AttentionBackward",
     "%0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%a, %b, "
     "%c, %d, %e, %f, dropout_p = 0.0, is_causal = true) : "
     "(tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, "
     "tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6xf32>) -> "
     "(tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>)",
     "0 0 0 0 0 0 -> 0 0 0; 1 1 1 1 1 1 -> 1 1 1"},
    {"Sum", "%0 = aten.sum(%a) : (tensor<4x6xf32>) -> tensor<f32>",
     "0 -> p; 1 -> p; p -> p"},
    {"SumOfNumbers", "%0 = aten.sum(%a) : (tensor<4x6xi64>) -> tensor<i64>",
     ""},
    {"SumDims",
     "%0 = aten.sum.dim_IntList(%a, dim = [0, -1]) : (tensor<4x2x6xf32>) -> "
     "tensor<2xf32>",
     "0 -> p; 1 -> 0; 2 -> p; p -> p"},
    {"SumKeepsDims",
     "%0 = aten.sum.dim_IntList(%a, dim = [1], keepdim = true) : "
     "(tensor<4x2x6xf32>) -> tensor<4x1x6xf32>",
     "0 -> 0; 1 -> p; 2 -> 2; p -> p"},
    {"Mean",
     "%0 = aten.mean.dim(%a, dim = [-1], keepdim = true) : (tensor<4x6xf32>) "
     "-> tensor<4x1xf32>",
     "0 -> 0"},
    {"Largest",
     "%0 = aten.amax(%a, dim = [1]) : (tensor<4x6xf32>) -> tensor<4xf32>",
     "0 -> 0"},
    {"VarianceAndMean",
     "%0:2 = aten.var_mean.correction(%a, dim = [1]) : (tensor<4x6xf32>) -> "
     "(tensor<4xf32>, tensor<4xf32>)",
     "0 -> 0 0"},
    {"Softmax",
     "%0 = aten._softmax(%a, dim = -1, half_to_float = false) : "
     "(tensor<4x6xf32>) -> tensor<4x6xf32>",
     "0 -> 0"},
    {"SoftmaxBackward",
     "%0 = aten._softmax_backward_data(%a, %b, dim = 1, input_dtype = f32) : "
     "(tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>",
     "0 0 -> 0"},
    {"Cumsum",
     "%0 = aten.cumsum(%a, dim = 0) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
     "1 -> 1"},
    {"LayerNorm",
     "%0:3 = aten.native_layer_norm(%a, %b, %c, normalized_shape = [6], eps = "
     "1.0e-5) : (tensor<2x4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> "
     "(tensor<2x4x6xf32>, tensor<2x4x1xf32>, tensor<2x4x1xf32>)",
     "0 w w -> 0 0 0; 1 w w -> 1 1 1"},
    {"LayerNormBackward",
     "%0:3 = aten.native_layer_norm_backward(%a, %b, %c, %d, %e, %f, "
     "normalized_shape = [6], output_mask = [true, true, true]) : "
     "(tensor<2x4x6xf32>, tensor<2x4x6xf32>, tensor<2x4x1xf32>, "
     "tensor<2x4x1xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<2x4x6xf32>, "
     "tensor<6xf32>, tensor<6xf32>)",
     "0 0 0 0 w w -> 0 p p; 1 1 1 1 w w -> 1 p p"},
    {"Embedding",
     "%0 = aten.embedding(%a, %b) : (tensor<4x6xf32>, tensor<2x8xi64>) -> "
     "tensor<2x8x6xf32>",
     "0 w -> p; 1 w -> 2; w 0 -> 0; w 1 -> 1"},
    {"EmbeddingBackward",
     "%0 = aten.embedding_dense_backward(%a, %b, num_weights = 4, padding_idx "
     "= -1, scale_grad_by_freq = false) : (tensor<2x8x6xf32>, tensor<2x8xi64>) "
     "-> tensor<4x6xf32>",
     "2 w -> 1; w w -> 0; 0 0 -> p; 1 1 -> p"},
    {"NoRule",
     "%0 = aten.nonzero_static(%a, size = 3) : (tensor<4x6xf32>) -> "
     "tensor<3x2xi64>",
     ""},
};

const Pieces kInBlocks{2, false, {1, 2}, true},
    kBalanced{2, true, {1, 2}, true};
/// Of a matrix that gives three tensors.
const Pieces kInThree{2, false, {1, 3}};

const Case kSequences[] = {
    {"AddInBlocks",
     "%0 = aten.add.Tensor(%a, %b) : (tensor<8x3xf32>, tensor<3xf32>) -> "
     "tensor<8x3xf32>",
     "0 w -> 0; 0/2 w -> 0/2; p p -> p", kInBlocks},
    {"AddBalanced",
     "%0 = aten.add.Tensor(%a, %b) : (tensor<8x3xf32>, tensor<8x1xf32>) -> "
     "tensor<8x3xf32>",
     "0 0 -> 0; 0/2 0/2 -> 0/2; p p -> p", kBalanced},
    {"BatchAndSequenceMerge",
     "%0 = aten.view(%a, size = [16, 3]) : (tensor<2x8x3xf32>) -> "
     "tensor<16x3xf32>",
     "p -> p; 1 -> 0/2; 1/2 -> 0/4", kBalanced},
    {"BatchAndSequencePart",
     "%0 = aten.view(%a, size = [2, 8, 3]) : (tensor<16x3xf32>) -> "
     "tensor<2x8x3xf32>",
     "p -> p; 0/2 -> 1", kBalanced},
    {"BatchAndSequencePartEvenly",
     "%0 = aten.view(%a, size = [4, 4, 3]) : (tensor<16x3xf32>) -> "
     "tensor<4x4x3xf32>",
     "p -> p; 0 -> 0; 0/2 -> 0/2", kInBlocks},
    {"RowsOfProduct",
     "%0 = aten.mm(%a, %b) : (tensor<8x3xf32>, tensor<3x5xf32>) -> "
     "tensor<8x5xf32>",
     "0 w -> 0; 0/2 w -> 0/2", kInBlocks},
    {"TokensAddUp",
     "%0 = aten.mm(%a, %b) : (tensor<3x8xf32>, tensor<8x5xf32>) -> "
     "tensor<3x5xf32>",
     "1 0 -> p; 1/2 0/2 -> p", kBalanced},
    {"Queries",
     "%0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%a, %b, %c, "
     "%d) : (tensor<1x3x4x8xf32>, tensor<1x3x4x8xf32>, "
     "tensor<1x3x4x8xf32>, tensor<1x1x4x4xf32>) -> (tensor<1x3x4x8xf32>, "
     "tensor<1x3x4xf32>)",
     "2 w w 2 -> 2 2", kInBlocks},
    {"QueriesBackward",
     "%0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%a, %b, "
     "%c, %d, %e, %f, dropout_p = 0.0, is_causal = false) : "
     "(tensor<1x3x4x8xf32>, tensor<1x3x4x8xf32>, tensor<1x3x4x8xf32>, "
     "tensor<1x3x4x8xf32>, tensor<1x3x4x8xf32>, tensor<1x3x4xf32>) -> "
     "(tensor<1x3x4x8xf32>, tensor<1x3x4x8xf32>, tensor<1x3x4x8xf32>)",
     "2 2 w w 2 2 -> 2 p p", kBalanced},
    {"SummedLoss",
     "%0:2 = aten.nll_loss_forward(%a, %b, reduction = 2, ignore_index = 1) : "
     "(tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)",
     "0 0 -> p p; 0/2 0/2 -> p p", kBalanced},
    {"MeanLoss",
     "%0:2 = aten.nll_loss_forward(%a, %b, reduction = 1, ignore_index = 1) : "
     "(tensor<8x4xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)",
     "", kBalanced},
    {"MeanLossBackward",
     "%0 = aten.nll_loss_backward(%a, %b, %c, none, %d, reduction = "
     "1, "
     "ignore_index = 1) : (tensor<f32>, tensor<8x4xf32>, tensor<8xi64>, "
     "tensor<f32>) -> tensor<8x4xf32>",
     "w 0 0 w -> 0; w 0/2 0/2 w -> 0/2", kBalanced},
};

const Case kFused[] = {
    {"FusedProduct",
     "%0 = aten.addmm(%a, %b, %c) : (tensor<12xf32>, tensor<4x2xf32>, "
     "tensor<2x12xf32>) -> tensor<4x12xf32>",
     "w 0 w -> 0; 0 w 1 -> 1; 0/3 w 1/3 -> 1/3; p 1 0 -> p", kInThree},
    {"FusedSplit",
     "%0:3 = aten.split.Tensor(%a, split_size = 4, dim = -1) : "
     "(tensor<2x12xf32>) -> (tensor<2x4xf32, #aten.strides<12, 1>>, "
     "tensor<2x4xf32, #aten.strides<12, "
     "1>>, tensor<2x4xf32, #aten.strides<12, 1>>)",
     "1/3 -> 1 1 1; 0 -> 0 0 0; p -> p p p", kInThree},
    {"FusedSplitOfSizes",
     "%0:2 = aten.split_with_sizes(%a, split_sizes = [4, 8], dim = 1) : "
     "(tensor<2x12xf32>) -> (tensor<2x4xf32, #aten.strides<12, 1>>, "
     "tensor<2x8xf32, #aten.strides<12, "
     "1>>)",
     "1/3 -> 1 1/2; 0 -> 0 0; p -> p p", kInThree},
    {"FusedSlice",
     "%0 = aten.slice.Tensor(%a, dim = 1, start = 4, end = 8) : "
     "(tensor<2x12xf32>) -> tensor<2x4xf32, #aten.strides<12, 1>>",
     "1/3 -> 1; 0 -> 0; p -> p", kInThree},
    {"FusedSliceToTheEnd",
     "%0 = aten.slice.Tensor(%a, dim = 1, start = -4, end = "
     "9223372036854775807) : (tensor<2x12xf32>) -> tensor<2x4xf32, "
     "#aten.strides<12, 1>>",
     "1/3 -> 1; 0 -> 0; p -> p", kInThree},
    {"SliceThroughBlocks",
     "%0 = aten.slice.Tensor(%a, dim = 1, start = 2, end = 6) : "
     "(tensor<2x12xf32>) -> tensor<2x4xf32, #aten.strides<12, 1>>",
     "0 -> 0; p -> p", kInThree},
    {"FusedJoin",
     "%0 = aten.cat([%a, %b, %c], dim = 1) : (tensor<2x4xf32>, "
     "tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x12xf32>",
     "1 1 1 -> 1/3; 0 0 0 -> 0; p p p -> p"},
    {"FusedSliceBackward",
     "%0 = aten.slice_backward(%a, input_sizes = [2, 12], dim = 1, start = 4, "
     "end = 8, step = 1) : (tensor<2x4xf32>) -> tensor<2x12xf32>",
     "1 -> 1/3; 0 -> 0; p -> p"},
};

INSTANTIATE_TEST_SUITE_P(Fused, CutsTest, testing::ValuesIn(kFused),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

INSTANTIATE_TEST_SUITE_P(Sequences, CutsTest, testing::ValuesIn(kSequences),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

INSTANTIATE_TEST_SUITE_P(Families, CutsTest, testing::ValuesIn(kCases),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

} // namespace
