//===- RunOperator.h - LibTorch computes an op of the dialect ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_PASSES_PARTITION_RUNOPERATOR_H
#define FSDP_TEST_UNIT_PASSES_PARTITION_RUNOPERATOR_H

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace fsdp::test {

/// A static argument: nothing, numbers, a list of ints or bools, a text.
struct StaticArgument {
  std::string name;
  std::variant<int64_t, double, bool, std::vector<int64_t>, std::vector<bool>,
               std::string>
      value;
};

/// The tensors of one tensor argument; several if it is a list.
struct TensorArgument {
  std::string name;
  std::vector<at::Tensor> tensors;
  bool isList = false;
};

/// What LibTorch's operator `name` ("aten.add.Tensor") computes; undefined
/// tensors where it gives none. "dtype:6" is a dtype by LibTorch's number,
/// "format:0" a memory format.
std::vector<at::Tensor> runOperator(const std::string &name,
                                    const std::vector<TensorArgument> &tensors,
                                    const std::vector<StaticArgument> &statics);

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PASSES_PARTITION_RUNOPERATOR_H
