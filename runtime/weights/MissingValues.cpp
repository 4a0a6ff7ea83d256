//===- MissingValues.cpp - Tensors that nobody gives a value --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/MissingValues.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

using namespace fsdp;

static constexpr size_t kListed = 4;

/// Buffers whose names say what they start from.
static constexpr std::pair<std::string_view, const char *> kBuffers[] = {
    {"inv_freq", "rope(10000)"},
    {".running_mean", "zeros"},
    {".running_var", "ones"},
    {".num_batches_tracked", "zeros"},
};

std::string fsdp::listMissing(const std::vector<MissingValue> &missing) {
  std::string text = std::to_string(missing.size()) +
                     (missing.size() == 1 ? " tensor (" : " tensors (");
  for (size_t i = 0; i < std::min(missing.size(), kListed); ++i)
    text += (i ? ", '" : "'") + missing[i].name + "'";
  return text + (missing.size() > kListed ? ", …)" : ")");
}

/// The last `components` components of the name behind a star, "*.norm.weight";
/// the whole name where it has no more or the first of them is a number, which
/// would say nothing.
static std::string getPattern(const std::string &name, int components) {
  size_t begin = name.size();
  for (int i = 0; i < components; ++i) {
    if (begin == 0)
      return name;
    begin = name.rfind('.', begin - 1);
    if (begin == std::string::npos)
      return name;
  }
  bool isNumber = std::isdigit(static_cast<unsigned char>(name[begin + 1]));
  return isNumber ? name : "*" + name.substr(begin);
}

std::string fsdp::suggestRules(const std::vector<MissingValue> &missing) {
  // The last rule that matches counts: general ones first.
  std::vector<std::pair<std::string, std::string>> general, special;
  auto add = [](auto &rules, std::string pattern, const char *value) {
    std::pair<std::string, std::string> rule(std::move(pattern), value);
    if (std::ranges::find(rules, rule) == rules.end())
      rules.push_back(std::move(rule));
  };
  for (const MissingValue &value : missing) {
    if (!value.isParameter) {
      for (auto [suffix, rule] : kBuffers)
        if (value.name.ends_with(suffix))
          add(special, "*" + std::string(suffix), rule);
    } else if (value.shape.size() >= 2) {
      add(general, getPattern(value.name, 1), "normal(0, 0.02)");
    } else if (value.name.ends_with("bias")) {
      add(special, getPattern(value.name, 1), "zeros");
    } else {
      add(special, getPattern(value.name, 2), "ones");
    }
  }
  std::string text;
  for (const auto *rules : {&general, &special})
    for (const auto &[pattern, value] : *rules)
      text += "\n  \"" + pattern + "\": " + value;
  return text.empty() ? text : "init:" + text;
}
