//===- InitRules.cpp - Which parameter starts from what -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/InitRules.h"

#include "plan/FirstValues.h"
#include "plan/Shape.h"
#include "support/Nearest.h"
#include "support/Pattern.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>

using namespace fsdp;
using plan::InitKind;

namespace {

[[noreturn]] void fail(const std::string &message) {
  throw std::invalid_argument(message);
}

/// A parameter of an initialiser: a number, or one of some words.
struct Parameter {
  std::string_view name;
  std::optional<double> number;        ///< default; absent: required
  std::vector<std::string_view> words; ///< first: default
};

struct Initialiser {
  std::string_view name;
  std::vector<Parameter> parameters;
  bool isRandom = true;
};

const std::vector<std::string_view> kNonlinearities = {
    "leaky_relu", "relu", "linear", "sigmoid", "tanh", "selu"};

const std::vector<Initialiser> &getInitialisers() {
  static const std::vector<Parameter> kaiming = {
      {"a", 0.0, {}},
      {"mode", {}, {"fan_in", "fan_out"}},
      {"nonlinearity", {}, kNonlinearities}};
  static const std::vector<Initialiser> all = {
      {"normal", {{"mean", 0.0, {}}, {"std", 1.0, {}}}},
      {"trunc_normal",
       {{"mean", 0.0, {}}, {"std", 1.0, {}}, {"a", -2.0, {}}, {"b", 2.0, {}}}},
      {"uniform", {{"a", 0.0, {}}, {"b", 1.0, {}}}},
      {"xavier_uniform", {{"gain", 1.0, {}}}},
      {"xavier_normal", {{"gain", 1.0, {}}}},
      {"kaiming_uniform", kaiming},
      {"kaiming_normal", kaiming},
      {"zeros", {}, false},
      {"ones", {}, false},
      {"constant", {{"val", {}, {}}}, false},
      {"eye", {}, false},
      {"rope", {{"theta", 10000.0, {}}}, false},
  };
  return all;
}

const Initialiser &findInitialiser(std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const Initialiser &initialiser : getInitialisers()) {
    if (initialiser.name == name)
      return initialiser;
    names.push_back(initialiser.name);
    list += (list.empty() ? "" : ", ") + std::string(initialiser.name);
  }
  std::string_view nearest = findNearest(name, names);
  fail("expected a number or one of " + list + ", found '" + std::string(name) +
       "'" +
       (nearest.empty() ? ""
                        : "; did you mean '" + std::string(nearest) + "'?"));
}

std::string_view trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

std::optional<double> toNumber(std::string_view text) {
  if (text.starts_with('+'))
    text.remove_prefix(1);
  double value = 0;
  auto [rest, failure] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || rest != text.data() + text.size() ||
      !std::isfinite(value))
    return std::nullopt;
  return value;
}

/// "normal(mean, std)", for messages.
std::string describe(const Initialiser &initialiser) {
  std::string text;
  for (const Parameter &parameter : initialiser.parameters)
    text += (text.empty() ? "" : ", ") + std::string(parameter.name);
  return std::string(initialiser.name) + (text.empty() ? "" : "(" + text + ")");
}

void setArgument(const Initialiser &initialiser, const Parameter &parameter,
                 std::string_view value, InitCall &call) {
  std::string name(parameter.name);
  if (call.numbers.contains(name) || call.words.contains(name))
    fail("'" + name + "' stands twice in " + call.name + "(…)");
  if (!parameter.words.empty()) {
    if (std::ranges::find(parameter.words, value) == parameter.words.end()) {
      std::string list;
      for (std::string_view word : parameter.words)
        list += (list.empty() ? "" : ", ") + std::string(word);
      fail("'" + name + "' of " + call.name + " is one of " + list +
           ", found '" + std::string(value) + "'");
    }
    call.words[name] = value;
    return;
  }
  std::optional<double> number = toNumber(value);
  if (!number)
    fail("expected a number for '" + name + "' of " + describe(initialiser) +
         ", found '" + std::string(value) + "'");
  call.numbers[name] = *number;
}

void parseArguments(const Initialiser &initialiser, std::string_view text,
                    InitCall &call) {
  const std::vector<Parameter> &parameters = initialiser.parameters;
  size_t next = 0;
  while (!trim(text).empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view argument = trim(text.substr(0, comma));
    text = comma == text.size() ? "" : text.substr(comma + 1);
    const Parameter *parameter = nullptr;
    if (size_t equals = argument.find('='); equals != argument.npos) {
      std::string_view name = trim(argument.substr(0, equals));
      argument = trim(argument.substr(equals + 1));
      for (const Parameter &each : parameters)
        if (each.name == name)
          parameter = &each;
      if (!parameter)
        fail("'" + std::string(name) + "' is no argument of " +
             describe(initialiser));
    } else {
      if (next == parameters.size())
        fail("expected at most " + std::to_string(parameters.size()) +
             " arguments for " + describe(initialiser));
      parameter = &parameters[next++];
    }
    setArgument(initialiser, *parameter, argument, call);
  }
}

/// As torch.nn.init.calculate_gain.
double getGain(std::string_view nonlinearity, double slope) {
  if (nonlinearity == "tanh")
    return 5.0 / 3;
  if (nonlinearity == "relu")
    return std::numbers::sqrt2;
  if (nonlinearity == "leaky_relu")
    return std::sqrt(2 / (1 + slope * slope));
  if (nonlinearity == "selu")
    return 0.75;
  return 1;
}

struct Fans {
  double in, out;
};

/// As torch.nn.init: dims 0 and 1 are outputs and inputs, the rest a kernel.
Fans getFans(const InitCall &call, std::span<const int64_t> shape) {
  if (shape.size() < 2)
    fail(call.name + " needs a tensor of two or more dims, found shape " +
         toString(shape));
  double kernel = 1;
  for (int64_t size : shape.subspan(2))
    kernel *= static_cast<double>(size);
  return {static_cast<double>(shape[1]) * kernel,
          static_cast<double>(shape[0]) * kernel};
}

plan::InitializerT make(InitKind kind, std::vector<double> arguments) {
  plan::InitializerT init;
  init.kind = kind;
  init.arguments = std::move(arguments);
  return init;
}

plan::InitializerT makeUniform(double bound) {
  return make(InitKind::uniform, {-bound, bound});
}

std::variant<double, plan::InitializerT>
compute(const InitCall &call, std::span<const int64_t> shape) {
  auto number = [&](const char *name) { return call.numbers.at(name); };
  const std::string &name = call.name;
  if (name == "zeros")
    return 0.0;
  if (name == "ones")
    return 1.0;
  if (name == "constant")
    return number("val");
  if (name == "eye")
    return make(InitKind::eye, {});
  if (name == "rope")
    return make(InitKind::rope, {number("theta")});
  if (name == "normal")
    return make(InitKind::normal, {number("mean"), number("std")});
  if (name == "uniform")
    return make(InitKind::uniform, {number("a"), number("b")});
  if (name == "trunc_normal")
    return make(InitKind::trunc_normal,
                {number("mean"), number("std"), number("a"), number("b")});
  Fans fans = getFans(call, shape);
  double std;
  if (name.starts_with("xavier"))
    std = number("gain") * std::sqrt(2 / (fans.in + fans.out));
  else
    std = getGain(call.words.at("nonlinearity"), number("a")) /
          std::sqrt(call.words.at("mode") == "fan_in" ? fans.in : fans.out);
  if (name.ends_with("uniform"))
    return makeUniform(std::sqrt(3) * std);
  return make(InitKind::normal, {0, std});
}

} // namespace

InitCall fsdp::parseInitCall(std::string_view text) {
  text = trim(text);
  InitCall call;
  if (std::optional<double> number = toNumber(text)) {
    call.name = "constant";
    call.numbers["val"] = *number;
    return call;
  }
  size_t open = std::min(text.find('('), text.size());
  std::string_view name = trim(text.substr(0, open));
  // torch.nn.init's own spelling.
  if (name.ends_with('_'))
    name.remove_suffix(1);
  const Initialiser &initialiser = findInitialiser(name);
  call.name = name;
  if (open < text.size()) {
    if (!text.ends_with(')'))
      fail("expected a closing ')' behind the arguments of '" +
           std::string(text) + "'");
    parseArguments(initialiser, text.substr(open + 1, text.size() - open - 2),
                   call);
  }
  for (const Parameter &parameter : initialiser.parameters) {
    std::string key(parameter.name);
    if (call.numbers.contains(key) || call.words.contains(key))
      continue;
    if (!parameter.words.empty())
      call.words[key] = parameter.words.front();
    else if (parameter.number)
      call.numbers[key] = *parameter.number;
    else
      fail("expected a number for '" + key + "' of " + describe(initialiser));
  }
  return call;
}

std::variant<double, plan::InitializerT>
fsdp::resolveInit(const InitCall &call, std::span<const int64_t> shape,
                  plan::DType dtype) {
  std::variant<double, plan::InitializerT> value = compute(call, shape);
  if (const auto *init = std::get_if<plan::InitializerT>(&value))
    if (auto problem = checkInitializer(*init, shape, dtype))
      fail(call.name + " " + *problem);
  return value;
}

bool fsdp::isRandom(const InitCall &call) {
  return findInitialiser(call.name).isRandom;
}

const InitRule *fsdp::findRule(std::span<const InitRule> rules,
                               std::span<const std::string> names) {
  const InitRule *found = nullptr;
  for (const InitRule &rule : rules)
    for (const std::string &name : names)
      if (matchesPattern(rule.pattern, name))
        found = &rule;
  return found;
}
