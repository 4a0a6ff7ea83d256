//===- PickleErrors.h - How a pickle is refused -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_ARCHIVE_PICKLEERRORS_H
#define FSDP_IR_CAPTURE_ARCHIVE_PICKLEERRORS_H

#include "support/Error.h"

#include <string>

namespace fsdp::capture {

/// Throws Error for the pickle `where`.
struct PickleErrors {
  std::string where;

  [[noreturn]] void refuse(ErrorId id, const std::string &what) const {
    throw Error(id, where + " " + what);
  }
  [[noreturn]] void damaged(const std::string &what) const {
    refuse(ErrorId::ArchiveDamaged, what + "; copy or export it again");
  }
  [[noreturn]] void implausible(const std::string &what) const {
    refuse(ErrorId::FileImplausible,
           what + "; it is damaged or was made to do harm");
  }
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_ARCHIVE_PICKLEERRORS_H
