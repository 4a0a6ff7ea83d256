//===- PtxMachine.h - Runs PTX without a GPU --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enough of PTX for what kernels become. Addresses are the process' own. It
// throws std::runtime_error for accesses outside of what was allowed, or not
// aligned, and for threads that wait for others for ever. Approximations are
// exact here.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TEST_UNIT_KERNELS_PTXMACHINE_H
#define FSDP_TEST_UNIT_KERNELS_PTXMACHINE_H

#include "test/unit/kernels/PtxProgram.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace fsdp {

class PtxMachine {
public:
  explicit PtxMachine(const PtxProgram &program) : program(program) {}

  /// Lets threads touch so many bytes.
  void allow(void *at, size_t bytes) {
    allowed.emplace_back(reinterpret_cast<uint64_t>(at), bytes);
  }
  /// All blocks, one after the other.
  void launch(uint32_t blocks, uint32_t threads,
              const std::vector<void *> &arguments);

private:
  struct Thread {
    std::vector<uint64_t> registers;
    size_t at = 0;
    bool isDone = false;
    uint32_t number = 0;
  };

  void runBlock(uint32_t threads);
  /// Until it ends, or waits for others.
  void runAlone(Thread &thread);
  bool exchange(size_t firstThread);
  bool release(size_t first, size_t count, const char *word);
  void step(Thread &thread, const PtxInstruction &instruction);
  void access(Thread &thread, const PtxInstruction &instruction);
  void move(Thread &thread, const PtxInstruction &instruction);
  void convert(Thread &thread, const PtxInstruction &instruction);
  bool computeFloats(Thread &thread, const PtxInstruction &instruction);
  void computeIntegers(Thread &thread, const PtxInstruction &instruction);
  void compare(Thread &thread, const PtxInstruction &instruction);

  uint64_t get(const Thread &thread, const PtxOperand &operand) const;
  void put(Thread &thread, const PtxOperand &operand, uint64_t value,
           unsigned bits);
  char *check(uint64_t address, size_t bytes, bool isShared);

  const PtxProgram &program;
  std::vector<std::pair<uint64_t, size_t>> allowed;
  std::vector<void *> arguments;
  std::vector<Thread> threads;
  std::vector<char> shared;
  uint32_t block = 0;
};

} // namespace fsdp

#endif // FSDP_TEST_UNIT_KERNELS_PTXMACHINE_H
