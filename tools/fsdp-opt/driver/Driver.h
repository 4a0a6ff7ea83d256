//===- Driver.h - What fsdp-opt does ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_DRIVER_DRIVER_H
#define FSDP_TOOLS_FSDPOPT_DRIVER_DRIVER_H

namespace fsdp {

/// The whole of fsdp-opt. Returns the exit status: 0 all was done, 1 the input
/// is refused, 2 usage or config. Everything that goes wrong is said on stderr;
/// unless MLIR's own diagnostics were asked for (IR input without a config),
/// its first line is `error[fsdp-E…]: …`.
int runDriver(int argc, char **argv);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_DRIVER_DRIVER_H
