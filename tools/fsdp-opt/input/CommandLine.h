//===- CommandLine.h - The arguments of fsdp-opt ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_INPUT_COMMANDLINE_H
#define FSDP_TOOLS_FSDPOPT_INPUT_COMMANDLINE_H

#include "ir/capture/request/CaptureOptions.h"
#include "tools/fsdp-opt/input/Task.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fsdp {

/// What an input file holds.
enum class InputKind { Model, Program, Artifact };

/// What an output file gets.
enum class OutputKind { Text, Bytecode, Artifact };

struct CommandLine {
  std::string input;
  std::string output;
  std::string config;
  std::string readConfig; ///< whose keys are listed, and nothing else is done
  std::string report;
  std::string memoryMap;
  std::string cluster;  ///< instead of the config's; empty: that one
  std::string measured; ///< profile whose times go before the cluster's
  /// Where the predicted step goes, "-" being the terminal; what each gets
  /// follows from its suffix.
  std::vector<std::string> planViews;
  std::string profile; ///< measured, beside the prediction; empty: none
  std::vector<std::string> compared; ///< configs, side by side
  std::vector<int64_t> worlds; ///< numbers of ranks to predict; empty: none
  std::string stagesFolder;
  std::optional<int64_t> world;
  /// Numbers of ranks that one artifact is to have plans for, rising; empty:
  /// `world` says all. With --explain those that are shown.
  std::vector<int64_t> planWorlds;
  std::vector<InputShape> inputs;
  std::vector<std::string> outputs; ///< to keep, by name
  std::string loss; ///< name of the output that is the loss; empty: the first
  std::vector<DimValues> dims;
  std::vector<std::string> weights;
  /// What the artifact is to have its kernels' code for (kernels/GivenCode.h).
  std::vector<std::string> kernelCode;
  bool explain = false;
  bool verbose = false; ///< all notes
  InputKind inputKind = InputKind::Program;
  OutputKind outputKind = OutputKind::Text;
  Task task = Task::Opt;

  /// The program is printed to a file, from which one goes on.
  bool printsToFile() const {
    return outputKind == OutputKind::Text && output != "-";
  }
};

/// Parses and checks the arguments, those of MLIR included. Returns nothing if
/// they asked for help or the version, which is printed. Throws fsdp::Error
/// (BadUsage, FileNotReadable).
std::optional<CommandLine> parseCommandLine(int argc, char **argv,
                                            mlir::DialectRegistry &registry);

/// "s17=1024,2048" as sizes. Throws fsdp::Error (BadUsage).
DimValues parseDimValues(std::string_view text);

/// "x:f32[4,64]" as a shape. Throws fsdp::Error (BadUsage).
InputShape parseInputShape(std::string_view text);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_INPUT_COMMANDLINE_H
