//===- RunOptions.h - All options of a run ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_RUNOPTIONS_H
#define FSDP_RUNTIME_TRAIN_RUNOPTIONS_H

#include "runtime/session/RunOption.h"
#include "runtime/train/Train.h"

#include <string>
#include <vector>

namespace fsdp {

struct RunOptions {
  LaunchOptions launch; ///< with those of the session
  TrainOptions train;
};

/// A row of RunOptions.def.
struct RunOption {
  std::string name; ///< "eval-every"
  /// What stands for a value: "K"; empty of a flag or a choice.
  std::string value;
  Agreed agreed;
  std::string help;
  OptionTraits traits;
  bool isOfTraining; ///< of TrainOptions, which Python has no part in
  OptionValue (*in)(RunOptions &options);

  /// Its name as an argument in Python, "eval_every"; empty: it is none.
  std::string pythonName() const;
};

const std::vector<RunOption> &listRunOptions();

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_RUNOPTIONS_H
