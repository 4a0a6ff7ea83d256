//===- Exceptions.h - Any exception as an error with an id ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_EXCEPTIONS_H
#define FSDP_SUPPORT_EXCEPTIONS_H

#include "support/Error.h"

#include <exception>
#include <string>

namespace fsdp {

/// An fsdp::Error as it is; what the standard library and others throw as an
/// error that begins with `who` ("rank 1: "): OutOfMemory, FileNotReadable, or
/// `otherwise`.
Error toError(const std::exception_ptr &exception, const std::string &who,
              ErrorId otherwise);

} // namespace fsdp

#endif // FSDP_SUPPORT_EXCEPTIONS_H
