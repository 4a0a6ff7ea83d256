//===- Error.cpp - Errors with an id and an exit status -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Error.h"

using namespace fsdp;

static constexpr ErrorInfo kErrors[] = {
#define FSDP_ERROR(id, name, status, title, advice)                            \
  {#id, status, title, advice},
#include "support/Errors.def"
};

const ErrorInfo &fsdp::getErrorInfo(ErrorId id) {
  return kErrors[static_cast<size_t>(id)];
}

std::string Error::format() const {
  return "error[fsdp-" + std::string(getErrorInfo(errorId).id) +
         "]: " + std::string(what());
}
