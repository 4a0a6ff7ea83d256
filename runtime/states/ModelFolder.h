//===- ModelFolder.h - What libraries want beside weights -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_MODELFOLDER_H
#define FSDP_RUNTIME_STATES_MODELFOLDER_H

#include "plan/plan_generated.h"
#include "runtime/states/ExportedStates.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp {

enum class ModelFiles {
  All,      ///< what a model is, and how text becomes its tokens
  Tokenizer ///< the latter alone
};

/// Which belong beside an export, if any.
std::optional<ModelFiles> chooseModelFiles(const plan::PlanT &plan,
                                           Exported what);

/// Copies such files of Hugging Face's (config.json, tokenizer.json, …) from
/// the first of the `weights`, files or folders, beside which there are some,
/// to the folder `target`, which keeps what it has. Throws fsdp::Error
/// (FileNotWritable).
void copyModelFiles(const std::vector<std::string> &weights,
                    const std::string &target, ModelFiles what);

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_MODELFOLDER_H
