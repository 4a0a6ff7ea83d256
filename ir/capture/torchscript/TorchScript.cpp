//===- TorchScript.cpp - Captures models of torch.jit.save ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/TorchScript.h"
#include "ir/capture/torchscript/Archive.h"
#include "ir/capture/torchscript/Guard.h"
#include "ir/capture/torchscript/Inputs.h"
#include "ir/capture/torchscript/LoadLimits.h"
#include "ir/capture/torchscript/Location.h"
#include "ir/capture/torchscript/Records.h"
#include "support/ReadOnlyFile.h"

#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/graph_iterator.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <map>

using namespace fsdp;
using namespace fsdp::capture;
using ScriptModule = torch::jit::Module;

namespace {

constexpr uint64_t largeConstant = 1024; // bytes that may stand in the IR

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// "File.py", 12 out of LibTorch's `File "file.py", line 12`.
std::string getSourceLine(const std::string &message) {
  // Of the user's code if it is shown, not of what was made out of it.
  size_t original = message.find("original code");
  size_t file =
      message.find("File \"", original == std::string::npos ? 0 : original);
  if (file == std::string::npos)
    return {};
  size_t end = message.find('"', file + 6);
  size_t line = message.find("line ", end);
  if (end == std::string::npos || line == std::string::npos)
    return {};
  size_t stop = message.find_first_not_of("0123456789", line + 5);
  return " at " + message.substr(file + 6, end - file - 6) + ":" +
         message.substr(line + 5, stop - line - 5);
}

std::string firstLine(const std::string &text) {
  size_t begin = text.find_first_not_of(" \n");
  if (begin == std::string::npos)
    return "no reason given";
  return text.substr(begin, text.find('\n', begin) - begin);
}

[[noreturn]] void failLoading(const ZipDirectory &archive,
                              const std::string &message) {
  constexpr std::string_view unknown = "Unknown builtin op: ";
  if (size_t at = message.find(unknown); at != std::string::npos) {
    size_t begin = at + unknown.size();
    std::string name =
        message.substr(begin, message.find_first_of(". \n", begin) - begin);
    bool own = name.starts_with("aten::") || name.starts_with("prim::");
    throw Error(own ? ErrorId::UnknownOperator : ErrorId::CustomOperator,
                name + getSourceLine(message) +
                    (own ? " is not an operator of this LibTorch; export the "
                           "model with PyTorch 2.11"
                         : " is an operator of a library, which is not "
                           "supported; write it with PyTorch's own operators"));
  }
  throw Error(ErrorId::TorchScriptNotLoaded,
              "'" + archive.path() +
                  "' cannot be loaded as TorchScript: " + firstLine(message));
}

/// The file as LibTorch reads archives, with or without the tensors' bytes.
class ArchiveBytes : public caffe2::serialize::ReadAdapterInterface {
public:
  ArchiveBytes(const ZipDirectory &archive, bool hasTensors)
      : file(archive.path(), "the model file") {
    if (!hasTensors)
      for (const ZipEntry &entry : archive.entries())
        if (TorchScriptRecords::holdsTensors(entry.name) && entry.stored)
          skipped[entry.offset] = entry.offset + entry.bytes;
  }
  size_t size() const override { return file.bytes(); }
  size_t read(uint64_t position, void *buffer, size_t count,
              const char *) const override {
    if (position >= file.bytes())
      return 0;
    count = std::min<uint64_t>(count, file.bytes() - position);
    auto next = skipped.upper_bound(position);
    if (next != skipped.begin() && position + count <= std::prev(next)->second)
      return count;
    file.read(position, count, buffer);
    return count;
  }

private:
  ReadOnlyFile file;
  std::map<uint64_t, uint64_t> skipped; ///< begins and ends of tensors
};

/// What was checked is what LibTorch will read: zip archives can be made that
/// two readers take for different ones.
void checkSameEntries(
    const ZipDirectory &archive,
    const std::shared_ptr<caffe2::serialize::ReadAdapterInterface> &bytes) {
  caffe2::serialize::PyTorchStreamReader reader(bytes);
  std::vector<std::string> names = reader.getAllRecords();
  bool isSame = names.size() == archive.entries().size();
  for (size_t i = 0; isSame && i < names.size(); ++i) {
    const ZipEntry *entry = archive.find(names[i]);
    isSame = entry && reader.getRecordOffset(names[i]) == entry->offset &&
             reader.getRecordSize(names[i]) == entry->bytes;
  }
  if (!isSame)
    throw Error(ErrorId::ArchiveDamaged,
                "'" + archive.path() +
                    "' is a damaged zip archive: its directory can be "
                    "understood in two ways; export it again");
}

/// What loading may take of the processor, and of memory beside the tensors:
/// many times what the code of sound models does.
unsigned mostSeconds(const LoadNeeds &needs) {
  return 5 + static_cast<unsigned>(needs.codeBytes / 20'000);
}
uint64_t mostMemory(const LoadNeeds &needs) {
  return (1ull << 30) + needs.stack + 2000 * needs.codeBytes;
}

ScriptModule loadChecked(const ZipDirectory &archive, bool hasTensors) {
  auto bytes = std::make_shared<ArchiveBytes>(archive, hasTensors);
  checkSameEntries(archive, bytes);
  // On the CPU and not on meta: constants of the program need their data.
  ScriptModule module = torch::jit::load(bytes, at::Device(at::kCPU));
  guardTorchScript(module);
  return module;
}

/// Nothing of the module has run, and nothing of it can do harm when it does.
ScriptModule load(const ZipDirectory &archive) {
  LoadNeeds needs = checkTorchScriptArchive(archive);
  AddressLimit limit(mostMemory(needs) + 2 * archive.fileBytes());
  auto run = [&](const std::function<void()> &work) {
    runWithStack(needs.stack, work);
  };
  // Models are loaded several times to explain them, and tried once.
  static std::string tried;
  std::string name = archive.path() + archive.directoryHash();
  if (tried != name)
    tryFirst("'" + archive.path() + "'", mostSeconds(needs),
             [&] { run([&] { loadChecked(archive, /*hasTensors=*/false); }); });
  tried = name;
  std::optional<ScriptModule> module;
  try {
    run([&] { module = loadChecked(archive, /*hasTensors=*/true); });
    return *module;
  } catch (const Error &) {
    throw;
  } catch (const c10::Error &error) {
    failLoading(archive, error.what_without_backtrace());
  } catch (const std::exception &error) {
    failLoading(archive, error.what());
  }
}

/// Runs graphs as they are written: no profiling, no fusion.
class PlainExecution {
public:
  PlainExecution() {
    torch::jit::getProfilingMode() = false;
    torch::jit::getExecutorMode() = false;
  }
  ~PlainExecution() {
    torch::jit::getProfilingMode() = profiling;
    torch::jit::getExecutorMode() = executor;
  }

private:
  bool profiling = torch::jit::getProfilingMode();
  bool executor = torch::jit::getExecutorMode();
  torch::jit::GraphOptimizerEnabledGuard optimizer{false};
};

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// A tensor attribute of a module.
struct Slot {
  ScriptModule module;
  std::string attribute;
  std::string path;
  bool isParameter = false;
};

/// "Linear" out of
/// `__torch__.torch.nn.modules.linear.___torch_mangle_3.Linear`.
std::string getClassName(const ScriptModule &module) {
  return module.type()->name() ? module.type()->name()->name() : "Module";
}

std::string join(const std::string &path, const std::string &name) {
  return path.empty() ? name : path + "." + name;
}

/// In the order of PyTorch's named_parameters: a module's own before its
/// children's. True if there are any.
bool collectSlots(const ScriptModule &module, const std::string &path,
                  std::vector<Slot> &slots, std::vector<ModuleInfo> &modules) {
  size_t before = slots.size(), row = modules.size();
  modules.push_back({path, getClassName(module)});
  c10::ClassTypePtr type = module.type();
  std::vector<std::pair<std::string, ScriptModule>> children;
  for (size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string &name = type->getAttributeName(i);
    c10::IValue value = module._ivalue()->getSlot(i);
    if (value.isTensor() && value.toTensor().defined())
      slots.push_back({module, name, join(path, name), type->is_parameter(i)});
    else if (type->getAttribute(i)->is_module())
      children.emplace_back(name, ScriptModule(value.toObject()));
  }
  for (const auto &[name, child] : children)
    collectSlots(child, join(path, name), slots, modules);
  if (slots.size() == before)
    modules.erase(modules.begin() + row, modules.end());
  return slots.size() != before;
}

/// Declares the module's tensors and puts the capture's in their place.
class States {
public:
  States(const ScriptModule &module, TorchScriptRecords &records,
         JointCapture &capture)
      : records(records), capture(capture) {
    std::vector<ModuleInfo> modules;
    collectSlots(module, "", slots, modules);
    for (ModuleInfo &row : modules)
      capture.addModule(std::move(row));
    std::stable_partition(slots.begin(), slots.end(),
                          [](const Slot &slot) { return slot.isParameter; });
    for (const Slot &slot : slots)
      addName(slot);
    for (Row &row : rows)
      declare(row);
  }

  /// Buffers that the module replaced instead of writing to them.
  void noteReplaced() {
    for (size_t index = 0; index < rows.size(); ++index) {
      const Row &row = rows[index];
      for (const Slot *slot : row.slots) {
        at::Tensor now = slot->module.attr(slot->attribute).toTensor();
        if (!now.is_same(row.wrapped))
          capture.setStateTensor(index, now);
      }
    }
  }

private:
  struct Row {
    std::vector<const Slot *> slots; ///< all names of one tensor
    at::Tensor original, wrapped;
  };

  /// Tied names are loaded as one tensor.
  void addName(const Slot &slot) {
    at::Tensor tensor = slot.module.attr(slot.attribute).toTensor();
    auto [it, isNew] =
        rowOf.try_emplace(tensor.unsafeGetTensorImpl(), rows.size());
    if (isNew)
      rows.push_back({{}, tensor, {}});
    rows[it->second].slots.push_back(&slot);
  }

  void declare(Row &row) {
    State state;
    for (const Slot *slot : row.slots)
      state.names.push_back(slot->path);
    const at::Tensor &tensor = row.original;
    state.role = !row.slots.front()->isParameter ? StateRole::Buffer
                 : tensor.requires_grad()        ? StateRole::Parameter
                                                 : StateRole::Frozen;
    state.type =
        TensorType::contiguous(tensor.scalar_type(), tensor.sizes().vec());
    state.source = records.find(tensor);
    row.wrapped = capture.addState(std::move(state));
    for (const Slot *slot : row.slots)
      ScriptModule(slot->module).setattr(slot->attribute, row.wrapped);
  }

  TorchScriptRecords &records;
  JointCapture &capture;
  std::vector<Slot> slots;
  std::vector<Row> rows;
  std::unordered_map<const c10::TensorImpl *, size_t> rowOf;
};

//===----------------------------------------------------------------------===//
// Attributes that are not tensors
//===----------------------------------------------------------------------===//

/// Numbers and strings that a module holds: a step cannot carry changes of
/// them.
class PlainAttributes {
public:
  explicit PlainAttributes(const ScriptModule &module) {
    for (const auto &row : module.named_modules())
      for (size_t i = 0; i < row.value.type()->numAttributes(); ++i) {
        c10::IValue value = row.value._ivalue()->getSlot(i);
        if (value.isScalar() || value.isString() || value.isIntList() ||
            value.isDoubleList() || value.isBoolList())
          attributes.push_back(
              {row.value, i,
               join(row.name, row.value.type()->getAttributeName(i)),
               value.deepcopy()});
      }
  }

  void checkUnchanged() const {
    for (const Attribute &attribute : attributes)
      if (!c10::_fastEqualsForContainer(
              attribute.module._ivalue()->getSlot(attribute.slot),
              attribute.value))
        throw Error(ErrorId::ModelNotSupported,
                    "the model changes its attribute '" + attribute.path +
                        "', which is not a tensor; make it a buffer");
  }

private:
  struct Attribute {
    ScriptModule module;
    size_t slot;
    std::string path;
    c10::IValue value;
  };
  std::vector<Attribute> attributes;
};

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// What the interpreter says behind its call stack.
std::string getReason(const std::string &message) {
  size_t end = message.find_last_not_of(" \n");
  if (end == std::string::npos)
    return "no reason given";
  size_t begin = message.rfind('\n', end);
  begin = begin == std::string::npos ? 0 : begin + 1;
  return message.substr(begin, end + 1 - begin);
}

/// Whether the graph or one that it calls enters a context manager.
bool entersContext(torch::jit::Graph &graph) {
  std::shared_ptr<torch::jit::Graph> inlined = graph.copy();
  torch::jit::Inline(*inlined);
  torch::jit::DepthFirstGraphNodeIterator nodes(inlined);
  while (torch::jit::Node *node = nodes.next())
    if (node->kind() == torch::jit::prim::Enter)
      return true;
  return false;
}

/// Lets TorchScript put in the casts of torch.autocast, which belongs to the
/// optimization that is off otherwise.
void applyAutocast(torch::jit::GraphFunction &function) {
  if (!entersContext(*function.graph()))
    return;
  try {
    std::shared_ptr<torch::jit::Graph> graph = function.graph();
    torch::jit::preoptimizeGraph(graph);
  } catch (const c10::Error &error) {
    throw Error(ErrorId::TorchScriptFailed,
                "torch.autocast cannot be applied: " +
                    firstLine(error.what_without_backtrace()) +
                    "; export the model with torch.export instead");
  }
}

} // namespace

bool capture::isTorchScript(const ZipDirectory &archive) {
  return archive.find("data.pkl") && archive.find("constants.pkl");
}

void capture::captureTorchScript(const ZipDirectory &archive,
                                 const CaptureOptions &options,
                                 JointCapture &capture) {
  PlainExecution plain;
  ScriptModule module = load(archive);
  TorchScriptInputs inputs(module.get_method("forward").function().getSchema(),
                           options.inputs);
  capture.setFile(
      {archive.path(), archive.fileBytes(), archive.directoryHash()});
  TorchScriptRecords records(archive);
  PlainAttributes attributes(module);
  States states(module, records, capture);
  std::vector<c10::IValue> arguments = inputs.declare(capture);
  torch::jit::Method forward = module.get_method("forward");
  torch::jit::GraphFunction &function =
      torch::jit::toGraphFunction(forward.function());
  applyAutocast(function);
  // The executor prepares its graph now: not under the recorder.
  function.get_executor();
  capture.run([&] {
    GuardedRun guard;
    TorchScriptLocation location(module, capture.getRecorder());
    try {
      c10::IValue output = forward(arguments);
      states.noteReplaced();
      attributes.checkUnchanged();
      return flattenReturned(output);
    } catch (const Error &) {
      throw;
    } catch (const std::exception &error) {
      // The interpreter wraps what is thrown beneath it.
      capture.getRecorder().rethrowFailure();
      throw Error(ErrorId::TorchScriptFailed,
                  "the model fails" + getSourceLine(error.what()) + ": " +
                      getReason(error.what()));
    }
  });
  capture.moveConstants(largeConstant, [&](const at::Tensor &tensor) {
    return records.find(tensor);
  });
}

std::vector<CaptureProblem>
capture::findUnsupportedTorchScript(const ZipDirectory &archive) {
  std::vector<CaptureProblem> problems;
  try {
    load(archive);
  } catch (const Error &error) {
    problems.push_back({error.id(), error.what()});
  }
  return problems;
}
