//===- DataOptions.h - What a run reads -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_DATAOPTIONS_H
#define FSDP_RUNTIME_DATA_DATAOPTIONS_H

#include "runtime/data/RowSource.h"
#include "runtime/plan/plan_generated.h"

#include <memory>
#include <string>

namespace fsdp {

/// The artifact's data table with paths that lead to the files from here.
/// `folder` is the artifact's; `path`, if not empty, stands for its files, and
/// `options`, "shuffle=true,seed=1", for its other fields. Throws fsdp::Error
/// (BadUsage).
plan::DataT chooseData(const plan::PlanT &plan, const std::string &folder,
                       const std::string &path, const std::string &options);

/// Likewise what validation reads, in its files' order: tokens go to the same
/// inputs as `training` gives them to.
plan::DataT chooseValidationData(const plan::PlanT &plan,
                                 const std::string &folder,
                                 const std::string &path,
                                 const plan::DataT &training);

/// Its files, as samples or tokens. Null if it names none. Throws fsdp::Error:
/// FileNotReadable, DataFileInvalid.
std::unique_ptr<RowSource> openData(const plan::DataT &data);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_DATAOPTIONS_H
