//===- WorkTest.cpp - Operations and bytes of instructions ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Work.h"

#include "plan/Kernels.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::plan;

namespace {

/// A program of calls whose tensors are in bf16 unless they say otherwise.
class Calls {
public:
  int32_t tensor(std::vector<int64_t> shape, DType dtype = DType::bf16,
                 std::vector<int64_t> strides = {}) {
    auto value = std::make_unique<ValueT>();
    value->dtype = dtype;
    value->shape = std::move(shape);
    value->strides = std::move(strides);
    value->place = Place::slot;
    program.values.push_back(std::move(value));
    return int32_t(program.values.size()) - 1;
  }

  static std::unique_ptr<ArgT> arg(ArgKind kind,
                                   std::vector<int32_t> values = {},
                                   std::vector<int64_t> ints = {}) {
    auto arg = std::make_unique<ArgT>();
    arg->kind = kind;
    arg->values = std::move(values);
    arg->ints = std::move(ints);
    return arg;
  }

  /// Of tensors, then of flags.
  Work call(const std::string &name, const std::vector<int32_t> &operands,
            std::vector<int32_t> results, std::vector<bool> flags = {}) {
    std::vector<std::unique_ptr<ArgT>> args;
    for (int32_t operand : operands)
      args.push_back(arg(ArgKind::tensor, {operand}));
    for (bool flag : flags)
      args.push_back(arg(ArgKind::boolean, {}, {flag}));
    return callWith(name, std::move(args), std::move(results));
  }

  /// Of one list.
  Work callOfList(const std::string &name, std::vector<int32_t> operands,
                  std::vector<int32_t> results) {
    std::vector<std::unique_ptr<ArgT>> args;
    args.push_back(arg(ArgKind::tensors, std::move(operands)));
    return callWith(name, std::move(args), std::move(results));
  }

  Work callWith(const std::string &name,
                std::vector<std::unique_ptr<ArgT>> args,
                std::vector<int32_t> results) {
    CallT call;
    plan.operators.push_back(std::make_unique<OperatorT>());
    plan.operators.back()->name = "aten::" + name;
    call.op = uint32_t(plan.operators.size()) - 1;
    call.args = std::move(args);
    call.results = std::move(results);
    return estimate(std::move(call));
  }

  template <typename Op>
  Work estimate(Op op) {
    InstructionT instruction;
    instruction.body.Set(std::move(op));
    return estimateWork(plan, program, instruction);
  }

  PlanT plan;
  ProgramT program;
};

TEST(Work, countsProductsOfMatrices) {
  Calls calls;
  Work work = calls.call("mm", {calls.tensor({64, 48}), calls.tensor({48, 32})},
                         {calls.tensor({64, 32})});
  EXPECT_EQ(work.kind, WorkKind::matmul);
  EXPECT_EQ(work.dtype, DType::bf16);
  EXPECT_EQ(work.flops, 2.0 * 64 * 48 * 32);
  EXPECT_EQ(work.bytes, 2.0 * (64 * 48 + 48 * 32 + 64 * 32));
  EXPECT_EQ(work.matmul.batch, 1);
  EXPECT_EQ(work.matmul.m, 64);
  EXPECT_EQ(work.matmul.n, 32);
  EXPECT_EQ(work.matmul.k, 48);
  EXPECT_FALSE(work.isFusible);
}

TEST(Work, ProductsThatWriteF32ComputeInWhatTheyRead) {
  Calls calls;
  Work work = calls.call("mm", {calls.tensor({64, 48}), calls.tensor({48, 32})},
                         {calls.tensor({64, 32}, DType::f32)});
  EXPECT_EQ(work.dtype, DType::bf16);
  EXPECT_EQ(work.flops, 2.0 * 64 * 48 * 32);
  EXPECT_EQ(work.bytes, 2.0 * (64 * 48 + 48 * 32) + 4.0 * 64 * 32);
}

TEST(Work, countsBatchesAddendsAndTransposedWeights) {
  Calls calls;
  Work batched =
      calls.call("bmm", {calls.tensor({6, 64, 48}), calls.tensor({6, 48, 32})},
                 {calls.tensor({6, 64, 32})});
  EXPECT_EQ(batched.flops, 6 * 2.0 * 64 * 48 * 32);
  EXPECT_EQ(batched.matmul.batch, 6);
  EXPECT_EQ(batched.matmul.m, 64);
  Work added = calls.call(
      "addmm",
      {calls.tensor({32}), calls.tensor({64, 48}), calls.tensor({48, 32})},
      {calls.tensor({64, 32})});
  EXPECT_EQ(added.flops, 2.0 * 64 * 48 * 32);
  EXPECT_EQ(added.matmul.k, 48);
  Work linear =
      calls.call("linear", {calls.tensor({4, 16, 48}), calls.tensor({32, 48})},
                 {calls.tensor({4, 16, 32})});
  EXPECT_EQ(linear.flops, 2.0 * 64 * 48 * 32);
  EXPECT_EQ(linear.matmul.m, 64);
  EXPECT_EQ(linear.matmul.n, 32);
}

TEST(Work, countsAttention) {
  // Two products of rows x columns x width, each; five backward; half of them
  // where it is causal.
  Calls calls;
  auto part = [&] { return calls.tensor({2, 8, 128, 64}); };
  double product = 2.0 * (2 * 8) * 128 * 128 * 64;
  Work whole = calls.call("_scaled_dot_product_flash_attention",
                          {part(), part(), part()}, {part()}, {false, false});
  EXPECT_EQ(whole.kind, WorkKind::attention);
  EXPECT_EQ(whole.flops, 2 * product);
  Work causal = calls.call("_scaled_dot_product_flash_attention",
                           {part(), part(), part()}, {part()}, {true, false});
  EXPECT_EQ(causal.flops, product);
  Work backward = calls.call("_scaled_dot_product_flash_attention_backward",
                             {part(), part(), part(), part(), part()},
                             {part(), part(), part()}, {true});
  EXPECT_EQ(backward.flops, 2.5 * product);
  EXPECT_TRUE(backward.isBackward);
  // compute_log_sumexp stands in front of is_causal.
  Work efficient =
      calls.call("_scaled_dot_product_efficient_attention",
                 {part(), part(), part()}, {part()}, {true, false});
  EXPECT_EQ(efficient.flops, 2 * product);
}

TEST(Work, countsMasksOfAttention) {
  Calls calls;
  // Queries, keys and values of 8 heads, a mask of each pair or of each key.
  auto call = [&](const std::string &name, bool isBackward, size_t at,
                  std::vector<int64_t> mask, std::vector<int64_t> strides,
                  bool isCausal) {
    std::vector<std::unique_ptr<ArgT>> args;
    for (size_t i = 0; i < at; ++i)
      args.push_back(
          Calls::arg(ArgKind::tensor, {calls.tensor({2, 8, 128, 64})}));
    int32_t added =
        calls.tensor(std::move(mask), DType::bf16, std::move(strides));
    args.push_back(Calls::arg(ArgKind::tensor, {added}));
    if (!isBackward)
      args.push_back(Calls::arg(ArgKind::boolean, {}, {1})); // sums
    args.push_back(Calls::arg(ArgKind::boolean, {}, {isCausal}));
    return calls.callWith(name, std::move(args),
                          {calls.tensor({2, 8, 128, 64})});
  };
  double part = 2 * (2 * 8 * 128 * 64), pairs = 2 * 8 * 128 * 128;
  Work dense = call("_scaled_dot_product_cudnn_attention", false, 3,
                    {2, 1, 128, 128}, {}, false);
  EXPECT_EQ(dense.bytes, 4 * part + 2 * pairs);
  EXPECT_EQ(dense.share, 1);
  EXPECT_EQ(dense.flops, 4 * pairs * 64);
  Work back = call("_scaled_dot_product_cudnn_attention_backward", true, 8,
                   {128, 128}, {}, false);
  EXPECT_EQ(back.bytes, 9 * part + 2 * pairs);
  // A kernel that is half as fast; what is causal is not read.
  std::vector<int64_t> rows = {128 * 128, 0, 128, 1}, keys = {128, 0, 0, 1};
  Work efficient = call("_scaled_dot_product_efficient_attention", false, 3,
                        {2, 8, 128, 128}, rows, false);
  EXPECT_EQ(efficient.bytes, 4 * part + 2 * pairs);
  EXPECT_EQ(efficient.share, 0.5);
  Work causal = call("_scaled_dot_product_efficient_attention", false, 3,
                     {2, 8, 128, 128}, rows, true);
  EXPECT_EQ(causal.bytes, 4 * part + pairs);
  EXPECT_EQ(causal.flops, efficient.flops / 2);
  // One number for each key.
  Work padded = call("_scaled_dot_product_efficient_attention_backward", true,
                     4, {2, 8, 128, 128}, keys, true);
  EXPECT_EQ(padded.bytes, 5 * part + 2 * 2 * 128);
  EXPECT_EQ(padded.share, 0.5);
}

/// Of flash attention that is told what is seen: [positions, heads, width]
/// with `bounds`, or [batch, length, heads, width].
Work told(Calls &calls, std::vector<int64_t> query, std::vector<int64_t> key,
          std::optional<int64_t> bounds, bool isCausal,
          std::optional<int64_t> left, std::optional<int64_t> right,
          bool isBackward = false) {
  std::vector<std::unique_ptr<ArgT>> args;
  auto add = [&](const std::vector<int64_t> &shape) {
    args.push_back(Calls::arg(ArgKind::tensor, {calls.tensor(shape)}));
  };
  auto number = [&](std::optional<int64_t> value) {
    args.push_back(value ? Calls::arg(ArgKind::integer, {}, {*value})
                         : Calls::arg(ArgKind::none));
  };
  if (isBackward)
    add(query);
  add(query);
  add(key);
  add(key);
  if (isBackward) {
    add(query); // output
    add({1});   // sums
  }
  for (int i = 0; i < 2; ++i)
    if (bounds)
      add({*bounds});
    else
      args.push_back(Calls::arg(ArgKind::tensor, {-1}));
  number(8192);
  number(8192);
  args.push_back(Calls::arg(ArgKind::number));
  args.push_back(Calls::arg(ArgKind::boolean, {}, {isCausal}));
  if (isBackward) {
    add({2});
    add({});
  } else {
    args.push_back(Calls::arg(ArgKind::boolean, {}, {0}));
  }
  args.push_back(Calls::arg(ArgKind::number));
  number(left);
  number(right);
  return calls.callWith(isBackward ? "_flash_attention_backward"
                                   : "_flash_attention_forward",
                        std::move(args), {calls.tensor(query)});
}

TEST(Work, countsWhatToldAttentionSees) {
  Calls calls;
  // Four documents of a quarter each of which there may be eight.
  Work documents = told(calls, {1024, 8, 64}, {1024, 2, 64}, 9, true, {}, {});
  EXPECT_EQ(documents.kind, WorkKind::attention);
  EXPECT_EQ(documents.flops, 2 * 2.0 * 8 * 4 * (256.0 * 256 / 2) * 64);
  Work backward =
      told(calls, {1024, 8, 64}, {1024, 2, 64}, 9, true, {}, {}, true);
  EXPECT_EQ(backward.flops, 2.5 * documents.flops);
  EXPECT_TRUE(backward.isBackward);
  // A rank's quarter of the queries.
  Work part = told(calls, {256, 8, 64}, {1024, 2, 64}, 9, true, {}, {});
  EXPECT_EQ(part.flops, documents.flops / 4);
  // Of 8 positions those up to 2 to the left: 1 + 2 + 6 * 3.
  Work window = told(calls, {2, 8, 4, 16}, {2, 8, 4, 16}, {}, false, 2, 0);
  EXPECT_EQ(window.flops, 2 * 2.0 * (2 * 4) * 21 * 16);
  Work wide = told(calls, {2, 8, 4, 16}, {2, 8, 4, 16}, {}, false, 100, {});
  EXPECT_EQ(wide.flops, 2 * 2.0 * (2 * 4) * 64 * 16);
}

TEST(Work, countsConvolutions) {
  Calls calls;
  Work work =
      calls.call("convolution",
                 {calls.tensor({8, 3, 32, 32}), calls.tensor({16, 3, 5, 5})},
                 {calls.tensor({8, 16, 28, 28})}, {false});
  EXPECT_EQ(work.kind, WorkKind::convolution);
  EXPECT_EQ(work.flops, 2.0 * 8 * 16 * 28 * 28 * 3 * 5 * 5);
}

TEST(Work, movesWhatElementwiseKernelsReadAndWrite) {
  Calls calls;
  int32_t x = calls.tensor({128, 256}), y = calls.tensor({128, 256});
  Work add = calls.call("add", {x, y}, {calls.tensor({128, 256})});
  EXPECT_EQ(add.kind, WorkKind::elementwise);
  EXPECT_EQ(add.bytes, 3 * 2.0 * 128 * 256);
  EXPECT_EQ(add.flops, 128 * 256);
  EXPECT_TRUE(add.isFusible);
  // One operand twice is read once, and expanded ones as often as they lie
  // there.
  EXPECT_EQ(calls.call("mul", {x, x}, {calls.tensor({128, 256})}).bytes,
            2 * 2.0 * 128 * 256);
  int32_t row = calls.tensor({128, 256}, DType::bf16, {0, 1});
  EXPECT_EQ(calls.call("mul", {x, row}, {calls.tensor({128, 256})}).bytes,
            2 * 2.0 * 128 * 256 + 2 * 256);
  // In place, and unknown operators.
  EXPECT_EQ(calls.call("add_", {x, y}, {}).bytes, 2 * 2.0 * 128 * 256);
  EXPECT_EQ(calls.call("no_such_operator", {x}, {y}).kind,
            WorkKind::elementwise);
}

TEST(Work, takesNothingForViews) {
  Calls calls;
  for (const char *name : {"view", "transpose", "slice", "expand", "t"}) {
    Work work =
        calls.call(name, {calls.tensor({4, 4})}, {calls.tensor({4, 4})});
    EXPECT_EQ(work.kind, WorkKind::none) << name;
    EXPECT_EQ(work.bytes, 0) << name;
  }
}

TEST(Work, readsTheRowsThatAreGathered) {
  Calls calls;
  Work work = calls.call("embedding",
                         {calls.tensor({50000, 64}), calls.tensor({4, 32})},
                         {calls.tensor({4, 32, 64})});
  EXPECT_EQ(work.kind, WorkKind::indexing);
  EXPECT_EQ(work.bytes, 2 * 2.0 * 4 * 32 * 64);
  // Its gradient is written whole.
  Work backward =
      calls.call("embedding_dense_backward",
                 {calls.tensor({4, 32, 64}), calls.tensor({4, 32}, DType::i64)},
                 {calls.tensor({50000, 64})});
  EXPECT_EQ(backward.bytes, 2.0 * 50000 * 64 + 3 * 2.0 * 4 * 32 * 64);
}

TEST(Work, sumsAndSoftmaxesAreReductions) {
  Calls calls;
  Work work = calls.call("_log_softmax", {calls.tensor({64, 1000})},
                         {calls.tensor({64, 1000})});
  EXPECT_EQ(work.kind, WorkKind::reduction);
  EXPECT_EQ(work.bytes, 2 * 2.0 * 64 * 1000);
  EXPECT_GT(work.flops, 64 * 1000);
  EXPECT_EQ(
      calls.call("sum", {calls.tensor({64, 1000})}, {calls.tensor({})}).kind,
      WorkKind::reduction);
}

TEST(Work, writesWithoutReading) {
  Calls calls;
  int32_t logits = calls.tensor({64, 1000});
  EXPECT_EQ(
      calls.call("zeros_like", {logits}, {calls.tensor({64, 1000})}).bytes,
      2.0 * 64 * 1000);
  // The operand is named for its shape.
  EXPECT_EQ(
      calls
          .call("nll_loss_backward",
                {calls.tensor({}), logits, calls.tensor({64}, DType::i64)},
                {calls.tensor({64, 1000})})
          .bytes,
      2.0 * 64 * 1000);
}

TEST(Work, countsTheTensorsOfLists) {
  Calls calls;
  int32_t a = calls.tensor({8}), b = calls.tensor({4, 4});
  Work work = calls.callOfList("_foreach_norm", {a, b},
                               {calls.tensor({}), calls.tensor({})});
  EXPECT_EQ(work.kind, WorkKind::reduction);
  EXPECT_EQ(work.tensors, 2u);
  UpdateT adam;
  adam.params = adam.grads = {uint32_t(a), uint32_t(b), uint32_t(a)};
  adam.step = a;
  adam.lr = uint32_t(a);
  EXPECT_EQ(calls.estimate(std::move(adam)).tensors, 3u);
  EXPECT_EQ(calls.callOfList("cat", {a, b}, {a}).tensors, 1u);
}

TEST(Work, fusesNoBuckets) {
  Calls calls;
  Work work = calls.call("_chunk_cat", {calls.tensor({64}), calls.tensor({32})},
                         {calls.tensor({96})});
  EXPECT_EQ(work.kind, WorkKind::copy);
  EXPECT_EQ(work.bytes, 2 * 2.0 * 96);
  EXPECT_FALSE(work.isFusible);
}

TEST(Work, copiesBetweenMemoryAndPacksWhatLiesElsewhere) {
  Calls calls;
  int32_t a = calls.tensor({64}), b = calls.tensor({128}),
          all = calls.tensor({192});
  PackTensorsT pack;
  pack.inputs = {uint32_t(a), uint32_t(b)};
  pack.output = uint32_t(all);
  Work work = calls.estimate(pack);
  EXPECT_EQ(work.kind, WorkKind::copy);
  EXPECT_EQ(work.bytes, 2 * 2.0 * 192);
  EXPECT_FALSE(work.isFusible);
  EXPECT_EQ(calls.estimate(WaitT()).kind, WorkKind::none);
}

TEST(Work, exactNormsAreNotFree) {
  Calls calls;
  int32_t a = calls.tensor({1000}), b = calls.tensor({24}, DType::f32),
          digits = calls.tensor({22}, DType::i64),
          norm = calls.tensor({}, DType::f32);
  SquareSumT sum;
  sum.inputs = {uint32_t(a), uint32_t(b)};
  sum.output = uint32_t(digits);
  Work work = calls.estimate(sum);
  EXPECT_EQ(work.kind, WorkKind::reduction);
  EXPECT_EQ(work.op, "square_sum");
  EXPECT_EQ(work.bytes, 2 * 1000 + 4 * 24 + 8 * 22);
  EXPECT_EQ(work.flops, 15 * 1024);
  EXPECT_EQ(work.tensors, 2u);
  EXPECT_EQ(work.dtype, DType::bf16);
  SquareRootT root;
  root.inputs = {uint32_t(digits)};
  root.output = uint32_t(norm);
  work = calls.estimate(root);
  EXPECT_EQ(work.kind, WorkKind::reduction);
  EXPECT_EQ(work.bytes, 8 * 22 + 4);
}

TEST(Work, SumsOfPartsReadThemAllAndWriteOne) {
  Calls calls;
  SumPartsT sum;
  sum.input = uint32_t(calls.tensor({512}, DType::bf16));
  sum.output = uint32_t(calls.tensor({64}, DType::f32));
  sum.parts = 8;
  Work work = calls.estimate(sum);
  EXPECT_EQ(work.kind, WorkKind::reduction);
  EXPECT_EQ(work.bytes, 2 * 512 + 4 * 64);
}

/// exp(x) and the sum of x over rows, of f32[1000, 64].
TEST(Work, KernelsAreTheirOperandsAndOnGpusTheirPartialRows) {
  PlanT plan;
  plan.training = std::make_unique<TrainingT>();
  plan.kernels.push_back(std::make_unique<KernelProgramT>());
  KernelProgramT &kernel = *plan.kernels.back();
  kernel.rows = {1000};
  auto operand = [&](std::vector<int64_t> rowStrides, int32_t written) {
    auto made = std::make_unique<KernelOperandT>();
    made->dtype = DType::f32;
    made->row_strides = std::move(rowStrides);
    made->columns = 64;
    made->column_stride = 1;
    made->written = written;
    kernel.operands.push_back(std::move(made));
  };
  operand({64}, -1);
  operand({64}, 1);
  operand({0}, 2);
  auto op = [&](KernelOpKind kind, std::vector<uint32_t> args,
                std::vector<int64_t> integers = {}) {
    auto made = std::make_unique<KernelOpT>();
    made->kind = uint16_t(kind);
    made->args = std::move(args);
    made->integers = std::move(integers);
    kernel.ops.push_back(std::move(made));
  };
  op(KernelOpKind::load, {}, {0});
  op(KernelOpKind::exp, {0});
  op(KernelOpKind::sum_rows, {0});
  ASSERT_EQ(checkKernel(kernel), std::nullopt);
  Calls calls;
  KernelT call;
  call.inputs = {uint32_t(calls.tensor({1000, 64}, DType::f32))};
  call.outputs = {uint32_t(calls.tensor({1000, 64}, DType::f32)),
                  uint32_t(calls.tensor({64}, DType::f32))};
  InstructionT instruction;
  instruction.body.Set(std::move(call));
  const double all = 1000 * 64, moved = 4 * (2 * all + 64);
  plan.training->device = "cpu";
  Work work = estimateWork(plan, calls.program, instruction);
  EXPECT_EQ(work.bytes, moved);
  EXPECT_EQ(work.flops, 3 * all);
  EXPECT_EQ(work.kernels, 1);
  plan.training->device = "cuda:sm_90";
  work = estimateWork(plan, calls.program, instruction);
  EXPECT_EQ(work.bytes, moved + 2 * 264 * 64 * 4);
  EXPECT_EQ(work.flops, 12 * all);
  EXPECT_EQ(work.kernels, 2);
}

} // namespace
