//===- RunOptions.cpp - All options of a run ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/RunOptions.h"

#include <algorithm>

using namespace fsdp;

std::string RunOption::pythonName() const {
  if (isOfTraining || traits.isHidden)
    return "";
  std::string text = traits.python ? traits.python : name;
  std::ranges::replace(text, '-', '_');
  return text;
}

#define FSDP_RUN_OPTION(isOfTraining, name, member, value, agreed, help, ...)  \
  {name,                                                                       \
   value,                                                                      \
   Agreed::agreed,                                                             \
   help,                                                                       \
   {__VA_ARGS__},                                                              \
   isOfTraining,                                                               \
   [](RunOptions &options) { return pointTo(options.member); }},

const std::vector<RunOption> &fsdp::listRunOptions() {
  static const std::vector<RunOption> all = {
#define FSDP_SESSION_OPTION(name, member, ...)                                 \
  FSDP_RUN_OPTION(false, name, launch.session.member, __VA_ARGS__)
#define FSDP_LAUNCH_OPTION(name, member, ...)                                  \
  FSDP_RUN_OPTION(false, name, launch.member, __VA_ARGS__)
#define FSDP_TRAIN_OPTION(name, member, ...)                                   \
  FSDP_RUN_OPTION(true, name, train.member, __VA_ARGS__)
#include "runtime/session/RunOptions.def"
  };
  return all;
}
