//===- CommandLine.cpp - The arguments of fsdp-opt ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/CommandLine.h"

#include "kernels/GivenCode.h"
#include "support/Nearest.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/input/Help.h"
#include "tools/fsdp-opt/input/InputFile.h"
#include "tools/fsdp-opt/input/OptionChecks.h"

#include "mlir/IR/Dialect.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include <unistd.h>

using namespace fsdp;
namespace cl = llvm::cl;

/// More than any machine has; keeps sizes far from overflow.
static constexpr int64_t kMaxWorldSize = 1 << 20;
static constexpr int64_t kMostSimulated = 1 << 14;

namespace {
/// Options beside those that MLIR registers; what is said of them is in
/// Options.def.
struct Options {
  Options() {
    for (const OptionRow &row : listOptions())
      if (cl::Option *option = cl::getRegisteredOptions().lookup(row.name)) {
        option->setDescription(row.help);
        llvm::StringRef value(row.value);
        value.consume_front("[") && value.consume_back("]");
        option->setValueStr(value.ltrim("= "));
      }
  }

  cl::opt<std::string> input{cl::Positional, cl::desc("MODEL"), cl::init("-")};
  cl::opt<std::string> output{"o", cl::init("-")};
  cl::opt<std::string> config{"config"};
  cl::opt<std::string> readConfig{"read-config"};
  cl::opt<std::string> report{"report"};
  cl::opt<std::string> memoryMap{"memory-map"};
  cl::opt<std::string> cluster{"cluster"};
  cl::opt<std::string> measured{"measured"};
  cl::list<std::string> planViews{"print-plan", cl::ValueOptional};
  cl::opt<std::string> profile{"profile"};
  cl::list<std::string> compared{"compare", cl::multi_val(2)};
  cl::opt<std::string> worlds{"simulate", cl::ValueOptional};
  cl::opt<std::string> stages{"save-stages"};
  cl::opt<std::string> world{"world"};
  cl::list<std::string> inputs{"input"};
  cl::list<std::string> outputs{"output"};
  cl::opt<std::string> loss{"loss"};
  cl::list<std::string> dims{"dim"};
  cl::list<std::string> weights{"weights"};
  cl::list<std::string> kernelCode{"kernel-code", cl::CommaSeparated};
  cl::opt<bool> explain{"explain"};
  cl::opt<bool> verbose{"verbose"};
};

[[noreturn]] void refuse(const std::string &message) {
  throw Error(ErrorId::BadUsage, message);
}

/// The options whose names are nearest to that of `argument`, quoted.
std::string suggestOptions(llvm::StringRef argument) {
  llvm::StringRef name = argument.ltrim('-').split('=').first;
  std::vector<std::string_view> all, holding;
  for (const auto &entry : cl::getRegisteredOptions()) {
    llvm::StringRef each = entry.first;
    all.emplace_back(each);
    if (name.size() >= 4 && each.contains(name))
      holding.emplace_back(each);
  }
  // Shorter names first: they are nearer.
  std::ranges::sort(holding, [](std::string_view a, std::string_view b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  if (holding.size() > 3)
    holding.resize(3);
  if (std::string_view nearest = findNearest(name, all);
      holding.empty() && !nearest.empty())
    holding = {nearest};
  std::string text;
  for (std::string_view each : holding)
    text += (text.empty() ? "'--" : " or '--") + std::string(each) + "'";
  return text;
}

/// LLVM's message without the program's name and its hints.
std::string tidyParserMessage(llvm::StringRef text) {
  llvm::StringRef first = text.trim().split('\n').first;
  if (size_t colon = first.find(": "); colon != llvm::StringRef::npos)
    first = first.drop_front(colon + 2);
  std::string message = first.split("  Try:").first.trim().str();
  if (!message.empty() && message.back() == '.')
    message.pop_back();
  if (!message.empty())
    message[0] = static_cast<char>(std::tolower(message[0]));
  // LLVM's own suggestion may be as far as '-p' from '--pipeline'.
  llvm::StringRef argument = first.split("argument '").second.split('\'').first;
  if (std::string names = suggestOptions(argument);
      !argument.empty() && !names.empty())
    message += "; did you mean " + names + "?";
  return message + (message.ends_with('?') ? " " : "; ") +
         "see fsdp-opt --help";
}

/// IR in and IR out takes any name, as mlir-opt does.
OutputKind classifyOutput(const CommandLine &line) {
  const std::string &path = line.output;
  if (hasSuffix(path, ".mlirbc"))
    return OutputKind::Bytecode;
  if (hasSuffix(path, ".fsdp"))
    return OutputKind::Artifact;
  if (path == "-" || hasSuffix(path, ".mlir") || line.task == Task::Opt)
    return OutputKind::Text;
  refuse("-o '" + path +
         "': the suffix says what to write; expected .fsdp (the artifact), "
         ".mlir or .mlirbc (the program of the last stage), or -");
}

void checkPlanView(const std::string &path) {
  static constexpr std::string_view suffixes[] = {".html", ".txt", ".json",
                                                  ".trace"};
  if (path == "-" || std::ranges::any_of(suffixes, [&](auto suffix) {
        return hasSuffix(path, suffix);
      }))
    return;
  refuse("--print-plan=" + path +
         ": the suffix says what to write; expected .html (a page to look at), "
         ".txt (tables), .json, or .trace (for ui.perfetto.dev)");
}

/// A person who gives no input would wait for ever.
void checkTerminal(int argc, char **argv, bool hasInput) {
  if (hasInput || !isatty(STDIN_FILENO))
    return;
  for (int i = 1; i < argc; ++i)
    if (llvm::StringRef name = llvm::StringRef(argv[i]).ltrim('-');
        name == "list-passes" || name == "show-dialects")
      return;
  refuse("no input is given; name a model (.pt2, .pt), a program (.mlir, "
         ".mlirbc) or an artifact (.fsdp), or write - for standard input");
}

/// "4,64"; false if that is no list of sizes.
bool parseSizes(llvm::StringRef text, std::vector<int64_t> &sizes) {
  llvm::SmallVector<llvm::StringRef> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts)
    if (part.trim().getAsInteger(10, sizes.emplace_back()) || sizes.back() < 0)
      return false;
  return true;
}
} // namespace

InputShape fsdp::parseInputShape(std::string_view text) {
  auto fail = [&]() {
    refuse(
        "--input=" + std::string(text) +
        ": expected NAME:TYPE[SIZES] as in --input=x:f32[4,64], with TYPE one "
        "of f32, f64, f16, bf16, i64, i32, i16, i8, u8, i1");
  };
  size_t colon = text.find(':'), open = text.find('[');
  if (colon == std::string_view::npos || open == std::string_view::npos ||
      colon == 0 || open < colon || text.back() != ']')
    fail();
  InputShape shape;
  shape.name = text.substr(0, colon);
  shape.dtype = text.substr(colon + 1, open - colon - 1);
  static constexpr std::string_view types[] = {"f32", "f64", "f16", "bf16",
                                               "i64", "i32", "i16", "i8",
                                               "u8",  "i1",  "bool"};
  if (std::ranges::find(types, shape.dtype) == std::end(types))
    fail();
  // As MLIR prints them.
  if (shape.dtype == "u8")
    shape.dtype = "ui8";
  if (shape.dtype == "bool")
    shape.dtype = "i1";
  llvm::StringRef sizes(text.substr(open + 1, text.size() - open - 2));
  if (sizes.empty())
    return shape;
  if (!parseSizes(sizes, shape.shape))
    fail();
  return shape;
}

DimValues fsdp::parseDimValues(std::string_view text) {
  auto fail = [&]() {
    refuse("--dim=" + std::string(text) +
           ": expected NAME=SIZE as in --dim=s17=2048, or NAME.DIM=SIZE as in "
           "--dim=x.1=2048; several programs with --dim=s17=1024,2048");
  };
  auto [name, sizes] = llvm::StringRef(text).rsplit('=');
  DimValues dim{name.trim().str(), {}};
  if (dim.name.empty() || sizes.empty() || !parseSizes(sizes, dim.values))
    fail();
  return dim;
}

/// "8,64": numbers of ranks.
static std::vector<int64_t> parseWorlds(const std::string &option,
                                        const std::string &text,
                                        const std::string &expected) {
  std::vector<int64_t> worlds;
  if (!parseSizes(text, worlds) || llvm::any_of(worlds, [](int64_t each) {
        return each < 1 || each > kMaxWorldSize;
      }))
    refuse(option + "=" + text + ": expected " + expected);
  return worlds;
}

/// Powers of two.
static std::vector<int64_t> listSimulated() {
  std::vector<int64_t> worlds;
  for (int64_t world = 8; world <= kMostSimulated; world *= 2)
    worlds.push_back(world);
  return worlds;
}

/// Whether help or the version was asked for, and is printed.
static bool printHelp(int argc, char **argv) {
  bool isHelp = argc == 1 && isatty(STDIN_FILENO);
  for (int i = 1; i < argc && !isHelp; ++i) {
    std::string_view argument = argv[i];
    isHelp = argument == "--help" || argument == "-h" || argument == "-help";
    if (argument == "--version") {
      llvm::outs() << "fsdp-opt " FSDP_VERSION " (MLIR " LLVM_VERSION_STRING
                      ")\n";
      return true;
    }
  }
  if (isHelp)
    llvm::outs() << getHelp();
  return isHelp;
}

static std::string getName(llvm::StringRef argument) {
  return argument.ltrim('-').split('=').first.str();
}

/// Of all arguments that are options.
static std::vector<std::string> listNames(int argc, char **argv) {
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i)
    if (std::string name = getName(argv[i]); argv[i][0] == '-' && !name.empty())
      names.push_back(std::move(name));
  return names;
}

/// With defaults of ours for options of MLIR, which a person may still set.
static void parseArguments(int argc, char **argv) {
  std::vector<const char *> arguments(argv, argv + argc);
  std::vector<std::string> given = listNames(argc, argv);
  for (const char *unset :
       {"--mlir-print-op-on-diagnostic=false", "--mlir-use-nameloc-as-prefix"})
    if (!llvm::is_contained(given, getName(unset)))
      arguments.insert(arguments.begin() + 1, unset);
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  if (!cl::ParseCommandLineOptions(static_cast<int>(arguments.size()),
                                   arguments.data(), "", &stream))
    refuse(messages.empty() ? "an option has a value that it does not take, as "
                              "said above; see fsdp-opt --help-list"
                            : tidyParserMessage(messages));
}

static void checkNames(const Options &options) {
  for (const cl::opt<std::string> *option :
       {&options.config, &options.readConfig, &options.report,
        &options.memoryMap, &options.stages, &options.cluster,
        &options.measured, &options.profile, &options.loss, &options.output})
    if (option->getNumOccurrences() && option->empty())
      refuse((option->ArgStr == "o" ? "-" : "--") + option->ArgStr.str() +
             " needs a name");
  if (llvm::is_contained(options.weights, ""))
    refuse("--weights needs a name");
}

static void readWorld(const Options &options, CommandLine &line) {
  if (!options.world.getNumOccurrences())
    return;
  std::vector<int64_t> worlds = parseWorlds(
      "--world", options.world,
      "a number of ranks from 1 to " + std::to_string(kMaxWorldSize) +
          ", or several, as in --world=1,2,4");
  std::ranges::sort(worlds);
  if (std::ranges::adjacent_find(worlds) != worlds.end())
    refuse("--world=" + options.world +
           ": a number of ranks is named twice; name each once");
  if (worlds.size() == 1)
    line.world = worlds.front();
  else
    line.planWorlds = std::move(worlds);
}

static void readKernelCode(const Options &options, CommandLine &line) {
  for (const std::string &target : options.kernelCode) {
    if (!isCodeTarget(target))
      refuse("--kernel-code=" + target + ": expected " + listCodeTargets() +
             ", or several with commas between them");
    if (!llvm::is_contained(line.kernelCode, target))
      line.kernelCode.push_back(target);
  }
}

static CommandLine readOptions(const Options &options) {
  checkNames(options);
  CommandLine line;
  line.input = options.input;
  line.output = options.output;
  line.config = options.config;
  line.readConfig = options.readConfig;
  line.report = options.report;
  line.memoryMap = options.memoryMap;
  line.cluster = options.cluster;
  line.measured = options.measured;
  line.profile = options.profile;
  for (const std::string &path : options.planViews)
    checkPlanView(line.planViews.emplace_back(path.empty() ? "-" : path));
  line.compared.assign(options.compared.begin(), options.compared.end());
  if (options.worlds.getNumOccurrences())
    line.worlds = options.worlds.empty()
                      ? listSimulated()
                      : parseWorlds("--simulate", options.worlds,
                                    "numbers of ranks, as in "
                                    "--simulate=8,64,1024");
  line.stagesFolder = options.stages;
  line.explain = options.explain;
  line.verbose = options.verbose;
  line.weights.assign(options.weights.begin(), options.weights.end());
  readWorld(options, line);
  readKernelCode(options, line);
  for (const std::string &text : options.inputs)
    line.inputs.push_back(parseInputShape(text));
  line.loss = options.loss;
  line.outputs.assign(options.outputs.begin(), options.outputs.end());
  for (const std::string &text : options.dims)
    line.dims.push_back(parseDimValues(text));
  return line;
}

static Task chooseTask(const CommandLine &line) {
  if (!line.readConfig.empty())
    return Task::ReadConfig;
  if (line.inputKind == InputKind::Artifact)
    return line.planViews.empty() ? Task::Print : Task::Predict;
  if (line.explain)
    return Task::Explain;
  if (!line.compared.empty())
    return Task::Compare;
  if (!line.worlds.empty())
    return Task::Simulate;
  if (!line.config.empty())
    return line.planWorlds.empty() ? Task::Compile : Task::CompileWorlds;
  return line.inputKind == InputKind::Model ? Task::Capture : Task::Opt;
}

std::optional<CommandLine>
fsdp::parseCommandLine(int argc, char **argv, mlir::DialectRegistry &registry) {
  if (printHelp(argc, argv))
    return std::nullopt;
  mlir::registerCLIOptions("fsdp-opt", registry);
  static Options options;
  parseArguments(argc, argv);
  CommandLine line = readOptions(options);
  bool hasInput = options.input.getNumOccurrences() > 0;
  if (line.readConfig.empty()) {
    checkTerminal(argc, argv, hasInput);
    line.inputKind = classifyInput(line.input);
  } else if (hasInput) {
    refuse("--read-config reads a config alone; take '" + line.input +
           "' away, or compile it with --config=" + line.readConfig);
  }
  line.task = chooseTask(line);
  line.outputKind = classifyOutput(line);
  std::vector<std::string> given = listNames(argc, argv);
  // As if they were not given.
  if (line.output == "-")
    std::erase(given, "o");
  if (!line.explain)
    std::erase(given, "explain");
  checkOptions(line, given);
  return line;
}
