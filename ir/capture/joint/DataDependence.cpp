//===- DataDependence.cpp - Results that depend on values -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/DataDependence.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <iterator>

using namespace fsdp::capture;

using Arguments = std::vector<c10::IValue>;

static bool hasMask(const Arguments &arguments) {
  auto isMask = [](const c10::IValue &index) {
    if (!index.isTensor() || !index.toTensor().defined())
      return false;
    c10::ScalarType type = index.toTensor().scalar_type();
    return type == c10::ScalarType::Bool || type == c10::ScalarType::Byte;
  };
  const c10::IValue &indices = arguments[1];
  if (indices.isTensorList())
    return std::ranges::any_of(
        indices.toTensorVector(),
        [&](const at::Tensor &index) { return isMask(index); });
  return indices.isList() && std::ranges::any_of(indices.toListRef(), isMask);
}

/// Its kernel refuses arguments for which they do.
static bool asKernelSays(const Arguments &) { return false; }

namespace {

/// Operators that have a tag as if their sizes always depended on data, for the
/// sake of some arguments.
struct Tagged {
  const char *name, *overload;
  bool (*dependsOnData)(const Arguments &);
};

constexpr Tagged decidedByArguments[] = {
    {"aten::index", "Tensor", hasMask},
    {"aten::linalg_lstsq", "", asKernelSays},
    {"aten::one_hot", "", asKernelSays},
};

} // namespace

static const Tagged *find(const c10::OperatorHandle &op) {
  const auto *it =
      std::ranges::find_if(decidedByArguments, [&](const Tagged &each) {
        return op.operator_name().name == each.name &&
               op.operator_name().overload_name == each.overload;
      });
  return it == std::end(decidedByArguments) ? nullptr : it;
}

bool fsdp::capture::alwaysDependsOnData(const c10::OperatorHandle &op) {
  return op.hasTag(at::Tag::data_dependent_output) ||
         (op.hasTag(at::Tag::dynamic_output_shape) && !find(op));
}

bool fsdp::capture::dependsOnData(const c10::OperatorHandle &op,
                                  const Arguments &arguments) {
  if (alwaysDependsOnData(op))
    return true;
  const Tagged *tagged = find(op);
  return tagged && tagged->dependsOnData(arguments);
}
