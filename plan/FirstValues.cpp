//===- FirstValues.cpp - What a plan may say of first values --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/FirstValues.h"

#include "support/Format.h"

#include <cmath>

using namespace fsdp;
using plan::InitKind;

bool fsdp::isPlainFloat(plan::DType dtype) {
  return dtype == plan::DType::f32 || dtype == plan::DType::f64 ||
         dtype == plan::DType::f16 || dtype == plan::DType::bf16;
}

bool fsdp::isConvertible(plan::DType from, plan::DType to) {
  return from == to || (isPlainFloat(from) && isPlainFloat(to));
}

bool fsdp::isOfBase(const plan::StateT &state) {
  return state.initializer && state.initializer->kind >= InitKind::pissa &&
         state.initializer->kind <= InitKind::norms;
}

bool fsdp::isAverage(const plan::StateT &state) {
  return state.initializer && state.initializer->kind == InitKind::owner;
}

std::optional<std::string>
fsdp::checkInitializer(const plan::InitializerT &init,
                       std::span<const int64_t> shape, plan::DType dtype) {
  if (init.kind > InitKind::MAX)
    return "is of an unknown kind";
  static constexpr size_t counts[] = {2, 4, 2, 0, 1, 1, 0, 0, 0};
  const std::vector<double> &arguments = init.arguments;
  size_t count = counts[static_cast<size_t>(init.kind)];
  if (arguments.size() != count)
    return "needs " + std::to_string(count) + " numbers, found " +
           std::to_string(arguments.size());
  for (double argument : arguments)
    if (!std::isfinite(argument))
      return "needs finite numbers";
  if (!isPlainFloat(dtype))
    return "needs a tensor of floating-point numbers";
  switch (init.kind) {
  case InitKind::normal:
    if (arguments[1] < 0)
      return "needs a standard deviation from 0";
    break;
  case InitKind::trunc_normal:
    if (arguments[1] <= 0)
      return "needs a standard deviation above 0";
    if (arguments[2] >= arguments[3])
      return "needs an interval whose end is above its beginning";
    break;
  case InitKind::uniform:
    if (arguments[0] > arguments[1])
      return "needs an interval whose end is not below its beginning";
    break;
  case InitKind::eye:
    if (shape.size() != 2)
      return "needs a matrix";
    break;
  case InitKind::pissa:
    if (arguments[0] < 0 || arguments[0] > 1000)
      return "needs a number of iterations from 0 to 1000";
    break;
  case InitKind::loftq:
  case InitKind::norms:
  case InitKind::owner:
    break;
  case InitKind::rope:
    if (shape.size() != 1)
      return "needs a tensor of one dim, the frequencies";
    if (arguments[0] <= 0)
      return "needs a base above 0";
    break;
  }
  return std::nullopt;
}

std::string fsdp::describeInitializer(const plan::InitializerT &init) {
  std::string text = plan::EnumNameInitKind(init.kind);
  if (init.arguments.empty())
    return text;
  for (size_t i = 0; i < init.arguments.size(); ++i)
    text += (i ? ", " : "(") + formatNumber(init.arguments[i]);
  return text + ")";
}
