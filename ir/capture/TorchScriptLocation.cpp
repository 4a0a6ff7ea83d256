//===- TorchScriptLocation.cpp - Where the interpreter is -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/TorchScriptLocation.h"

#include <torch/csrc/jit/runtime/interpreter.h>

using namespace fsdp::capture;

namespace {

thread_local Recorder *told = nullptr;
thread_local Location last;

/// "model.0" out of "TOP(Net)::forward", "model(Sequential)::forward",
/// "0(Linear)::forward".
std::string getModulePath() {
  std::string path;
  bool top = true;
  for (const std::string &frame : torch::jit::currentModuleHierarchy()) {
    size_t end = frame.find('(');
    if (end == std::string::npos)
      continue; // a function or a method of the module before it
    std::string name = frame.substr(0, end);
    if (std::exchange(top, false) || name == "SELF")
      continue;
    path += (path.empty() ? "" : ".") + name;
  }
  return path;
}

/// The innermost line of the user's own code, else of PyTorch's.
void findSource(Location &location) {
  for (const torch::jit::StackEntry &entry : torch::jit::currentCallstack()) {
    torch::jit::SourceRange range = entry.range;
    if (auto original = range.findSourceRangeThatGenerated())
      range = *original;
    auto source = range.file_line_col();
    if (!source || std::get<0>(*source).empty())
      continue;
    bool ofTorch = std::get<0>(*source).find("/torch/nn/") != std::string::npos;
    if (!location.file.empty() && ofTorch)
      continue;
    location.file = std::get<0>(*source);
    location.line = std::get<1>(*source);
    if (!ofTorch)
      return;
  }
}

std::unique_ptr<at::ObserverContext> observe(const at::RecordFunction &) {
  if (!told || !torch::jit::in_torchscript_runtime())
    return nullptr;
  Location location;
  location.module = getModulePath();
  findSource(location);
  if (location.module != last.module || location.file != last.file ||
      location.line != last.line) {
    told->setLocation(location);
    last = location;
  }
  return nullptr;
}

} // namespace

TorchScriptLocation::TorchScriptLocation(Recorder &recorder) {
  told = &recorder;
  last = {};
  handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(observe).scopes({at::RecordScope::FUNCTION}));
}

TorchScriptLocation::~TorchScriptLocation() {
  at::removeCallback(handle);
  told = nullptr;
}
