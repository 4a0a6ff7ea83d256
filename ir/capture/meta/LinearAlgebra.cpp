//===- LinearAlgebra.cpp - Factorizations and solvers without data --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LAPACK's matrices are stored by columns, and so are most results.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/meta/Shapes.h"
#include "ir/capture/meta/TargetScope.h"

#include <ATen/ExpandUtils.h>

using namespace fsdp::meta;

static Tensor byColumnsLike(const Tensor &self) {
  return byColumns(self.sizes(), self, self.scalar_type());
}

/// The sizes of a batch of matrices, without the matrices' own.
static IntArrayRef batchOf(const Tensor &self) {
  return self.sizes().slice(0, self.dim() - 2);
}

static std::vector<int64_t> join(IntArrayRef batch,
                                 std::initializer_list<int64_t> tail) {
  std::vector<int64_t> sizes = batch.vec();
  sizes.insert(sizes.end(), tail);
  return sizes;
}

static Tensor cholesky(const Tensor &self, bool) {
  return self.numel() ? byColumnsLike(self) : contiguousLike(self);
}

static Tensor choleskyInverse(const Tensor &self, bool) {
  return byColumnsLike(self);
}

static Tensor choleskySolveHelper(const Tensor &self, const Tensor &, bool) {
  return byColumnsLike(self);
}

static Tensor eigenvalues(const Tensor &self) {
  return contiguous(join(batchOf(self), {self.size(-1)}), self,
                    at::toComplexType(self.scalar_type()));
}

static Two eigen(const Tensor &self) {
  return {eigenvalues(self),
          byColumns(self.sizes(), self, at::toComplexType(self.scalar_type()))};
}

static Two geqrf(const Tensor &self) {
  return {
      byColumnsLike(self),
      contiguous(join(batchOf(self), {std::min(self.size(-2), self.size(-1))}),
                 self)};
}

static Tensor householderProduct(const Tensor &self, const Tensor &) {
  return self.numel() ? byColumnsLike(self) : at::empty_like(self);
}

static Tensor multiplyByQ(const Tensor &, const Tensor &, const Tensor &other,
                          bool, bool) {
  return byColumnsLike(other);
}

static Tensor matrixExponential(const Tensor &self) {
  // Numbers are exponentiated as such.
  return self.numel() && self.size(-1) == 1 ? pointwise({self})
                                            : contiguousLike(self);
}

static Tensor linearCombination(const Tensor &self,
                                const Tensor &coefficients) {
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes[0] = coefficients.size(0);
  return contiguous(sizes, self);
}

static Tensor solveTriangular(const Tensor &matrix, const Tensor &right, bool,
                              bool, bool) {
  return byColumns(join(at::infer_size(batchOf(matrix), batchOf(right)),
                        {right.size(-2), right.size(-1)}),
                   right, right.scalar_type());
}

/// CUDA has only `gels`.
static std::tuple<Tensor &, Tensor &, Tensor &, Tensor &>
leastSquaresOut(const Tensor &self, const Tensor &other, std::optional<double>,
                std::optional<std::string_view> driver, Tensor &solution,
                Tensor &residuals, Tensor &rank, Tensor &singularValues) {
  std::string_view name = driver.value_or(isForCuda() ? "gels" : "gelsy");
  IntArrayRef rows = self.sizes().slice(0, self.dim() - 1);
  bool vector = other.dim() == 1 ||
                (other.dim() == self.dim() - 1 && other.sizes() == rows);
  int64_t m = self.size(-2), n = self.size(-1);
  int64_t columns = vector ? 1 : other.size(-1);
  bool decomposes = name == "gelss" || name == "gelsd";
  TORCH_CHECK_NOT_IMPLEMENTED(
      !decomposes || m <= n, "linalg_lstsq with driver '", name,
      "': whether it gives residuals depends on data; use the driver 'gels' "
      "or 'gelsy'");
  IntArrayRef otherBatch =
      vector ? other.sizes().slice(0, other.dim() - 1) : batchOf(other);
  std::vector<int64_t> batch = at::infer_size(batchOf(self), otherBatch);
  // The solution is the upper part of what held the right-hand sides.
  Tensor whole = byColumns(join(batch, {std::max(m, n), columns}), self,
                           self.scalar_type());
  Tensor part = whole.narrow(-2, 0, n);
  if (vector)
    part = part.squeeze(-1);
  takeLayout(solution, part);
  if (m > n && name != "gelsy")
    residuals.resize_(join(batch, {columns}));
  if (name != "gels")
    rank.resize_(batchOf(self));
  if (decomposes)
    singularValues.resize_(join(batchOf(self), {std::min(m, n)}));
  return {solution, residuals, rank, singularValues};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("cholesky", cholesky);
  m.impl("cholesky_inverse", choleskyInverse);
  m.impl("_cholesky_solve_helper", choleskySolveHelper);
  m.impl("linalg_eig", eigen);
  m.impl("_linalg_eigvals", eigenvalues);
  m.impl("geqrf", geqrf);
  m.impl("linalg_householder_product", householderProduct);
  m.impl("ormqr", multiplyByQ);
  m.impl("linalg_matrix_exp", matrixExponential);
  m.impl("_compute_linear_combination", linearCombination);
  m.impl("linalg_solve_triangular", solveTriangular);
  m.impl("linalg_lstsq.out", leastSquaresOut);
}
