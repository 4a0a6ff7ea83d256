//===- options-doc.cpp - Print what documents say of options --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/RunOptions.h"
#include "tools/fsdp-opt/input/Task.h"

#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
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

/// A bar would end a cell.
std::string escapeBars(std::string_view from) {
  std::string text;
  for (char each : from)
    text += each == '|' ? "\\|" : std::string(1, each);
  return text;
}

/// "`--pin=none\|cores\|threads`".
std::string describe(const RunOption &option, const OptionValue &value) {
  std::string given = option.value;
  if (const auto *choice = std::get_if<Choice>(&value))
    for (std::string_view name : choice->names)
      given += (given.empty() ? "" : "|") + std::string(name);
  return "`--" + option.name + (given.empty() ? "" : "=") + escapeBars(given) +
         "`";
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

/// A person may have written more about an option than --help says: what stands
/// behind so many cells of its row, by the option's name.
std::map<std::string, std::string> findMeanings(const Lines &rows, int cells) {
  std::map<std::string, std::string> meanings;
  for (const std::string &row : rows) {
    size_t cell = 0;
    for (int i = 0; i < cells && cell != std::string::npos; ++i)
      cell = row.find(" | ", cell + 1);
    size_t begin = row.find_first_not_of('-', 3);
    if (!row.starts_with("| `-") || cell == std::string::npos)
      continue;
    std::string text = row.substr(cell + 3);
    meanings[row.substr(begin, row.find_first_of("=[ `", begin) - begin)] =
        text.substr(0, text.rfind(" |"));
  }
  return meanings;
}

Lines makeRunTable(const Lines &old) {
  RunOptions options;
  std::map<std::string, std::string> meanings = findMeanings(old, 3);
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

/// As the table of tasks in the document names them.
std::string describe(Tasks tasks) {
  constexpr std::pair<Task, const char *> names[] = {
      {Task::Print, "print"},       {Task::Predict, "predict"},
      {Task::Opt, "passes"},        {Task::Capture, "capture"},
      {Task::Compile, "compile"},   {Task::CompileWorlds, "worlds"},
      {Task::Explain, "explain"},   {Task::Compare, "compare"},
      {Task::Simulate, "simulate"}, {Task::ReadConfig, "read-config"}};
  std::string text;
  bool isAll = true;
  for (auto [task, name] : names) {
    // Nothing is done there that others could have an option for.
    isAll &= tasks.contains(task) || task == Task::ReadConfig;
    if (tasks.contains(task))
      text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return isAll ? "all" : text;
}

Lines makeOptTable(const Lines &old) {
  std::map<std::string, std::string> meanings = findMeanings(old, 2);
  Lines lines = {"| option | with | meaning |", "|---|---|---|"};
  auto add = [&](const std::string &name, const std::string &value, Tasks tasks,
                 const std::string &help) {
    const std::string &meaning = meanings[name];
    lines.push_back("| `" + std::string(name.size() == 1 ? "-" : "--") + name +
                    (name.size() == 1 ? " " : "") + escapeBars(value) + "` | " +
                    describe(tasks) + " | " +
                    (meaning.empty() ? help : meaning) + " |");
  };
#define FSDP_OPT_OPTION(name, value, tasks, help) add(name, value, tasks, help);
#include "tools/fsdp-opt/input/Options.def"
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

/// In their order.
const std::vector<Region> kMarkdown = {
    {"<!-- options of fsdp-opt -->", "<!-- end of options -->", makeOptTable},
    {"<!-- options of a run -->", "<!-- end of options -->", makeRunTable}};
const std::vector<Region> kPython = {
    {"    # Options of a run, by `ninja options-doc`:", "    # End of options.",
     makeMembers}};

/// The lines in front of `last`, which is left behind as well.
Lines readTo(std::istream &file, const std::string &last) {
  Lines lines;
  std::string line;
  while (std::getline(file, line) && line != last)
    lines.push_back(line);
  if (!file)
    throw std::runtime_error("expected a line '" + last + "'");
  return lines;
}

void print(const Lines &lines, const char *last) {
  for (const std::string &line : lines)
    std::cout << line << "\n";
  std::cout << last << "\n";
}

void print(std::istream &file, const std::vector<Region> &regions) {
  for (const Region &region : regions) {
    print(readTo(file, region.begin), region.begin);
    print(region.make(readTo(file, region.end)), region.end);
  }
  std::cout << file.rdbuf();
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
