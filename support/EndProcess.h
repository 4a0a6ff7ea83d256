//===- EndProcess.h - The end of a program ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_ENDPROCESS_H
#define FSDP_SUPPORT_ENDPROCESS_H

namespace fsdp {

/// Ends a program whose work is done: what a `main` of ours returns.
///
/// LibTorch's destructors take every operator out of every table again, which
/// takes a third of a short run. What they free the system takes back anyway,
/// so the standard streams (C's and C++'s) are flushed and the process ends
/// without them. Where somebody waits for a process's own end, it is `status`
/// that comes back, and `main` returns it: sanitizers look for leaks there,
/// and profilers of GPUs write what they recorded. Nothing else of the
/// process may still have something to say: files are closed, llvm::outs() is
/// flushed, other threads have ended or are of no interest.
int endProcess(int status);

} // namespace fsdp

#endif // FSDP_SUPPORT_ENDPROCESS_H
