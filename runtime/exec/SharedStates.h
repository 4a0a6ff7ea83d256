//===- SharedStates.h - Parameters that need no gathering -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where ranks are threads of one process, the shards of a parameter lie side by
// side in memory that all of them see: they are the gathered parameter, and an
// all-gather moves nothing. What it still does is to order: a rank that waited
// for it knows that its peers' shards are up to date. The other direction, that
// nobody writes a shard while a peer still reads it, is held by publications: a
// rank says when a program has read some shared parameters for the last time,
// and before it writes one of these it awaits that all peers have said so.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_SHAREDSTATES_H
#define FSDP_RUNTIME_EXEC_SHAREDSTATES_H

#include "plan/plan_generated.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Arena.h"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace fsdp {

class Instruction;

/// An instruction that writes shared parameters, which peers must have read.
struct SharedWrite {
  int64_t lastRead; ///< instruction in front of it; -1: the program reads none
  int64_t index;    ///< instruction
};

/// How a program uses parameters that are shared.
struct SharedReads {
  /// By value: the state that it is the gathered form of; -1: none.
  std::vector<int32_t> gathered;
  /// In order, also of the reads. A write that an earlier one's publication
  /// speaks for is none of them.
  std::vector<SharedWrite> writes;
};

/// What of a plan can be shared: floating-point states of whole cache lines
/// that some program gathers as they are, whose gathered forms are only read,
/// and which no program uses otherwise before it is done with those of the
/// same state.
struct Sharing {
  explicit Sharing(const plan::PlanT &plan);

  std::vector<bool> states; ///< by state
  std::map<const plan::ProgramT *, SharedReads> programs;
};

/// The shared states of one rank.
class SharedStates {
public:
  /// Collective: moves the shared states of `arena` to memory that the ranks
  /// have in common. Of ranks that are processes, and on a device, nothing is
  /// shared.
  SharedStates(const plan::PlanT &plan, Fabric &fabric, Arena &arena);

  /// Where a value lies that is the gathered form of a shared state, else null.
  char *addressOf(const plan::ProgramT &program, uint32_t value) const;

  /// Puts the program's publications behind what it reads last, and their waits
  /// in front of what it writes. `instruction` is what stands at `index`; null:
  /// nothing.
  std::unique_ptr<Instruction> guard(const plan::ProgramT &program,
                                     uint32_t index,
                                     std::unique_ptr<Instruction> instruction);

private:
  struct Group {
    std::shared_ptr<Arena> memory;
    std::unique_ptr<Communicator> communicator;
    uint64_t bytes = 0;
  };

  bool isActive() const { return !groups.empty(); }

  /// Transfers of nothing, one a group.
  using Publication = std::vector<Communicator::Ticket>;
  void publish(Publication &publication, uint64_t step);
  void await(const Publication &publication);

  const Sharing sharing;
  std::map<uint32_t, Group> groups; ///< by index in the plan
  std::vector<char *> addresses;    ///< of whole states, by state
  /// By write, which stays in its place.
  std::map<const SharedWrite *, Publication> publications;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_SHAREDSTATES_H
