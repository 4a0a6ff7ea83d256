//===- OptionChecks.cpp - Options that have no effect ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/OptionChecks.h"

#include "support/Error.h"

#include <algorithm>

using namespace fsdp;

namespace {

[[noreturn]] void refuseOption(const std::string &message) {
  throw Error(ErrorId::BadUsage, message);
}

constexpr OptionRow kOptions[] = {
#define FSDP_OPT_OPTION(name, value, tasks, help) {name, value, tasks, help},
#include "tools/fsdp-opt/input/Options.def"
};

/// MLIR's, by the beginnings of their names; the first row that fits counts.
/// The last one: passes, and its own ways to run them.
constexpr OptionRow kOptionsOfMlir[] = {
    {"color", "", kAllTasks, ""},
    {"debug", "", Task::Opt | kOfModels, ""},
    {"mlir-generate-reproducer", "", kPasses, ""},
    {"mlir-", "", Task::Opt | kOfModels, ""},
    // Decisions are made once, for what is kept, and told of one plan.
    {"remark", "", kPasses | Task::Compile, ""},
    {"", "", kPasses, ""},
};

constexpr Tasks findTasks(std::string_view name) {
  if (const auto *own = std::ranges::find(kOptions, name, &OptionRow::name);
      own != std::end(kOptions))
    return own->tasks;
  return std::ranges::find_if(
             kOptionsOfMlir,
             [&](const OptionRow &row) { return name.starts_with(row.name); })
      ->tasks;
}

/// Where there is more to say of an option than that it has no effect with a
/// task; "%" is the input. The first row that fits counts.
struct Reason {
  std::string_view option;
  Tasks tasks;
  std::string_view text;
};
constexpr Reason kReasons[] = {
    {"config", kOfArtifacts,
     "'%' is an artifact, which is compiled already; give the model it was "
     "made from"},
    {"explain", kOfArtifacts,
     "'%' is an artifact, which is compiled already; give the model it was "
     "made from"},
    {"report", kOfArtifacts,
     "an artifact can only be printed; give --report when it is compiled"},
    {"memory-map", kOfArtifacts,
     "an artifact holds addresses but no lifetimes to draw; give --memory-map "
     "when it is compiled"},
    {"o", kOfArtifacts, "an artifact can only be printed; write -o -"},
    {"cluster", Task::Print,
     "--cluster says what the step of an artifact is predicted for; add "
     "--print-plan"},
    {"measured", Task::Print,
     "--measured has times for a prediction; add --print-plan and --cluster"},

    {"compare", Task::Explain,
     "--compare is one question and --explain another; ask them one by one"},
    {"simulate", Task::Explain,
     "--simulate is one question and --explain another; ask them one by one"},
    {"print-plan", Task::Compare,
     "--compare is one question and --print-plan another; ask them one by one"},
    {"print-plan", Task::Simulate,
     "--simulate is one question and --print-plan another; ask them one by "
     "one"},
    {"config", Task::Compare,
     "--compare names the configs itself; take --config away"},
    {"simulate", Task::Compare,
     "--compare predicts the configs' own numbers of ranks; give --simulate "
     "without it"},
    {"o", kPredictions,
     "--compare and --simulate print to the terminal and compile nothing to "
     "keep; take -o away"},
    {"world", Task::Simulate,
     "--simulate says the numbers of ranks; take --world away"},

    {"print-plan", kPasses,
     "--print-plan needs --config=FILE.yaml, or an artifact"},
    {"print-plan", Task::Explain,
     "--explain compiles for several numbers of ranks; --print-plan predicts "
     "one, without it"},
    {"cluster", kPasses, "--cluster needs --config=FILE.yaml, or an artifact"},
    {"measured", kPasses,
     "--measured needs --config=FILE.yaml, or an artifact"},
    {"world", kPasses, "--world needs --config=FILE.yaml"},
    {"report", kPasses, "--report needs --config=FILE.yaml"},
    {"memory-map", Task::Capture,
     "--memory-map needs --config=FILE.yaml, or a planned program"},
    {"report", Task::Explain,
     "--explain compiles for several numbers of ranks; --report is of one, "
     "without it"},
    {"memory-map", Task::Explain,
     "--explain compiles for several numbers of ranks; --memory-map draws one, "
     "without it"},
    {"weights", kPasses, "--weights needs --config=FILE.yaml"},
    {"save-stages", Task::Opt,
     "--save-stages needs a model file or --config=FILE.yaml"},
    {"kernel-code", kPredictions,
     "--compare and --simulate keep no artifact; take --kernel-code away"},
    {"o", Task::Explain, "--explain prints to the terminal; take -o away"},
    {"o", Task::ReadConfig,
     "--read-config prints to the terminal; take -o away"},
    {"config", Task::ReadConfig,
     "--read-config names the file itself; take --config away"},
};

constexpr bool isContradicted(const Reason &reason) {
  for (unsigned bit = 1; bit <= static_cast<unsigned>(Task::ReadConfig);
       bit *= 2)
    if (auto task = static_cast<Task>(bit);
        reason.tasks.contains(task) && findTasks(reason.option).contains(task))
      return true;
  return false;
}
static_assert(std::ranges::none_of(kReasons, isContradicted),
              "what has an effect is not refused");

/// What has an effect only beside another option.
struct Need {
  std::string_view option; ///< empty: the task itself
  Tasks tasks;
  std::string_view other, text;
};
constexpr Need kNeeds[] = {
    {"profile", kAllTasks, "print-plan",
     "--profile shows what was measured beside what is predicted; add "
     "--print-plan"},
    {"", Task::Predict, "cluster",
     "--print-plan of an artifact needs --cluster, such as --cluster=h100x8"},
    {"", Task::Simulate, "config", "--simulate needs --config=FILE.yaml"},
    {"cluster", Task::Explain, "config",
     "--cluster needs --config=FILE.yaml, or an artifact"},
    {"measured", Task::Explain, "config",
     "--measured needs --config=FILE.yaml, or an artifact"},
};

/// What a program has, and a model file leaves open.
constexpr std::pair<std::string_view, std::string_view> kOfModelFiles[] = {
    {"input", "--input gives shapes to a model file (.pt2, .pt); '%' holds a "
              "program, which has its own"},
    {"output", "--output chooses among the outputs of a model file (.pt2, "
               ".pt); '%' holds a program, which has those that were kept"},
    {"loss", "--loss chooses among the outputs of a model file (.pt2, .pt); "
             "'%' holds a program, which has its loss"},
    {"dim", "--dim gives sizes to a model file (.pt2); '%' holds a program, "
            "which has its own"},
};

/// One command line.
class Checks {
public:
  Checks(const CommandLine &line, const std::vector<std::string> &given)
      : line(line), given(given) {}

  void run() const {
    checkNeeds();
    checkReasons();
    if (line.inputKind == InputKind::Program)
      for (const auto &[option, text] : kOfModelFiles)
        if (has(option))
          refuseOf(text);
    checkPlans();
    if (has("kernel-code") && (kCompiles | Task::Opt).contains(line.task) &&
        line.outputKind != OutputKind::Artifact)
      refuseOption("--kernel-code is what the artifact holds beside the "
                   "program; add -o STEP.fsdp, or take it away");
    if (line.task == Task::Capture && line.outputKind == OutputKind::Artifact)
      refuseOption(
          "an artifact needs a config: add --config=FILE.yaml, or write the "
          "captured program to a .mlir file");
    checkEffects();
  }

private:
  bool has(std::string_view option) const {
    return std::ranges::find(given, option) != given.end();
  }

  [[noreturn]] void refuseOf(std::string_view text) const {
    std::string message(text);
    if (size_t place = message.find('%'); place != std::string::npos)
      message.replace(place, 1, line.input);
    refuseOption(message);
  }

  void checkNeeds() const {
    for (const Need &need : kNeeds)
      if (need.tasks.contains(line.task) && !has(need.other) &&
          (need.option.empty() || has(need.option)))
        refuseOf(need.text);
  }

  void checkReasons() const {
    for (const Reason &reason : kReasons)
      if (reason.tasks.contains(line.task) && has(reason.option))
        refuseOf(reason.text);
  }

  /// Several numbers of ranks are for one artifact, and what is said of one
  /// plan needs one.
  void checkPlans() const {
    if (line.planWorlds.empty() || line.task == Task::Explain)
      return;
    if (line.task == Task::ReadConfig)
      refuseOption("--read-config reads a config for one number of ranks; give "
                   "--world one");
    if (kOfArtifacts.contains(line.task))
      refuseOption(
          "--world names the one plan of an artifact that is meant; give "
          "one number");
    if (line.task == Task::Compare)
      refuseOption(
          "--compare predicts one number of ranks; give --world one, or "
          "name several with --simulate");
    if (line.outputKind != OutputKind::Artifact)
      refuseOption("several numbers of ranks are plans of one artifact; add -o "
                   "STEP.fsdp, or give --world one number");
    for (const char *name :
         {"print-plan", "memory-map", "save-stages", "cluster", "measured"})
      if (has(name))
        refuseOption("--" + std::string(name) +
                     " is of one plan, and --world names several; give it one "
                     "number, or name the plan when the artifact is there");
  }

  void checkEffects() const {
    for (const std::string &name : given) {
      if (findTasks(name).contains(line.task))
        continue;
      if (kOfArtifacts.contains(line.task))
        refuseOption(
            "--" + name +
            " has no effect on an artifact, which can only be printed; "
            "leave it out");
      refuseOption(
          "--" + name + " has no effect with " + nameOf(line.task) +
          "; leave it out, or give it with the program that a run without "
          "prints (-o FILE.mlir)");
    }
  }

  static std::string nameOf(Task task) {
    return task == Task::Explain      ? "--explain"
           : task == Task::Compare    ? "--compare"
           : task == Task::Simulate   ? "--simulate"
           : task == Task::ReadConfig ? "--read-config"
                                      : "--config";
  }

  const CommandLine &line;
  const std::vector<std::string> &given;
};

} // namespace

std::span<const OptionRow> fsdp::listOptions() { return kOptions; }

void fsdp::checkOptions(const CommandLine &line,
                        const std::vector<std::string> &given) {
  Checks(line, given).run();
}
