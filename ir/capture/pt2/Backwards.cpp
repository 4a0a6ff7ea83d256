//===- Backwards.cpp - Backwards that torch.export dropped ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Backwards.h"
#include "ir/capture/pt2/Metadata.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace fsdp;
using namespace fsdp::capture;

namespace {

constexpr llvm::StringLiteral kCheckpoint = "/torch/utils/checkpoint.py";

/// Of PyTorch itself, whose modules a model may call without registering them
/// (nn.Softmax(dim=-1)(x)), or of a library's activations, which are called so
/// as well (ACT2FN[name](x)).
bool isOfLibrary(const Pt2Frame &frame) {
  return frame.file.contains("-packages/torch/") ||
         frame.file.contains("/torch/nn/") ||
         frame.file.contains("/torch/utils/") ||
         frame.file.ends_with("/transformers/activations.py") ||
         frame.file.starts_with("<eval_with_key>");
}

bool isIdentifier(char letter) {
  return llvm::isAlnum(letter) || letter == '_' || letter == '.';
}

/// "ops.Relu3.apply" in `return ops.Relu3.apply(x)`, if the name before apply
/// is that of a class; else empty.
llvm::StringRef getAppliedClass(llvm::StringRef text) {
  for (size_t at = 0; (at = text.find(".apply(", at)) != llvm::StringRef::npos;
       ++at) {
    size_t begin = at;
    while (begin > 0 && isIdentifier(text[begin - 1]))
      --begin;
    llvm::StringRef owner = text.slice(begin, at);
    llvm::StringRef name = owner.rsplit('.').second;
    if (name.empty())
      name = owner;
    name = name.ltrim('_');
    if (!name.empty() && llvm::isUpper(name.front()))
      return text.slice(begin, at + 6);
  }
  return {};
}

/// Whether the line calls something named forward, as super().forward(x) does.
bool callsForward(llvm::StringRef text) {
  text.consume_front("def forward(");
  return text.contains("forward(");
}

std::string describePlace(const Pt2Frame &frame) {
  return frame.file.rsplit('/').second.empty()
             ? frame.file.str() + ":" + std::to_string(frame.line)
             : frame.file.rsplit('/').second.str() + ":" +
                   std::to_string(frame.line);
}

/// Paths of the modules of the model's own that the node is in.
llvm::SmallVector<std::string, 8> getModules(const json::Object &node) {
  llvm::SmallVector<std::string, 8> paths, classes;
  forEachPt2Module(
      node, [&](const ModuleInfo &module) { paths.push_back(module.path); });
  llvm::StringRef rest = getPt2NodeMetadata(node, "nn_module_stack");
  llvm::SmallVector<std::string, 8> own;
  for (size_t i = 0; !rest.empty(); ++i) {
    llvm::StringRef entry;
    std::tie(entry, rest) = rest.split(';');
    if (!entry.rsplit(',').second.starts_with("torch."))
      own.push_back(paths[i]);
  }
  return own;
}

class Trace {
public:
  explicit Trace(const json::Object &node) {
    forEachPt2Frame(node, [&](const Pt2Frame &frame) {
      isFiltered &= frame.function == "forward" ||
                    frame.file.ends_with("torch/__init__.py");
      frames.push_back(frame);
    });
  }

  /// Only calls of functions named forward.
  bool isFiltered = true;
  llvm::SmallVector<Pt2Frame, 16> frames;
};

/// By the calls of functions named forward.
std::optional<LostBackward> findByCalls(const json::Object &node,
                                        const Trace &trace) {
  // A call for each module of the model's own; more are others' forwards.
  llvm::SmallVector<std::string, 8> modules = getModules(node);
  llvm::SmallVector<const Pt2Frame *, 16> own;
  for (const Pt2Frame &frame : trace.frames)
    if (!isOfLibrary(frame))
      own.push_back(&frame);
  LostBackward found;
  found.location = getPt2Location(node);
  size_t calls = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    if (i == 0 || !callsForward(own[i - 1]->text))
      ++calls;
    llvm::StringRef name = getAppliedClass(own[i]->text);
    if (name.empty())
      continue;
    found.function = name.str();
    found.location.file = own[i]->file.str();
    found.location.line = own[i]->line;
    if (!modules.empty())
      found.location.module = modules[std::min(calls, modules.size()) - 1];
    found.forward = i + 1 < own.size() && calls >= modules.size()
                        ? describePlace(*own[i + 1])
                        : "";
  }
  if (!found.function.empty())
    return found;
  // Sub-graphs of regions do not say which modules they are in.
  if (modules.empty() || calls <= modules.size() || own.size() < 2)
    return std::nullopt;
  found.location.file = own[own.size() - 2]->file.str();
  found.location.line = own[own.size() - 2]->line;
  found.forward = describePlace(*own.back());
  return found;
}

/// Whether the node is view_as of a tensor and itself. Decompositions make it a
/// view, of which only the name says where it comes from.
bool isIdentity(const json::Object &node) {
  llvm::StringRef target = json::findString(node, "target").value_or("");
  const json::Array &inputs = json::getArray(node, "inputs");
  if (inputs.size() != 2)
    return false;
  auto getName = [&](size_t i) {
    return getPt2ValueName(json::get(json::asObject(inputs[i]), "arg"));
  };
  if (target == "torch.ops.aten.view_as.default")
    return !getName(0).empty() && getName(0) == getName(1);
  return target == "torch.ops.aten.view.default" &&
         getPt2NodeMetadata(node, "from_node")
             .contains("\"target\": \"aten.view_as.default\"");
}

} // namespace

std::optional<LostBackward>
fsdp::capture::findPt2LostBackward(const json::Object &node,
                                   bool differentiates) {
  Trace trace(node);
  bool isCheckpoint = llvm::any_of(trace.frames, [](const Pt2Frame &frame) {
    return frame.file.ends_with(kCheckpoint) && frame.function == "forward";
  });
  if (isCheckpoint) {
    if (differentiates)
      return std::nullopt;
    LostBackward found{LostBackward::Kind::Checkpoint, {}, {}, {}};
    for (const Pt2Frame &frame : trace.frames) {
      if (frame.file.ends_with(kCheckpoint))
        break;
      if (!isOfLibrary(frame)) {
        found.location.file = frame.file.str();
        found.location.line = frame.line;
      }
    }
    return found;
  }
  if (getPt2NodeMetadata(node, "source_fn_stack")
          .contains("autograd.Function")) {
    LostBackward found;
    found.location = getPt2Location(node);
    for (const Pt2Frame &frame : trace.frames)
      if (llvm::StringRef name = getAppliedClass(frame.text); !name.empty()) {
        found.function = name.str();
        found.location.file = frame.file.str();
        found.location.line = frame.line;
      }
    if (!trace.frames.empty())
      found.forward = describePlace(trace.frames.back());
    return found;
  }
  if (!differentiates)
    return std::nullopt;
  if (trace.isFiltered && !trace.frames.empty())
    if (std::optional<LostBackward> found = findByCalls(node, trace))
      return found;
  if (isIdentity(node))
    return LostBackward{
        LostBackward::Kind::Identity, {}, getPt2Location(node), {}};
  return std::nullopt;
}

/// A view of the sizes that the tensor has already.
static bool changesNothing(const json::Object &node, const at::Tensor &tensor) {
  if (json::findString(node, "target") != "torch.ops.aten.view.default")
    return true;
  auto [tag, sizes] = json::getUnion(
      json::get(json::asObject(json::getArray(node, "inputs")[1]), "arg"));
  return tag == "as_ints" &&
         llvm::equal(json::asArray(sizes), tensor.sizes(),
                     [](const json::Value &size, int64_t other) {
                       return json::asInt(size) == other;
                     });
}

void Pt2Backwards::inspect(
    const json::Object &node, bool differentiates,
    llvm::function_ref<std::vector<at::Tensor>()> getTensors) {
  noteCheckpoint(node);
  std::optional<LostBackward> found = findPt2LostBackward(node, differentiates);
  if (!found)
    return;
  std::vector<at::Tensor> tensors = getTensors();
  bool needsGradient = llvm::any_of(tensors, [](const at::Tensor &tensor) {
    return tensor.defined() && tensor.requires_grad();
  });
  if (needsGradient && (found->kind != LostBackward::Kind::Identity ||
                        changesNothing(node, tensors.front())))
    add(std::move(*found));
}

void Pt2Backwards::add(LostBackward found) {
  std::string key =
      found.location.module + '\n' + found.function + '\n' +
      (found.kind == LostBackward::Kind::Checkpoint || !found.function.empty()
           ? found.location.file + ":" + std::to_string(found.location.line)
           : found.forward);
  auto [it, isNew] = known.try_emplace(std::move(key), lost.size());
  if (isNew)
    lost.push_back(std::move(found));
  // Another operator on the line of the call knows less.
  else if (lost[it->second].forward.empty())
    lost[it->second].forward = std::move(found.forward);
}

void Pt2Backwards::noteCheckpoint(const json::Object &node) {
  std::string module;
  llvm::SmallVector<std::string, 8> modules;
  forEachPt2Module(node, [&](const ModuleInfo &info) {
    module = info.path;
    modules.push_back(info.path);
  });
  bool isMarker = json::findString(node, "target")
                      .value_or("")
                      .starts_with("torch.ops.aten.empty") &&
                  llvm::any_of(Trace(node).frames, [](const Pt2Frame &frame) {
                    return frame.file.ends_with(kCheckpoint);
                  });
  if (isMarker) {
    beginsIn = module;
    return;
  }
  if (!beginsIn)
    return;
  // The module behind the one that calls the checkpoint, if there is one.
  auto at = llvm::find(modules, *beginsIn);
  checkpoints.push_back(at != modules.end() && std::next(at) != modules.end()
                            ? *std::next(at)
                            : *beginsIn);
  beginsIn.reset();
}
