// Embeds a compiled training step in a program of your own.
//
//   train step.fsdp 20
//
// Start it once for all ranks as threads, or with torchrun --no-python, mpirun
// or srun for one process a rank.
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/launch/Launch.h"
#include "support/Error.h"

#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: train STEP.fsdp STEPS\n");
    return 2;
  }
  fsdp::LaunchOptions options;
  options.artifact = argv[1];
  // What the model was exported with, in each step; a file's path trains on it.
  options.session.dataPath = "sample";
  int steps = std::atoi(argv[2]);
  try {
    fsdp::launch(options, [&](fsdp::Session &session) {
      for (int i = 0; i < steps; ++i) {
        // session.setInput("x", bytes) would give this rank's batch here.
        fsdp::StepResult result = session.step();
        if (session.rank() == 0)
          std::printf("step %d: loss %.4f\n", i, *result.loss);
        // session.output("logits").bytes are what the model returned for the
        // batch, if it was compiled with --output=logits.
      }
      session.exportWeights("final.safetensors");
    });
  } catch (const fsdp::Error &error) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
    return error.exitStatus();
  }
}
