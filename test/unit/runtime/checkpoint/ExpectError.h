//===- ExpectError.h - An error with an id and a text -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_CHECKPOINT_EXPECTERROR_H
#define FSDP_TEST_UNIT_RUNTIME_CHECKPOINT_EXPECTERROR_H

#include "support/Error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace fsdp::test {

/// Fails unless `call` throws fsdp::Error with this id and, somewhere, text.
inline void expectError(ErrorId id, const std::string &text,
                        const std::function<void()> &call) {
  try {
    call();
    ADD_FAILURE() << "was accepted, expected: " << text;
  } catch (const Error &error) {
    EXPECT_EQ(error.id(), id) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(text));
  }
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_CHECKPOINT_EXPECTERROR_H
