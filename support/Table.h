//===- Table.h - Numbers and columns for people -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_TABLE_H
#define FSDP_SUPPORT_TABLE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// "1,234,567"
std::string formatCount(int64_t count);

/// Rows whose columns are aligned: those in which every cell but the first
/// row's starts with a digit to the right, others to the left.
class TextTable {
public:
  TextTable() = default;
  explicit TextTable(std::vector<std::string> head) : rows{std::move(head)} {}
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  /// Without the column of that head, if all its cells below are `cell`.
  void dropIfAll(std::string_view head, std::string_view cell);
  /// One line a row, each indented by two spaces.
  std::string print() const;

private:
  std::vector<std::vector<std::string>> rows;
};

} // namespace fsdp

#endif // FSDP_SUPPORT_TABLE_H
