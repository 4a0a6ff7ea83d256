//===- Optimizers.h - What updates parameters -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of Optimizers.def: config, IR, plan, runtime and checkpoints know
// optimizers by them alone.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_OPTIMIZERS_H
#define FSDP_SUPPORT_OPTIMIZERS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

/// A plan holds it as its number.
enum class OptimizerKind : uint8_t {
#define FSDP_OPTIMIZER(name, ...) name,
#include "support/Optimizers.def"
};

enum class OptimizerNumber : uint8_t {
#define FSDP_OPTIMIZER_NUMBER(name, ...) name,
#include "support/Optimizers.def"
  always
};

enum class NumberRange : uint8_t { fromZero, belowOne, flag };

/// What a number is, whoever goes by it.
struct OptimizerNumberFacts {
  OptimizerNumber number;
  std::string_view name;
  std::string_view key; ///< torch.optim's; a list if several numbers have it
  NumberRange range;
  std::string_view text; ///< of the key, for people

  bool holds(double value) const;
};
std::span<const OptimizerNumberFacts> getOptimizerNumbers();
const OptimizerNumberFacts &getFacts(OptimizerNumber number);

/// One number for each OptimizerNumber, 0 for those that an optimizer lacks.
class OptimizerNumbers {
public:
  OptimizerNumbers() = default;
  OptimizerNumbers(
      std::initializer_list<std::pair<OptimizerNumber, double>> given) {
    for (auto [number, value] : given)
      all[size_t(number)] = value;
  }

  double &operator[](OptimizerNumber number) { return all[size_t(number)]; }
  double operator[](OptimizerNumber number) const {
    return all[size_t(number)];
  }
  bool operator==(const OptimizerNumbers &) const = default;
  auto operator<=>(const OptimizerNumbers &) const = default;

private:
  std::array<double, size_t(OptimizerNumber::always)> all = {};
};

struct OptimizerFacts {
  struct Number {
    OptimizerNumber number;
    double initial; ///< torch.optim's default
  };

  OptimizerKind kind;
  std::string_view name;       ///< "adamw"
  std::string_view torchClass; ///< of torch.optim: "AdamW"
  std::vector<std::string_view> moments;
  OptimizerNumber kept; ///< moments are, unless it is 0; or always
  bool countsUpdates;
  std::string_view cost;       ///< the operator whose time is measured for it
  double operations;           ///< for an element of each operand
  std::vector<Number> numbers; ///< in a plan's order

  bool has(OptimizerNumber number) const;
  OptimizerNumbers getDefaults() const;
  /// What it keeps of each parameter.
  std::span<const std::string_view>
  getMoments(const OptimizerNumbers &own) const;

  /// Of a plan, which has `numbers.size()` of them.
  OptimizerNumbers fromList(std::span<const double> list) const;
  std::vector<double> toList(const OptimizerNumbers &own) const;
};
std::span<const OptimizerFacts> getOptimizers();
const OptimizerFacts &getFacts(OptimizerKind kind);

/// Numbers of one key: `betas`, with two.
struct OptimizerKey {
  std::string_view key;
  std::vector<OptimizerNumber> numbers;
};
/// Those of all optimizers, or of one in its row's order.
const std::vector<OptimizerKey> &getOptimizerKeys();
std::vector<OptimizerKey> getKeys(const OptimizerFacts &optimizer);

} // namespace fsdp

#endif // FSDP_SUPPORT_OPTIMIZERS_H
