//===- PickleScan.h - Looks at a pickle before it is trusted ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch's unpickler makes room for what a pickle states and follows it as
// deep as it goes. This walks the same instructions with the same stack, makes
// nothing of them, and refuses what a file of this size cannot mean.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_ARCHIVE_PICKLESCAN_H
#define FSDP_IR_CAPTURE_ARCHIVE_PICKLESCAN_H

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::capture {

/// What a pickle belongs to.
struct PickleContext {
  std::string where; ///< "entry 'data.pkl' of 'model.pt'", for errors
  /// Bytes of the storage of that key; none if there is none.
  std::function<std::optional<uint64_t>(const std::string &key)> storageBytes;
  bool takesMeta = false; ///< whether tensors may have no storage
};

/// The leaves of the pickle's value, of nested tuples, lists and values of
/// dicts, in order: for a tensor a number, the same for one object at several
/// places; 0 for anything else.
///
/// Throws Error: FileImplausible if `pickle` nests deeper than 500 levels,
/// refers to itself, states lengths beyond its own end, or holds so many ways
/// to one value that nobody could follow them all; ArchiveDamaged if it is no
/// pickle, or a tensor lies beyond its storage; ModelNotSupported if it calls
/// what is neither a class of the archive nor part of a plain tensor.
std::vector<uint32_t> scanPickle(std::string_view pickle,
                                 const PickleContext &context);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_ARCHIVE_PICKLESCAN_H
