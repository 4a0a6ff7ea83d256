//===- Alternate.cpp - Shapes that change from step to step ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-alternate STEP.fsdp FILE.safetensors...: step i sets the inputs to this
// rank's first rows of the i-th file, and prints which program ran and its
// loss. With --by-rank there is one step, in which rank r takes the r-th file.
//
//===----------------------------------------------------------------------===//

#include "plan/DType.h"
#include "runtime/launch/Launch.h"
#include "runtime/weights/Safetensors.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

using namespace fsdp;

/// The shape that some program gives the input: the file's, but for its rows.
static std::vector<int64_t> shapeOf(const plan::PlanT &plan,
                                    const std::string &name,
                                    const StoredTensor &stored) {
  for (const auto &input : plan.inputs)
    if (input->name == name &&
        std::equal(input->shape.begin() + 1, input->shape.end(),
                   stored.shape.begin() + 1, stored.shape.end()))
      return input->shape;
  throw Error(ErrorId::DataShape, "no program takes '" + name + "'");
}

static void setInputs(Session &session, const SafetensorsFile &file) {
  for (const auto &[name, stored] : file.tensors()) {
    std::vector<int64_t> shape = shapeOf(session.plan(), name, stored);
    size_t bytes = dtypeBytes(stored.dtype);
    for (int64_t size : shape)
      bytes *= static_cast<size_t>(size);
    const char *begin =
        stored.data + static_cast<size_t>(session.rank()) * bytes;
    session.setInput(name, shape,
                     std::as_bytes(std::span<const char>(begin, bytes)));
  }
}

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
