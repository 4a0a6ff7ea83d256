//===- Metadata.h - Where a node of an archive comes from -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_PT2_METADATA_H
#define FSDP_IR_CAPTURE_PT2_METADATA_H

#include "ir/capture/joint/JointGraph.h"
#include "ir/capture/pt2/Json.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace fsdp::capture {

/// Calls `visit` with every module that the node was called in, outermost
/// first; the root's path is empty.
void forEachPt2Module(const json::Object &node,
                      llvm::function_ref<void(const ModuleInfo &)> visit);

/// A call on the way to the node, as Python prints it.
struct Pt2Frame {
  llvm::StringRef file;
  int64_t line = 0;
  llvm::StringRef function;
  llvm::StringRef text; ///< the source line; empty if it was not at hand
};

/// Calls `visit` with every call on the way to the node, innermost last.
/// torch.export keeps those of functions called "forward" only, unless it is
/// strict.
void forEachPt2Frame(const json::Object &node,
                     llvm::function_ref<void(const Pt2Frame &)> visit);

/// A string of the node's metadata; empty if there is none.
llvm::StringRef getPt2NodeMetadata(const json::Object &node,
                                   llvm::StringRef key);

/// Innermost module and the user's source line.
Location getPt2Location(const json::Object &node);

/// The name of a graph value: {"as_tensor": {"name": "x"}} or {"as_sym_int":
/// {"as_name": "s"}}; empty for constants and lists.
std::string getPt2ValueName(const json::Value &argument);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_METADATA_H
