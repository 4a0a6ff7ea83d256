//===- options-doc.cpp - Print what documents say of options --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/RunOptions.h"

#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

using namespace fsdp;

namespace {

using Lines = std::vector<std::string>;

/// Between two lines of a document.
struct Region {
  const char *begin, *end;
  /// What stands there from now on, of what stands there.
  Lines (*make)(const Lines &old);
};

//===----------------------------------------------------------------------===//
// Markdown
//===----------------------------------------------------------------------===//

/// "`--pin=none\|cores\|threads`": a bar would end the cell.
std::string describe(const RunOption &option, const OptionValue &value) {
  std::string given = option.value;
  if (const auto *choice = std::get_if<Choice>(&value))
    for (std::string_view name : choice->names)
      given += (given.empty() ? "" : "|") + std::string(name);
  std::string text = "`--" + option.name + (given.empty() ? "" : "=");
  for (char each : given)
    text += each == '|' ? "\\|" : std::string(1, each);
  return text + "`";
}

const char *describe(Agreed agreed) {
  switch (agreed) {
  case Agreed::no:
    return "";
  case Agreed::value:
    return "its value";
  case Agreed::whether:
  case Agreed::kind:
    return "whether it is given";
  }
  return "";
}

/// A person may have written more about an option than --help says: the last
/// cell of its row, by the option's name.
std::map<std::string, std::string> findMeanings(const Lines &rows) {
  std::map<std::string, std::string> meanings;
  for (const std::string &row : rows) {
    constexpr std::string_view begin = "| `--";
    size_t cell = 0;
    for (int i = 0; i < 3 && cell != std::string::npos; ++i)
      cell = row.find(" | ", cell + 1);
    if (!row.starts_with(begin) || cell == std::string::npos)
      continue;
    size_t end = row.find_first_of("=`", begin.size());
    std::string text = row.substr(cell + 3);
    meanings[row.substr(begin.size(), end - begin.size())] =
        text.substr(0, text.rfind(" |"));
  }
  return meanings;
}

Lines makeTable(const Lines &old) {
  RunOptions options;
  std::map<std::string, std::string> meanings = findMeanings(old);
  Lines lines = {"| option | in Python | alike on all ranks | meaning |",
                 "|---|---|---|---|"};
  for (const RunOption &option : listRunOptions()) {
    if (option.traits.isHidden)
      continue;
    std::string python = option.pythonName();
    const std::string &meaning = meanings[option.name];
    lines.push_back("| " + describe(option, option.in(options)) + " | " +
                    (python.empty() ? "" : "`" + python + "`") + " | " +
                    describe(option.agreed) + " | " +
                    (meaning.empty() ? option.help : meaning) + " |");
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// Python
//===----------------------------------------------------------------------===//

struct TypeName {
  bool isPath;

  std::string operator()(const bool *) const { return "bool"; }
  std::string operator()(const int *) const { return "int"; }
  std::string operator()(const uint64_t *) const { return "int"; }
  std::string operator()(const double *) const { return "float"; }
  template <typename T>
  std::string operator()(const std::optional<T> *) const {
    return (*this)(static_cast<const T *>(nullptr));
  }
  std::string operator()(const std::chrono::milliseconds *) const {
    return "float";
  }
  std::string operator()(const std::string *) const {
    return isPath ? "_Path" : "str";
  }
  std::string operator()(const std::vector<std::string> *) const {
    return isPath ? "_Path | Iterable[_Path]" : "Iterable[str]";
  }
  std::string operator()(const Choice &choice) const {
    std::string list;
    for (std::string_view name : choice.names)
      list += (list.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    return "Literal[" + list + "]";
  }
};

Lines makeMembers(const Lines &) {
  RunOptions options;
  Lines lines;
  for (const RunOption &option : listRunOptions())
    if (std::string name = option.pythonName(); !name.empty())
      lines.push_back(
          "    " + name + ": " +
          std::visit(TypeName{option.traits.isPath}, option.in(options)) +
          " | None");
  return lines;
}

constexpr Region kMarkdown = {"<!-- options of a run -->",
                              "<!-- end of options -->", makeTable};
constexpr Region kPython = {"    # Options of a run, by `ninja options-doc`:",
                            "    # End of options.", makeMembers};

void print(std::istream &file, const Region &region) {
  std::string line;
  auto copyTo = [&](const char *last) {
    while (std::getline(file, line)) {
      std::cout << line << "\n";
      if (line == last)
        return;
    }
    throw std::runtime_error("expected a line '" + std::string(last) + "'");
  };
  copyTo(region.begin);
  Lines old;
  while (std::getline(file, line) && line != region.end)
    old.push_back(line);
  if (line != region.end)
    throw std::runtime_error("expected a line '" + std::string(region.end) +
                             "'");
  for (const std::string &each : region.make(old))
    std::cout << each << "\n";
  std::cout << region.end << "\n" << file.rdbuf();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: fsdp-options-doc DOCUMENT.{md,pyi}\n";
    return 2;
  }
  std::string path = argv[1];
  std::ifstream file(path);
  try {
    print(file, path.ends_with(".pyi") ? kPython : kMarkdown);
  } catch (const std::exception &error) {
    std::cerr << path << ": " << error.what() << "\n";
    return 1;
  }
  return std::cout.good() ? 0 : 1;
}
