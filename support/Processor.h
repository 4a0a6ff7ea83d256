//===- Processor.h - What the machine computes with -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_PROCESSOR_H
#define FSDP_SUPPORT_PROCESSOR_H

#include <string>

namespace fsdp {

/// The processors' model as Linux names it; empty where it does not.
std::string getProcessorName();

} // namespace fsdp

#endif // FSDP_SUPPORT_PROCESSOR_H
