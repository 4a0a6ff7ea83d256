//===- Cases.h - Arguments for operators, laid out in many ways -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A case is an operator and a function that makes its arguments. The tests run
// each case on the CPU and on meta tensors, for several memory layouts and
// dtypes of the arguments, and compare. One file a family, as in
// ir/capture/meta.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_IR_CAPTURE_META_CASES_H
#define FSDP_TEST_UNIT_IR_CAPTURE_META_CASES_H

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace fsdp::meta::test {

using at::IValue;
using at::Tensor;
using torch::jit::Stack;
using Ints = std::vector<int64_t>;

enum class Layout { Contiguous, Transposed, ChannelsLast, Strided, EmptyBatch };

/// Makes the tensors of one case in one layout and dtype.
struct Maker {
  Layout layout = Layout::Contiguous;
  at::ScalarType dtype = at::kFloat;

  /// The same values, laid out in memory as this case wants.
  Tensor lay(Tensor tensor) const;
  /// `sizes`, of which the first is the batch.
  Ints batch(Ints sizes) const;
  /// Data, whose first dimension is the batch.
  Tensor operator()(Ints sizes) const;
  /// Between 0 and 1.
  Tensor unit(Ints sizes) const;
  Tensor index(Ints sizes, int64_t end) const;
  /// A parameter: contiguous, never empty.
  Tensor weight(Ints sizes) const;

  std::string describe() const;
};

struct Case {
  /// Without "aten::".
  const char *op;
  /// Arguments that are left out get their defaults.
  std::function<Stack(const Maker &)> make;
  /// False where the CPU kernel crashes on an empty batch, which the composite
  /// operators that call it therefore never pass on.
  bool takesEmpty = true;
  /// A part of what the kernel says if it refuses: then shapes depend on data.
  const char *refused = nullptr;
};

/// Calls an operator and returns its results.
Stack call(const std::string &op, Stack arguments);

/// The first result, a tensor.
Tensor first(const std::string &op, Stack arguments);

/// An absent optional argument.
inline const IValue none;

inline constexpr std::array<bool, 3> allThree = {true, true, true};

std::vector<Case> attentions();
std::vector<Case> convolutions();
std::vector<Case> embeddings();
std::vector<Case> fakeQuantizations();
std::vector<Case> fourierTransforms();
std::vector<Case> indexing();
std::vector<Case> linearAlgebra();
std::vector<Case> losses();
std::vector<Case> matrices();
std::vector<Case> normalizations();
std::vector<Case> padding();
std::vector<Case> pointwiseOps();
std::vector<Case> pooling();
std::vector<Case> reductions();
std::vector<Case> segments();
std::vector<Case> sorting();

} // namespace fsdp::meta::test

#endif // FSDP_TEST_UNIT_IR_CAPTURE_META_CASES_H
