//===- Optimizers.cpp - What updates parameters ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Optimizers.h"

#include <algorithm>
#include <cmath>

using namespace fsdp;
using enum OptimizerNumber;

bool OptimizerNumberFacts::holds(double value) const {
  switch (range) {
  case NumberRange::fromZero:
    return value >= 0 && std::isfinite(value);
  case NumberRange::belowOne:
    return value >= 0 && value < 1;
  case NumberRange::flag:
    return value == 0 || value == 1;
  }
  return false;
}

std::span<const OptimizerNumberFacts> fsdp::getOptimizerNumbers() {
  static constexpr OptimizerNumberFacts all[] = {
#define FSDP_OPTIMIZER_NUMBER(name, key, range, text)                          \
  {name, #name, key, NumberRange::range, text},
#include "support/Optimizers.def"
  };
  return all;
}

const OptimizerNumberFacts &fsdp::getFacts(OptimizerNumber number) {
  return getOptimizerNumbers()[size_t(number)];
}

std::span<const OptimizerFacts> fsdp::getOptimizers() {
  static const std::vector<OptimizerFacts> all = {
#define FSDP_MOMENTS(...) {__VA_ARGS__}
#define FSDP_COST(name, operations) name, operations
#define FSDP_OPTIMIZER(name, torchClass, moments, kept, counts, cost, ...)     \
  {OptimizerKind::name, #name, torchClass, moments, kept, counts, cost,        \
   {__VA_ARGS__}},
#include "support/Optimizers.def"
#undef FSDP_COST
#undef FSDP_MOMENTS
  };
  return all;
}

const OptimizerFacts &fsdp::getFacts(OptimizerKind kind) {
  return getOptimizers()[size_t(kind)];
}

static void addNumber(std::vector<OptimizerKey> &keys, OptimizerNumber number) {
  std::string_view key = getFacts(number).key;
  if (keys.empty() || keys.back().key != key)
    keys.push_back({key, {}});
  keys.back().numbers.push_back(number);
}

const std::vector<OptimizerKey> &fsdp::getOptimizerKeys() {
  static const std::vector<OptimizerKey> all = [] {
    std::vector<OptimizerKey> keys;
    for (const OptimizerNumberFacts &each : getOptimizerNumbers())
      addNumber(keys, each.number);
    return keys;
  }();
  return all;
}

std::vector<OptimizerKey> fsdp::getKeys(const OptimizerFacts &optimizer) {
  std::vector<OptimizerKey> keys;
  for (const OptimizerFacts::Number &each : optimizer.numbers)
    addNumber(keys, each.number);
  return keys;
}

bool OptimizerFacts::has(OptimizerNumber number) const {
  return std::ranges::find(numbers, number, &Number::number) != numbers.end();
}

OptimizerNumbers OptimizerFacts::getDefaults() const {
  OptimizerNumbers all;
  for (auto [number, initial] : numbers)
    all[number] = initial;
  return all;
}

std::span<const std::string_view>
OptimizerFacts::getMoments(const OptimizerNumbers &own) const {
  if (kept != always && own[kept] == 0)
    return {};
  return moments;
}

OptimizerNumbers OptimizerFacts::fromList(std::span<const double> list) const {
  OptimizerNumbers all;
  for (size_t i = 0; i < numbers.size(); ++i)
    all[numbers[i].number] = list[i];
  return all;
}

std::vector<double> OptimizerFacts::toList(const OptimizerNumbers &own) const {
  std::vector<double> list;
  for (const Number &each : numbers)
    list.push_back(own[each.number]);
  return list;
}
