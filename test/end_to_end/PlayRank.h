//===- PlayRank.h - Programs that play one rank of a step -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_ENDTOEND_PLAYRANK_H
#define FSDP_TEST_ENDTOEND_PLAYRANK_H

#include "plan/Reader.h"
#include "support/Error.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fsdp::test {

/// The main function of `NAME STEP.fsdp RANK`: `play` gets the plan, its path,
/// the rank, and the number of ranks. Returns the exit status.
template <typename Play>
int playRank(int argc, char **argv, const char *name, Play play) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s STEP.fsdp RANK\n", name);
    return 2;
  }
  try {
    std::string path = argv[1];
    int world = 1;
    PlanFile plan = PlanFile::read(path);
    for (const auto &axis : plan.plan().mesh)
      world *= static_cast<int>(axis->size);
    play(plan, path, std::atoi(argv[2]), world);
  } catch (const Error &error) {
    std::fprintf(stderr, "%s\n", error.format().c_str());
    return error.exitStatus();
  }
  return 0;
}

} // namespace fsdp::test

#endif // FSDP_TEST_ENDTOEND_PLAYRANK_H
