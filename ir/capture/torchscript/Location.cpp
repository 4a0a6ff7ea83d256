//===- Location.cpp - Where the interpreter is ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/Location.h"

#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

using namespace fsdp::capture;

namespace {

using ScriptModule = torch::jit::Module;

/// A frame of the interpreter, "name(Class)::method". A call of `layers.0` is
/// named "0"; a function's frame is "CALL_FUNCTION::name(...)::name".
struct Frame {
  std::string name, className;

  explicit Frame(const std::string &text) {
    size_t open = text.find('('), close = text.find(')', open);
    name = text.substr(0, open);
    if (open != std::string::npos && close != std::string::npos)
      className = text.substr(open + 1, close - open - 1);
  }
  /// Not the call of another module.
  bool isInner() const {
    return name == "SELF" || name.starts_with("CALL_FUNCTION") ||
           className.empty();
  }
};

using Found = std::vector<std::pair<std::string, ScriptModule>>;

/// Adds to `found` what beneath `module` may be the frame's module.
void search(const ScriptModule &module, const std::string &path,
            const Frame &frame, Found &found) {
  for (const auto &child : module.named_children()) {
    std::string childPath = path.empty() ? child.name : path + "." + child.name;
    auto name = child.value.type()->name();
    if (child.name == frame.name && name && name->name() == frame.className)
      found.emplace_back(childPath, child.value);
    else
      search(child.value, childPath, frame, found);
  }
}

/// The path of the module that runs, as far as it can be told.
std::string resolve(const ScriptModule &root,
                    const std::vector<std::string> &frames) {
  ScriptModule module = root;
  std::string path;
  for (size_t i = 1; i < frames.size(); ++i) {
    Frame frame(frames[i]);
    if (frame.isInner())
      continue;
    Found found;
    search(module, path, frame, found);
    if (found.size() != 1)
      break;
    std::tie(path, module) = found.front();
  }
  return path;
}

bool isOfTorch(std::string_view file) {
  for (std::string_view part :
       {"/torch/nn/", "/torch/functional.py", "/torch/_tensor.py"})
    if (file.find(part) != std::string_view::npos)
      return true;
  return false;
}

/// "model.py" and 12 out of "model.py(12): forward", a call of a stack.
std::optional<std::pair<std::string_view, size_t>>
readCall(std::string_view text) {
  size_t close = text.rfind("): "), open = text.rfind('(', close);
  if (close == text.npos || open == text.npos || open == 0)
    return std::nullopt;
  size_t line = 0;
  const char *end = text.data() + close;
  auto [stop, error] = std::from_chars(text.data() + open + 1, end, line);
  if (error != std::errc() || stop != end)
    return std::nullopt;
  return std::pair(text.substr(0, open), line);
}

/// A trace has all calls on the way to an operator, innermost first, as the
/// text of its source: the innermost that is not PyTorch's.
bool findTracedSource(const torch::jit::Source &source, Location &location) {
  std::string stack = source.text_str().str();
  std::string_view text = stack;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    auto call = readCall(text.substr(0, end));
    if (!call)
      return false;
    if (!isOfTorch(call->first)) {
      std::tie(location.file, location.line) = *call;
      return true;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
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
    bool ofTorch = isOfTorch(std::get<0>(*source));
    if (ofTorch && findTracedSource(*range.source(), location))
      return;
    if (!location.file.empty() && ofTorch)
      continue;
    location.file = std::get<0>(*source);
    location.line = std::get<1>(*source);
    if (!ofTorch)
      return;
  }
}

} // namespace

struct TorchScriptLocation::Observer {
  const ScriptModule &root;
  Recorder &recorder;
  std::map<std::vector<std::string>, std::string> paths; ///< by frames
  Location last;

  static thread_local Observer *active;

  void observe() {
    Location location;
    std::vector<std::string> frames = torch::jit::currentModuleHierarchy();
    auto [path, isNew] = paths.try_emplace(frames);
    if (isNew)
      path->second = resolve(root, frames);
    location.module = path->second;
    findSource(location);
    if (location.module == last.module && location.file == last.file &&
        location.line == last.line)
      return;
    recorder.setLocation(location);
    last = std::move(location);
  }

  static std::unique_ptr<at::ObserverContext>
  callback(const at::RecordFunction &) {
    if (active && torch::jit::in_torchscript_runtime())
      active->observe();
    return nullptr;
  }
};

thread_local TorchScriptLocation::Observer
    *TorchScriptLocation::Observer::active = nullptr;

TorchScriptLocation::TorchScriptLocation(const ScriptModule &root,
                                         Recorder &recorder)
    : observer(new Observer{root, recorder, {}, {}}) {
  Observer::active = observer.get();
  handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(Observer::callback)
                                     .scopes({at::RecordScope::FUNCTION}));
}

TorchScriptLocation::~TorchScriptLocation() {
  at::removeCallback(handle);
  Observer::active = nullptr;
}
