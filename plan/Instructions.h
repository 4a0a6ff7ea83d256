//===- Instructions.h - What instructions do to values ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each kind lists its operands with what it does to them; all that follows from
// that alone needs to know no kinds.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PLAN_INSTRUCTIONS_H
#define FSDP_PLAN_INSTRUCTIONS_H

#include "plan/Traffic.h"
#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// What an instruction does to a value that it names.
enum class Access : uint8_t {
  read,      ///< needs what it holds and leaves it so
  update,    ///< changes what it holds
  spend,     ///< reads it, and may leave anything there
  replace,   ///< overwrites it, which was made before
  pad,       ///< writes behind its rows, in its room
  define,    ///< makes it
  overwrite, ///< makes it, a view, and with that changes its base
  end        ///< forgets it
};

constexpr bool reads(Access access) {
  return access == Access::read || access == Access::update ||
         access == Access::spend;
}
constexpr bool defines(Access access) {
  return access == Access::define || access == Access::overwrite;
}
constexpr bool writes(Access access) {
  return access == Access::update || access == Access::replace ||
         defines(access);
}
/// Whether bytes may change that others read.
constexpr bool changes(Access access) {
  return access != Access::read && access != Access::define &&
         access != Access::end;
}

struct Operand {
  Access access;
  int64_t value; ///< any number until the plan was verified
};

/// What one instruction names; a value may be there more than once.
class Operands : public std::vector<Operand> {
public:
  void add(Access access, int64_t value) { push_back({access, value}); }
  void add(Access access, const std::vector<uint32_t> &values) {
    for (uint32_t value : values)
      add(access, value);
  }
  /// -1: there is none.
  void addOptional(Access access, int32_t value) {
    if (value != -1)
      add(access, value);
  }
};

// What each kind says (plan/instructions). The results of a transfer count as
// made by its start, although they are there when it was waited for; a wait
// names nothing.
#define FSDP_INSTRUCTION(kind)                                                 \
  void listOperands(const plan::kind##T &op, Operands &operands);
#include "plan/Instructions.def"

/// Calls `visit` with what the instruction is, `const plan::CallT &` and so on.
/// Returns false if it is of no known kind.
template <typename Visit>
bool visitBody(const plan::InstructionT &instruction, Visit visit) {
  const plan::BodyUnion &body = instruction.body;
  switch (body.type) {
#define FSDP_INSTRUCTION(kind)                                                 \
  case plan::Body::kind:                                                       \
    visit(*body.As##kind());                                                   \
    return true;
#include "plan/Instructions.def"
  case plan::Body::NONE:
    break;
  }
  return false;
}

/// The values of a verified plan that the instruction names, or to which it
/// `does` that.
std::vector<uint32_t> valuesOf(
    const plan::InstructionT &instruction,
    bool (*does)(Access) = [](Access) { return true; });

/// The value whose storage `value` lies in.
inline uint32_t rootOf(const plan::ProgramT &program, uint32_t value) {
  const plan::ValueT &v = *program.values[value];
  return v.place == plan::Place::view ? v.base : value;
}

/// What is started and waited for, be it among ranks or between a rank's
/// memories. Until the wait for its future its inputs are held, and its outputs
/// are not there yet.
struct Flight {
  const std::vector<uint32_t> &inputs, &outputs;
  uint32_t future;
};

/// Empty if the instruction starts none.
std::optional<Flight> flightOf(const plan::InstructionT &instruction);

/// The transfer among ranks that the instruction starts; null if it starts
/// none.
inline const plan::TransferT *
transferOf(const plan::InstructionT &instruction) {
  return instruction.body.AsTransfer();
}

/// The same of an all-gather; null if it starts none.
inline const plan::TransferT *gatherOf(const plan::InstructionT &instruction) {
  const plan::TransferT *transfer = transferOf(instruction);
  return transfer && transfer->kind == CollectiveKind::all_gather ? transfer
                                                                  : nullptr;
}

/// "Free", and of transfers "all_gather".
inline const char *kindOf(const plan::InstructionT &instruction) {
  const plan::TransferT *transfer = transferOf(instruction);
  return transfer ? getName(transfer->kind)
                  : plan::EnumNameBody(instruction.body.type);
}

/// Bytes that a rank moves (Traffic.h).
uint64_t bytesOf(const plan::TransferT &transfer, const plan::PlanT &plan,
                 const plan::ProgramT &program);
/// Of each member those that one rank alone has, as Messages.h asks for them.
std::vector<uint64_t> membersOf(const plan::TransferT &transfer,
                                const plan::PlanT &plan,
                                const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_PLAN_INSTRUCTIONS_H
