//===- Matmul.cpp - Which library multiplies matrices ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Matmul.h"

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <atomic>

using namespace fsdp;

/// Below, what oneDNN needs to find its kernel again shows.
static constexpr int64_t kLeastMultiplications = int64_t(1) << 24;
static constexpr int64_t kLeastRows = 64;

static std::atomic<MatmulLibrary> chosen{MatmulLibrary::automatic};

void fsdp::setMatmulLibrary(MatmulLibrary library) { chosen = library; }

static bool prefersOneDnn() {
  switch (chosen.load()) {
  case MatmulLibrary::blas:
    return false;
  case MatmulLibrary::onednn:
    return true;
  case MatmulLibrary::automatic:
    break;
  }
#if defined(__x86_64__)
  return !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

/// Whether `tensor` is a matrix on the CPU whose rows lie one behind the other.
static bool hasDenseRows(const at::Tensor &tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == c10::kFloat &&
         tensor.dim() == 2 && tensor.stride(1) == 1 &&
         tensor.stride(0) == tensor.size(1);
}

std::optional<MatmulCall>
fsdp::replaceMatmul(std::string_view name, std::string_view overload,
                    const std::vector<c10::IValue> &arguments) {
  bool hasBias = name == "aten::addmm";
  if (!overload.empty() || !(hasBias || name == "aten::mm") || !prefersOneDnn())
    return std::nullopt;
  size_t first = hasBias ? 1 : 0;
  const at::Tensor &rows = arguments[first].toTensor();
  const at::Tensor &columns = arguments[first + 1].toTensor();
  if (columns.dim() != 2)
    return std::nullopt;
  at::Tensor weight = columns.t();
  if (!hasDenseRows(rows) || !(hasDenseRows(weight) || hasDenseRows(columns)) ||
      rows.size(0) < kLeastRows ||
      rows.numel() * columns.size(1) < kLeastMultiplications)
    return std::nullopt;
  c10::IValue bias;
  bool isMatrix = false;
  if (hasBias) {
    const at::Tensor &added = arguments[0].toTensor();
    isMatrix =
        added.sizes() == at::IntArrayRef({rows.size(0), columns.size(1)});
    // addmm(bias, rows, columns, *, beta, alpha)
    if (!(isMatrix || (added.dim() == 1 && added.size(0) == columns.size(1))) ||
        !added.is_contiguous() || added.scalar_type() != c10::kFloat ||
        !arguments[3].toScalar().equal(1) || !arguments[4].toScalar().equal(1))
      return std::nullopt;
    bias = added;
  }
  auto op = c10::Dispatcher::singleton().findSchema(
      {"mkldnn::_linear_pointwise", isMatrix ? "binary" : ""});
  if (!op)
    return std::nullopt;
  // X, other, W, B, attr
  if (isMatrix)
    return MatmulCall{
        *op, {rows, std::move(bias), std::move(weight), c10::IValue(), "add"}};
  // X, W, B, attr, scalars, algorithm
  return MatmulCall{*op,
                    {rows, std::move(weight), std::move(bias), "none",
                     c10::List<std::optional<at::Scalar>>(), ""}};
}
