//===- Image.h - Code that runs wherever it is mapped -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_KERNELS_EMIT_IMAGE_H
#define FSDP_KERNELS_EMIT_IMAGE_H

#include <string>

namespace llvm {
class MemoryBufferRef;
}

namespace fsdp {

/// Code and constants of an object with one function, which stands first: what
/// refers to what is relative, so a loader has nothing to do. Constants are at
/// their places where the image is mapped to a multiple of 64 bytes. Throws
/// EmitFailure if the object refers to what it does not have.
std::string makeImage(llvm::MemoryBufferRef object);

} // namespace fsdp

#endif // FSDP_KERNELS_EMIT_IMAGE_H
