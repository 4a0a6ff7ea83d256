//===- Facts.cpp - Facts.def beside LibTorch's schemas --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/aten-table/Facts.h"

#include <algorithm>

using namespace fsdp;

/// The text of the row of `name`; empty if it has none.
static std::string use(std::vector<Facts::Row> &rows, std::string_view name) {
  auto row = std::ranges::find(rows, name, &Facts::Row::name);
  if (row == rows.end())
    return "";
  row->isUsed = true;
  return std::string(row->text);
}

/// Puts "Tensor(a) self" or "Tensor? self" in the place of "Tensor self", and
/// the letter on the result; false if the schema has no such place.
static bool correct(std::string &schema, const std::string &argument) {
  size_t mark = argument.find_first_of("(?");
  if (mark == std::string::npos)
    return false;
  bool isView = argument[mark] == '(';
  std::string plain = argument;
  plain.erase(mark, std::string_view(isView ? "(a)" : "?").size());
  size_t at = std::min(schema.find(plain + ","), schema.find(plain + ")"));
  size_t result = schema.find("-> Tensor");
  bool isFree = result != std::string::npos && schema.find("(a") > result;
  if (at == std::string::npos || (isView && !isFree))
    return false;
  if (isView)
    schema.insert(result + std::string_view("-> Tensor").size(), "(a)");
  schema.replace(at, plain.size(), argument);
  return true;
}

void Facts::merge(const std::string &name, const std::string &overload,
                  std::string &ownFlags, std::string &schema) {
  if (std::string more = use(flags, name); !more.empty())
    ownFlags = ownFlags == "0" ? more : ownFlags + " | " + more;
  std::string full = overload.empty() ? name : name + "." + overload;
  std::string rest = use(corrections, full);
  while (!rest.empty()) {
    std::string argument = rest.substr(0, rest.find(", "));
    rest.erase(0, argument.size() + 2);
    if (!correct(schema, argument))
      problems += full + " has no argument to be corrected to '" + argument +
                  "': " + schema + "\n";
  }
}

void Facts::findUnusedRows() {
  for (const std::vector<Row> *rows : {&flags, &corrections})
    for (const Row &row : *rows)
      if (!row.isUsed)
        problems += std::string(row.name) +
                    " names no operator of LibTorch, or has two rows\n";
}
