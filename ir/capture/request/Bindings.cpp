//===- Bindings.cpp - The shapes that a model is captured at --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/request/Bindings.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <set>

using namespace fsdp;
using namespace fsdp::capture;

/// The number of bindings so far, with the option that asked for them.
struct Count {
  size_t bindings = 1;
  std::string by;

  void add(size_t values, const std::string &option) {
    if (values == 1)
      return;
    if (bindings > 1 && bindings != values)
      throw Error(ErrorId::InputNotKnown,
                  option + " has " + std::to_string(values) + " values, " + by +
                      " has " + std::to_string(bindings) +
                      "; give both as many (the first of each are one "
                      "binding, the second the next), or one value that "
                      "holds for all");
    bindings = values;
    by = option;
  }
};

static std::string describe(const InputShape &shape) {
  std::string text = shape.name + "=";
  for (size_t dim = 0; dim < shape.shape.size(); ++dim)
    text += (dim ? "x" : "") + std::to_string(shape.shape[dim]);
  return text;
}

std::vector<Binding> fsdp::capture::getBindings(const CaptureOptions &options) {
  llvm::MapVector<std::string, std::vector<const InputShape *>,
                  std::map<std::string, unsigned>>
      inputs;
  for (const InputShape &shape : options.inputs)
    inputs[shape.name].push_back(&shape);

  Count count;
  for (const DimValues &dim : options.dims)
    count.add(dim.values.size(), "--dim=" + dim.name);
  for (const auto &[name, shapes] : inputs)
    count.add(shapes.size(), "--input=" + name);

  std::vector<Binding> bindings(count.bindings);
  std::set<std::string> labels;
  for (size_t i = 0; i < bindings.size(); ++i) {
    Binding &binding = bindings[i];
    binding.dims.keepExported = options.keepExportedDims;
    auto addLabel = [&](const std::string &text) {
      binding.label += (binding.label.empty() ? "" : ",") + text;
    };
    for (const DimValues &dim : options.dims) {
      bool varies = dim.values.size() > 1;
      int64_t size = dim.values[varies ? i : 0];
      binding.dims.sizes.emplace_back(dim.name, size);
      if (varies)
        addLabel(dim.name + "=" + std::to_string(size));
    }
    for (const auto &[name, shapes] : inputs) {
      bool varies = shapes.size() > 1;
      const InputShape &shape = *shapes[varies ? i : 0];
      binding.inputs.push_back(shape);
      if (varies)
        addLabel(describe(shape));
    }
    if (!labels.insert(binding.label).second)
      throw Error(ErrorId::InputNotKnown, "the binding " + binding.label +
                                              " is given twice; leave one out");
  }
  return bindings;
}
