//===- ForeignKeys.h - Keys of other tools without a meaning ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// People bring config files of Axolotl, Accelerate and torchtitan. Keys of
// theirs that mean nothing here, or only make the same faster or smaller, are
// accepted with a note; those that would change training, with a warning; those
// that ask for something that is not there are refused. A key whose value asks
// for nothing says nothing. Those that have a meaning are in Foreign.h.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNKEYS_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNKEYS_H

#include "tools/fsdp-opt/config/Reading.h"

#include <string_view>

namespace fsdp {

struct ForeignKey {
  enum Action {
    Ignored,        ///< with one note among many
    Noted,          ///< with a note of its own
    Changes,        ///< with a warning: training differs unless one acts
    Moved,          ///< refused: the same thing has another name here
    Refused,        ///< unless the value is empty, false, 0, no, none, constant
    RefusedAboveOne ///< as Refused, but 1 asks for nothing either
  } action;
  std::string_view reason; ///< completes "'key' …"
};

/// Null if no tool that is known has such a key in that section.
const ForeignKey *findForeignKey(std::string_view section,
                                 std::string_view name);

/// What is to be said of such a key with its value.
void reportForeign(Reading &reading, const ForeignKey &key, const Given &entry);

/// Whether the value of another tool's key asks for nothing.
bool isOff(const YAML::Node &value);

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_FOREIGNKEYS_H
