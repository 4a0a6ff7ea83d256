//===- ModelFile.h - First values out of the model file ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_MODELFILE_H
#define FSDP_RUNTIME_STATES_MODELFILE_H

#include "plan/plan_generated.h"
#include "support/ReadOnlyFile.h"
#include "support/ZipDirectory.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fsdp {

/// The model file that an artifact refers to, open for reading. Opening checks
/// its directory; `RecordChecks` the content of what is read.
class ModelFile {
public:
  /// Opens `path`, or if that is empty the file that `model` names, relative to
  /// `folder`. Throws fsdp::Error: FileNotReadable, ModelFileChanged.
  ModelFile(const plan::ModelT &model, const std::string &folder,
            const std::string &path);

  /// Rows [first, first + count) along dim 0 of the tensor of `shape` that
  /// `record` holds, contiguous at `to`; a tensor without dims has one row.
  void readRows(const plan::RecordT &record, const std::vector<int64_t> &shape,
                plan::DType dtype, int64_t first, int64_t count,
                void *to) const;

  /// The entry of the archive that `record` lies in. Throws fsdp::Error
  /// (ModelFileChanged).
  const ZipEntry &entryOf(const plan::RecordT &record) const;

  /// Reads all of `entry`, which `what` takes its value from. Throws
  /// fsdp::Error (ModelFileChanged) if its bytes are not those of its checksum.
  void checkEntry(const ZipEntry &entry, const std::string &what) const;

  /// The same where the bytes gave the checksum `found`.
  void checkSum(const ZipEntry &entry, uint32_t found,
                const std::string &what) const;

private:
  ReadOnlyFile file;
  std::vector<ZipEntry> entries; ///< by offset
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_MODELFILE_H
