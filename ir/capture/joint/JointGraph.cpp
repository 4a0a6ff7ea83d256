//===- JointGraph.cpp - Forward and backward as plain data ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/JointGraph.h"

#include <algorithm>

using namespace fsdp::capture;

TensorType TensorType::contiguous(c10::ScalarType dtype,
                                  std::vector<int64_t> sizes) {
  TensorType type;
  type.dtype = dtype;
  type.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    type.strides[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
  }
  type.sizes = std::move(sizes);
  return type;
}

TensorType TensorType::of(const at::Tensor &tensor) {
  TensorType type;
  type.dtype = tensor.scalar_type();
  type.sizes = tensor.sizes().vec();
  type.strides = tensor.strides().vec();
  return type;
}

std::string Location::describe() const {
  std::string text = module;
  if (!file.empty()) {
    if (!text.empty())
      text += " ";
    text += "at " + file + ":" + std::to_string(line);
  }
  return text;
}

std::string fsdp::capture::getOperatorName(const c10::OperatorHandle &op) {
  std::string name = op.operator_name().name;
  if (const std::string &overload = op.operator_name().overload_name;
      !overload.empty())
    name += "." + overload;
  return name;
}

const char *fsdp::capture::getCauseName(Cast::Cause cause) {
  static constexpr const char *names[] = {"parameter", "input",  "operand",
                                          "border",    "output", "gradient"};
  return names[static_cast<size_t>(cause)];
}
