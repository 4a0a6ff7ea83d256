//===- Formats.h - How values of the config are written ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A format reads a value of one type, says for the documents what may be
// written, and prints a default.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FORMATS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FORMATS_H

#include "support/BlockForm.h"
#include "tools/fsdp-opt/config/Names.h"
#include "tools/fsdp-opt/config/Reading.h"

#include <algorithm>
#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace fsdp {

/// "`a`, `b` or `c`"
std::string listChoices(const std::vector<std::string_view> &names);
/// As a person writes it: "0.001", "65536"
std::string printNumber(double value);

/// true or false.
struct Flag {
  bool read(const Value &value) const;
  std::string describe() const { return "true or false"; }
  std::string print(bool value) const { return value ? "`true`" : "`false`"; }
};

/// true or false of the contrary.
struct Negated {
  bool read(const Value &value) const { return !Flag().read(value); }
  std::string describe() const { return Flag().describe(); }
  std::string print(bool value) const { return Flag().print(!value); }
};

/// A whole number.
struct Whole {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  /// "leave it out for …", behind what is wrong with a number.
  std::string_view advice = {};

  int64_t read(const Value &value) const;
  std::string describe() const;
  template <std::integral T>
  std::string print(T value) const {
    return "`" + std::to_string(value) + "`";
  }
};

inline Whole from(int64_t least, std::string_view advice = {}) {
  return {least, std::numeric_limits<int64_t>::max(), advice};
}
inline Whole between(int64_t least, int64_t most,
                     std::string_view advice = {}) {
  return {least, most, advice};
}

/// A power of two.
struct PowerOfTwo {
  int64_t least, most;

  int64_t read(const Value &value) const;
  std::string describe() const;
  std::string print(int64_t value) const {
    return "`" + std::to_string(value) + "`";
  }
};
/// Of blocks of codes.
inline constexpr PowerOfTwo kBlockSize = {BlockForm::kLeast,
                                          BlockForm::kGreatest};

/// A finite number of a range that has words: "above 0".
struct Number {
  bool (*holds)(double);
  std::string_view range;
  std::string_view advice = {};

  double read(const Value &value) const;
  std::string describe() const;
  std::string print(double value) const;
};

inline constexpr Number kFromZero = {[](double x) { return x >= 0; }, "from 0"};
/// As torch.optim has the decays of its averages.
inline constexpr Number kBeta = {[](double x) { return x >= 0 && x < 1; },
                                 "from 0 to less than 1"};
constexpr Number aboveZero(std::string_view advice) {
  return {[](double x) { return x > 0; }, "above 0", advice};
}

/// One name of `T`'s.
template <typename T>
struct Choice {
  std::vector<Named<T>> names = getNames<T>();

  std::vector<std::string_view> list() const {
    std::vector<std::string_view> all;
    for (const Named<T> &each : names)
      all.push_back(each.name);
    return all;
  }
  T read(const Value &value) const {
    std::string name = value.reader().readChoice(value.node, value.key, list());
    return std::ranges::find(names, name, &Named<T>::name)->value;
  }
  std::string describe() const { return listChoices(list()); }
  std::string print(const T &value) const {
    for (const Named<T> &each : names)
      if (each.value == value)
        return "`" + std::string(each.name) + "`";
    return {};
  }
};

/// A name that stays one.
inline Choice<std::string> oneOf(std::vector<std::string_view> names) {
  std::vector<Named<std::string>> all;
  for (std::string_view name : names)
    all.push_back({name, std::string(name)});
  return {std::move(all)};
}

/// A name, names with commas between them, or a list of names.
struct NameList {
  std::string_view what = "name";
  /// "leave it out for …", of a list that must not be empty.
  std::string_view advice = {};

  std::vector<std::string> read(const Value &value) const;
  std::string describe() const;
  std::string print(const std::vector<std::string> &) const { return {}; }
};

/// Which format a member has that does not name one. Numbers name a range.
template <typename T>
auto getFormat() {
  if constexpr (std::same_as<T, bool>)
    return Flag{};
  else if constexpr (std::same_as<T, std::vector<std::string>>)
    return NameList{};
  else if constexpr (std::is_enum_v<T>)
    return Choice<T>{};
}

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FORMATS_H
