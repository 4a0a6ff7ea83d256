//===- Cases.cpp - Arguments for operators, laid out in many ways ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/ir/capture/meta/Cases.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

using namespace fsdp::meta::test;

Tensor Maker::lay(Tensor tensor) const {
  int64_t dims = tensor.dim();
  if (layout == Layout::Transposed && dims >= 2)
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2);
  if (layout == Layout::ChannelsLast && dims == 4)
    return tensor.contiguous(at::MemoryFormat::ChannelsLast);
  if (layout == Layout::ChannelsLast && dims == 5)
    return tensor.contiguous(at::MemoryFormat::ChannelsLast3d);
  if (layout == Layout::Strided && dims >= 1)
    return at::cat({tensor, tensor}, -1).slice(-1, 0, tensor.size(-1));
  return tensor;
}

Ints Maker::batch(Ints sizes) const {
  if (layout == Layout::EmptyBatch && !sizes.empty())
    sizes[0] = 0;
  return sizes;
}

Tensor Maker::operator()(Ints sizes) const {
  return lay(at::randn(batch(sizes), at::kFloat).to(dtype));
}

Tensor Maker::unit(Ints sizes) const {
  return lay(at::randn(batch(sizes), at::kFloat).sigmoid().to(dtype));
}

Tensor Maker::index(Ints sizes, int64_t end) const {
  return at::randint(end, batch(sizes), at::kLong);
}

Tensor Maker::weight(Ints sizes) const {
  return at::randn(sizes, at::kFloat).to(dtype);
}

std::string Maker::describe() const {
  constexpr const char *names[] = {"contiguous", "transposed", "channels last",
                                   "strided", "empty batch"};
  return std::string(names[int(layout)]) + " " + c10::toString(dtype);
}

Stack fsdp::meta::test::call(const std::string &name, Stack stack) {
  size_t dot = name.find('.');
  c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
      ("aten::" + name.substr(0, dot)).c_str(),
      dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
  const auto &arguments = op.schema().arguments();
  for (size_t i = stack.size(); i < arguments.size(); ++i)
    stack.push_back(arguments[i].default_value().value_or(IValue()));
  op.callBoxed(stack);
  return stack;
}

Tensor fsdp::meta::test::first(const std::string &name, Stack stack) {
  return call(name, std::move(stack))[0].toTensor();
}
