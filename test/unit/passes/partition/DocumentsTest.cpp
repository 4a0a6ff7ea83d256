//===- DocumentsTest.cpp - Documents of ranks that have parts of them -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of documents, whole and as `fsdp-lower-documents` has it of each
// rank's queries: put together again these have to be the whole.
//
//===----------------------------------------------------------------------===//

#include "BindOperator.h"

#include "passes/Passes.h"

#include "ir/aten/Aten.h"
#include "ir/aten/OpModel.h"
#include "ir/fsdp/Fsdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;
using namespace mlir;

namespace {

struct Case {
  const char *name;
  int64_t ranks;
  bool balanced;
  int64_t rows;
  const char *within; ///< static arguments
};

void PrintTo(const Case &each, std::ostream *out) { *out << each.name; }

constexpr int64_t kLength = 24, kHeads = 4, kKeyHeads = 2, kWidth = 8,
                  kRoom = 14;

/// Forward and backward of queries of `tokens` positions.
std::string write(const Case &each, int64_t tokens, bool isPart) {
  auto type = [](int64_t positions, int64_t heads) {
    return "tensor<" + std::to_string(positions) + "x" + std::to_string(heads) +
           "x" + std::to_string(kWidth) + "xbf16>";
  };
  std::string q = type(tokens, kHeads),
              k = type(each.rows * kLength, kKeyHeads),
              b = "tensor<" + std::to_string(kRoom + 1) + "xi32>",
              s = "tensor<" + std::to_string(kHeads) + "x" +
                  std::to_string(tokens) + "xf32>";
  std::string statics =
      "max_q = " + std::to_string(isPart ? kLength / each.ranks : kLength) +
      ", max_k = " + std::to_string(kLength) + ", dropout_p = 0.0, ";
  std::string placed =
      isPart ? " {fsdp.queries = #fsdp.placed<shard dim 0 in #fsdp.parts<"
               "blocks = " +
                   std::to_string(each.rows) +
                   (each.balanced ? ", balanced = true" : "") +
                   "> over <\"cp\", " + std::to_string(each.ranks) + ">>}"
             : "";
  std::string within = each.within;
  size_t window = within.find(", window");
  std::string causal = within.substr(0, window),
              rest = window == within.npos ? "" : within.substr(window);
  return "func.func @\"train/step\"(%q: " + q + ", %k: " + k + ", %v: " + k +
         ", %b: " + b + ", %g: " + q +
         ", %r: tensor<2xui64>, %u: tensor<ui64>) -> (" + q + ", " + s + ", " +
         q + ", " + k + ", " + k +
         ") {\n"
         "%o:5 = aten._flash_attention_forward(%q, %k, %v, %b, %b, " +
         statics + causal + ", return_debug_mask = false" + rest + ")" +
         placed + " : (" + q + ", " + k + ", " + k + ", " + b + ", " + b +
         ") -> (" + q + ", " + s +
         ", tensor<2xui64>, tensor<ui64>, tensor<0xbf16>)\n"
         "%d:3 = aten._flash_attention_backward(%g, %q, %k, %v, %o#0, %o#1, "
         "%b, %b, %r, %u, " +
         statics + causal + rest + ")" + placed + " : (" + q + ", " + q + ", " +
         k + ", " + k + ", " + q + ", " + s + ", " + b + ", " + b +
         ", tensor<2xui64>, tensor<ui64>) -> (" + q + ", " + k + ", " + k +
         ")\n"
         "return %o#0, %o#1, %d#0, %d#1, %d#2 : " +
         q + ", " + s + ", " + q + ", " + k + ", " + k + "\n}\n";
}

/// What the program of `rank` returns.
std::vector<at::Tensor> run(func::FuncOp program,
                            const std::vector<at::Tensor> &arguments,
                            int64_t rank) {
  llvm::DenseMap<Value, at::Tensor> known;
  for (auto [argument, tensor] :
       llvm::zip_equal(program.getArguments(), arguments))
    known[argument] = tensor;
  std::vector<at::Tensor> returned;
  for (Operation &op : program.getBody().front()) {
    std::vector<at::Tensor> operands, results;
    for (Value operand : op.getOperands())
      operands.push_back(known.lookup(operand));
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto type = cast<RankedTensorType>(constant.getType());
      std::vector<int32_t> numbers;
      for (const llvm::APInt &each :
           cast<DenseElementsAttr>(constant.getValue())
               .getValues<llvm::APInt>())
        numbers.push_back(int32_t(each.getSExtValue()));
      results.push_back(at::tensor(numbers, at::kInt).view(type.getShape()));
    } else if (auto rows = dyn_cast<SelectRowsOp>(op)) {
      auto type = cast<RankedTensorType>(rows.getType());
      int64_t dim = int64_t(rows.getDim());
      results.push_back(
          operands[0]
              .narrow(dim, rows.getStarts()[size_t(rank)], type.getDimSize(dim))
              .contiguous());
    } else if (isa<func::ReturnOp>(op)) {
      returned = operands;
    } else {
      results = runOperator(op.getName().getStringRef().str(),
                            bindTensors(&op, operands),
                            bindStatics(aten::getProperty(&op)));
    }
    for (auto [result, tensor] : llvm::zip(op.getResults(), results)) {
      known[result] = tensor;
      EXPECT_EQ(tensor.sizes(),
                llvm::ArrayRef<int64_t>(
                    cast<RankedTensorType>(result.getType()).getShape()))
          << op.getName().getStringRef().str();
    }
  }
  return returned;
}

/// Positions of the pieces of a rank, of all rows.
at::Tensor listPositions(const Case &each, int64_t rank) {
  std::vector<int64_t> numbers{rank}, positions;
  if (each.balanced)
    numbers.push_back(2 * each.ranks - 1 - rank);
  int64_t piece = kLength / (each.ranks * int64_t(numbers.size()));
  for (int64_t row = 0; row < each.rows; ++row)
    for (int64_t number : numbers)
      for (int64_t i = 0; i < piece; ++i)
        positions.push_back(row * kLength + number * piece + i);
  return at::tensor(positions, at::kLong);
}

class DocumentsTest : public testing::TestWithParam<Case> {
protected:
  DocumentsTest() {
    context.loadDialect<func::FuncDialect, FsdpDialect, aten::AtenDialect>();
  }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    return parseSourceString<ModuleOp>(text, ParserConfig(&context));
  }
  static func::FuncOp programOf(ModuleOp module) {
    return *module.getOps<func::FuncOp>().begin();
  }

  MLIRContext context;
};

TEST_P(DocumentsTest, PartsMakeTheWhole) {
  const Case &each = GetParam();
  int64_t all = each.rows * kLength;
  // Of one position, at ends of pieces, over several pieces.
  std::vector<int32_t> begins;
  for (int32_t row = 0; row < each.rows; ++row)
    for (int32_t begin : {0, 5, 6, 12, 13, 22})
      begins.push_back(int32_t(row * kLength) +
                       (row == 1 && begin == 5 ? 3 : begin));
  while (int64_t(begins.size()) <= kRoom)
    begins.push_back(int32_t(all));
  auto make = [&](int64_t heads) {
    return at::randn({all, heads, kWidth}).to(at::kBFloat16);
  };
  at::Tensor query = make(kHeads), key = make(kKeyHeads),
             value = make(kKeyHeads), gradient = make(kHeads),
             bounds = at::tensor(begins, at::kInt),
             state = at::zeros({2}, at::kLong),
             unused = at::zeros({}, at::kLong);

  OwningOpRef<ModuleOp> whole = parse(write(each, all, false));
  ASSERT_TRUE(whole);
  std::vector<at::Tensor> expected =
      run(programOf(*whole),
          {query, key, value, bounds, gradient, state, unused}, 0);
  OwningOpRef<ModuleOp> part = parse(write(each, all / each.ranks, true));
  ASSERT_TRUE(part);
  PassManager manager(&context);
  manager.addPass(createLowerDocuments());
  ASSERT_TRUE(succeeded(manager.run(*part)));
  at::Tensor keys = at::zeros(key.sizes()), values = at::zeros(key.sizes());
  for (int64_t rank = 0; rank < each.ranks; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    at::Tensor own = listPositions(each, rank);
    std::vector<at::Tensor> made =
        run(programOf(*part),
            {query.index_select(0, own), key, value, bounds,
             gradient.index_select(0, own), state, unused},
            rank);
    for (size_t i : {0, 1, 2})
      EXPECT_TRUE(at::allclose(
          made[i], expected[i].index_select(i == 1 ? 1 : 0, own), 1e-2, 1e-2))
          << "result " << i;
    keys += made[3];
    values += made[4];
  }
  EXPECT_TRUE(at::allclose(keys, expected[3].to(at::kFloat), 3e-2, 3e-2));
  EXPECT_TRUE(at::allclose(values, expected[4].to(at::kFloat), 3e-2, 3e-2));
}

constexpr const char *kCausal = "is_causal = true", *kAll = "is_causal = false",
                     *kWindow = "is_causal = false, window_size_left = 4, "
                                "window_size_right = 0";

INSTANTIATE_TEST_SUITE_P(
    Lowered, DocumentsTest,
    testing::Values(Case{"Causal", 2, false, 1, kCausal},
                    Case{"CausalOfRows", 3, false, 2, kCausal},
                    Case{"CausalBalanced", 2, true, 1, kCausal},
                    Case{"CausalBalancedRows", 3, true, 2, kCausal},
                    Case{"All", 2, false, 2, kAll},
                    Case{"AllBalanced", 2, true, 2, kAll},
                    Case{"Window", 3, false, 2, kWindow},
                    Case{"WindowBalanced", 2, true, 2, kWindow}),
    [](const auto &info) { return std::string(info.param.name); });

} // namespace
