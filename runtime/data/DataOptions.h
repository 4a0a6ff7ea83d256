//===- DataOptions.h - What a run reads -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_DATAOPTIONS_H
#define FSDP_RUNTIME_DATA_DATAOPTIONS_H

#include "plan/plan_generated.h"
#include "runtime/data/RowSource.h"
#include "runtime/data/RunData.h"

#include <memory>
#include <string>
#include <string_view>

namespace fsdp {

/// As a path of data: the samples that the model was exported with.
inline constexpr std::string_view kSampleData = "sample";

/// The artifact's data table with paths that lead to the files from here.
/// `folder` is the artifact's; `path`, if not empty, stands for its files
/// (kSampleData: for none), and `options`, "shuffle=true,seed=1", for its other
/// fields. Throws fsdp::Error (BadUsage).
RunData chooseData(const plan::PlanT &plan, const std::string &folder,
                   const std::string &path, const std::string &options);

/// Likewise what validation reads, in its files' order: tokens go to the same
/// inputs as `training` gives them to, and it puts up with the same.
RunData chooseValidationData(const plan::PlanT &plan, const std::string &folder,
                             const std::string &path, const RunData &training);

/// Its files, as samples or tokens. Null if it names none. Throws fsdp::Error:
/// FileNotReadable, DataFileInvalid; DataShape if rows are to be sorted by
/// length and have none.
std::unique_ptr<RowSource> openData(const plan::DataT &data);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_DATAOPTIONS_H
