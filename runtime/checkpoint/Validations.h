//===- Validations.h - Losses of a folder's checkpoints ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Beside checkpoints that are kept for how good they are lies
// "validations.json":
// `[{"step": 100, "eval_loss": 3.2}, …]`.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CHECKPOINT_VALIDATIONS_H
#define FSDP_RUNTIME_CHECKPOINT_VALIDATIONS_H

#include "runtime/checkpoint/Folder.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// The loss of a validation behind `step` steps.
struct Validated {
  uint64_t step = 0;
  double loss = 0; ///< may be no number
};

std::string printValidations(const std::vector<Validated> &all);
/// Throws fsdp::Error (CheckpointDamaged), which names `file`.
std::vector<Validated> parseValidations(const std::string &text,
                                        const std::string &file);

/// Those of the folder; none if it has no such file. Throws fsdp::Error:
/// CheckpointDamaged.
std::vector<Validated> readValidations(const CheckpointFolder &folder);
/// Throws fsdp::Error.
void writeValidations(const CheckpointFolder &folder,
                      const std::vector<Validated> &all);

/// The first with the least loss; losses that are no numbers are none.
const Validated *findBest(const std::vector<Validated> &all);

/// The checkpoint of the folder with the least loss.
std::optional<uint64_t> findBestStep(const CheckpointFolder &folder);

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_VALIDATIONS_H
