//===- Inputs.cpp - What each step reads ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Inputs.h"

#include "runtime/Log.h"
#include "runtime/plan/DType.h"
#include "runtime/plan/Shape.h"
#include "runtime/support/Error.h"

#include <algorithm>
#include <cstring>

using namespace fsdp;

static uint64_t worldSize(const plan::PlanT &plan) {
  uint64_t size = 1;
  for (const auto &axis : plan.mesh)
    size *= axis->size;
  return size;
}

Inputs::Inputs(const plan::PlanT &plan, const plan::ProgramT &program, int rank,
               const Arena &arena, const ModelFile *model,
               const std::string &dataPath)
    : ranks(plan.data_parallel),
      position(static_cast<uint64_t>(rank) * ranks / worldSize(plan)) {
  if (!dataPath.empty())
    file = std::make_unique<SafetensorsFile>(dataPath);
  std::set<std::string> used;
  for (const auto &binding : program.arguments) {
    if (binding->input < 0)
      continue;
    const plan::InputT &input = *plan.inputs[binding->input];
    const plan::ValueT &value = *program.values[binding->value];
    Source source{&input, arena.at(value.offset),
                  *checkedExtent(input.shape, {}, dtypeBytes(input.dtype))};
    if (file) {
      auto it = file->tensors().find(input.name);
      if (it != file->tensors().end()) {
        checkStored(input, it->second);
        source.stored = &it->second;
        used.insert(input.name);
      }
    }
    if (!source.stored)
      loadSample(input, model, source.to, rank == 0);
    sources.push_back(source);
  }
  if (file && rank == 0)
    for (const auto &[name, tensor] : file->tensors())
      if (!used.count(name))
        log(LogLevel::warning, "tensor '" + name + "' of '" + dataPath +
                                   "' is no input of the program");
}

void Inputs::checkStored(const plan::InputT &input,
                         const StoredTensor &stored) const {
  std::string where = "tensor '" + input.name + "' of '" + file->path() + "' ";
  if (stored.dtype != input.dtype)
    throw Error(ErrorId::DataType,
                where + "has element type " +
                    std::string(dtypeName(stored.dtype)) + "; expected " +
                    std::string(dtypeName(input.dtype)) +
                    " as the model was exported with; convert it");
  if (input.shape.empty())
    throw Error(ErrorId::DataShape,
                where + "is for an input without dims, which has no rows of "
                        "samples; leave it out of the file");
  auto describe = [](std::vector<int64_t> shape) {
    return "rows of shape " +
           toString(std::span<const int64_t>(shape).subspan(1));
  };
  if (stored.shape.empty() ||
      !std::equal(stored.shape.begin() + 1, stored.shape.end(),
                  input.shape.begin() + 1, input.shape.end()))
    throw Error(ErrorId::DataShape,
                where + "has shape " + toString(stored.shape) + "; expected " +
                    describe(input.shape) + ", samples along the first dim");
  if (stored.shape[0] == 0 && input.shape[0] != 0)
    throw Error(ErrorId::DataShape, where + "has no rows");
}

void Inputs::loadSample(const plan::InputT &input, const ModelFile *model,
                        char *to, bool isTold) const {
  if (!input.sample)
    throw Error(ErrorId::DataMissing,
                "input '" + input.name + "' has no data: " +
                    (file ? "'" + file->path() + "' has no tensor of that name"
                          : std::string("there is no --data file")) +
                    ", and the model file holds no sample of it; expected " +
                    std::string(dtypeName(input.dtype)) + " of shape " +
                    toString(input.shape) + " a step and rank");
  if (file && isTold)
    log(LogLevel::warning, "input '" + input.name + "' is not in '" +
                               file->path() +
                               "': every step uses the sample that the model "
                               "was exported with");
  model->readRows(*input.sample, input.shape, input.dtype, 0,
                  input.shape.empty() ? 1 : input.shape[0], to);
}

void Inputs::load(uint64_t step) {
  for (const Source &source : sources) {
    if (!source.stored || source.bytes == 0)
      continue;
    auto batch = static_cast<uint64_t>(source.input->shape[0]);
    auto rows = static_cast<uint64_t>(source.stored->shape[0]);
    uint64_t rowBytes = source.bytes / batch;
    uint64_t row = (step * ranks + position) * batch % rows;
    // Runs of neighbouring rows, up to the file's end, then from its beginning.
    for (uint64_t done = 0; done < batch;) {
      uint64_t count = std::min(batch - done, rows - row);
      std::memcpy(source.to + done * rowBytes,
                  source.stored->data + row * rowBytes, count * rowBytes);
      done += count;
      row = 0;
    }
  }
}

void Inputs::set(const std::string &name, std::span<const std::byte> bytes) {
  for (Source &source : sources) {
    if (source.input->name != name)
      continue;
    if (bytes.size() != source.bytes)
      throw Error(ErrorId::DataShape,
                  "input '" + name + "' takes " + std::to_string(source.bytes) +
                      " bytes, " + toString(source.input->shape) + " of " +
                      std::string(dtypeName(source.input->dtype)) + ", found " +
                      std::to_string(bytes.size()));
    std::memcpy(source.to, bytes.data(), bytes.size());
    source.stored = nullptr;
    return;
  }
  throw Error(ErrorId::DataMissing, "the program has no input '" + name + "'");
}

int64_t Inputs::batchRows() const {
  for (const Source &source : sources)
    if (!source.input->shape.empty())
      return source.input->shape[0];
  return 1;
}
