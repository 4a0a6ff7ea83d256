//===- ConfigText.h - Configs as tests write them ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_TOOLS_FSDPOPT_CONFIG_CONFIGTEXT_H
#define FSDP_TEST_UNIT_TOOLS_FSDPOPT_CONFIG_CONFIGTEXT_H

#include "support/Error.h"
#include "tools/fsdp-opt/config/Config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fsdp::test {

inline LoadedConfig parse(const std::string &text,
                          std::optional<int64_t> world = std::nullopt) {
  return parseConfig(text, "fsdp.yaml", world);
}

/// "E042 message" of the refusal; empty if there is none.
inline std::string refusal(const std::string &text,
                           std::optional<int64_t> world = std::nullopt) {
  try {
    parse(text, world);
  } catch (const Error &error) {
    EXPECT_EQ(error.exitStatus(), 2);
    return std::string(getErrorInfo(error.id()).id) + " " + error.what();
  }
  return "";
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_TOOLS_FSDPOPT_CONFIG_CONFIGTEXT_H
