//===- DrawCall.h - A call that draws ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_JOINT_DRAWCALL_H
#define FSDP_IR_CAPTURE_JOINT_DRAWCALL_H

#include "ir/capture/joint/Draws.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/view_as_complex.h>

namespace fsdp::capture {

/// The dtype, sizes and strides of what an operator draws.
struct DrawType {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
};

inline std::vector<int64_t> contiguousStrides(at::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
  }
  return strides;
}

/// A call of a random operator: its arguments by name, and draws for it.
class DrawCall {
public:
  DrawCall(const c10::OperatorHandle &op, const torch::jit::Stack &stack,
           const DrawFunction &drawFunction)
      : schema(op.schema()),
        arguments(stack.end() - schema.arguments().size(), stack.end()),
        drawFunction(drawFunction) {}

  const c10::IValue &get(const char *name) const {
    std::optional<int> index = schema.argumentIndexWithName(name);
    TORCH_INTERNAL_ASSERT(index, schema.name(), " has no argument ", name);
    return arguments[*index];
  }
  bool has(const char *name) const {
    return schema.argumentIndexWithName(name).has_value();
  }
  at::Tensor tensor(const char *name) const { return get(name).toTensor(); }
  double number(const char *name) const {
    return get(name).toScalar().toDouble();
  }

  /// Of a factory.
  DrawType sized(c10::ScalarType otherwise) const {
    std::vector<int64_t> sizes = get("size").toIntVector();
    return {dtype(otherwise), sizes, contiguousStrides(sizes)};
  }
  /// Of `self`, or what a factory makes of it.
  DrawType likeSelf() const {
    at::Tensor self = tensor("self");
    return like(self, dtype(self.scalar_type()));
  }
  DrawType like(const at::Tensor &tensor, c10::ScalarType dtype) const {
    std::optional<c10::MemoryFormat> format;
    if (has("memory_format") && !get("memory_format").isNone())
      format = get("memory_format").toMemoryFormat();
    // Only its strides are of interest: no operator of the program.
    c10::impl::ExcludeDispatchKeyGuard quiet{
        c10::DispatchKeySet(c10::DispatchKey::Fake)};
    at::Tensor empty = at::empty_like(
        tensor, tensor.options().device(c10::kMeta).dtype(dtype), format);
    return {dtype, empty.sizes().vec(), empty.strides().vec()};
  }

  at::Tensor draw(const char *distribution, const DrawType &type,
                  std::vector<double> numbers = {},
                  std::vector<int64_t> range = {},
                  std::vector<at::Tensor> given = {}) const {
    return drawFunction({distribution, std::move(numbers), std::move(range),
                         std::move(given), type.sizes, type.strides,
                         type.dtype});
  }

  /// Draws that LibTorch makes for real and imaginary part apart.
  at::Tensor drawParts(const char *distribution, DrawType type, double a,
                       double b) const {
    if (!c10::isComplexType(type.dtype)) {
      TORCH_CHECK(c10::isFloatingType(type.dtype), schema.name(),
                  " draws floating-point numbers, not ", type.dtype);
      return draw(distribution, type, {a, b});
    }
    type.dtype = c10::toRealValueType(type.dtype);
    for (int64_t &stride : type.strides)
      stride *= 2;
    type.sizes.push_back(2);
    type.strides.push_back(1);
    return at::view_as_complex(draw(distribution, type, {a, b}));
  }

private:
  c10::ScalarType dtype(c10::ScalarType otherwise) const {
    return has("dtype") && !get("dtype").isNone() ? get("dtype").toScalarType()
                                                  : otherwise;
  }

  const c10::FunctionSchema &schema;
  torch::jit::Stack arguments;
  const DrawFunction &drawFunction;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_DRAWCALL_H
