//===- FirstValues.cpp - Elements of a state's first value ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/FirstValues.h"

#include "plan/DType.h"
#include "plan/Quantized.h"
#include "plan/Shape.h"
#include "runtime/device/DTypes.h"
#include "runtime/states/AdapterStarts.h"
#include "runtime/weights/Initializer.h"
#include "support/Error.h"
#include "support/QuantizedBlocks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

using namespace fsdp;

/// What is computed at once where it is rounded to a narrower type.
static constexpr uint64_t kRoundedAtOnce = 1 << 16;

/// What is read at once where rows are cut.
static constexpr uint64_t kReadAtOnce = 8 << 20;

/// Runs of a file that are worth a call each. Of shorter ones whole rows are
/// read, and cut then.
static constexpr uint64_t kRunBytes = 4096;

/// Elements [first, first + count) of the tensor of that shape.
static void initialize(const plan::StateT &state, plan::DType dtype,
                       const std::vector<int64_t> &shape, uint64_t seed,
                       uint64_t first, uint64_t count, char *to) {
  const plan::InitializerT &init = *state.initializer;
  InitialTensor tensor{state.name, shape, seed};
  if (dtype == plan::DType::f64)
    return computeElements<double>(init, tensor, first,
                                   {reinterpret_cast<double *>(to), count});
  if (dtype == plan::DType::f32)
    return computeElements<float>(init, tensor, first,
                                  {reinterpret_cast<float *>(to), count});
  std::vector<float> wide(std::min(count, kRoundedAtOnce));
  for (uint64_t done = 0; done < count;) {
    uint64_t block = std::min(kRoundedAtOnce, count - done);
    computeElements<float>(init, tensor, first + done, {wide.data(), block});
    auto size = static_cast<int64_t>(block);
    at::from_blob(to + done * dtypeBytes(dtype), {size}, toScalarType(dtype))
        .copy_(at::from_blob(wide.data(), {size}, at::kFloat));
    done += block;
  }
}

FirstValues::FirstValues(const plan::PlanT &plan, const plan::StateT &state,
                         const ModelFile *model, const WeightReader *weights,
                         RecordChecks *checks, const AdapterStarts *starts)
    : plan(plan), state(state), model(model), weights(weights), checks(checks),
      starts(starts), dtype(modelDType(state)), shape(modelShape(plan, state)),
      strides(contiguousStrides(shape)), element(dtypeBytes(dtype)) {
  for (size_t i = 1; i < shape.size(); ++i)
    rowElements *= static_cast<uint64_t>(shape[i]);
}

void FirstValues::read(const Region &region, std::span<const int64_t> toStrides,
                       char *to) const {
  if (region.elements() == 0)
    return;
  if (state.quantized)
    return readQuantized(region, toStrides, to);
  if (state.is_widened)
    return readWidened(region, toStrides, to);
  readPlain(region, toStrides, to);
}

/// In the model's type, some rows at a time, then in the state's.
void FirstValues::readWidened(const Region &region,
                              std::span<const int64_t> toStrides,
                              char *to) const {
  uint64_t wide = dtypeBytes(state.dtype);
  int64_t rows = region.size.empty() ? 1 : region.size[0];
  auto row =
      static_cast<uint64_t>(static_cast<int64_t>(region.elements()) / rows);
  int64_t block = std::clamp<int64_t>(
      static_cast<int64_t>(kReadAtOnce / (row * element)), 1, rows);
  std::vector<char> buffer(static_cast<uint64_t>(block) * row * element);
  for (int64_t first = 0; first < rows; first += block) {
    Region part = region;
    if (!part.size.empty()) {
      part.offset[0] += first;
      part.size[0] = std::min(block, rows - first);
    }
    std::vector<int64_t> own = contiguousStrides(part.size);
    readPlain(part, own, buffer.data());
    int64_t at = part.size.empty() ? 0 : first * toStrides[0];
    at::from_blob(to + static_cast<uint64_t>(at) * wide, part.size,
                  std::vector<int64_t>(toStrides.begin(), toStrides.end()),
                  toScalarType(state.dtype))
        .copy_(at::from_blob(buffer.data(), part.size, toScalarType(dtype)));
  }
}

void FirstValues::readPlain(const Region &region,
                            std::span<const int64_t> toStrides,
                            char *to) const {
  uint64_t begin = distance(region, Region::all(shape), strides);
  auto length =
      static_cast<uint64_t>(runLength(region.size, strides, toStrides));
  bool isFile = state.source || state.weight;
  bool isStrided = state.source && !state.source->strides.empty();
  if (length != region.elements() && isFile &&
      (isStrided || length * element < kRunBytes))
    return readBlocks(region, toStrides, to);
  forEachRun(region.size, strides, toStrides,
             [&](uint64_t a, uint64_t b, uint64_t count) {
               readRun(begin + a, count, to + b * element);
               finish(begin + a, count, to + b * element);
             });
}

float FirstValues::findOffset(const BlockForm &form) const {
  uint64_t all = *checkedElements(shape);
  std::vector<char> read(std::min(kRoundedAtOnce, all) * element);
  std::vector<float> wide(std::min(kRoundedAtOnce, all));
  ScaleMean mean(form);
  for (uint64_t first = 0; first < all; first += kRoundedAtOnce) {
    uint64_t count = std::min(kRoundedAtOnce, all - first);
    readRun(first, count, read.data());
    adjust(first, count, read.data());
    auto size = static_cast<int64_t>(count);
    at::from_blob(wide.data(), {size}, at::kFloat)
        .copy_(at::from_blob(read.data(), {size}, toScalarType(dtype)));
    mean.add(wide.data(), size);
  }
  return mean.get();
}

/// Blocks in rows that `region` has: only their own elements are read, unless
/// scales are coded, for which all are looked at first.
void FirstValues::readQuantized(const Region &region,
                                std::span<const int64_t> toStrides,
                                char *to) const {
  BlockForm form = toBlockForm(*state.quantized);
  if (region.size[1] != form.getRowBytes() || toStrides[1] != 1)
    throw std::logic_error("blocks of codes are cut as whole rows");
  if (isAsCoded()) {
    for (int64_t row = 0; row < region.size[0]; ++row)
      weights->readRows(state, region.offset[0] + row, 1,
                        reinterpret_cast<uint8_t *>(to) + row * toStrides[0]);
    return;
  }
  uint64_t all = *checkedElements(shape);
  auto ofRow = static_cast<uint64_t>(form.getRowElements());
  uint64_t together = std::max(kRoundedAtOnce / ofRow, uint64_t(1));
  std::vector<char> read(together * ofRow * element);
  std::vector<float> wide(together * ofRow);
  float offset = form.hasCodedScales ? findOffset(form) : 0;
  for (int64_t row = 0; row < region.size[0];) {
    int64_t rows =
        std::min(static_cast<int64_t>(together), region.size[0] - row);
    uint64_t first = static_cast<uint64_t>(region.offset[0] + row) * ofRow;
    uint64_t count = std::min(static_cast<uint64_t>(rows) * ofRow, all - first);
    readRun(first, count, read.data());
    finish(first, count, read.data());
    auto size = static_cast<int64_t>(count);
    at::from_blob(wide.data(), {size}, at::kFloat)
        .copy_(at::from_blob(read.data(), {size}, toScalarType(dtype)));
    // Rows of a rank lie one behind the other.
    int64_t bad =
        quantizeBlocks(form, wide.data(), size, offset,
                       reinterpret_cast<uint8_t *>(to) + row * toStrides[0]);
    if (bad >= 0)
      throw Error(ErrorId::RuntimeUnsupported,
                  "element " +
                      std::to_string(first + static_cast<uint64_t>(bad)) +
                      " of '" + state.name + "' is " +
                      std::to_string(wide[static_cast<size_t>(bad)]) +
                      ", which has no code in " + getName(form) +
                      "; leave its module out of quantize's modules, or give "
                      "finite weights");
    row += rows;
  }
}

/// Cuts the region out of whole rows of the first dim.
void FirstValues::readBlocks(const Region &region,
                             std::span<const int64_t> toStrides,
                             char *to) const {
  int64_t rows = region.size[0];
  int64_t block = std::clamp<int64_t>(
      static_cast<int64_t>(kReadAtOnce / rowBytes()), 1, rows);
  std::vector<char> buffer(static_cast<uint64_t>(block) * rowBytes());
  for (int64_t first = 0; first < rows; first += block) {
    Region part = region;
    part.offset[0] += first;
    part.size[0] = std::min(block, rows - first);
    Region whole = Region::all(shape);
    whole.offset[0] = part.offset[0];
    uint64_t begin = static_cast<uint64_t>(part.offset[0]) * rowElements;
    readRun(begin, static_cast<uint64_t>(part.size[0]) * rowElements,
            buffer.data());
    uint64_t from = distance(part, whole, strides);
    uint64_t at = distance(part, region, toStrides);
    forEachRun(part.size, strides, toStrides,
               [&](uint64_t a, uint64_t b, uint64_t count) {
                 char *own = to + (at + b) * element;
                 std::memcpy(own, buffer.data() + (from + a) * element,
                             count * element);
                 finish(begin + from + a, count, own);
               });
  }
}

void FirstValues::finish(uint64_t first, uint64_t count, char *data) const {
  if (checks && state.source && state.source->strides.empty() && !isOfWeights())
    checks->note(state, first * element, count * element, data);
  adjust(first, count, data);
}

void FirstValues::adjust(uint64_t first, uint64_t count, char *data) const {
  if (const MergedDelta *taken = starts ? starts->findTaken(state) : nullptr)
    taken->addTo(
        at::from_blob(data, {static_cast<int64_t>(count)}, toScalarType(dtype)),
        static_cast<int64_t>(first));
}

bool FirstValues::isAsCoded() const {
  bool isChanged = starts && (starts->find(state) || starts->findTaken(state));
  bool isRead = isOfWeights() || (!state.source && state.weight && weights);
  return state.quantized && isRead && !isChanged &&
         weights->hasRows(state, toBlockForm(*state.quantized));
}

at::Tensor FirstValues::readWhole() const {
  at::Tensor whole = at::empty(shape, toScalarType(dtype));
  readRun(0, *checkedElements(shape), static_cast<char *>(whole.data_ptr()));
  return whole;
}

/// Elements [first, first + count) of the model's tensor.
void FirstValues::readRun(uint64_t first, uint64_t count, char *to) const {
  if (count == 0)
    return;
  if (const at::Tensor *value = starts ? starts->find(state) : nullptr) {
    std::memcpy(to,
                static_cast<const char *>(value->data_ptr()) + first * element,
                count * element);
    return;
  }
  if (isOfWeights())
    return weights->readElements(state, first, count, to);
  if (state.source && !state.source->strides.empty())
    return readStrided(first, count, to);
  if (state.source) {
    auto all = static_cast<int64_t>(*checkedElements(shape));
    return model->readRows(*state.source, {all}, dtype,
                           static_cast<int64_t>(first),
                           static_cast<int64_t>(count), to);
  }
  if (state.weight)
    return weights->readElements(state, first, count, to);
  if (state.initializer)
    return initialize(state, dtype, shape, plan.training->seed, first, count,
                      to);
  copyInit(first, count, to);
}

void FirstValues::copyInit(uint64_t first, uint64_t count, char *to) const {
  if (state.init.empty()) {
    std::memset(to, 0, count * element);
    return;
  }
  if (state.init.size() != element) {
    std::memcpy(to, state.init.data() + first * element, count * element);
    return;
  }
  for (uint64_t i = 0; i < count; ++i)
    std::memcpy(to + i * element, state.init.data(), element);
}

/// Whole rows in one go; of the first and the last one what is asked for.
void FirstValues::readStrided(uint64_t first, uint64_t count, char *to) const {
  auto readRows = [&](uint64_t begin, uint64_t rows, char *rowsTo) {
    model->readRows(*state.source, shape, dtype, static_cast<int64_t>(begin),
                    static_cast<int64_t>(rows), rowsTo);
  };
  uint64_t begin = (first + rowElements - 1) / rowElements;
  uint64_t end = (first + count) / rowElements;
  if (begin < end)
    readRows(begin, end - begin, to + (begin * rowElements - first) * element);
  std::vector<char> row;
  auto readPart = [&](uint64_t number) {
    row.resize(rowBytes());
    readRows(number, 1, row.data());
    uint64_t from = std::max(first, number * rowElements);
    uint64_t until = std::min(first + count, (number + 1) * rowElements);
    std::memcpy(to + (from - first) * element,
                row.data() + (from - number * rowElements) * element,
                (until - from) * element);
  };
  if (begin * rowElements != first)
    readPart(begin - 1);
  if (end >= begin && end * rowElements != first + count)
    readPart(end);
}
