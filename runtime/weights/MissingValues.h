//===- MissingValues.h - Tensors that nobody gives a value ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_WEIGHTS_MISSINGVALUES_H
#define FSDP_RUNTIME_WEIGHTS_MISSINGVALUES_H

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// A state of the model without a first value.
struct MissingValue {
  std::string name;
  std::vector<int64_t> shape;
  bool isParameter = true; ///< else a buffer or a constant
};

/// "3 tensors ('a', 'b', …)": the first few by name.
std::string listMissing(const std::vector<MissingValue> &missing);

/// Lines of YAML to paste into the config, from `init:` on, that give all of
/// `missing` what people usually start from: matrices normal numbers, biases
/// zeros, other vectors (norms) ones, and buffers whose names are usual (rotary
/// frequencies, running statistics) theirs. Other buffers get no line, since a
/// guess would train a wrong model.
std::string suggestRules(const std::vector<MissingValue> &missing);

} // namespace fsdp

#endif // FSDP_RUNTIME_WEIGHTS_MISSINGVALUES_H
