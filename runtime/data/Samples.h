//===- Samples.h - Rows of safetensors files --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_SAMPLES_H
#define FSDP_RUNTIME_DATA_SAMPLES_H

#include "runtime/data/RowSource.h"
#include "runtime/weights/Safetensors.h"

namespace fsdp {

/// Throws fsdp::Error (DataType) if the tensor is not of the input's type;
/// `where` names it.
void checkElementType(const plan::InputT &input, const StoredTensor &stored,
                      const std::string &where);

/// A safetensors file with a tensor for each input, rows along its first dim.
class Samples : public RowSource {
public:
  /// Throws fsdp::Error: FileNotReadable, DataFileInvalid.
  explicit Samples(const std::string &path) : file(path) {}

  std::string describe() const override { return "'" + file.path() + "'"; }
  std::vector<std::string> paths() const override { return {file.path()}; }
  std::vector<std::string> names() const override;
  std::unique_ptr<RowReader> open(const plan::InputT &input) const override;

protected:
  SafetensorsFile file;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_SAMPLES_H
