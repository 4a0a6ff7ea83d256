//===- CheckedFile.h - Safetensors whose bytes are checked ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A safetensors file whose metadata has a hash for each block of the tensors'
// bytes, so that whoever reads a part of the file checks what it reads. The
// hash of the file's head covers these hashes, and with them the whole file.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_CHECKPOINT_CHECKEDFILE_H
#define FSDP_RUNTIME_CHECKPOINT_CHECKEDFILE_H

#include "runtime/states/Regions.h"
#include "runtime/weights/Safetensors.h"
#include "support/ReadOnlyFile.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// A rectangle of a tensor on its way to a file.
struct PieceToStore {
  std::string name;
  plan::DType dtype;
  Region region;
  const char *data; ///< contiguous
};

/// A rectangle of a tensor in a file.
struct StoredPiece {
  std::string name;
  plan::DType dtype;
  Region region;
  uint64_t offset; ///< of its first byte in the file
};

/// What recognises a file.
struct FileSeal {
  std::string name; ///< in its folder
  uint64_t bytes = 0;
  std::string head; ///< hash of length and header
};

/// Writes `path` and returns its seal when it is on the disk. No name comes
/// twice. Throws fsdp::Error (FileNotWritable).
FileSeal writeCheckedFile(const std::string &path,
                          std::vector<PieceToStore> pieces);

/// Such a file, or one of torch.distributed.checkpoint's or another writer's,
/// which has no hashes.
class CheckedFile {
public:
  /// With a seal, the file must fit it and have hashes. Only the head is read.
  /// Throws fsdp::Error: CheckpointDamaged, FileNotReadable.
  CheckedFile(const std::string &path, const std::optional<FileSeal> &seal);

  const std::vector<StoredPiece> &pieces() const { return all; }
  /// Whether this project wrote it as a part of a checkpoint.
  bool isOurs() const { return hashes.has_value(); }

  /// Fills `to` with bytes of a tensor; whole blocks are read. Throws
  /// fsdp::Error: CheckpointDamaged, FileNotReadable.
  void read(uint64_t offset, uint64_t bytes, char *to);

private:
  void checkHead(const FileSeal &seal) const;
  void readBlock(uint64_t number, char *to) const;
  uint64_t blockBegin(uint64_t number) const;
  [[noreturn]] void refuse(const std::string &what) const;

  ReadOnlyFile file;
  uint64_t dataBegin = 0;
  std::vector<StoredPiece> all;
  std::optional<std::string> hashes; ///< 16 digits a block
  std::vector<char> block;           ///< the one that was read last,
  std::optional<uint64_t> inBlock;   ///< and its number
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_CHECKEDFILE_H
