//===- Registration.h - Dialects and passes of fsdp-opt ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_FSDPOPT_DRIVER_REGISTRATION_H
#define FSDP_TOOLS_FSDPOPT_DRIVER_REGISTRATION_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace fsdp {

/// The dialects that programs are written in: func, aten, fsdp.
void registerDialects(mlir::DialectRegistry &registry);

/// The project's passes and pipelines, and those of MLIR that are of use on its
/// programs.
void registerCommandLinePasses();

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_DRIVER_REGISTRATION_H
