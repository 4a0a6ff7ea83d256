//===- Archive.cpp - A .pt before LibTorch reads it -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/Archive.h"

#include "ir/capture/archive/PickleScan.h"
#include "ir/capture/torchscript/Records.h"
#include "support/Error.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <set>
#include <vector>

#include <pthread.h>

using namespace fsdp;
using namespace fsdp::capture;

/// LibTorch breaks what it writes into short lines.
static constexpr size_t kDeepestStatement = 1000;
static constexpr size_t kDeepestBlock = 200;

namespace {

/// What the parser and the compiler of one statement call themselves for:
/// brackets, and operators in a row.
class StatementDepth {
public:
  explicit StatementDepth(const std::string &what) : what(what) {}

  void open() {
    levels.push_back(0);
    check();
  }
  void close() {
    if (levels.size() > 1) {
      operators -= levels.back();
      levels.pop_back();
    }
  }
  void addOperator() {
    ++levels.back();
    ++operators;
    check();
  }
  /// Elements of a list lie beside each other.
  void comma() {
    operators -= levels.back();
    levels.back() = 0;
  }
  bool isInBrackets() const { return levels.size() > 1; }
  void newStatement() {
    levels.assign(1, 0);
    operators = 0;
  }
  void newLine() { ++line; }

  [[noreturn]] void fail(size_t limit) const {
    throw Error(ErrorId::FileImplausible,
                what + " nests more than " + std::to_string(limit) +
                    " levels deep at line " + std::to_string(line) +
                    "; it is damaged or was made to do harm");
  }

private:
  void check() const {
    if (operators + levels.size() > kDeepestStatement)
      fail(kDeepestStatement);
  }

  const std::string &what;
  std::vector<size_t> levels = {0}; ///< operators since the last comma
  size_t operators = 0, line = 1;
};

bool isWordPart(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

/// Behind the string that begins at `at`.
size_t skipString(std::string_view text, size_t at, StatementDepth &depth) {
  std::string_view quote = text.substr(at, 1);
  if (text.substr(at, 3) == std::string(3, quote[0]))
    quote = text.substr(at, 3);
  for (at += quote.size(); at < text.size(); ++at) {
    if (text[at] == '\n')
      depth.newLine();
    if (text[at] == '\\')
      ++at;
    else if (text.substr(at, quote.size()) == quote)
      return at + quote.size();
  }
  return at;
}

/// Goes over a source, statement by statement.
class CodeScan {
public:
  CodeScan(std::string_view text, const std::string &what)
      : text(text), depth(what) {}

  void run() {
    while (at < text.size()) {
      if (isLineBegin && !depth.isInBrackets()) {
        takeIndent();
        continue;
      }
      isLineBegin = false;
      char c = text[at];
      if (c == '\'' || c == '"')
        at = skipString(text, at, depth);
      else if (c == '#')
        at = std::min(text.find('\n', at), text.size());
      else if (isWordPart(c))
        takeWord();
      else
        takeSign();
    }
  }

private:
  void takeIndent() {
    isLineBegin = false;
    size_t begin = at;
    at = std::min(text.find_first_not_of(" \t", at), text.size());
    while (at - begin < indents.back())
      indents.pop_back();
    if (at - begin > indents.back() && at < text.size() && text[at] != '\n' &&
        text[at] != '#')
      indents.push_back(at - begin);
    if (indents.size() > kDeepestBlock)
      depth.fail(kDeepestBlock);
  }

  void takeWord() {
    // Of a number too: its point is no operator.
    bool isNumber = std::isdigit(static_cast<unsigned char>(text[at]));
    size_t end = at;
    while (end < text.size() &&
           (isWordPart(text[end]) || (text[end] == '.' && isNumber)))
      ++end;
    std::string_view word = text.substr(at, end - at);
    for (std::string_view one :
         {"not", "and", "or", "if", "else", "lambda", "in", "is", "for"})
      if (word == one)
        depth.addOperator();
    // Each is parsed within the one before.
    branches += word == "elif";
    if (branches > kDeepestStatement)
      depth.fail(kDeepestStatement);
    at = end;
  }

  void takeSign() {
    char c = text[at];
    if (c == '\n') {
      depth.newLine();
      isLineBegin = true;
      if (!depth.isInBrackets() && !(at > 0 && text[at - 1] == '\\'))
        depth.newStatement();
    } else if (c == '(' || c == '[' || c == '{') {
      depth.open();
    } else if (c == ')' || c == ']' || c == '}') {
      depth.close();
    } else if (c == ',') {
      depth.comma();
    } else if (std::ispunct(static_cast<unsigned char>(c)) && c != ':' &&
               c != ';' && c != '\\') {
      depth.addOperator();
    }
    ++at;
  }

  std::string_view text;
  StatementDepth depth;
  std::vector<size_t> indents = {0};
  size_t at = 0, branches = 0;
  bool isLineBegin = true;
};

} // namespace

void capture::checkCodeDepth(std::string_view text, const std::string &what) {
  CodeScan(text, what).run();
}

/// LibTorch's reader does not tell upper from lower case.
static std::string lowerCase(std::string name) {
  for (char &c : name)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

/// Names that two readers of an archive may take for one.
static void checkNames(const ZipDirectory &archive) {
  if (archive.rootFolder().empty())
    throw Error(ErrorId::TorchScriptNotLoaded,
                "'" + archive.path() +
                    "' does not keep its entries in one folder, as "
                    "torch.jit.save does; export the model again");
  std::set<std::string> seen;
  for (const ZipEntry &entry : archive.entries()) {
    std::string name = lowerCase(entry.name);
    if (name == "model.json")
      throw Error(ErrorId::TorchScriptNotLoaded,
                  "'" + archive.path() +
                      "' is TorchScript of PyTorch before 1.1, which is not "
                      "read; save the model with PyTorch 2.11");
    if (!seen.insert(name).second)
      throw Error(ErrorId::ArchiveDamaged,
                  "'" + archive.path() + "' has two entries '" + entry.name +
                      "' but for upper and lower case; export the model again");
  }
}

LoadNeeds capture::checkTorchScriptArchive(const ZipDirectory &archive) {
  checkNames(archive);
  LoadNeeds needs;
  // Classes and functions are compiled where others use them.
  constexpr size_t kEach = 64 << 10, kMost = 8ull << 30;
  for (const ZipEntry &entry : archive.entries()) {
    if (TorchScriptRecords::holdsTensors(entry.name)) {
      archive.checkContent(entry);
      continue;
    }
    std::string what = "entry '" + entry.name + "' of '" + archive.path() + "'";
    std::string content = archive.readContent(entry);
    // Others, such as sample inputs, nobody reads.
    std::string name = lowerCase(entry.name);
    if (name == "data.pkl" || name == "constants.pkl" ||
        name.ends_with(".debug_pkl")) {
      std::string folder = name.substr(0, name.rfind('.')) + "/";
      scanPickle(content, {what, [&](const std::string &key) {
                             const ZipEntry *found = archive.find(folder + key);
                             return found ? std::optional(found->bytes)
                                          : std::nullopt;
                           }});
      continue;
    }
    if (!name.starts_with("code/"))
      continue;
    if (content.find("__setstate__") != std::string::npos)
      throw Error(ErrorId::TorchScriptNotLoaded,
                  what +
                      " defines '__setstate__', which runs while the model is "
                      "loaded and is not supported (quantized modules have "
                      "one); save the model without it");
    checkCodeDepth(content, what);
    for (std::string_view word : {"def ", "class "})
      for (size_t at = content.find(word); at != std::string::npos;
           at = content.find(word, at + 1))
        needs.stack = std::min(needs.stack + kEach, kMost);
    needs.codeBytes += content.size();
  }
  return needs;
}

void capture::runWithStack(size_t bytes, const std::function<void()> &work) {
  struct Job {
    const std::function<void()> &work;
    std::exception_ptr failure;
  } job{work, nullptr};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, bytes);
  pthread_t thread;
  int failure = pthread_create(
      &thread, &attributes,
      [](void *data) -> void * {
        auto &job = *static_cast<Job *>(data);
        try {
          job.work();
        } catch (...) {
          job.failure = std::current_exception();
        }
        return nullptr;
      },
      &job);
  pthread_attr_destroy(&attributes);
  if (failure)
    throw Error(ErrorId::OutOfMemory,
                "there is no room for a stack of " + std::to_string(bytes) +
                    " bytes, which loading the model may need");
  pthread_join(thread, nullptr);
  if (job.failure)
    std::rethrow_exception(job.failure);
}
