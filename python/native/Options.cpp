//===- Options.cpp - Options of a session, from Python --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "python/native/Options.h"

#include "runtime/train/RunOptions.h"
#include "support/Error.h"
#include "support/Format.h"
#include "support/Nearest.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string_view>
#include <variant>

namespace nb = nanobind;
using namespace fsdp;

/// Of what a value may be at most in an error.
static constexpr size_t kMostShown = 60;

namespace {

/// Takes an option's value as its type says, which has just been found out.
class Reader {
public:
  Reader(const RunOption &option, nb::handle given)
      : option(option), bounds(option.traits.bounds), given(given) {}

  void operator()(bool *to) const {
    if (!nb::isinstance<nb::bool_>(given))
      refuse("True or False");
    *to = nb::cast<bool>(given);
  }
  void operator()(int *to) const { *to = readWhole<int>(); }
  void operator()(uint64_t *to) const { *to = readWhole<uint64_t>(); }
  void operator()(std::optional<uint64_t> *to) const {
    *to = readWhole<uint64_t>();
  }
  void operator()(double *to) const { *to = readNumber(); }
  void operator()(std::optional<double> *to) const { *to = readNumber(); }
  void operator()(std::chrono::milliseconds *to) const {
    *to = std::chrono::milliseconds(static_cast<int64_t>(readNumber() * 1000));
  }
  void operator()(std::string *to) const { *to = readText(given); }
  void operator()(std::vector<std::string> *to) const {
    to->clear();
    if (nb::isinstance<nb::str>(given) || nb::hasattr(given, "__fspath__"))
      return to->push_back(readText(given));
    if (!nb::hasattr(given, "__iter__"))
      refuse("a path, or several");
    for (nb::handle each : given)
      to->push_back(readText(each));
  }
  void operator()(const Choice &choice) const {
    std::string name, list;
    for (std::string_view each : choice.names)
      list += (list.empty() ? "'" : ", '") + std::string(each) + "'";
    if (!nb::try_cast(given, name) ||
        std::ranges::find(choice.names, name) == choice.names.end())
      refuse("one of " + list);
    choice.set(choice.value, name);
  }

private:
  [[noreturn]] void refuse(const std::string &expected) const {
    auto found = nb::cast<std::string>(nb::str(nb::repr(given)));
    if (found.size() > kMostShown)
      found = found.substr(0, kMostShown) + "…";
    throw Error(ErrorId::BadUsage, option.pythonName() + ": expected " +
                                       expected + ", found " + found + " (" +
                                       Py_TYPE(given.ptr())->tp_name + ")");
  }

  [[noreturn]] void refuseNumber(const std::string &kind) const {
    if (!bounds.hasLeast())
      refuse(kind);
    std::string least = formatNumber(bounds.least);
    refuse(bounds.isAbove
               ? kind + " above " + least
               : kind + " from " + least + " to " + formatNumber(bounds.most));
  }

  /// True and False are numbers in Python, but nobody's who means one.
  template <typename T>
  T readWhole() const {
    T number{};
    nb::object whole;
    if (!nb::isinstance<nb::bool_>(given))
      whole = nb::steal(PyNumber_Index(given.ptr()));
    if (!whole.is_valid())
      PyErr_Clear();
    if (!whole.is_valid() || !nb::try_cast(whole, number) ||
        !bounds.contains(static_cast<double>(number)))
      refuseNumber("a whole number");
    return number;
  }

  double readNumber() const {
    double number = PyFloat_AsDouble(given.ptr());
    bool isNone = PyErr_Occurred() || nb::isinstance<nb::bool_>(given);
    PyErr_Clear();
    if (isNone || !bounds.contains(number))
      refuseNumber("a number");
    return number;
  }

  std::string readText(nb::handle from) const {
    nb::object text = nb::borrow(from);
    if (option.traits.isPath)
      text = nb::steal(PyOS_FSPath(from.ptr()));
    if (!text.is_valid())
      PyErr_Clear();
    std::string read;
    if (!text.is_valid() || !nb::try_cast(text, read))
      refuse(option.traits.isPath ? "a path, a str or os.PathLike" : "a str");
    return read;
  }

  const RunOption &option;
  const Bounds &bounds;
  const nb::handle given;
};

[[noreturn]] void refuseName(const std::string &name) {
  std::vector<std::string> known = listSessionOptions();
  std::vector<std::string_view> names(known.begin(), known.end());
  std::string_view nearest = findNearest(name, names);
  std::string text =
      "Session() got an unexpected keyword argument '" + name + "'" +
      (nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?");
  throw nb::type_error(text.c_str());
}

} // namespace

std::vector<std::string> fsdp::listSessionOptions() {
  std::vector<std::string> names;
  for (const RunOption &option : listRunOptions())
    if (std::string name = option.pythonName(); !name.empty())
      names.push_back(std::move(name));
  return names;
}

LaunchOptions fsdp::readOptions(const std::string &artifact,
                                const nb::dict &options) {
  RunOptions run;
  run.launch.artifact = artifact;
  run.launch.session.givesValidation = true;
  for (auto [key, given] : options) {
    auto name = nb::cast<std::string>(key);
    auto option =
        std::ranges::find(listRunOptions(), name, &RunOption::pythonName);
    if (name.empty() || option == listRunOptions().end())
      refuseName(name);
    if (!given.is_none())
      std::visit(Reader(*option, given), option->in(run));
  }
  return run.launch;
}
