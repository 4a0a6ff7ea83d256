//===- Hooks.h - Hooks on gradients that an export dropped ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.export says nothing of them. Where this project's Python package
// exports a module, it writes what it saw beside the program
// (python/fsdp_opt/_hooks.py): a list of
//
//   {"parameter": "fc.weight"}, {"module": "fc"}, or, of a tensor in the
//   forward pass, {"file": "model.py", "line": 12}
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_HOOKS_H
#define FSDP_IR_CAPTURE_PT2_HOOKS_H

#include "ir/capture/joint/LostGradients.h"
#include "support/ZipDirectory.h"

#include <vector>

namespace fsdp::capture {

/// What the archive says of hooks; none if it says nothing. Throws Error
/// (ArchiveDamaged) if that is not understood.
std::vector<LostBackward> readPt2Hooks(const ZipDirectory &archive);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_HOOKS_H
