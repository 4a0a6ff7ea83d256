//===- ModelFile.h - First values out of the model file ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_MODELFILE_H
#define FSDP_RUNTIME_MODELFILE_H

#include "runtime/plan/plan_generated.h"
#include "runtime/support/ReadOnlyFile.h"

#include <cstdint>
#include <string>

namespace fsdp {

/// The model file that an artifact refers to, open for reading.
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

private:
  ReadOnlyFile file;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_MODELFILE_H
