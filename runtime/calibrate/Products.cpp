//===- Products.cpp - Times of products of matrices -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/calibrate/Cases.h"

#include "runtime/exec/Matmul.h"

#include <ATen/core/stack.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <map>

using namespace fsdp;

static constexpr int64_t kProductSizes[] = {1, 8, 32, 128, 512, 2048};
/// As the runtime calls products (runtime/exec/instructions/Call.cpp).
static std::function<void()> makeProduct(const at::Tensor &left,
                                         const at::Tensor &right) {
  std::vector<c10::IValue> arguments = {left, right};
  if (auto other = replaceMatmul("aten::mm", "", arguments))
    return [call = *other] {
      torch::jit::Stack stack = call.arguments;
      call.op.callBoxed(stack);
    };
  at::Tensor out = at::mm(left, right);
  return [=]() mutable { at::mm_out(out, left, right); };
}

static double timeProduct(Crew &crew, int64_t m, int64_t n, int64_t k,
                          bool isTransposed) {
  at::Tensor left = isTransposed ? at::ones({k, m}).t() : at::ones({m, k});
  std::vector<std::function<void()>> products;
  int64_t count = countTurns(4 * n * std::max(k, m));
  for (int64_t i = 0; i < count; ++i)
    products.push_back(makeProduct(left, isTransposed ? at::ones({k, n})
                                                      : at::ones({n, k}).t()));
  size_t next = 0;
  return crew.time([&] {
    products[next]();
    next = (next + 1) % products.size();
  });
}

void fsdp::measureProducts(Crew &crew, std::vector<Measured> &results) {
  for (bool isTransposed : {false, true}) {
    std::map<std::vector<double>, double> least;
    for (int pass = 0; pass < kPasses; ++pass) {
      sayProgress(crew, isTransposed ? "products of transposed matrices"
                                     : "products of matrices");
      for (int64_t m : kProductSizes)
        for (int64_t n : kProductSizes)
          for (int64_t k : kProductSizes) {
            double seconds = timeProduct(crew, m, n, k, isTransposed);
            auto [known, isNew] =
                least.try_emplace({double(m), double(n), double(k)}, seconds);
            known->second = std::min(known->second, seconds);
          }
    }
    for (const auto &[sizes, seconds] : least)
      results.push_back(
          {isTransposed ? "products transposed" : "products", sizes, seconds});
  }
  sayProgress(crew, "products of other types");
  for (auto [name, type] : {std::pair("f64", c10::kDouble),
                            {"bf16", c10::kBFloat16},
                            {"f16", c10::kHalf}}) {
    at::Tensor square = at::ones({kRateSize, kRateSize}, type);
    results.push_back({std::string("rate ") + name, {}, crew.time([&] {
                         at::mm(square, square);
                       })});
  }
}
