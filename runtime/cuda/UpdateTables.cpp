//===- UpdateTables.cpp - What updates on a device go by ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/cuda/UpdateTables.h"

#include "runtime/device/Arena.h"
#include "runtime/exec/Instruction.h"
#include "support/Error.h"

#include <algorithm>

using namespace fsdp;

namespace {

DeviceNumber toNumber(const at::Tensor &tensor, const char *what) {
  if (!tensor.defined())
    return {};
  bool isDouble = tensor.scalar_type() == c10::ScalarType::Double;
  if (!isDouble && tensor.scalar_type() != c10::ScalarType::Float)
    throw Error(ErrorId::RuntimeUnsupported,
                std::string("an update on a GPU: expected ") + what +
                    " in f32 or f64, found " +
                    c10::toString(tensor.scalar_type()));
  return {tensor.const_data_ptr(), isDouble};
}

/// Whether 8 elements can be read at once, 16 bytes at most.
bool isAligned(const at::Tensor &tensor) {
  auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  return address % std::min<uintptr_t>(16, 8 * tensor.element_size()) == 0;
}

void describeGradient(const at::Tensor &grad, DeviceUpdatedTensor &to) {
  to.grad = static_cast<const char *>(grad.const_data_ptr());
  to.gradDims = 0;
  if (grad.is_contiguous())
    return;
  if (grad.dim() > kMostGradientDims)
    throw Error(ErrorId::RuntimeUnsupported,
                "an update on a GPU: expected gradients of at most " +
                    std::to_string(kMostGradientDims) + " dims, found one of " +
                    std::to_string(grad.dim()) +
                    " that does not lie in row-major order");
  to.gradDims = static_cast<int>(grad.dim());
  for (int dim = 0; dim < to.gradDims; ++dim) {
    to.gradSizes[dim] = grad.size(dim);
    to.gradStrides[dim] = grad.stride(dim);
  }
}

/// What the kernels read, for the host to write there.
struct HostTables {
  std::vector<DeviceUpdatedTensor> tensors;
  std::vector<UpdateSpan> spans;
  std::vector<ElementRun> runs;
  int64_t pieces = 0;

  void add(const UpdatedTensor &from, bool isRounded) {
    DeviceUpdatedTensor to{};
    to.param = static_cast<char *>(from.param.mutable_data_ptr());
    describeGradient(from.grad, to);
    to.isAligned = isAligned(from.param) && isAligned(from.grad);
    for (size_t i = 0; i < from.moments.size(); ++i) {
      to.moments[i] = static_cast<char *>(from.moments[i].mutable_data_ptr());
      to.isAligned &= isAligned(from.moments[i]);
    }
    for (size_t i = 0; i < from.scales.size(); ++i) {
      to.scales[i] = from.scales[i].mutable_data_ptr<float>();
      to.blocks = from.scales[i].numel();
    }
    for (size_t i = 0; i < from.maxima.size(); ++i)
      to.maxima[i] = from.maxima[i].mutable_data_ptr<float>();
    if (isRounded) {
      to.firstRun = static_cast<uint32_t>(runs.size());
      to.runCount = static_cast<uint32_t>(from.runs.size());
      runs.insert(runs.end(), from.runs.begin(), from.runs.end());
    }
    auto number = static_cast<uint32_t>(tensors.size());
    if (from.maxima.empty())
      addSpan(0, 0, from.param.numel(), number);
    else
      for (const ElementRun &run : from.runs)
        addSpan(run.local, run.whole, run.count, number);
    tensors.push_back(to);
  }

private:
  void addSpan(int64_t local, int64_t whole, int64_t count, uint32_t tensor) {
    spans.push_back({pieces, local, whole, count, tensor});
    pieces += (whole + count + kBlockElements - 1) / kBlockElements -
              whole / kBlockElements;
  }
};

/// Lays several arrays of one memory side by side.
class Layout {
public:
  template <typename T>
  uint64_t add(const std::vector<T> &values) {
    uint64_t at = bytes;
    bytes += (values.size() * sizeof(T) + 15) / 16 * 16;
    return at;
  }
  uint64_t bytes = 0;
};

template <typename T>
const T *write(const Arena &arena, uint64_t at, const std::vector<T> &values) {
  if (values.empty())
    return nullptr;
  arena.write(at, values.data(), values.size() * sizeof(T));
  return reinterpret_cast<const T *>(arena.at(at));
}

DeviceUpdate describe(const PreparedUpdate &prepared) {
  DeviceUpdate update{};
  update.kind = prepared.rule.kind;
  update.numbers = getNumbers(prepared.rule);
  update.lr = toNumber(prepared.lr, "the learning rate");
  update.step = toNumber(prepared.step, "the number of the step");
  update.gradScale = toNumber(prepared.gradScale, "the scale of gradients");
  if (prepared.foundInf.defined())
    update.foundInf =
        static_cast<const float *>(prepared.foundInf.const_data_ptr());
  if (prepared.found.defined()) {
    update.found = prepared.found.mutable_data_ptr<float>();
    update.foundCount = prepared.found.numel();
  }
  update.isRounded = prepared.seed.has_value();
  update.seed = prepared.seed.value_or(0);
  if (prepared.tensors.empty())
    return update;
  const UpdatedTensor &first = prepared.tensors.front();
  update.param = formOf(first.param, true);
  update.momentCount = static_cast<int>(first.moments.size());
  for (size_t i = 0; i < first.moments.size(); ++i)
    update.moments[i] = formOf(first.moments[i], i == 0);
  update.sharesBlocks = !first.maxima.empty();
  return update;
}

} // namespace

UpdateOnDevice::UpdateOnDevice(const PreparedUpdate &prepared, Memory &memory)
    : update(describe(prepared)) {
  HostTables host;
  for (const UpdatedTensor &tensor : prepared.tensors)
    host.add(tensor, update.isRounded);
  Layout layout;
  uint64_t tensors = layout.add(host.tensors), spans = layout.add(host.spans),
           runs = layout.add(host.runs);
  update.tensorCount = static_cast<int64_t>(host.tensors.size());
  update.spanCount = static_cast<int64_t>(host.spans.size());
  update.pieces = host.pieces;
  if (layout.bytes == 0)
    return;
  tables = std::make_unique<Arena>(layout.bytes, memory);
  update.tensors = write(*tables, tensors, host.tensors);
  update.spans = write(*tables, spans, host.spans);
  update.runs = write(*tables, runs, host.runs);
}

UpdateOnDevice::~UpdateOnDevice() = default;

namespace {

class UpdateInstruction final : public Instruction {
public:
  UpdateInstruction(PreparedUpdate prepared, Memory &memory,
                    StreamHandle stream)
      : own(prepared, memory), finds(prepared.found.defined()),
        held(std::move(prepared)), stream(stream) {}

  void run(StepState &) override {
    if (finds)
      findMaximaOnDevice(own.get(), stream);
    else
      updateOnDevice(own.get(), stream);
  }
  void rehearse(StepState &state) override { run(state); }

private:
  const UpdateOnDevice own;
  const bool finds;
  const PreparedUpdate held; ///< whose addresses the tables have
  const StreamHandle stream;
};

} // namespace

std::unique_ptr<Instruction> fsdp::makeUpdateOnDevice(PreparedUpdate prepared,
                                                      Memory &memory,
                                                      StreamHandle stream) {
  return std::make_unique<UpdateInstruction>(std::move(prepared), memory,
                                             stream);
}
