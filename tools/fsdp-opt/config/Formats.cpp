//===- Formats.cpp - How values of the config are written -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Formats.h"

#include <charconv>

using namespace fsdp;

static std::string withAdvice(std::string_view advice) {
  return advice.empty() ? "" : "; " + std::string(advice);
}

std::string fsdp::listChoices(const std::vector<std::string_view> &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0                  ? ""
             : i + 1 == names.size() ? " or "
                                     : ", ") +
            ("`" + std::string(names[i]) + "`");
  return text;
}

std::string fsdp::printNumber(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

bool Flag::read(const Value &value) const {
  return value.reader().readBool(value.node, value.key);
}

int64_t Whole::read(const Value &value) const {
  int64_t number = value.reader().readInt(value.node, value.key);
  if (number < least)
    value.fail("expected a number from " + std::to_string(least) + ", found " +
               value.node.Scalar() + withAdvice(advice));
  if (number > most)
    value.fail("expected at most " + std::to_string(most) + ", found " +
               value.node.Scalar());
  return number;
}

std::string Whole::describe() const {
  std::string text = "whole number from " + std::to_string(least);
  // Of steps it is no bound that anybody meets.
  return most < kMostSteps ? text + " to " + std::to_string(most) : text;
}

int64_t PowerOfTwo::read(const Value &value) const {
  int64_t number = value.reader().readInt(value.node, value.key);
  if (number < least || number > most || (number & (number - 1)) != 0)
    value.fail("expected a " + describe() + ", found " + value.node.Scalar());
  return number;
}

std::string PowerOfTwo::describe() const {
  return "power of two from " + std::to_string(least) + " to " +
         std::to_string(most);
}

double Number::read(const Value &value) const {
  double number = value.reader().readDouble(value.node, value.key);
  if (!holds(number))
    value.fail("expected a number " + std::string(range) + ", found " +
               value.node.Scalar() + withAdvice(advice));
  return number;
}

std::string Number::describe() const { return "number " + std::string(range); }

std::string Number::print(double value) const {
  return "`" + printNumber(value) + "`";
}

std::vector<std::string> NameList::read(const Value &value) const {
  auto names = value.reader().readStrings(value.node, value.key);
  if (names.empty() && !advice.empty())
    value.fail("expected a " + std::string(what) +
               ", or a list of them, found "
               "none" +
               withAdvice(advice));
  return names;
}

std::string NameList::describe() const {
  return std::string(what) + ", or list of " + std::string(what) + "s";
}
