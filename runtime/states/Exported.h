//===- Exported.h - What of a model an export has ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_EXPORTED_H
#define FSDP_RUNTIME_STATES_EXPORTED_H

namespace fsdp {

/// What of a model an export has.
enum class Exported {
  All,     ///< of which isExported says so
  Trained, ///< parameters that are trained, such as adapters
  Merged,  ///< All, with adapters added to their bases: listMerged
           ///< (MergedStates.h)
  Averaged ///< All, with averages (Averages.h) in place of what is trained
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_EXPORTED_H
