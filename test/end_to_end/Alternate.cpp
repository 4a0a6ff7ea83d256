//===- Alternate.cpp - Shapes that change from step to step ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-alternate STEP.fsdp FILE.safetensors...: step i sets the inputs to this
// rank's first rows of the i-th file, and prints which program ran and its
// loss. With --by-rank there is one step, in which rank r takes the r-th file.
//
//===----------------------------------------------------------------------===//

#include "GivenInputs.h"
#include "runtime/launch/Launch.h"

#include <cstdio>
#include <string_view>
#include <vector>

using namespace fsdp;
using namespace fsdp::test;

int main(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  bool isByRank = !arguments.empty() && arguments[0] == "--by-rank";
  if (isByRank)
    arguments.erase(arguments.begin());
  if (arguments.size() < 2) {
    std::fprintf(stderr,
                 "usage: fsdp-alternate [--by-rank] STEP.fsdp FILE...\n");
    return 2;
  }
  LaunchOptions options;
  options.artifact = arguments[0];
  std::vector<std::string> files(arguments.begin() + 1, arguments.end());
  try {
    launch(options, [&](Session &session) {
      if (isByRank) {
        setInputs(session, SafetensorsFile(files.at(session.rank())));
        session.step();
        return;
      }
      for (const std::string &file : files) {
        setInputs(session, SafetensorsFile(file));
        std::optional<StepResult> result = session.microBatch();
        if (result && session.rank() == 0)
          std::printf("%s %.9g\n", result->program.c_str(),
                      result->loss.value());
      }
    });
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
    return error.exitStatus();
  }
}
