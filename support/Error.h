//===- Error.h - Errors with an id and an exit status -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one way in which the tools and libraries refuse: an id that stays the
// same for ever, a message that says what was expected, what was found and what
// to do, and the exit status that goes with the id. Needs neither MLIR nor
// LibTorch.
//
//===----------------------------------------------------------------------------===//

#ifndef FSDP_SUPPORT_ERROR_H
#define FSDP_SUPPORT_ERROR_H

#include <stdexcept>
#include <string>
#include <string_view>

namespace fsdp {

enum class ErrorId {
#define FSDP_ERROR(id, name, status, title, advice) name,
#include "support/Errors.def"
};

/// One row of Errors.def.
struct ErrorInfo {
  std::string_view id; ///< "E001"
  int exitStatus;
  std::string_view title;
  std::string_view advice;
};

const ErrorInfo &getErrorInfo(ErrorId id);

/// A refusal. `what()` is the message alone; `format` puts the id before it.
class Error : public std::runtime_error {
public:
  Error(ErrorId id, const std::string &message)
      : std::runtime_error(message), errorId(id) {}

  ErrorId id() const { return errorId; }
  int exitStatus() const { return getErrorInfo(errorId).exitStatus; }
  /// "error[fsdp-E001]: message", the first line that a tool prints.
  std::string format() const;

private:
  ErrorId errorId;
};

} // namespace fsdp

#endif // FSDP_SUPPORT_ERROR_H
