//===- FolderLock.h - One writer a folder -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_CHECKPOINT_FOLDERLOCK_H
#define FSDP_RUNTIME_CHECKPOINT_FOLDERLOCK_H

#include <string>

namespace fsdp {

/// While it lives, no other run has a lock of the folder, on any machine whose
/// file system passes locks on. It is the system's, on a file of the folder,
/// and ends with the process however that ends; the file, which says who has
/// it, may stay behind and means nothing by itself.
class FolderLock {
public:
  /// The folder is there. Waits some seconds for a run that is ending. Throws
  /// fsdp::Error (CheckpointsLocked) that names the other run, or
  /// (CheckpointNotWritten). Warns where the file system knows no locks.
  explicit FolderLock(const std::string &folder);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  std::string path;
  int descriptor = -1;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_CHECKPOINT_FOLDERLOCK_H
