//===- Facts.h - Facts.def beside LibTorch's schemas ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TOOLS_ATENTABLE_FACTS_H
#define FSDP_TOOLS_ATENTABLE_FACTS_H

#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// Rows of Facts.def, and what is wrong with them.
struct Facts {
  struct Row {
    std::string_view name; // without "aten."
    std::string_view text;
    bool isUsed = false;
  };
  std::vector<Row> flags;       // by name
  std::vector<Row> corrections; // by name and overload
  std::string problems;         // one a line

  /// Adds what the rows say of the operator "add" with overload "Tensor", which
  /// may be empty, to its flags, "Cpu | Pointwise" or "0", and to its schema.
  void merge(const std::string &name, const std::string &overload,
             std::string &ownFlags, std::string &schema);

  /// To be called when all operators of LibTorch are merged.
  void findUnusedRows();
};

} // namespace fsdp

#endif // FSDP_TOOLS_ATENTABLE_FACTS_H
