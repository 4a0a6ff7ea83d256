//===- Task.h - What fsdp-opt is asked for ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_TASK_H
#define FSDP_TOOLS_FSDPOPT_INPUT_TASK_H

namespace fsdp {

/// One of them is chosen, once, by what is given (chooseTask); driver/ has a
/// function for each.
enum class Task : unsigned {
  Print = 1 << 0,         ///< an artifact as text
  Predict = 1 << 1,       ///< how an artifact will run
  Opt = 1 << 2,           ///< IR in, IR out: what mlir-opt does
  Capture = 1 << 3,       ///< a model as a program, and passes on it
  Compile = 1 << 4,       ///< a model or program, as a config says
  CompileWorlds = 1 << 5, ///< the same for several numbers of ranks
  Explain = 1 << 6,       ///< what a model holds
  Compare = 1 << 7,       ///< predictions of several configs
  Simulate = 1 << 8,      ///< predictions for several numbers of ranks
  ReadConfig = 1 << 9     ///< what becomes of a config file's keys
};

/// A set of tasks.
class Tasks {
public:
  constexpr Tasks(Task task) : bits(static_cast<unsigned>(task)) {}
  constexpr Tasks operator|(Tasks other) const {
    other.bits |= bits;
    return other;
  }
  constexpr bool contains(Task task) const {
    return (bits & static_cast<unsigned>(task)) != 0;
  }

private:
  unsigned bits;
};
constexpr Tasks operator|(Task a, Tasks b) { return Tasks(a) | b; }

inline constexpr Tasks kOfArtifacts = Task::Print | Task::Predict;
/// Whose options are MLIR's.
inline constexpr Tasks kPasses = Task::Opt | Task::Capture;
inline constexpr Tasks kCompiles = Task::Compile | Task::CompileWorlds;
inline constexpr Tasks kPredictions = Task::Compare | Task::Simulate;
/// That may begin with a model.
inline constexpr Tasks kOfModels =
    Task::Capture | kCompiles | Task::Explain | kPredictions;
inline constexpr Tasks kAllTasks = kOfArtifacts | Task::Opt | kOfModels;

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_TASK_H
