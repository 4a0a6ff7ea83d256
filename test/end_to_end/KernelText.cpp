//===- KernelText.cpp - The kernels of an artifact as text for a GPU ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-kernel-text STEP.fsdp TARGET FOLDER writes NUMBER.ptx for each kernel of
// an artifact, by a target of kernels/emit/Target.h, and prints for each its
// number and its name.
//
//===----------------------------------------------------------------------===//

#include "kernels/CodeLibrary.h"
#include "plan/Reader.h"
#include "support/Error.h"

#include <cstdio>
#include <fstream>
#include <string>

using namespace fsdp;

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: fsdp-kernel-text STEP.fsdp TARGET FOLDER\n");
    return 2;
  }
  try {
    PlanFile file = PlanFile::read(argv[1]);
    int number = 0;
    for (const auto &program : file.plan().kernels) {
      std::ofstream to(std::string(argv[3]) + "/" + std::to_string(number) +
                       ".ptx");
      to << makeCode(serialize(*program), argv[2]);
      to.close();
      if (!to)
        throw Error(ErrorId::FileNotWritable,
                    "a kernel's text was not written");
      std::printf("%d %s\n", number++, program->name.c_str());
    }
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
    return error.exitStatus();
  }
  return 0;
}
