//===- NonFiniteTrace.h - Where a NaN comes from ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// While a program runs, writes down which instructions read and wrote numbers
// that are not finite. Afterwards a result is followed back from what wrote it
// to what that read, as long as that was not finite either. Infinities that do
// no harm, such as those of an attention mask, are on no such way.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_NONFINITETRACE_H
#define FSDP_RUNTIME_EXEC_NONFINITETRACE_H

#include "plan/plan_generated.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace fsdp {

/// What a tensor holds beside finite numbers.
struct NonFiniteKinds {
  bool nan = false, infinity = false;

  explicit operator bool() const { return nan || infinity; }
};

/// Reads all of `tensor`. Types that have no such numbers hold none.
NonFiniteKinds findNonFinite(const at::Tensor &tensor);

/// One run of one program on one rank.
class NonFiniteTrace {
public:
  /// `values` are the program's tensors; both outlive the trace.
  NonFiniteTrace(const plan::ProgramT &program,
                 std::span<const at::Tensor> values);

  /// To be called around each instruction that runs, by its number.
  void before(uint32_t instruction);
  void after(uint32_t instruction);

  /// What the program, or the world outside of it, made.
  struct Origin {
    enum Kind {
      computed, ///< by `instruction`, from finite numbers or infinities
      received, ///< by `instruction`, from other ranks
      given     ///< `value`, an argument of the program, held it already
    };
    Kind kind = computed;
    uint32_t instruction = 0, value = 0;
    NonFiniteKinds what;
    /// Of a NaN that was made of infinities: the instruction that made these.
    std::optional<uint32_t> infinity;

    /// What was given was there before anything was computed.
    bool isBefore(const Origin &other) const {
      auto order = [](const Origin &each) {
        return std::pair(each.kind != given, each.instruction);
      };
      return order(*this) < order(other);
    }
  };

  /// The first of what led to `value` being as it is at the end of the run;
  /// empty if it is finite.
  std::optional<Origin> findOrigin(uint32_t value) const;

private:
  using Found = std::vector<std::pair<uint32_t, NonFiniteKinds>>; ///< by value
  struct Record {
    uint32_t instruction;
    bool isReceived;
    Found reads, writes;
  };

  Found check(const std::vector<uint32_t> &list) const;
  const Record *findWriter(uint32_t value, size_t end) const;
  std::optional<Origin> follow(uint32_t value, size_t end, NonFiniteKinds what,
                               std::vector<bool> &seen) const;

  const plan::ProgramT &program;
  const std::span<const at::Tensor> values;
  /// Where transfers that are under way began, by future.
  std::map<uint32_t, std::pair<std::vector<uint32_t>, Found>> started;
  Found reads;                 ///< of the instruction that runs
  std::vector<Record> records; ///< those that wrote such numbers, in order
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_NONFINITETRACE_H
