//===- MemoryMap.cpp - A picture of the arena over time -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the data; MemoryMap.html, the page around it, draws them.
//
//===----------------------------------------------------------------------===//

#include "passes/emit/MemoryMap.h"

#include "ir/aten/Aten.h"
#include "passes/analysis/ModulePaths.h"
#include "passes/analysis/Outputs.h"
#include "passes/analysis/SourcePlace.h"
#include "passes/analysis/Transfers.h"
#include "passes/emit/MemoryMapPage.h"
#include "passes/emit/Types.h"
#include "passes/plan/MemoryUse.h"
#include "passes/plan/ProgramUse.h"
#include "plan/DType.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// As the page numbers them.
enum class Kind {
  Parameter,
  Optimizer,
  Buffer,
  Input,
  Activation,
  Gathered,
  Gradient
};

Kind getKind(Role role) {
  switch (role) {
  case Role::Parameter:
  case Role::Frozen:
    return Kind::Parameter;
  case Role::Optimizer:
  case Role::Scalar:
  case Role::Step:
  case Role::LearningRate:
  case Role::LossScale:
  case Role::LossGrowth:
    return Kind::Optimizer;
  case Role::Buffer:
  case Role::Constant:
  case Role::Random:
    return Kind::Buffer;
  case Role::Gradient:
    return Kind::Gradient;
  case Role::Gathered:
    return Kind::Gathered;
  }
  llvm_unreachable("all roles have a kind");
}

Kind getKind(StorageKind kind) {
  switch (kind) {
  case StorageKind::Input:
    return Kind::Input;
  case StorageKind::Gathered:
    return Kind::Gathered;
  case StorageKind::Gradient:
    return Kind::Gradient;
  case StorageKind::Activation:
  case StorageKind::State:
    break;
  }
  return Kind::Activation;
}

/// "f32[4,64]"
std::string printType(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (std::optional<plan::DType> dtype = toDType(type.getElementType()))
    stream << std::string_view(dtypeName(*dtype));
  else
    stream << type.getElementType();
  stream << '[';
  llvm::interleave(type.getShape(), stream, ",");
  stream << ']';
  return text;
}

class MapWriter {
public:
  MapWriter(ModuleOp module, llvm::raw_ostream &stream)
      : module(module), rootClass(getRootClass(module)), states(module),
        json(stream) {}

  void write(StringRef title);

private:
  int64_t intern(const Twine &text);
  void writeNumbers(ArrayRef<int64_t> numbers);
  void writeStates();
  void writeProgram(const ProgramUse &use);
  void writeOps(func::FuncOp program);
  void writeBlocks(func::FuncOp program);
  void writeTensors(const ProgramUse &use);
  DenseMap<unsigned, std::string> nameTransferred(func::FuncOp program,
                                                  const Liveness &liveness);
  StringRef getBlock(Operation *op) const;
  static StringRef getRootClass(ModuleOp module);

  ModuleOp module;
  StringRef rootClass; ///< of the model itself, which has no path
  StateTable states;
  llvm::json::OStream json;
  llvm::MapVector<StringRef, int64_t> strings;
  llvm::StringSet<> owned, buckets;
};

StringRef MapWriter::getRootClass(ModuleOp module) {
  for (auto info : module.getOps<ModuleInfoOp>())
    if (info.getPath().empty())
      return info.getClassName();
  return {};
}

int64_t MapWriter::intern(const Twine &text) {
  StringRef key = owned.insert(text.str()).first->getKey();
  return strings.try_emplace(key, strings.size()).first->second;
}

void MapWriter::writeNumbers(ArrayRef<int64_t> numbers) {
  json.array([&] {
    for (int64_t number : numbers)
      json.value(number);
  });
}

/// [kind, address, bytes, name, type] of each on the device.
void MapWriter::writeStates() {
  json.attributeArray("states", [&] {
    for (StateOp state : states.getStates()) {
      if (state.getPart() || state.isOnHost()) // the flat state is drawn
        continue;
      RankedTensorType type = state.getLocalType();
      writeNumbers({static_cast<int64_t>(getKind(state.getRole())),
                    static_cast<int64_t>(*state.getAt()),
                    aten::getStorageBytes(type), intern(state.getSymName()),
                    intern(printType(type))});
      if (std::optional<StringRef> bucket = state.getBucket())
        buckets.insert(*bucket);
    }
  });
}

/// [name, module, source] of each op, in order.
void MapWriter::writeOps(func::FuncOp program) {
  json.attributeArray("ops", [&] {
    for (Operation &op : program.getBody().front()) {
      SourcePlace place(op.getLoc());
      writeNumbers({intern(op.getName().getStringRef()), intern(place.module),
                    intern(place.getSource())});
    }
  });
}

/// The bucket of the innermost wrapped module that the op belongs to; without
/// any, the outermost module. Empty for what is no computation of the model:
/// transfers of the next block stand between the ops of this one.
StringRef MapWriter::getBlock(Operation *op) const {
  if (op->getName().getDialectNamespace() == "fsdp")
    return {};
  StringRef path = SourcePlace(op->getLoc()).module;
  if (path.empty() || buckets.size() < 2)
    return path.split('.').first;
  return findAround(path, [&](StringRef at) { return buckets.contains(at); })
      .value_or(kRootBucket);
}

/// [name, begin, end] of each run of ops of one block.
void MapWriter::writeBlocks(func::FuncOp program) {
  struct Run {
    StringRef name;
    int64_t begin, end;
  };
  SmallVector<Run> runs;
  for (auto [time, op] : llvm::enumerate(program.getBody().front())) {
    StringRef block = getBlock(&op);
    auto now = static_cast<int64_t>(time);
    if (block.empty())
      continue;
    if (runs.empty() || runs.back().name != block)
      runs.push_back({block, now, now + 1});
    runs.back().end = now + 1;
  }
  json.attributeArray("blocks", [&] {
    for (const Run &run : runs)
      writeNumbers({intern(run.name), run.begin, run.end});
  });
}

/// Names of what transfers move: after the parameters that it belongs to.
DenseMap<unsigned, std::string>
MapWriter::nameTransferred(func::FuncOp program, const Liveness &liveness) {
  DenseMap<unsigned, std::string> names;
  for (Operation &op : program.getBody().front()) {
    ArrayRef<unsigned> promised = liveness.getPromised(&op);
    if (isStart(&op, Collective::AllGather)) {
      for (auto [input, storage] : llvm::zip_equal(op.getOperands(), promised))
        if (BlockArgument source = getShardSource(input))
          if (StateOp state = states.lookup(program, source.getArgNumber()))
            names[storage] = state.getSymName().str();
      continue;
    }
    StartOp start = asCutting(&op);
    if (!start || !start.getOf())
      continue;
    for (auto [input, storage, parameter] :
         llvm::zip_equal(op.getOperands(), promised,
                         start.getOfAttr().getAsRange<FlatSymbolRefAttr>())) {
      names[storage] =
          ((start.isCombining() ? "reduced gradient of "
                                : "ranks' parts of the gradient of ") +
           parameter.getValue())
              .str();
      if (unsigned source = liveness.getStorage(input);
          source != Liveness::kNone)
        names[source] = ("gradient of " + parameter.getValue()).str();
    }
  }
  return names;
}

/// [kind, address, bytes, first, last, name, type, module, source] of each
/// tensor but the states.
void MapWriter::writeTensors(const ProgramUse &use) {
  func::FuncOp program = use.program;
  Liveness liveness(program);
  SmallVector<int64_t> addresses = getAddresses(program, liveness, states);
  DenseMap<unsigned, std::string> names = nameTransferred(program, liveness);
  json.attributeArray("tensors", [&] {
    for (auto [index, storage] : llvm::enumerate(liveness.getStorages())) {
      if (storage.kind == StorageKind::State || liveness.isMerged(index) ||
          storage.memory != MemorySpace::Device || !storage.value)
        continue;
      std::string name = names.lookup(index);
      if (auto argument = dyn_cast<BlockArgument>(storage.value)) {
        if (auto input = program.getArgAttrOfType<StringAttr>(
                argument.getArgNumber(), kInputAttr))
          name = input.getValue().str();
      } else if (name.empty()) {
        auto result = cast<OpResult>(storage.value);
        name = result.getOwner()->getName().getStringRef().str();
        if (result.getOwner()->getNumResults() > 1)
          name += "#" + std::to_string(result.getResultNumber());
      }
      SourcePlace place(storage.value.getLoc());
      // A transfer stands where its first member does, an input nowhere.
      StringRef where = place.module;
      if (storage.kind == StorageKind::Gathered && names.contains(index))
        where = StringRef(names[index]).rsplit('.').first;
      else if (storage.kind == StorageKind::Input)
        where = {};
      else if (where.empty() && place.line)
        where = rootClass; // what the model itself computes
      writeNumbers(
          {static_cast<int64_t>(getKind(storage.kind)), addresses[index],
           storage.bytes, std::max<int64_t>(storage.first, 0), storage.last,
           intern(name),
           intern(printType(cast<RankedTensorType>(storage.value.getType()))),
           intern(where), intern(place.getSource())});
    }
  });
}

void MapWriter::writeProgram(const ProgramUse &use) {
  func::FuncOp program = use.program;
  json.object([&] {
    json.attribute("name", program.getSymName());
    json.attribute("end", use.end);
    json.attribute("lowerBound", use.lowerBound);
    json.attributeArray("phases", [&] {
      for (auto [phase, peak] : llvm::zip_equal(use.phases, use.phasePeaks))
        json.array([&] {
          json.value(phase.name);
          json.value(std::max<int64_t>(phase.begin, 0));
          json.value(phase.end);
          json.value(peak.time);
        });
    });
    json.attribute("peak", use.peak.time);
    writeOps(program);
    writeBlocks(program);
    writeTensors(use);
  });
}

void MapWriter::write(StringRef title) {
  MemoryUse use = *MemoryUse::fromAttribute(module);
  json.object([&] {
    json.attribute("title", title);
    json.attribute("peak", use.peak);
    json.attribute("statesEnd", use.states);
    json.attribute("scratchBound", use.scratchBound
                                       ? llvm::json::Value(*use.scratchBound)
                                       : llvm::json::Value(nullptr));
    json.attribute("scratchUnknown", llvm::json::Array(use.scratchUnknown));
    int64_t ranks = 1;
    if (auto mesh = module->getAttrOfType<MeshAttr>(kMeshAttr))
      for (int64_t size : mesh.getSizes())
        ranks *= size;
    json.attribute("ranks", ranks);
    writeStates();
    json.attributeArray("programs", [&] {
      for (const ProgramUse &program : getProgramUses(module))
        writeProgram(program);
    });
    // Last, when all are known.
    json.attributeArray("strings", [&] {
      for (const auto &entry : strings)
        json.value(entry.first);
    });
  });
}

} // namespace

std::string fsdp::drawMemoryMap(ModuleOp module, StringRef title) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  MapWriter(module, stream).write(title);
  // No text may end the element that it stands in.
  std::string safe;
  safe.reserve(data.size());
  for (char each : data)
    if (each == '<')
      safe += "\\u003c";
    else
      safe += each;
  auto [before, after] = StringRef(kMemoryMapPage).split(kMemoryMapData);
  return (before + safe + after).str();
}
