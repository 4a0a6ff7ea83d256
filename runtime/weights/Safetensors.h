//===- Safetensors.h - Read and write safetensors files ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Eight bytes of length, a JSON header of that length, then the tensors' bytes,
// one after another without gaps.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WEIGHTS_SAFETENSORS_H
#define FSDP_RUNTIME_WEIGHTS_SAFETENSORS_H

#include "plan/plan_generated.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp {

/// A tensor of a file, contiguous.
struct StoredTensor {
  plan::DType dtype;
  std::vector<int64_t> shape;
  const char *data;
  uint64_t offset; ///< of its first byte in the file
  uint64_t bytes;
};

/// A file that stays mapped for reading.
class SafetensorsFile {
public:
  /// Checks the header: every tensor lies within the file, has as many bytes
  /// as its shape and type ask for, and shares none with another. `invalid` is
  /// the error if not. Throws fsdp::Error: FileNotReadable, `invalid`.
  explicit SafetensorsFile(const std::string &path,
                           ErrorId invalid = ErrorId::DataFileInvalid);
  const std::map<std::string, StoredTensor> &tensors() const { return all; }
  /// What the writer put down beside the tensors.
  const std::map<std::string, std::string> &metadata() const { return notes; }
  const std::string &path() const { return file.path(); }
  /// Size of the file in bytes.
  uint64_t size() const { return bytes; }
  /// Bytes of the length and the header.
  uint64_t headBytes() const { return head; }
  /// As MappedFile::checkSize.
  void checkSize() const { file.checkSize(); }
  /// Hash of the length and the header: of all names, types and shapes.
  std::string headerHash() const;

private:
  [[noreturn]] void refuse(const std::string &what) const;
  void parse();
  void checkOverlaps() const;

  MappedFile file;
  ErrorId invalid;
  uint64_t head = 0; ///< of the length and the header
  const char *mapping;
  uint64_t bytes;
  std::map<std::string, StoredTensor> all;
  std::map<std::string, std::string> notes;
};

/// A tensor of a file that is about to be written.
struct TensorToStore {
  std::string name;
  plan::DType dtype;
  std::vector<int64_t> shape;
  uint64_t offset = 0; ///< of its first byte in the file; set by `layout`
};

/// Gives each tensor its offset and returns the file's first bytes, which end
/// where the first tensor begins. Larger elements come first, since readers
/// expect each tensor at a multiple of its element size.
std::string
layoutSafetensors(std::vector<TensorToStore> &tensors,
                  const std::map<std::string, std::string> &metadata = {});

} // namespace fsdp

#endif // FSDP_RUNTIME_WEIGHTS_SAFETENSORS_H
