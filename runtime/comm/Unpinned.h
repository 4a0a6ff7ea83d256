//===- Unpinned.h - Threads that do not share a rank's core -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_COMM_UNPINNED_H
#define FSDP_RUNTIME_COMM_UNPINNED_H

#include <sched.h>

namespace fsdp {

/// What the calling thread may run on; none if the system does not say. Asked
/// before a rank pins its thread, it is what the process may run on.
cpu_set_t allowedProcessors();

/// Lets threads that are created while it lives run on all of the process's
/// processors: those that move messages are not to share a rank's own.
class Unpinned {
public:
  explicit Unpinned(const cpu_set_t &processors);
  ~Unpinned();
  Unpinned(const Unpinned &) = delete;
  Unpinned &operator=(const Unpinned &) = delete;

private:
  cpu_set_t before;
  bool isActive;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_UNPINNED_H
