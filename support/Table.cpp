//===- Table.cpp - Numbers and columns for people -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Table.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

using namespace fsdp;

std::string fsdp::formatCount(int64_t count) {
  std::string digits = std::to_string(count);
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

/// Characters of UTF-8 text.
static size_t getWidth(const std::string &text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

void TextTable::dropIfAll(std::string_view head, std::string_view cell) {
  auto found = std::ranges::find(rows.front(), head);
  auto column = found - rows.front().begin();
  if (found == rows.front().end() ||
      !std::all_of(rows.begin() + 1, rows.end(),
                   [&](const auto &row) { return row[column] == cell; }))
    return;
  for (std::vector<std::string> &row : rows)
    row.erase(row.begin() + column);
}

std::string TextTable::print() const {
  std::vector<size_t> widths;
  std::vector<bool> numbers;
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t c = 0; c < rows[i].size(); ++c) {
      if (widths.size() == c) {
        widths.push_back(0);
        numbers.push_back(rows.size() > 1);
      }
      const std::string &cell = rows[i][c];
      widths[c] = std::max(widths[c], getWidth(cell));
      if (i && !cell.empty() &&
          !std::isdigit(static_cast<unsigned char>(cell[0])))
        numbers[c] = false;
    }
  std::string text;
  for (const std::vector<std::string> &row : rows) {
    std::string line = " ";
    for (size_t c = 0; c < row.size(); ++c) {
      std::string pad(widths[c] - getWidth(row[c]), ' ');
      line += (c ? "  " : " ") + (numbers[c] ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}
