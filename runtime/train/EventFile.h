//===- EventFile.h - Numbers for TensorBoard --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Event files as TensorBoard reads them: records of TFRecord's framing (length,
// its masked CRC-32C, bytes, theirs) that hold Event messages of
// tensorflow/core/util/event.proto.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_TRAIN_EVENTFILE_H
#define FSDP_RUNTIME_TRAIN_EVENTFILE_H

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

/// CRC-32C (Castagnoli) of bytes.
uint32_t crc32cOf(std::string_view bytes);

/// A new file in a folder, which is made if need be. Used by one thread at a
/// time.
class EventFile {
public:
  using Values = std::vector<std::pair<std::string, double>>;

  /// `first`: the step that comes first. What earlier runs in the folder said
  /// of it and of later ones is then passed over. Throws fsdp::Error
  /// (FileNotWritable).
  EventFile(const std::string &folder, uint64_t first);
  ~EventFile();
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;

  /// Numbers of a step, by name; readers see them at once. Throws fsdp::Error
  /// (FileNotWritable).
  void write(uint64_t step, const Values &values);

  const std::string &path() const { return name; }

private:
  void writeRecord(const std::string &event);

  std::string name;
  std::FILE *file = nullptr;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_EVENTFILE_H
