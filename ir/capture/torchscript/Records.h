//===- Records.h - Where a .pt keeps a tensor -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_TORCHSCRIPT_RECORDS_H
#define FSDP_IR_CAPTURE_TORCHSCRIPT_RECORDS_H

#include "ir/capture/joint/JointGraph.h"
#include "support/ReadOnlyFile.h"
#include "support/ZipDirectory.h"

#include <unordered_map>

namespace fsdp::capture {

/// Finds the records that loaded tensors came from. A loaded module does not
/// say, so they are found by content; records of equal content may stand for
/// one another.
class TorchScriptRecords {
public:
  /// Whether the entry `name` of an archive is the storage of a tensor.
  static bool holdsTensors(std::string_view name);

  explicit TorchScriptRecords(const ZipDirectory &archive);

  /// None if no record holds the tensor's storage, as for an empty tensor.
  std::optional<Record> find(const at::Tensor &tensor);

private:
  bool holds(const ZipEntry &entry, const char *data);

  ReadOnlyFile file;
  std::string buffer;
  std::unordered_map<uint64_t, std::vector<const ZipEntry *>> bySize;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_TORCHSCRIPT_RECORDS_H
