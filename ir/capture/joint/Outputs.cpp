//===- Outputs.cpp - What a model returns, by name ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Outputs.h"
#include "support/Error.h"

#include <ATen/core/class_type.h>

#include <algorithm>
#include <unordered_set>

using namespace fsdp;
using namespace fsdp::capture;

//===----------------------------------------------------------------------===//
// TorchScript values
//===----------------------------------------------------------------------===//

namespace {

class Flattener {
public:
  std::vector<ReturnedTensor> run(const c10::IValue &value) {
    visit(value);
    return std::move(found);
  }

private:
  void visit(const c10::IValue &value);

  void visitAt(const std::string &step, bool isName, const c10::IValue &value) {
    if (path.steps.empty())
      path.isNamed = isName;
    path.steps.push_back(step);
    visit(value);
    path.steps.pop_back();
  }

  void visitDict(const c10::impl::GenericDict &dict);

  OutputPath path;
  std::vector<ReturnedTensor> found;
};

void Flattener::visitDict(const c10::impl::GenericDict &dict) {
  for (const auto &entry : dict) {
    const c10::IValue &key = entry.key();
    if (key.isString())
      visitAt(key.toStringRef(), true, entry.value());
    else if (key.isInt())
      visitAt(std::to_string(key.toInt()), false, entry.value());
  }
}

void Flattener::visit(const c10::IValue &value) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      found.push_back({path, value.toTensor(), {}});
  } else if (value.isTuple()) {
    const auto &elements = value.toTupleRef().elements();
    // The fields of a NamedTuple stand in its type's schema.
    auto type = value.type()->cast<c10::TupleType>();
    const auto &schema = type ? type->schema() : nullptr;
    for (size_t i = 0; i < elements.size(); ++i)
      if (schema)
        visitAt(schema->arguments()[i].name(), true, elements[i]);
      else
        visitAt(std::to_string(i), false, elements[i]);
  } else if (value.isList()) {
    const c10::List<c10::IValue> list = value.toList();
    for (size_t i = 0; i < list.size(); ++i)
      visitAt(std::to_string(i), false, list.get(i));
  } else if (value.isGenericDict()) {
    visitDict(value.toGenericDict());
  } else if (value.isObject()) {
    const c10::ivalue::Object &object = value.toObjectRef();
    for (size_t i = 0; i < object.slots().size(); ++i)
      visitAt(object.type()->getAttributeName(i), true, object.getSlot(i));
  }
}

} // namespace

std::vector<ReturnedTensor>
fsdp::capture::flattenReturned(const c10::IValue &returned) {
  return Flattener().run(returned);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static constexpr const char *kLoss = "loss";
static constexpr const char *kGradNorm = "grad_norm";

static std::string join(const std::vector<std::string> &steps) {
  std::string text;
  for (const std::string &step : steps)
    text += (text.empty() ? "" : ".") + step;
  return text;
}

static Output nameOutput(const ReturnedTensor &returned) {
  Output output;
  output.type = TensorType::of(returned.tensor);
  std::string path = join(returned.path.steps);
  if (path.empty()) {
    output.name = "output";
  } else if (returned.path.isNamed) {
    output.name = path;
  } else {
    output.name = "output." + path;
    output.aliases.push_back(path);
  }
  if (!returned.value.empty())
    output.aliases.push_back(returned.value);
  return output;
}

std::vector<Output>
fsdp::capture::nameOutputs(const std::vector<ReturnedTensor> &returned,
                           bool isInference) {
  std::vector<Output> outputs;
  std::unordered_set<std::string> taken;
  for (const ReturnedTensor &each : returned) {
    Output output = nameOutput(each);
    bool isLoss = !isInference && outputs.empty();
    // The program has these two of its own.
    bool isReserved =
        !isInference && (output.name == kLoss || output.name == kGradNorm);
    if (isLoss || isReserved) {
      output.aliases.insert(output.aliases.begin(), output.name);
      output.name = isLoss ? kLoss : "output." + output.name;
    }
    // Keys with dots in them may spell another output's path.
    while (!taken.insert(output.name).second)
      output.name += "'";
    outputs.push_back(std::move(output));
  }
  return outputs;
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

static std::string describe(const std::vector<Output> &outputs) {
  constexpr size_t kMost = 20;
  std::string text;
  for (size_t i = 0; i < std::min(outputs.size(), kMost); ++i)
    text += (i ? ", '" : "'") + outputs[i].name + "'";
  if (outputs.size() > kMost)
    text += " and " + std::to_string(outputs.size() - kMost) + " more";
  return text;
}

/// A name goes before all aliases, and these in the order in which they are
/// said: a path, then a value of the graph.
static Output *find(const std::string &name, std::vector<Output> &outputs) {
  for (Output &output : outputs)
    if (output.name == name)
      return &output;
  for (size_t rank = 0;; ++rank) {
    bool isLast = true;
    for (Output &output : outputs) {
      if (rank >= output.aliases.size())
        continue;
      isLast = false;
      if (output.aliases[rank] == name)
        return &output;
    }
    if (isLast)
      return nullptr;
  }
}

size_t fsdp::capture::findOutput(const std::string &name,
                                 const std::vector<ReturnedTensor> &returned) {
  std::vector<Output> outputs = nameOutputs(returned, /*isInference=*/true);
  Output *output = find(name, outputs);
  if (!output)
    throw Error(ErrorId::OutputNotKnown,
                "--loss=" + name +
                    ": the model has no output of that name; it returns " +
                    describe(outputs));
  return output - outputs.data();
}

void fsdp::capture::selectOutputs(const std::vector<std::string> &requested,
                                  bool isInference,
                                  std::vector<Output> &outputs) {
  for (const std::string &name : requested) {
    Output *output = find(name, outputs);
    if (!output)
      throw Error(ErrorId::OutputNotKnown,
                  "--output=" + name +
                      ": the model has no output of that name; it returns " +
                      describe(outputs));
    output->isKept = true;
  }
  if (isInference && requested.empty())
    for (Output &output : outputs)
      output.isKept = true;
  if (!isInference && !outputs.empty())
    outputs.front().isKept = false;
}
