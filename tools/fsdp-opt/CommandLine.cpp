//===- CommandLine.cpp - The arguments of fsdp-opt ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/CommandLine.h"

#include "tools/fsdp-opt/Help.h"

#include "mlir/IR/Dialect.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>

#include <unistd.h>

using namespace fsdp;
namespace cl = llvm::cl;

/// More than any machine has; keeps sizes far from overflow.
static constexpr int64_t kMaxWorldSize = 1 << 20;

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
  cl::opt<std::string> stages{"save-stages",
                              cl::desc("write the program after each stage"),
                              cl::value_desc("DIR")};
  cl::opt<std::string> world{"world", cl::desc("number of ranks"),
                             cl::value_desc("N")};
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
};

[[noreturn]] void refuse(const std::string &message) {
  throw Error(ErrorId::BadUsage, message);
}

bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() > suffix.size() && text.ends_with(suffix);
}

/// LLVM's message without the program's name and its hint at --help.
std::string tidyParserMessage(llvm::StringRef text) {
  auto [first, rest] = text.trim().split('\n');
  if (size_t colon = first.find(": "); colon != llvm::StringRef::npos)
    first = first.drop_front(colon + 2);
  std::string message = first.split("  Try:").first.trim().str();
  if (!message.empty() && message.back() == '.')
    message.pop_back();
  if (!message.empty())
    message[0] = static_cast<char>(std::tolower(message[0]));
  if (size_t at = rest.find("Did you mean "); at != llvm::StringRef::npos)
    message += "; did you mean " +
               rest.drop_front(at + strlen("Did you mean ")).trim().str();
  return message + (message.ends_with('?') ? " " : "; ") +
         "see fsdp-opt --help";
}

InputKind classifyInput(const std::string &path) {
  if (path == "-")
    return InputKind::Program;
  std::ifstream file(path, std::ios::binary);
  char head[16] = {};
  if (!file.read(head, sizeof head) && file.bad())
    file.setstate(std::ios::failbit);
  if (!file.is_open() || file.bad())
    throw Error(ErrorId::FileNotReadable,
                "'" + path + "' cannot be read: " + std::strerror(errno));
  if (endsWith(path, ".pt2") || endsWith(path, ".pt"))
    return InputKind::Model;
  if (endsWith(path, ".fsdp"))
    return InputKind::Artifact;
  if (!endsWith(path, ".mlir") && !endsWith(path, ".mlirbc") &&
      std::string_view(head, 2) == "PK")
    refuse("'" + path +
           "' looks like a model file; name it .pt2 (torch.export.save) or .pt "
           "(torch.jit.save), so that it is known which");
  return InputKind::Program;
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

void check(const CommandLine &line) {
  bool model = line.inputKind == InputKind::Model;
  bool compiles = !line.config.empty();
  if (line.inputKind == InputKind::Artifact) {
    if (compiles || line.explain)
      refuse("'" + line.input +
             "' is an artifact, which is compiled already; "
             "give the model it was made from");
    if (!line.memoryMap.empty())
      refuse("an artifact holds addresses but no lifetimes to draw; give "
             "--memory-map when it is compiled");
    if (line.output != "-")
      refuse("an artifact can only be printed; write -o -");
    return;
  }
  if (line.world && !compiles && !line.explain)
    refuse("--world needs --config=FILE.yaml");
  if (!line.report.empty() && !compiles)
    refuse("--report needs --config=FILE.yaml");
  if (!line.memoryMap.empty() && !compiles &&
      line.inputKind != InputKind::Program)
    refuse("--memory-map needs --config=FILE.yaml, or a planned program");
  if (!line.memoryMap.empty() && line.explain)
    refuse(
        "--explain compiles for several numbers of ranks; --memory-map draws "
        "one, without it");
  if (!line.weights.empty() && !compiles)
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
  llvm::SmallVector<llvm::StringRef> parts;
  sizes.split(parts, ',');
  for (llvm::StringRef part : parts) {
    int64_t size = 0;
    if (part.trim().getAsInteger(10, size) || size < 0)
      fail();
    shape.shape.push_back(size);
  }
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
  if (dim.name.empty() || sizes.empty())
    fail();
  llvm::SmallVector<llvm::StringRef> parts;
  sizes.split(parts, ',');
  for (llvm::StringRef part : parts) {
    int64_t size = 0;
    if (part.trim().getAsInteger(10, size) || size < 0)
      fail();
    dim.values.push_back(size);
  }
  return dim;
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
  line.stagesFolder = options.stages;
  line.explain = options.explain;
  for (const std::string &path : options.weights) {
    if (path.empty())
      refuse("--weights needs a name");
    line.weights.push_back(path);
  }
  for (auto &[option, path] : {std::pair{&options.config, "--config"},
                               {&options.report, "--report"},
                               {&options.memoryMap, "--memory-map"},
                               {&options.stages, "--save-stages"},
                               {&options.loss, "--loss"},
                               {&options.output, "-o"}})
    if (option->getNumOccurrences() && option->empty())
      refuse(std::string(path) + " needs a name");
  if (options.world.getNumOccurrences()) {
    int64_t world = 0;
    if (llvm::StringRef(options.world).getAsInteger(10, world) || world < 1 ||
        world > kMaxWorldSize)
      refuse("--world=" + options.world +
             ": expected a number of ranks from 1 to " +
             std::to_string(kMaxWorldSize));
    line.world = world;
  }
  for (const std::string &text : options.inputs)
    line.inputs.push_back(parseInputShape(text));
  line.loss = options.loss;
  line.outputs.assign(options.outputs.begin(), options.outputs.end());
  for (const std::string &text : options.dims)
    line.dims.push_back(parseDimValues(text));
  line.inputKind = classifyInput(line.input);
  line.outputKind = classifyOutput(line);
  check(line);
  return line;
}
