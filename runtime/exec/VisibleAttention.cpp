//===- VisibleAttention.cpp - Attention where a mask shows keys -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/VisibleAttention.h"
#include "runtime/exec/Overlap.h"
#include "runtime/exec/VisibleKeys.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty.h>

#include <array>
#include <string_view>

using namespace fsdp;

/// With fewer queries or keys there is nothing to gain.
static constexpr int64_t kLeast = 128;
static constexpr size_t kGaps = size_t{1} << 16;

namespace {

/// Which dim of an operand or result are queries, and which keys; the first one
/// is the batch's.
enum class Along : uint8_t { None, Queries, Keys, Mask };

struct Kernel {
  std::string_view name;
  size_t query, key, dropout, causal, mask; ///< arguments
  std::vector<Along> arguments;
  std::vector<Along> results;
};

const std::array<Kernel, 2> &kernels() {
  using enum Along;
  static const std::array<Kernel, 2> all = {
      Kernel{"aten::_scaled_dot_product_flash_attention_for_cpu",
             0,
             1,
             3,
             4,
             5,
             {Queries, Keys, Keys, None, None, Mask, None},
             {Queries, Queries}},
      Kernel{"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
             1,
             2,
             6,
             7,
             8,
             {Queries, Queries, Keys, Keys, Queries, Queries, None, None, Mask,
              None},
             {Queries, Keys, Keys}}};
  return all;
}

/// A block of queries of some entries of the batch.
struct Part {
  int64_t firstEntry, endEntry;
  VisibleBlock block;
};

/// Of entries next to each other that have equal blocks, each block once.
std::vector<Part> makeParts(const std::vector<std::vector<VisibleBlock>> &found,
                            int64_t batch) {
  std::vector<Part> parts;
  int64_t entries = int64_t(found.size());
  for (int64_t first = 0, end; first < entries; first = end) {
    const std::vector<VisibleBlock> &blocks = found[size_t(first)];
    end = first + 1;
    while (end < entries && found[size_t(end)] == blocks)
      ++end;
    // A mask without a batch is everybody's.
    bool isAll = entries == 1;
    for (const VisibleBlock &block : blocks)
      parts.push_back({first, isAll ? batch : end, block});
  }
  return parts;
}

at::Tensor cutBatch(const at::Tensor &whole, const Part &part) {
  return whole.size(0) == 1 ? whole
                            : whole.narrow(0, part.firstEntry,
                                           part.endEntry - part.firstEntry);
}

/// What a part has of a tensor.
at::Tensor cut(const at::Tensor &whole, Along along, const Part &part) {
  const VisibleBlock &b = part.block;
  auto queries = [&](const at::Tensor &t, int64_t dim) {
    return t.narrow(dim, b.firstQuery, b.endQuery - b.firstQuery);
  };
  auto keys = [&](const at::Tensor &t, int64_t dim) {
    return t.narrow(dim, b.firstKey, b.endKey - b.firstKey);
  };
  switch (along) {
  case Along::None:
    return whole;
  case Along::Queries:
    return queries(cutBatch(whole, part), 2);
  case Along::Keys:
    return keys(cutBatch(whole, part), 2);
  case Along::Mask:
    return keys(queries(whole.dim() == 4 ? cutBatch(whole, part) : whole, -2),
                -1);
  }
  return whole;
}

class VisibleAttention final : public Instruction {
public:
  VisibleAttention(RankMemory &memory, const Kernel &kernel,
                   c10::OperatorHandle op, std::vector<c10::IValue> arguments,
                   std::vector<at::Tensor> places)
      : memory(memory), kernel(kernel), op(op), arguments(std::move(arguments)),
        places(std::move(places)) {}

  void rehearse(StepState &) override { observe(); }
  void run(StepState &) override;
  std::vector<RankMemory::Bytes> temporaries() const override;

private:
  void observe();
  void compute(const Part &part, bool isWhole);
  at::Tensor tensor(size_t index) const { return arguments[index].toTensor(); }

  RankMemory &memory;
  const Kernel &kernel;
  c10::OperatorHandle op;
  const std::vector<c10::IValue> arguments;
  const std::vector<at::Tensor> places; ///< of results; undefined: not needed
  AllocationSlot region;
  bool isObserved = false;
};

/// The largest part is the whole call. A smaller one asks for less, but not
/// always in the same order: kernels choose their blocks by its sizes.
void VisibleAttention::observe() {
  size_t most = 0;
  {
    RankMemory::Observation observation(memory);
    torch::jit::Stack stack = arguments;
    op.callBoxed(stack);
    stack.clear();
    std::vector<AllocationSlot> requests(observation.requests().size());
    observation.placeTemporaries(requests);
    for (const AllocationSlot &slot : requests)
      most = std::max(most, slot.offset + slot.room);
  }
  // Gaps between what a part asks for.
  most += most / 8 + kGaps;
  std::vector<AllocationSlot> one(1);
  {
    RankMemory::Observation observation(memory);
    at::Tensor whole = at::empty({int64_t(most)}, at::kByte);
    whole.reset();
    observation.placeTemporaries(one);
  }
  region = one.front();
  isObserved = true;
}

void VisibleAttention::compute(const Part &part, bool isWhole) {
  torch::jit::Stack stack = arguments;
  for (size_t i = 0; i < stack.size() && !isWhole; ++i)
    if (kernel.arguments[i] != Along::None)
      stack[i] = cut(tensor(i), kernel.arguments[i], part);
  RankMemory::Pool pool(memory, memory.scratchOf(region));
  op.callBoxed(stack);
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i].defined())
      continue;
    at::Tensor place =
        isWhole ? places[i] : cut(places[i], kernel.results[i], part);
    // Keys are seen from several blocks.
    if (!isWhole && kernel.results[i] == Along::Keys)
      place.add_(stack[i].toTensor());
    else
      place.copy_(stack[i].toTensor());
  }
}

void VisibleAttention::run(StepState &) {
  if (!isObserved)
    observe();
  int64_t batch = tensor(kernel.query).size(0);
  std::vector<Part> parts = makeParts(findVisible(tensor(kernel.mask)), batch);
  bool isWhole =
      parts.size() == 1 &&
      parts.front().block == VisibleBlock{0, tensor(kernel.query).size(2), 0,
                                          tensor(kernel.key).size(2)};
  for (size_t i = 0; i < places.size() && !isWhole; ++i)
    if (places[i].defined() && kernel.results[i] == Along::Keys)
      places[i].zero_();
  for (const Part &part : parts)
    compute(part, isWhole);
}

std::vector<RankMemory::Bytes> VisibleAttention::temporaries() const {
  RankMemory::Bytes bytes = memory.scratchOf(region);
  return bytes.empty() ? std::vector<RankMemory::Bytes>()
                       : std::vector<RankMemory::Bytes>{bytes};
}

/// Whether a result lies where an operand does.
bool overlaps(const Preparation &p, const plan::CallT &call, uint32_t result) {
  auto [room, bytes] = p.room(result);
  for (const auto &argument : call.args)
    for (int32_t operand : argument->values) {
      if (operand < 0)
        continue;
      auto [other, otherBytes] = p.room(static_cast<uint32_t>(operand));
      if (other && rangesOverlap(room, bytes, other, otherBytes))
        return true;
    }
  return false;
}

} // namespace

std::unique_ptr<Instruction>
fsdp::prepareVisibleAttention(const Preparation &p, const plan::CallT &call,
                              const plan::OperatorT &name,
                              const std::vector<c10::IValue> &arguments) {
  const Kernel *kernel = nullptr;
  for (const Kernel &each : kernels())
    if (name.name == each.name && name.overload.empty())
      kernel = &each;
  if (!kernel || !arguments[kernel->mask].isTensor())
    return nullptr;
  const at::Tensor &mask = arguments[kernel->mask].toTensor();
  const at::Tensor &query = arguments[kernel->query].toTensor();
  const at::Tensor &key = arguments[kernel->key].toTensor();
  if (!mask.defined() || !hasVisibleKeys(mask) || query.dim() != 4 ||
      key.dim() != 4 || mask.size(-2) != query.size(2) ||
      mask.size(-1) != key.size(2) || query.size(2) < kLeast ||
      key.size(2) < kLeast || arguments[kernel->dropout].toDouble() != 0 ||
      arguments[kernel->causal].toBool() ||
      call.results.size() != kernel->results.size())
    return nullptr;
  std::vector<at::Tensor> places;
  for (int32_t result : call.results) {
    places.emplace_back();
    if (result < 0 || !p.isUsed[size_t(result)])
      continue;
    if (overlaps(p, call, uint32_t(result)))
      return nullptr;
    places.back() = p.values[size_t(result)];
  }
  return std::make_unique<VisibleAttention>(
      p.memory, *kernel,
      *c10::Dispatcher::singleton().findSchema({name.name, name.overload}),
      arguments, std::move(places));
}
