//===- Averages.h - Averages of what is trained -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank holds the same elements of an average as of its parameter, so that
// what goes from one to the other stays within its arenas.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_STATES_AVERAGES_H
#define FSDP_RUNTIME_STATES_AVERAGES_H

#include "plan/plan_generated.h"
#include "runtime/device/Arenas.h"

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

namespace fsdp {

/// By the number of a parameter's state that of its average.
std::map<size_t, size_t> listAverages(const plan::PlanT &plan);

/// Throws fsdp::Error (RuntimeUnsupported) where there are none.
void checkAverages(const plan::PlanT &plan);

/// Lets the averages that `isWanted` begin as their parameters are now.
void beginAverages(const plan::PlanT &plan, int rank, const Arenas &arenas,
                   const std::function<bool(const plan::StateT &)> &isWanted);

/// While it lives, parameters are their averages, rounded to their types.
/// Holds the rank's parameters meanwhile.
class AveragedParameters {
public:
  AveragedParameters(const plan::PlanT &plan, int rank, const Arenas &arenas);
  ~AveragedParameters();
  AveragedParameters(const AveragedParameters &) = delete;
  AveragedParameters &operator=(const AveragedParameters &) = delete;

private:
  struct Kept {
    const plan::StateT *state; ///< with bytes of its own
    std::vector<char> bytes;
  };

  const Arenas &arenas;
  std::vector<Kept> kept;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_AVERAGES_H
