//===- InputFile.cpp - What fsdp-opt is given ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/InputFile.h"

#include "plan/Worlds.h"
#include "support/Error.h"
#include "support/ReadOnlyFile.h"
#include "tools/fsdp-opt/input/Files.h"

#include <algorithm>

using namespace fsdp;

/// Programs of ours nest some ten levels deep.
static constexpr size_t kDeepest = 500;
static constexpr size_t kHeadBytes = 512;

static bool isBytecode(std::string_view bytes) {
  return bytes.starts_with("ML\xefR");
}

/// Eight bytes of a length that the file has, then JSON.
static bool isSafetensors(std::string_view head, uint64_t bytes) {
  if (head.size() < 9 || head[8] != '{')
    return false;
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;)
    length = length << 8 | static_cast<uint8_t>(head[i]);
  return length <= bytes - 8;
}

/// Refuses what begins as no program of MLIR.
static void checkHead(const std::string &name, std::string_view head,
                      uint64_t bytes) {
  auto refuseWeights = [&](const char *kind, const char *advice) {
    throw Error(ErrorId::NotAProgram,
                "'" + name + "' holds " + kind + ", and no program; " + advice);
  };
  const char *exportIt =
      "give the model that torch.export.save (.pt2) or torch.jit.save (.pt) "
      "wrote";
  if (isSafetensors(head, bytes))
    refuseWeights("weights (safetensors)",
                  "give the model file, and these with --weights");
  if (head.starts_with("GGUF"))
    refuseWeights("weights (GGUF)", exportIt);
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    refuseWeights("a pickle of Python objects", exportIt);
  if (head.starts_with("\x93NUMPY"))
    refuseWeights("an array of NumPy", exportIt);
  if (head.starts_with("\x89HDF"))
    refuseWeights("weights (HDF5)", exportIt);
  if (isBytecode(head))
    return;
  auto isControl = [](unsigned char c) {
    return (c < 32 && c != '\n' && c != '\r' && c != '\t' && c != '\f' &&
            c != '\v') ||
           c == 127;
  };
  auto found = std::ranges::find_if(head, isControl);
  if (found != head.end())
    throw Error(ErrorId::ProgramNotReadable,
                "'" + name + "' is no program: byte " +
                    std::to_string(found - head.begin()) +
                    " is no text; expected a model file (.pt2, .pt), a program "
                    "of MLIR (.mlir, .mlirbc) or an artifact (.fsdp)");
}

InputKind fsdp::classifyInput(const std::string &path) {
  if (path == "-")
    return InputKind::Program;
  ReadOnlyFile file(path, "the input");
  std::string head(std::min<uint64_t>(file.bytes(), kHeadBytes), '\0');
  file.read(0, head.size(), head.data());
  if (hasSuffix(path, ".pt2") || hasSuffix(path, ".pt"))
    return InputKind::Model;
  if (hasSuffix(path, ".fsdp") || PlanFile::isArtifact(head) ||
      WorldPlans::areSeveral(head))
    return InputKind::Artifact;
  if (!hasSuffix(path, ".mlir") && !hasSuffix(path, ".mlirbc") &&
      head.starts_with("PK"))
    throw Error(
        ErrorId::BadUsage,
        "'" + path +
            "' looks like a model file; name it .pt2 (torch.export.save) or "
            ".pt (torch.jit.save), so that it is known which");
  checkHead(path, head, file.bytes());
  return InputKind::Program;
}

/// Every '-' and bracket of a text costs the parser some stack, which it has 8
/// MiB of.
static void checkDepth(std::string_view text, const std::string &name) {
  size_t depth = 0, deepest = 0, signs = 0, line = 1, deepestLine = 0;
  auto open = [&] {
    if (++depth > deepest) {
      deepest = depth;
      deepestLine = line;
    }
  };
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    line += c == '\n';
    if (c == '"') {
      while (++i < text.size() && text[i] != '"' && text[i] != '\n')
        i += text[i] == '\\';
      line += i < text.size() && text[i] == '\n';
    } else if (c == '/' && text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      open();
    } else if (c == ')' || c == ']' || c == '}') {
      depth -= depth != 0;
    } else if (c == '>') {
      // Neither an arrow nor "at least".
      bool closes = !(i > 0 && text[i - 1] == '-') &&
                    !(i + 1 < text.size() && text[i + 1] == '=');
      depth -= closes && depth != 0;
    }
    bool isSpace = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    signs = c == '-' ? signs + 1 : isSpace ? signs : 0;
    if (signs > kDeepest)
      open(), deepest = std::max(deepest, signs), deepestLine = line;
  }
  if (deepest > kDeepest)
    throw Error(ErrorId::FileImplausible,
                "'" + name + "' nests " + std::to_string(deepest) +
                    " levels deep at line " + std::to_string(deepestLine) +
                    ", more than " + std::to_string(kDeepest) +
                    "; it is damaged or was made to do harm");
}

std::string fsdp::readProgramBytes(const std::string &path) {
  std::string name = path == "-" ? "standard input" : path;
  std::string bytes = readInput(path, "the program", kMaxProgramBytes);
  checkHead(name, std::string_view(bytes).substr(0, kHeadBytes), bytes.size());
  if (!isBytecode(bytes))
    checkDepth(bytes, name);
  return bytes;
}
