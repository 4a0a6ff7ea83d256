//===- CommandLine.cpp - The arguments of fsdp-opt ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/CommandLine.h"

#include "support/Nearest.h"
#include "tools/fsdp-opt/input/Help.h"
#include "tools/fsdp-opt/input/InputFile.h"

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
/// Options beside those that MLIR registers.
struct Options {
  cl::opt<std::string> input{cl::Positional, cl::desc("MODEL"), cl::init("-")};
  cl::opt<std::string> output{"o", cl::desc("where to write"), cl::init("-"),
                              cl::value_desc("OUT")};
  cl::opt<std::string> config{"config", cl::desc("how to shard and train"),
                              cl::value_desc("FILE.yaml")};
  cl::opt<std::string> report{"report",
                              cl::desc("write collectives and memory as JSON"),
                              cl::value_desc("FILE.json")};
  cl::opt<std::string> memoryMap{"memory-map",
                                 cl::desc("draw the arena over time"),
                                 cl::value_desc("FILE.html")};
  cl::opt<std::string> cluster{"cluster",
                               cl::desc("what the step is predicted for"),
                               cl::value_desc("NAME|FILE.yaml")};
  cl::opt<std::string> measured{"measured",
                                cl::desc("times that go before the cluster's"),
                                cl::value_desc("PROFILE.json")};
  cl::list<std::string> planViews{"print-plan", cl::ValueOptional,
                                  cl::desc("predict the step"),
                                  cl::value_desc("FILE.{html,txt,json,trace}")};
  cl::opt<std::string> profile{
      "profile", cl::desc("show what fsdp-run --profile measured beside it"),
      cl::value_desc("FILE.json")};
  cl::list<std::string> compared{"compare", cl::multi_val(2),
                                 cl::desc("predict two configs side by side"),
                                 cl::value_desc("A.yaml B.yaml")};
  cl::opt<std::string> worlds{"simulate", cl::ValueOptional,
                              cl::desc("predict several numbers of ranks"),
                              cl::value_desc("N[,N...]")};
  cl::opt<std::string> stages{"save-stages",
                              cl::desc("write the program after each stage"),
                              cl::value_desc("DIR")};
  cl::opt<std::string> world{"world", cl::desc("number of ranks"),
                             cl::value_desc("N[,N...]")};
  cl::list<std::string> inputs{"input",
                               cl::desc("shape of one input of a .pt file"),
                               cl::value_desc("NAME:f32[4,64]")};
  cl::list<std::string> outputs{
      "output", cl::desc("keep an output of the model beside the loss"),
      cl::value_desc("NAME")};
  cl::opt<std::string> loss{
      "loss", cl::desc("the output of the model that is its loss"),
      cl::value_desc("NAME")};
  cl::list<std::string> dims{"dim", cl::desc("size of a dynamic dimension"),
                             cl::value_desc("NAME=SIZE[,SIZE...]")};
  cl::list<std::string> weights{
      "weights", cl::desc("safetensors files to read first values from"),
      cl::value_desc("FILE|DIR|INDEX.json")};
  cl::opt<bool> explain{"explain", cl::desc("say what the model holds")};
  cl::opt<bool> verbose{"verbose", cl::desc("print every note")};
};

[[noreturn]] void refuse(const std::string &message) {
  throw Error(ErrorId::BadUsage, message);
}

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() > suffix.size() && text.ends_with(suffix);
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
  if (endsWith(path, ".mlirbc"))
    return OutputKind::Bytecode;
  if (endsWith(path, ".fsdp"))
    return OutputKind::Artifact;
  if (path == "-" || endsWith(path, ".mlir") || line.isPlainOpt())
    return OutputKind::Text;
  refuse("-o '" + path +
         "': the suffix says what to write; expected .fsdp (the artifact), "
         ".mlir or .mlirbc (the program of the last stage), or -");
}

void checkPlanView(const std::string &path) {
  static constexpr std::string_view suffixes[] = {".html", ".txt", ".json",
                                                  ".trace"};
  if (path == "-" || std::ranges::any_of(suffixes, [&](auto suffix) {
        return endsWith(path, suffix);
      }))
    return;
  refuse("--print-plan=" + path +
         ": the suffix says what to write; expected .html (a page to look at), "
         ".txt (tables), .json, or .trace (for ui.perfetto.dev)");
}

/// Several numbers of ranks are for one artifact, and what is said of one plan
/// needs one.
void checkPlanWorlds(const CommandLine &line, bool predicts) {
  if (line.explain)
    return;
  if (predicts)
    refuse("--compare predicts one number of ranks; give --world one, or name "
           "several with --simulate");
  if (line.outputKind != OutputKind::Artifact)
    refuse("several numbers of ranks are plans of one artifact; add -o "
           "STEP.fsdp, or give --world one number");
  for (auto [isGiven, name] :
       {std::pair{!line.planViews.empty(), "--print-plan"},
        {!line.memoryMap.empty(), "--memory-map"},
        {!line.stagesFolder.empty(), "--save-stages"},
        {!line.cluster.empty(), "--cluster"}})
    if (isGiven)
      refuse(std::string(name) +
             " is of one plan, and --world names several; give it one number, "
             "or name the plan when the artifact is there");
}

void check(const CommandLine &line) {
  if (!line.profile.empty() && line.planViews.empty())
    refuse("--profile shows what was measured beside what is predicted; add "
           "--print-plan");
  bool model = line.inputKind == InputKind::Model;
  bool compiles = !line.config.empty();
  if (line.inputKind == InputKind::Artifact) {
    if (compiles || line.explain)
      refuse("'" + line.input +
             "' is an artifact, which is compiled already; "
             "give the model it was made from");
    if (!line.report.empty())
      refuse("an artifact can only be printed; give --report when it is "
             "compiled");
    if (!line.memoryMap.empty())
      refuse("an artifact holds addresses but no lifetimes to draw; give "
             "--memory-map when it is compiled");
    if (line.output != "-")
      refuse("an artifact can only be printed; write -o -");
    if (!line.planViews.empty() && line.cluster.empty())
      refuse("--print-plan of an artifact needs --cluster, such as "
             "--cluster=h100x8");
    if (!line.cluster.empty() && line.planViews.empty())
      refuse("--cluster says what the step of an artifact is predicted for; "
             "add --print-plan");
    if (!line.measured.empty() && line.planViews.empty())
      refuse("--measured has times for a prediction; add --print-plan and "
             "--cluster");
    if (!line.planWorlds.empty())
      refuse("--world names the one plan of an artifact that is meant; give "
             "one number");
    return;
  }
  bool predicts = !line.compared.empty() || !line.worlds.empty();
  bool hasWorld = line.world || !line.planWorlds.empty();
  if (!line.compared.empty() && compiles)
    refuse("--compare names the configs itself; take --config away");
  if (!line.worlds.empty() && !compiles)
    refuse("--simulate needs --config=FILE.yaml");
  if (!line.worlds.empty() && !line.compared.empty())
    refuse("--compare predicts the configs' own numbers of ranks; give "
           "--simulate without it");
  if (predicts && (line.explain || !line.planViews.empty()))
    refuse(std::string(line.compared.empty() ? "--simulate" : "--compare") +
           " is one question and " +
           (line.explain ? "--explain" : "--print-plan") +
           " another; ask them one by one");
  if (predicts && line.output != "-")
    refuse("--compare and --simulate print to the terminal and compile nothing "
           "to keep; take -o away");
  if (predicts && hasWorld && !line.worlds.empty())
    refuse("--simulate says the numbers of ranks; take --world away");
  if (!line.planViews.empty() && !compiles)
    refuse("--print-plan needs --config=FILE.yaml, or an artifact");
  if (!line.planViews.empty() && line.explain)
    refuse("--explain compiles for several numbers of ranks; --print-plan "
           "predicts one, without it");
  if (!line.cluster.empty() && !compiles && line.compared.empty())
    refuse("--cluster needs --config=FILE.yaml, or an artifact");
  if (!line.measured.empty() && !compiles && line.compared.empty())
    refuse("--measured needs --config=FILE.yaml, or an artifact");
  if (hasWorld && !compiles && !line.explain && line.compared.empty())
    refuse("--world needs --config=FILE.yaml");
  if (!line.planWorlds.empty())
    checkPlanWorlds(line, predicts);
  if (!line.report.empty() && !compiles)
    refuse("--report needs --config=FILE.yaml");
  if (!line.memoryMap.empty() && !compiles &&
      line.inputKind != InputKind::Program)
    refuse("--memory-map needs --config=FILE.yaml, or a planned program");
  if (!line.report.empty() && line.explain)
    refuse("--explain compiles for several numbers of ranks; --report is of "
           "one, without it");
  if (!line.memoryMap.empty() && line.explain)
    refuse(
        "--explain compiles for several numbers of ranks; --memory-map draws "
        "one, without it");
  if (!line.weights.empty() && !compiles && line.compared.empty())
    refuse("--weights needs --config=FILE.yaml");
  if (!line.stagesFolder.empty() && !compiles && !model)
    refuse("--save-stages needs a model file or --config=FILE.yaml");
  if (!line.inputs.empty() && !model)
    refuse("--input gives shapes to a model file (.pt2, .pt); '" + line.input +
           "' holds a program, which has its own");
  if (!line.outputs.empty() && !model)
    refuse("--output chooses among the outputs of a model file (.pt2, .pt); '" +
           line.input + "' holds a program, which has those that were kept");
  if (!line.loss.empty() && !model)
    refuse("--loss chooses among the outputs of a model file (.pt2, .pt); '" +
           line.input + "' holds a program, which has its loss");
  if (!line.dims.empty() && !model)
    refuse("--dim gives sizes to a model file (.pt2); '" + line.input +
           "' holds a program, which has its own");
  if (line.explain && line.output != "-")
    refuse("--explain prints to the terminal; take -o away");
  if (model && !compiles && line.outputKind == OutputKind::Artifact)
    refuse("an artifact needs a config: add --config=FILE.yaml, or write the "
           "captured program to a .mlir file");
}

/// Whether the option `name` has an effect on what `line` asks for.
bool hasEffect(const CommandLine &line, llvm::StringRef name) {
  auto isOneOf = [&](std::initializer_list<llvm::StringRef> names) {
    return llvm::is_contained(names, name);
  };
  if (isOneOf({"o", "verbose", "color"}))
    return true;
  if (line.inputKind == InputKind::Artifact)
    return isOneOf({"print-plan", "cluster", "measured", "profile", "world"});
  // MLIR's own ways to run passes take all the rest.
  if (line.config.empty() && !line.explain && line.compared.empty())
    return true;
  if (!line.compared.empty() || !line.worlds.empty())
    return isOneOf({"config", "world", "input", "dim", "output", "loss",
                    "weights", "cluster", "measured", "compare", "simulate"}) ||
           name.starts_with("debug") || name.starts_with("mlir-");
  if (isOneOf({"config", "world", "input", "dim", "output", "explain",
               "cluster", "measured"}))
    return true;
  if (name.starts_with("debug") ||
      (name.starts_with("mlir-") && name != "mlir-generate-reproducer"))
    return true;
  // Decisions are made once, for what is kept, and told of one plan.
  return !line.explain &&
         ((name.starts_with("remark") && line.planWorlds.empty()) ||
          isOneOf({"weights", "report", "memory-map", "save-stages",
                   "print-plan", "profile"}));
}

/// No option is ignored without a word.
void checkEffects(const CommandLine &line, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef argument = argv[i];
    llvm::StringRef name = argument.ltrim('-').split('=').first;
    if (!argument.starts_with("-") || name.empty() || hasEffect(line, name))
      continue;
    if (line.inputKind == InputKind::Artifact)
      refuse("--" + name.str() +
             " has no effect on an artifact, which can "
             "only be printed; leave it out");
    refuse("--" + name.str() + " has no effect with " +
           (line.explain ? "--explain" : "--config") +
           "; leave it out, or give it with the program that a run without "
           "prints (-o FILE.mlir)");
  }
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

std::optional<CommandLine>
fsdp::parseCommandLine(int argc, char **argv, mlir::DialectRegistry &registry) {
  if (argc == 1 && isatty(STDIN_FILENO)) {
    llvm::outs() << getHelp();
    return std::nullopt;
  }
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h" || argument == "-help") {
      llvm::outs() << getHelp();
      return std::nullopt;
    }
    if (argument == "--version") {
      llvm::outs() << "fsdp-opt " FSDP_VERSION " (MLIR " LLVM_VERSION_STRING
                      ")\n";
      return std::nullopt;
    }
  }

  // Defaults of ours for options of MLIR, which a person may still set.
  std::vector<const char *> arguments(argv, argv + argc);
  auto setDefault = [&](llvm::StringRef name, const char *argument) {
    if (std::none_of(argv + 1, argv + argc, [&](llvm::StringRef given) {
          return given.ltrim('-').split('=').first == name;
        }))
      arguments.insert(arguments.begin() + 1, argument);
  };
  setDefault("mlir-print-op-on-diagnostic",
             "--mlir-print-op-on-diagnostic=false");
  setDefault("mlir-use-nameloc-as-prefix", "--mlir-use-nameloc-as-prefix");

  mlir::registerCLIOptions("fsdp-opt", registry);
  static Options options;
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  if (!cl::ParseCommandLineOptions(static_cast<int>(arguments.size()),
                                   arguments.data(), "", &stream))
    refuse(messages.empty() ? "an option has a value that it does not take, as "
                              "said above; see fsdp-opt --help-list"
                            : tidyParserMessage(messages));

  CommandLine line;
  line.input = options.input;
  line.output = options.output;
  line.config = options.config;
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
  for (const std::string &path : options.weights) {
    if (path.empty())
      refuse("--weights needs a name");
    line.weights.push_back(path);
  }
  for (auto &[option, path] : {std::pair{&options.config, "--config"},
                               {&options.report, "--report"},
                               {&options.memoryMap, "--memory-map"},
                               {&options.stages, "--save-stages"},
                               {&options.cluster, "--cluster"},
                               {&options.measured, "--measured"},
                               {&options.profile, "--profile"},
                               {&options.loss, "--loss"},
                               {&options.output, "-o"}})
    if (option->getNumOccurrences() && option->empty())
      refuse(std::string(path) + " needs a name");
  if (options.world.getNumOccurrences()) {
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
  for (const std::string &text : options.inputs)
    line.inputs.push_back(parseInputShape(text));
  line.loss = options.loss;
  line.outputs.assign(options.outputs.begin(), options.outputs.end());
  for (const std::string &text : options.dims)
    line.dims.push_back(parseDimValues(text));
  checkTerminal(argc, argv, options.input.getNumOccurrences() > 0);
  line.inputKind = classifyInput(line.input);
  line.outputKind = classifyOutput(line);
  check(line);
  checkEffects(line, argc, argv);
  return line;
}
