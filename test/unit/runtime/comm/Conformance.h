//===- Conformance.h - What every back end must do --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_COMM_CONFORMANCE_H
#define FSDP_TEST_UNIT_RUNTIME_COMM_CONFORMANCE_H

#include "runtime/comm/Communicator.h"

#include <vector>

namespace fsdp::test {

struct Check {
  const char *name;
  void (*run)(Fabric &fabric);
};

/// Each is run on all ranks of a fabric, of any world size.
const std::vector<Check> &conformanceChecks();

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_COMM_CONFORMANCE_H
