//===- PtxProgram.cpp - PTX, read
//-------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/kernels/PtxProgram.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <stdexcept>

using namespace fsdp;

bool PtxInstruction::has(std::string_view word) const {
  return std::ranges::find(words, word) != words.end();
}

static std::string trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos)
    return "";
  return std::string(
      text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

/// Parts between commas that are in no brackets.
static std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  int depth = 0;
  std::string part;
  for (char c : text) {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if ((c == ',' || c == '|') && depth == 0) {
      parts.push_back(trim(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trim(part).empty())
    parts.push_back(trim(part));
  return parts;
}

PtxProgram::PtxProgram(std::string_view module, const std::string &entry) {
  std::istringstream lines{std::string(module)};
  bool isInside = false;
  std::smatch match;
  static const std::regex variable(R"(\.shared .*?([\w$]+)\[(\d+)\];)"),
      parameter(R"(\.param .*?([\w$]+_param_\d+))"),
      head(R"(\.visible \.entry ([\w$]+)\()");
  for (std::string line; std::getline(lines, line);) {
    line = trim(std::string_view(line).substr(0, line.find("//")));
    if (std::regex_search(line, match, variable)) {
      shared[match[1]] = sharedBytes;
      sharedBytes += (std::stoull(match[2]) + 15) / 16 * 16;
    } else if (std::regex_search(line, match, head)) {
      isInside = match[1] == entry;
    } else if (isInside && line.starts_with(".param")) {
      if (std::regex_search(line, match, parameter))
        parameters.push_back(match[1]);
    } else if (isInside && !line.empty() && line[0] != '.' && line[0] != ')' &&
               line[0] != '{' && line[0] != '}') {
      readLine(line);
    }
  }
  if (code.empty())
    throw std::runtime_error("there is no entry " + entry);
}

PtxOperand PtxProgram::readOperand(std::string_view text) {
  PtxOperand operand;
  using enum PtxOperand::Kind;
  if (text.front() == '{') {
    operand.kind = list;
    for (const std::string &part : split(text.substr(1, text.size() - 2)))
      operand.list.push_back(readOperand(part));
  } else if (text.front() == '[') {
    text = text.substr(1, text.size() - 2);
    size_t plus = text.find('+');
    operand = readOperand(text.substr(0, plus));
    if (plus != std::string_view::npos)
      operand.number +=
          uint64_t(std::stoll(std::string(text.substr(plus + 1))));
  } else if (text == "_") {
    operand.kind = none;
  } else if (text == "%tid.x" || text == "%ctaid.x") {
    operand.kind = text == "%tid.x" ? thread : block;
  } else if (text.front() == '%') {
    operand.kind = reg;
    auto [found, isNew] = names.try_emplace(std::string(text), registers);
    registers += isNew;
    operand.reg = found->second;
  } else if (text.starts_with("0f") || text.starts_with("0x")) {
    operand.kind = number;
    operand.number = std::stoull(std::string(text.substr(2)), nullptr, 16);
  } else if (std::isdigit(text.front()) || text.front() == '-') {
    operand.kind = number;
    operand.number = text.front() == '-'
                         ? uint64_t(std::stoll(std::string(text)))
                         : std::stoull(std::string(text));
  } else {
    operand.kind = number;
    operand.name = text;
    if (auto found = shared.find(operand.name); found != shared.end())
      operand.number = found->second;
  }
  return operand;
}

void PtxProgram::readLine(std::string line) {
  if (line.back() == ':') {
    labels[line.substr(0, line.size() - 1)] = code.size();
    return;
  }
  if (line.back() != ';')
    throw std::runtime_error("a line that is not understood: " + line);
  line.pop_back();
  PtxInstruction instruction;
  if (line.front() == '@') {
    instruction.isNegated = line[1] == '!';
    size_t end = line.find_first_of(" \t");
    std::string name =
        line.substr(1 + instruction.isNegated, end - 1 - instruction.isNegated);
    instruction.predicate = int(readOperand(name).reg);
    line = trim(line.substr(end));
  }
  size_t end = line.find_first_of(" \t");
  std::istringstream name(line.substr(0, end));
  for (std::string word; std::getline(name, word, '.');)
    instruction.words.push_back(word);
  if (end != std::string::npos)
    for (const std::string &part : split(line.substr(end)))
      instruction.operands.push_back(readOperand(part));
  code.push_back(std::move(instruction));
}
