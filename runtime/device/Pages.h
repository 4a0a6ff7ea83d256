//===- Pages.h - How much the system maps at once ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DEVICE_PAGES_H
#define FSDP_RUNTIME_DEVICE_PAGES_H

#include <cstdint>

namespace fsdp {

/// What memory is mapped in: bytes.
inline constexpr uint64_t kPage = 4096;

} // namespace fsdp

#endif // FSDP_RUNTIME_DEVICE_PAGES_H
