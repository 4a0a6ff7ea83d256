//===- RunOption.h - What is known of an option of a run --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of RunOptions.def: what each says, and its value whatever its type.
// A type that is new here does not compile until fsdp-run and Python read it.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_SESSION_RUNOPTION_H
#define FSDP_RUNTIME_SESSION_RUNOPTION_H

#include "runtime/session/Session.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace fsdp {

/// What of an option has to be the same on all ranks, as far as it changes
/// results, steps or files.
enum class Agreed {
  no,      ///< each rank may have its own
  value,   ///< its value
  whether, ///< whether it is given: a path that rank 0 alone writes to, or of
           ///< files whose contents are compared
  kind     ///< likewise, and whether it is kSampleData
};

/// What numbers are taken; all by default.
struct Bounds {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool isAbove = false; ///< `least` itself is not taken

  bool hasLeast() const { return std::isfinite(least); }
  bool contains(double value) const {
    return (isAbove ? value > least : value >= least) && value <= most;
  }
};
inline constexpr Bounds kAboveZero{.least = 0, .isAbove = true};

/// What few options are, by name in their rows.
struct OptionTraits {
  Bounds bounds = {};
  const char *python = nullptr;  ///< another name there
  bool isPath = false;           ///< as Python takes it, a str or os.PathLike
  bool isSize = false;           ///< bytes, as 5GB
  bool isHidden = false;         ///< for tests: in no help, and not for Python
  bool isForCalibration = false; ///< read by --calibrate, too
  /// A file that needs the data of all ranks, which a rank that is played alone
  /// does not have.
  bool needsAllRanks = false;
};

/// A value out of some that have names; `namesOf(E)` lists an enum's.
struct Choice {
  template <typename E>
  explicit Choice(E &chosen)
      : value(&chosen), get([](const void *from) {
          for (const auto &[name, each] : namesOf(E()))
            if (each == *static_cast<const E *>(from))
              return name;
          return std::string_view();
        }),
        set([](void *to, std::string_view chosen) {
          for (const auto &[name, each] : namesOf(E()))
            if (name == chosen)
              *static_cast<E *>(to) = each;
        }) {
    for (const auto &[name, each] : namesOf(E()))
      names.push_back(name);
  }

  void *value;
  std::string_view (*get)(const void *);
  void (*set)(void *, std::string_view); ///< to one of `names`
  std::vector<std::string_view> names;
};

/// Where an option's value is. A time is in seconds for whoever gives it.
using OptionValue =
    std::variant<bool *, int *, uint64_t *, double *, std::optional<uint64_t> *,
                 std::optional<double> *, std::chrono::milliseconds *,
                 std::string *, std::vector<std::string> *, Choice>;

template <typename T>
OptionValue pointTo(T &value) {
  if constexpr (std::is_enum_v<T>)
    return Choice(value);
  else
    return &value;
}

/// "0.1", "set" of a flag; empty: absent. Of several paths the first.
std::string toText(const OptionValue &value);

/// Adds what ranks compare of the option `name`, if they do. `unset`: its value
/// in a run that does not give it.
void addFact(std::vector<RunFact> &facts, std::string_view name,
             const OptionValue &value, const OptionValue &unset, Agreed agreed);

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_RUNOPTION_H
