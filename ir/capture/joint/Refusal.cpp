//===- Refusal.cpp - Why LibTorch refuses tensors without data ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Refusal.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>

using namespace fsdp::capture;

/// Kernels of ir/capture/meta end so where a shape depends on values; what to
/// do may follow after a semicolon.
static constexpr std::string_view kDependsOnData = "depends on data";

/// Said where values are read.
static constexpr std::string_view kReads[] = {
    "Cannot copy out of meta tensor",
    "cannot be called on meta tensors",
    "is not supported for meta tensors",
    "not supported on meta tensors",
};

/// Said where a kernel for another device got a meta tensor.
static constexpr std::string_view kForeign[] = {
    "Tensor on device meta is not on the expected device",
    "Expected all tensors to be on the same device",
    "its data is not allocated yet",
    "Cannot access data pointer of Tensor",
    "Cannot access storage of",
    "on device type meta",
    "for device type: meta",
    "meta device",
};

static bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// The operator `name` has no kernel for meta tensors.
static Refusal missing(const std::string &name) {
  size_t dot = name.find('.');
  std::optional<c10::OperatorHandle> op =
      c10::Dispatcher::singleton().findSchema(
          {name.substr(0, dot),
           dot == std::string::npos ? "" : name.substr(dot + 1)});
  bool reads = op && (op->hasTag(at::Tag::data_dependent_output) ||
                      op->hasTag(at::Tag::dynamic_output_shape));
  return {reads ? Refusal::Reason::NeedsData : Refusal::Reason::NoShapeRule,
          name, ""};
}

Refusal fsdp::capture::explainRefusal(const std::string &message) {
  using Reason = Refusal::Reason;
  if (contains(message, kDependsOnData))
    return {Reason::NeedsData, "", message};
  constexpr std::string_view start = "Could not run '";
  if (message.starts_with(start))
    return missing(message.substr(
        start.size(), message.find('\'', start.size()) - start.size()));
  if (size_t end = message.find(": attempted to run this operator with Meta");
      end != std::string::npos)
    return missing(message.substr(0, end));
  for (std::string_view part : kReads)
    if (contains(message, part))
      return {Reason::NeedsData, "", ""};
  for (std::string_view part : kForeign)
    if (contains(message, part))
      return {Reason::NoShapeRule, "", ""};
  return {};
}
