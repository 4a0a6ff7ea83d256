//===- MemoryMapPage.h - The page around a picture's data -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_EMIT_MEMORYMAPPAGE_H
#define FSDP_PASSES_EMIT_MEMORYMAPPAGE_H

namespace fsdp {

/// MemoryMap.html, which CMake writes into MemoryMapPage.cpp.
extern const char *const kMemoryMapPage;
/// What the data take the place of.
inline constexpr char kMemoryMapData[] = "/*DATA*/ null";

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_MEMORYMAPPAGE_H
