//===- RunData.h - The data of one run --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_DATA_RUNDATA_H
#define FSDP_RUNTIME_DATA_RUNDATA_H

#include "plan/plan_generated.h"

#include <string>
#include <vector>

namespace fsdp {

/// The artifact's data table as a run reads it, with what only a run can say.
/// Whatever of the data would go unread, and whatever input would read nothing
/// of it, is an error unless it is named here.
struct RunData : plan::DataT {
  RunData() = default;
  explicit RunData(const plan::DataT &data) : plan::DataT(data) {}

  /// Whether all inputs take the exported samples; there are no files then.
  bool isSample = false;
  std::vector<std::string> ignored; ///< tensors that no input takes
  std::vector<std::string>
      repeated; ///< inputs whose rows go round on their own
  std::vector<std::string> exported; ///< inputs that take their sample
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_RUNDATA_H
