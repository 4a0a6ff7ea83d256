//===- RunOption.cpp - What is known of an option of a run ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/RunOption.h"

#include "runtime/data/DataOptions.h"
#include "support/Format.h"

using namespace fsdp;

namespace {

struct Printer {
  std::string operator()(const bool *value) const {
    return *value ? "set" : "";
  }
  std::string operator()(const int *value) const {
    return std::to_string(*value);
  }
  std::string operator()(const uint64_t *value) const {
    return std::to_string(*value);
  }
  std::string operator()(const double *value) const {
    return formatNumber(*value);
  }
  template <typename T>
  std::string operator()(const std::optional<T> *value) const {
    return *value ? (*this)(&**value) : "";
  }
  std::string operator()(const std::chrono::milliseconds *value) const {
    return formatNumber(std::chrono::duration<double>(*value).count());
  }
  std::string operator()(const std::string *value) const { return *value; }
  std::string operator()(const std::vector<std::string> *value) const {
    return value->empty() ? "" : value->front();
  }
  std::string operator()(const Choice &choice) const {
    return std::string(choice.get(choice.value));
  }
};

} // namespace

std::string fsdp::toText(const OptionValue &value) {
  return std::visit(Printer(), value);
}

void fsdp::addFact(std::vector<RunFact> &facts, std::string_view name,
                   const OptionValue &value, const OptionValue &unset,
                   Agreed agreed) {
  if (agreed == Agreed::no)
    return;
  std::string text = toText(value);
  RunFact &fact = facts.emplace_back(RunFact{"--" + std::string(name), "", ""});
  if (text == toText(unset))
    return;
  bool isCompared = agreed == Agreed::value ||
                    (agreed == Agreed::kind && text == kSampleData);
  fact.value = isCompared ? text : "given";
  fact.shown = text == std::to_string(kUntilDataEnds) ? "not given" : text;
}
