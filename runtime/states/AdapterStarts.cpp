//===- AdapterStarts.cpp - Adapters that begin with their bases -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/AdapterStarts.h"

#include "plan/FirstValues.h"
#include "plan/Quantized.h"
#include "plan/Shape.h"
#include "runtime/device/DTypes.h"
#include "runtime/states/MergedStates.h"
#include "runtime/weights/Initializer.h"
#include "support/Error.h"
#include "support/QuantizedBlocks.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

using namespace fsdp;
using plan::InitKind;

static bool startsAs(const plan::StateT &state, InitKind kind) {
  return state.initializer && state.initializer->kind == kind;
}

bool fsdp::needsAdapterStarts(const plan::PlanT &plan) {
  return std::ranges::any_of(
      plan.states, [](const auto &state) { return isOfBase(*state); });
}

/// The states of an adapter that begin so, in one order.
static std::vector<const plan::StateT *>
listStates(const plan::PlanT &plan, const plan::AdapterT &adapter) {
  std::vector<const plan::StateT *> all;
  for (size_t index : statesOf(adapter))
    if (isOfBase(*plan.states[index]))
      all.push_back(plan.states[index].get());
  return all;
}

//===----------------------------------------------------------------------===//
// Decompositions
//===----------------------------------------------------------------------===//

namespace {
struct Factors {
  at::Tensor up, down; ///< [out, rank], [rank, in]
};
} // namespace

/// Gaussian numbers by the adapter's name, the same on any rank.
static at::Tensor draw(const plan::PlanT &plan, const plan::StateT &state,
                       int64_t rows, int64_t columns, at::ScalarType type) {
  plan::InitializerT normal;
  normal.kind = InitKind::normal;
  normal.arguments = {0, 1};
  std::vector<int64_t> shape{rows, columns};
  at::Tensor result = at::empty(shape, at::kFloat);
  computeElements<float>(
      normal, {state.name, shape, plan.training ? plan.training->seed : 0}, 0,
      {result.data_ptr<float>(), static_cast<size_t>(result.numel())});
  return result.to(type);
}

static at::Tensor getBasis(const at::Tensor &matrix) {
  return std::get<0>(at::linalg_qr(matrix));
}

/// The product of `rank` singular vectors that is nearest to `matrix`, with the
/// roots of their values in both factors. With `iterations`, by algorithm 4.4
/// of "Finding Structure with Randomness" (Halko, Martinsson, Tropp).
static Factors decompose(const plan::PlanT &plan, const plan::StateT &down,
                         const at::Tensor &matrix, int64_t rank,
                         int64_t iterations) {
  at::Tensor left, values, right;
  int64_t width = std::min(matrix.size(0), matrix.size(1));
  if (iterations == 0 || rank >= width) {
    std::tie(left, values, right) =
        at::linalg_svd(matrix, /*full_matrices=*/false);
  } else {
    at::Tensor basis = getBasis(matrix.mm(
        draw(plan, down, matrix.size(1), rank, matrix.scalar_type())));
    for (int64_t i = 0; i < iterations; ++i)
      basis = getBasis(matrix.mm(getBasis(matrix.t().mm(basis))));
    std::tie(left, values, right) =
        at::linalg_svd(basis.t().mm(matrix), /*full_matrices=*/false);
    left = basis.mm(left);
  }
  int64_t count = std::min(rank, values.size(0));
  at::Tensor roots = values.narrow(0, 0, count).sqrt();
  Factors result{at::zeros({matrix.size(0), rank}, matrix.options()),
                 at::zeros({rank, matrix.size(1)}, matrix.options())};
  result.up.narrow(1, 0, count).copy_(left.narrow(1, 0, count).mul(roots));
  result.down.narrow(0, 0, count)
      .copy_(right.narrow(0, 0, count).mul(roots.unsqueeze(1)));
  return result;
}

/// What the codes of a base stand for.
static at::Tensor throughCodes(const plan::StateT &base, at::Tensor matrix) {
  BlockForm form = toBlockForm(*base.quantized);
  at::Tensor numbers = matrix.to(at::kFloat).contiguous();
  int64_t count = numbers.numel(), blocks = form.countBlocks(count);
  const auto *from = numbers.data_ptr<float>();
  std::vector<uint8_t> codes(
      static_cast<size_t>(form.countRows(count) * form.getRowBytes()));
  ScaleMean mean(form);
  if (form.hasCodedScales)
    mean.add(from, count);
  // A number that has no code is told of where the base itself is read.
  quantizeBlocks(form, from, count, mean.get(), codes.data());
  at::Tensor result = at::empty({blocks * form.elements}, at::kFloat);
  dequantizeBlocks(form, codes.data(), 0, blocks, result.data_ptr<float>());
  return result.narrow(0, 0, count).view(numbers.sizes());
}

//===----------------------------------------------------------------------===//
// One adapter
//===----------------------------------------------------------------------===//

/// [out, in], of convolutions with one dim for all behind the first.
static at::Tensor asOutByIn(const plan::AdapterT &adapter, at::Tensor base) {
  base = base.flatten(1);
  return adapter.base_is_in_by_out ? base.t() : base;
}

static at::Tensor widen(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

void AdapterStarts::compute(const plan::PlanT &plan,
                            const plan::AdapterT &adapter,
                            const ReadWhole &read, const IsCoded &isCoded) {
  const plan::StateT &base = *plan.states[adapter.base];
  const plan::StateT &down = *plan.states[adapter.down];
  const plan::StateT &up = *plan.states[adapter.up];
  at::Tensor whole = read(base);
  int64_t rank = modelShape(plan, down)[0];
  auto set = [&](int64_t index, const at::Tensor &value) {
    if (index < 0)
      return;
    const plan::StateT &state = *plan.states[index];
    values[&state] = value.reshape(modelShape(plan, state))
                         .contiguous()
                         .to(toScalarType(modelDType(state)));
  };
  bool isTaken = startsAs(down, InitKind::pissa);
  if (isTaken || startsAs(down, InitKind::loftq)) {
    if (!isTaken && isCoded(base))
      throw Error(ErrorId::RuntimeUnsupported,
                  "init: loftq begins '" + down.name +
                      "' with what quantize loses of '" + base.name +
                      "', which the weights file has in codes already: give "
                      "whole weights, or compile without init");
    at::Tensor matrix = widen(whole);
    if (!isTaken)
      matrix = matrix.sub(throughCodes(base, whole));
    int64_t iterations =
        isTaken ? static_cast<int64_t>(down.initializer->arguments[0]) : 0;
    Factors found =
        decompose(plan, down, asOutByIn(adapter, matrix), rank, iterations);
    double root = std::sqrt(std::abs(adapter.scale));
    if (root > 0) {
      found.up.div_(root);
      found.down.div_(root);
    }
    set(adapter.down, found.down);
    set(adapter.up, found.up);
    set(adapter.first_down, found.down);
    set(adapter.first_up, found.up);
  }
  if (adapter.magnitude < 0 ||
      !startsAs(*plan.states[adapter.magnitude], InitKind::norms))
    return;
  // As the program sees it first.
  auto valueOf = [&](const plan::StateT &state) {
    auto found = values.find(&state);
    return found == values.end() ? read(state) : found->second;
  };
  if (isTaken) {
    plan::AdapterT less = adapter;
    less.scale = -adapter.scale;
    MergedDelta(less, valueOf(down), valueOf(up)).addTo(whole.view({-1}), 0);
  }
  // Without the adapter, codes of a file are others.
  if (base.quantized && (isTaken || !isCoded(base)))
    whole = throughCodes(base, whole).to(whole.scalar_type());
  at::Tensor product = valueOf(up).flatten(1).mm(valueOf(down).flatten(1));
  at::Tensor sum = asOutByIn(adapter, widen(whole)).add(product, adapter.scale);
  set(adapter.magnitude, sum.square().sum(1).sqrt());
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

static uint64_t bytesOf(const plan::PlanT &plan,
                        const plan::AdapterT &adapter) {
  uint64_t bytes = 0;
  for (const plan::StateT *state : listStates(plan, adapter))
    bytes += *checkedElements(modelShape(plan, *state)) *
             dtypeBytes(modelDType(*state));
  return bytes;
}

/// All ranks then have what each computed of every n-th.
void AdapterStarts::share(const plan::PlanT &plan, Fabric &fabric,
                          const std::vector<const plan::AdapterT *> &adapters) {
  auto world = static_cast<size_t>(fabric.worldSize());
  auto own = static_cast<size_t>(fabric.rank());
  std::vector<uint64_t> bytes(world);
  for (size_t i = 0; i < adapters.size(); ++i)
    bytes[i % world] += bytesOf(plan, *adapters[i]);
  uint64_t room = *std::ranges::max_element(bytes);
  auto mine = std::make_unique<char[]>(room);
  auto all = std::make_unique<char[]>(room * world);
  auto visit = [&](size_t rank, char *at, auto move) {
    for (size_t i = rank; i < adapters.size(); i += world)
      for (const plan::StateT *state : listStates(plan, *adapters[i])) {
        at::Tensor &value = values[state];
        if (!value.defined())
          value = at::empty(modelShape(plan, *state),
                            toScalarType(modelDType(*state)));
        move(static_cast<char *>(value.data_ptr()), at, value.nbytes());
        at += value.nbytes();
      }
  };
  visit(own, mine.get(), [](char *value, char *at, size_t count) {
    std::memcpy(at, value, count);
  });
  std::vector<int> ranks(world);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::unique_ptr<Communicator> communicator =
      fabric.createHostCommunicator({"adapters/start", ranks});
  Member member{mine.get(), all.get(), room};
  communicator->wait(communicator->start(
      {{CollectiveKind::all_gather, "adapters"}, {&member, 1}}));
  for (size_t rank = 0; rank < world; ++rank)
    if (rank != own)
      visit(rank, all.get() + rank * room,
            [](char *value, const char *at, size_t count) {
              std::memcpy(value, at, count);
            });
}

AdapterStarts::AdapterStarts(
    const plan::PlanT &plan, Fabric &fabric,
    const std::function<bool(const plan::StateT &)> &isWanted,
    const ReadWhole &read, const IsCoded &isCoded) {
  std::vector<const plan::AdapterT *> adapters;
  for (const auto &adapter : plan.adapters)
    if (std::ranges::any_of(
            listStates(plan, *adapter),
            [&](const plan::StateT *state) { return isWanted(*state); }))
      adapters.push_back(adapter.get());
  auto world = static_cast<size_t>(fabric.worldSize());
  for (size_t i = static_cast<size_t>(fabric.rank()); i < adapters.size();
       i += world)
    compute(plan, *adapters[i], read, isCoded);
  if (world > 1 && !adapters.empty())
    share(plan, fabric, adapters);
  for (const plan::AdapterT *adapter : adapters) {
    if (adapter->first_down < 0)
      continue;
    plan::AdapterT less = *adapter;
    less.scale = -adapter->scale;
    taken.emplace(plan.states[adapter->base].get(),
                  MergedDelta(less,
                              values.at(plan.states[adapter->first_down].get()),
                              values.at(plan.states[adapter->first_up].get())));
  }
}

const at::Tensor *AdapterStarts::find(const plan::StateT &state) const {
  auto found = values.find(&state);
  return found == values.end() ? nullptr : &found->second;
}

const MergedDelta *AdapterStarts::findTaken(const plan::StateT &base) const {
  auto found = taken.find(&base);
  return found == taken.end() ? nullptr : &found->second;
}
