//===- Diagnostics.cpp - MLIR's diagnostics inside an error -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/Diagnostics.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

#include <vector>

using namespace fsdp;
using namespace mlir;

std::string fsdp::describeLocation(Location loc) {
  if (auto file = dyn_cast<FileLineColLoc>(loc)) {
    std::string text =
        file.getFilename().str() + ":" + std::to_string(file.getLine());
    if (file.getColumn())
      text += ":" + std::to_string(file.getColumn());
    return text;
  }
  if (auto name = dyn_cast<NameLoc>(loc)) {
    std::string inner = describeLocation(name.getChildLoc());
    if (name.getName().empty())
      return inner;
    return name.getName().str() + (inner.empty() ? "" : " (" + inner + ")");
  }
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    std::string all;
    for (Location part : fused.getLocations())
      if (std::string text = describeLocation(part); !text.empty())
        all += (all.empty() ? "" : ", ") + text;
    return all;
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return describeLocation(call.getCallee());
  return "";
}

namespace {
std::string describe(Diagnostic &diagnostic, llvm::StringRef kind) {
  std::string place = describeLocation(diagnostic.getLocation());
  return (place.empty() ? "" : place + ": ") + kind.str() + ": " +
         diagnostic.str();
}

std::string describeWithNotes(Diagnostic &diagnostic, llvm::StringRef kind) {
  std::string text = describe(diagnostic, kind);
  for (Diagnostic &note : diagnostic.getNotes())
    text += "\n" + describe(note, "note");
  return text;
}
} // namespace

static std::vector<std::string> &getNotes() {
  static std::vector<std::string> notes;
  return notes;
}

static std::vector<std::string> &getWarnings() {
  static std::vector<std::string> warnings;
  return warnings;
}

void fsdp::addWarning(std::string line) {
  getWarnings().push_back(std::move(line));
}

void fsdp::addNote(std::string line) { getNotes().push_back(std::move(line)); }

void fsdp::printNotes() {
  for (std::vector<std::string> *lines : {&getWarnings(), &getNotes()}) {
    for (const std::string &line : *lines)
      llvm::errs() << line << '\n';
    lines->clear();
  }
}

DiagnosticCollector::DiagnosticCollector(MLIRContext *context)
    : handler(context, [this](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
          errors += "\n" + describeWithNotes(diagnostic, "error");
          return success();
        }
        bool warns = diagnostic.getSeverity() == DiagnosticSeverity::Warning;
        addNote(describeWithNotes(diagnostic, warns ? "warning" : "remark"));
        return success();
      }) {}

Error DiagnosticCollector::makeError(ErrorId id,
                                     const std::string &message) const {
  return Error(id, message + errors);
}
