//===- LoadLimits.h - Time and memory that loading may take -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch computes constants and compares types while it compiles a model's
// code: a few lines may ask for all of memory, or for all of time. Nothing in
// the process can interrupt it, so another process tries first.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_LOADLIMITS_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_LOADLIMITS_H

#include <cstdint>
#include <functional>
#include <string>

#include <sys/resource.h>

namespace fsdp::capture {

/// While it lives, this process gets `more` bytes of address space at most
/// beside those that it has; what asks for more fails as if there were none.
class AddressLimit {
public:
  explicit AddressLimit(uint64_t more);
  ~AddressLimit();
  AddressLimit(const AddressLimit &) = delete;
  AddressLimit &operator=(const AddressLimit &) = delete;

private:
  rlimit before;
};

/// Whether `tryFirst` does anything: fuzzers look at one process.
extern bool triesFirst;

/// Calls `work` in a process of its own, which forgets its results and
/// exceptions. Throws Error (FileImplausible) if that takes more than `seconds`
/// of the processor's time, ends by a signal or for want of memory; `what` is
/// what is loaded.
void tryFirst(const std::string &what, unsigned seconds,
              const std::function<void()> &work);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_LOADLIMITS_H
