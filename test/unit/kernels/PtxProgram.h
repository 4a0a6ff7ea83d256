//===- PtxProgram.h - PTX, read -----------------------------------*- C++
//-*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_KERNELS_PTXPROGRAM_H
#define FSDP_TEST_UNIT_KERNELS_PTXPROGRAM_H

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// A register, number, address or nothing ("_"), or a list of registers.
struct PtxOperand {
  enum class Kind { none, reg, number, thread, block, list } kind = Kind::none;
  uint32_t reg = 0;
  uint64_t number = 0; ///< or an address' offset
  std::vector<PtxOperand> list;
  std::string name; ///< of a parameter or label
};

struct PtxInstruction {
  int predicate = -1; ///< a register
  bool isNegated = false;
  std::vector<std::string> words; ///< between the points of its name
  std::vector<PtxOperand> operands;

  bool has(std::string_view word) const;
  const std::string &word(size_t i) const { return words.at(i); }
  const std::string &type() const { return words.back(); }
};

/// One entry of a module.
struct PtxProgram {
  /// Throws std::runtime_error for what it does not know.
  PtxProgram(std::string_view module, const std::string &entry);

  std::vector<PtxInstruction> code;
  std::map<std::string, size_t> labels;
  std::vector<std::string> parameters;
  std::map<std::string, uint64_t> shared; ///< places of variables
  uint64_t sharedBytes = 0;
  uint32_t registers = 0;

private:
  void readLine(std::string line);
  PtxOperand readOperand(std::string_view text);
  std::map<std::string, uint32_t, std::less<>> names;
};

} // namespace fsdp

#endif // FSDP_TEST_UNIT_KERNELS_PTXPROGRAM_H
