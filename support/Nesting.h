//===- Nesting.h - How deep a text nests ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsers call themselves for each level of their text: what nests without
// bound ends the process. These look at a text before it is parsed.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_NESTING_H
#define FSDP_SUPPORT_NESTING_H

#include <cstddef>
#include <string>
#include <string_view>

namespace fsdp {

/// What files of ours and PyTorch's stay far below.
inline constexpr size_t kDeepestJson = 500;

/// The most lists and objects of a JSON text that are open at once.
size_t jsonDepth(std::string_view text);

/// Throws fsdp::Error (FileImplausible) if `text`, the JSON of `what`, nests
/// deeper than `kDeepestJson`.
void checkJsonDepth(std::string_view text, const std::string &what);

} // namespace fsdp

#endif // FSDP_SUPPORT_NESTING_H
