//===- LinearAlgebraCases.cpp - Factorizations and solvers ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/matmul.h>

using namespace fsdp::meta::test;

/// Positive definite matrices.
static Tensor definite(const Maker &make, Ints batch, int64_t size) {
  batch.insert(batch.end(), {size, size});
  Tensor root = make(batch);
  return make.lay(at::matmul(root, root.mT())
                      .add(at::eye(size, root.options()), /*alpha=*/5));
}

std::vector<Case> fsdp::meta::test::linearAlgebra() {
  std::vector<Case> cases;
  for (bool upper : {false, true}) {
    for (const Ints &batch : {Ints{}, Ints{3}, Ints{2, 3}})
      for (const char *op : {"cholesky", "cholesky_inverse", "linalg_cholesky"})
        cases.push_back({op, [=](const Maker &make) -> Stack {
                           return {definite(make, batch, 4), upper};
                         }});
    cases.push_back({"cholesky_solve", [=](const Maker &make) -> Stack {
                       return {make({2, 4, 3}), definite(make, {2}, 4), upper};
                     }});
  }
  for (const Ints &batch : {Ints{}, Ints{3}, Ints{2, 3}}) {
    for (const char *op :
         {"linalg_eig", "_linalg_eigvals", "linalg_eigvals", "geqrf",
          "linalg_matrix_exp", "linalg_inv", "linalg_det", "linalg_eigh",
          "linalg_svd", "linalg_qr", "linalg_lu", "linalg_lu_factor",
          "linalg_ldl_factor_ex", "linalg_slogdet"})
      cases.push_back({op, [=](const Maker &make) -> Stack {
                         return {definite(make, batch, 4)};
                       }});
    for (const char *op : {"geqrf", "linalg_qr", "linalg_svd", "linalg_lu"})
      for (int64_t rows : {3, 5})
        cases.push_back({op, [=](const Maker &make) -> Stack {
                           Ints sizes = batch;
                           sizes.insert(sizes.end(), {rows, 4});
                           return {make(sizes)};
                         }});
  }
  cases.push_back({"linalg_matrix_exp", [](const Maker &make) -> Stack {
                     return {make({3, 1, 1})};
                   }});
  auto reflectors = [](const Maker &make) -> Stack {
    Stack out = call("geqrf", {make({2, 5, 3})});
    return {make.lay(out[0].toTensor()), out[1]};
  };
  cases.push_back({"linalg_householder_product", reflectors});
  for (bool transpose : {false, true}) {
    cases.push_back({"ormqr", [=](const Maker &make) -> Stack {
                       Stack in = reflectors(make);
                       return {in[0], in[1], make({2, 5, 4}), true, transpose};
                     }});
    cases.push_back({"ormqr", [=](const Maker &make) -> Stack {
                       Stack in = reflectors(make);
                       return {in[0], in[1], make({2, 4, 5}), false, transpose};
                     }});
  }
  for (bool upper : {false, true}) {
    auto triangle = [=](const Maker &make, Ints batch) {
      Tensor matrix = definite(make, batch, 4);
      return upper ? matrix.triu() : matrix.tril();
    };
    cases.push_back(
        {"linalg_solve_triangular", [=](const Maker &make) -> Stack {
           return {triangle(make, {2}), make({2, 4, 3}), upper};
         }});
    cases.push_back(
        {"linalg_solve_triangular", [=](const Maker &make) -> Stack {
           return {triangle(make, {2}), make({2, 3, 4}), upper, false};
         }});
    cases.push_back(
        {"linalg_solve_triangular", [=](const Maker &make) -> Stack {
           return {triangle(make, {3}), make.weight({2, 1, 4, 3}), upper, true,
                   true};
         }});
    cases.push_back({"triangular_solve", [=](const Maker &make) -> Stack {
                       return {make({2, 4, 3}), triangle(make, {2}), upper};
                     }});
  }
  cases.push_back({"linalg_solve", [](const Maker &make) -> Stack {
                     return {definite(make, {2}, 4), make({2, 4, 3})};
                   }});
  for (const char *driver : {"gels", "gelsy", "gelsd", "gelss"})
    for (int64_t rows : {3, 5}) {
      // Two of them give residuals only if the rank is full.
      bool decomposes = std::string_view(driver) == "gelsd" ||
                        std::string_view(driver) == "gelss";
      const char *refused =
          rows == 5 && decomposes ? "depends on data" : nullptr;
      cases.push_back({"linalg_lstsq",
                       [=](const Maker &make) -> Stack {
                         return {make({2, rows, 4}), make({2, rows, 3}), none,
                                 driver};
                       },
                       true, refused});
      cases.push_back({"linalg_lstsq",
                       [=](const Maker &make) -> Stack {
                         return {make({2, rows, 4}), make({2, rows}), none,
                                 driver};
                       },
                       true, refused});
      cases.push_back({"linalg_lstsq",
                       [=](const Maker &make) -> Stack {
                         return {make.weight({rows, 4}), make.weight({rows}),
                                 none, driver};
                       },
                       true, refused});
    }
  cases.push_back(
      {"_compute_linear_combination", [](const Maker &make) -> Stack {
         return {make.weight({3, 4, 5}), make.weight({2, 3})};
       }});
  return cases;
}
