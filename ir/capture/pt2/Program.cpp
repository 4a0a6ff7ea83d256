//===- Program.cpp - What a torch.export archive says ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Program.h"
#include "ir/capture/pt2/Enums.h"
#include "ir/capture/pt2/Metadata.h"
#include "ir/capture/pt2/Outputs.h"
#include "ir/capture/pt2/Regions.h"
#include "ir/capture/pt2/Samples.h"
#include "ir/capture/pt2/SharedInputs.h"

#include <unordered_map>
#include <unordered_set>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

constexpr int64_t schemaMajor = 8;

/// A tensor of the archive's configs.
struct Payload {
  std::string record; // "data/weights/weight_0"
  Pt2TensorMeta meta;
};

std::vector<int64_t> readSizes(const json::Array &values, const Pt2Dims &dims,
                               const std::string &what) {
  std::vector<int64_t> sizes;
  for (const json::Value &value : values)
    sizes.push_back(dims.evaluate(value, what));
  return sizes;
}

json::Value parse(const ZipDirectory &archive, llvm::StringRef entry) {
  if (!archive.find(entry))
    throw Error(ErrorId::NotAProgram,
                "'" + archive.path() +
                    "' holds no program: expected the entry '" + entry.str() +
                    "' of a torch.export archive; export the model with "
                    "torch.export.save");
  llvm::Expected<json::Value> value = json::parse(archive.readStored(entry));
  if (!value)
    throw Error(ErrorId::ArchiveDamaged,
                "'" + entry.str() + "' in '" + archive.path() +
                    "' is not valid JSON: " + toString(value.takeError()));
  return std::move(*value);
}

/// Elements from the first to the last, both included.
int64_t getSpan(const TensorType &type) {
  int64_t last = 0;
  for (size_t dim = 0; dim < type.sizes.size(); ++dim) {
    if (type.sizes[dim] == 0)
      return 0;
    last += (type.sizes[dim] - 1) * type.strides[dim];
  }
  return last + 1;
}

} // namespace

Pt2TensorMeta fsdp::capture::readPt2TensorMeta(const json::Object &meta,
                                               const Pt2Dims &dims,
                                               const std::string &name) {
  checkPt2Layout(json::getInt(meta, "layout"));
  Pt2TensorMeta result;
  result.type.dtype = getPt2ScalarType(json::getInt(meta, "dtype"));
  result.type.sizes = readSizes(json::getArray(meta, "sizes"), dims,
                                "a dimension of '" + name + "'");
  result.type.strides = readSizes(json::getArray(meta, "strides"), dims,
                                  "a stride of '" + name + "'");
  if (result.type.sizes.size() != result.type.strides.size())
    json::fail("as many strides as sizes");
  result.storageOffset = dims.evaluate(json::get(meta, "storage_offset"),
                                       "the storage offset of '" + name + "'");
  result.requiresGrad = json::getBool(meta, "requires_grad");
  std::string device = json::getString(json::getObject(meta, "device"), "type");
  if (device == "cpu" || device == "cuda")
    result.device = device == "cpu" ? c10::kCPU : c10::kCUDA;
  return result;
}

namespace fsdp::capture {

class Pt2Reader {
public:
  Pt2Reader(const ZipDirectory &archive, const DimSizes &sizes,
            const std::vector<std::vector<std::string>> &ties)
      : archive(archive), sizes(sizes) {
    for (size_t i = 0; i < ties.size(); ++i)
      for (const std::string &name : ties[i])
        tieOf[name] = i;
  }

  Pt2Program read() {
    program.document = std::make_shared<const json::Value>(
        parse(archive, "models/model.json"));
    const json::Object &root = json::asObject(*program.document);
    checkVersion(root);
    program.dims = Pt2Dims::read(root);
    program.dims.bind(sizes, archive.path());
    const json::Object &module = json::getObject(root, "graph_module");
    program.graph = &json::getObject(module, "graph");
    readPayloads("data/weights/");
    readPayloads("data/constants/");
    const json::Object &signature = json::getObject(module, "signature");
    for (const json::Value &spec : json::getArray(signature, "input_specs"))
      readInputSpec(json::getUnion(spec));
    outputPaths = readPt2OutputPaths(module);
    for (const json::Value &spec : json::getArray(signature, "output_specs"))
      readOutputSpec(json::getUnion(spec));
    checkOverlaps();
    readModules(module);
    readSamples();
    return std::move(program);
  }

private:
  using Tagged = std::pair<llvm::StringRef, const json::Value &>;

  void checkVersion(const json::Object &root);
  void readPayloads(const std::string &folder);
  void readInputSpec(Tagged spec);
  void readOutputSpec(Tagged spec);
  void addState(const std::string &placeholder, const std::string &name,
                StateRole role, bool isVolatile);
  void addInput(const json::Object &spec);
  Pt2TensorMeta getMeta(const std::string &placeholder,
                        const std::string &name);
  std::optional<Record> getRecord(const Payload &payload) const;
  void checkOverlaps();
  void collectModules(const json::Object &graph);
  void readModules(const json::Object &module);
  void readSamples();

  const ZipDirectory &archive;
  const DimSizes &sizes;
  Pt2Program program;
  std::unordered_map<std::string, Payload> payloads;    // by state name
  std::unordered_map<std::string, size_t> stateOf;      // by state name
  std::unordered_map<std::string, size_t> stateAt;      // by record and layout
  std::unordered_map<std::string, size_t> tieOf;        // group, by state name
  std::unordered_map<size_t, size_t> stateOfTie;        // by group
  std::unordered_map<std::string, std::string> classOf; // by module path
  size_t constants = 0;
  std::vector<OutputPath> outputPaths; // of all that is returned
  size_t returned = 0;
};

void Pt2Reader::checkVersion(const json::Object &root) {
  int64_t major =
      json::getInt(json::getObject(root, "schema_version"), "major");
  if (major == schemaMajor)
    return;
  std::string torch =
      json::findString(root, "torch_version").value_or("unknown").str();
  throw Error(ErrorId::ArchiveVersion,
              "'" + archive.path() + "' was exported by PyTorch " + torch +
                  " in archive schema " + std::to_string(major) + "; schema " +
                  std::to_string(schemaMajor) +
                  " is read, which PyTorch 2.11 writes: export the model again "
                  "with it");
}

void Pt2Reader::readPayloads(const std::string &folder) {
  std::string kind = folder == "data/weights/" ? "weights" : "constants";
  json::Value config =
      parse(archive, folder + "model_" + kind + "_config.json");
  for (const auto &[key, value] :
       json::getObject(json::asObject(config), "config")) {
    const json::Object &entry = json::asObject(value);
    const json::Object *meta = json::findObject(entry, "tensor_meta");
    if (json::getBool(entry, "use_pickle") || !meta)
      throw Error(ErrorId::ModelNotSupported,
                  "'" + key +
                      "' is no plain tensor (a tensor subclass or an object "
                      "of its own); export the model with plain tensors");
    payloads[key] = {folder + json::getString(entry, "path_name"),
                     readPt2TensorMeta(*meta, program.dims, key)};
  }
}

/// Bytes of the file, if it holds the tensor: archives that were exported
/// without data map every tensor to one empty record.
std::optional<Record> Pt2Reader::getRecord(const Payload &payload) const {
  const ZipEntry *entry = archive.find(payload.record);
  if (!entry)
    return std::nullopt;
  archive.stored(payload.record);
  const TensorType &type = payload.meta.type;
  uint64_t element = c10::elementSize(type.dtype);
  uint64_t begin = payload.meta.storageOffset * element;
  uint64_t bytes = getSpan(type) * element;
  if (begin + bytes > entry->bytes) {
    if (entry->bytes == 0)
      return std::nullopt;
    throw Error(ErrorId::ArchiveDamaged,
                "'" + payload.record + "' in '" + archive.path() +
                    "' is too short: expected " +
                    std::to_string(begin + bytes) + " bytes, found " +
                    std::to_string(entry->bytes) + "; export the model again");
  }
  Record record{payload.record, entry->offset + begin, bytes, entry->crc, {}};
  if (type.strides != TensorType::contiguous(type.dtype, type.sizes).strides)
    record.strides = type.strides;
  return record;
}

Pt2TensorMeta Pt2Reader::getMeta(const std::string &placeholder,
                                 const std::string &name) {
  const json::Object &metas = json::getObject(*program.graph, "tensor_values");
  return readPt2TensorMeta(json::getObject(metas, placeholder), program.dims,
                           name);
}

void Pt2Reader::addState(const std::string &placeholder,
                         const std::string &name, StateRole role,
                         bool isVolatile) {
  State state;
  state.names = {name};
  state.isVolatile = isVolatile;
  auto payload = payloads.find(name);
  Pt2TensorMeta meta = payload == payloads.end() ? getMeta(placeholder, name)
                                                 : payload->second.meta;
  if (program.states.empty())
    program.device = getMeta(placeholder, name).device;
  if (role == StateRole::Parameter && !meta.requiresGrad)
    role = StateRole::Frozen;
  if (role == StateRole::Parameter && !c10::isFloatingType(meta.type.dtype) &&
      !c10::isComplexType(meta.type.dtype))
    json::fail("a floating-point dtype for the trainable parameter '" + name +
               "'");
  state.role = role;
  state.type = TensorType::contiguous(meta.type.dtype, meta.type.sizes);
  if (payload != payloads.end())
    state.source = getRecord(payload->second);

  size_t index = program.states.size();
  if (state.source) {
    // Equal bytes with an equal layout are one tensor with several names.
    std::string key = std::to_string(state.source->offset) + ":" +
                      std::to_string(state.source->bytes) +
                      c10::toString(meta.type.dtype);
    for (size_t dim = 0; dim < meta.type.sizes.size(); ++dim)
      key += "," + std::to_string(meta.type.sizes[dim]) + "/" +
             std::to_string(meta.type.strides[dim]);
    if (state.source->bytes)
      index = stateAt.try_emplace(key, index).first->second;
  } else if (auto tie = tieOf.find(name); tie != tieOf.end()) {
    index = stateOfTie.try_emplace(tie->second, index).first->second;
  }
  if (index < program.states.size()) {
    State &tied = program.states[index];
    if (tied.type != state.type)
      throw Error(ErrorId::ModelNotSupported,
                  "'" + tied.names.front() + "' and '" + name +
                      "' are to be tied and differ in shape or element type; "
                      "only names of one tensor can be tied");
    tied.names.push_back(name);
    if (role == StateRole::Parameter)
      tied.role = role;
  } else {
    program.states.push_back(std::move(state));
  }
  stateOf[name] = index;
  program.stateInputs.push_back({placeholder, index});
}

void Pt2Reader::addInput(const json::Object &spec) {
  auto [tag, value] = json::getUnion(json::get(spec, "arg"));
  if (tag == "as_sym_int") {
    std::string name = json::getString(json::asObject(value), "as_name");
    program.userInputs.push_back(
        {name, std::nullopt, nullptr, program.dims.getNumber(name)});
    return;
  }
  if (tag != "as_tensor") {
    std::string name = "an input";
    if (const json::Object *object = json::toObject(value))
      if (auto text = json::findString(*object, "as_name"))
        name = "the input '" + text->str() + "'";
    throw Error(ErrorId::ModelNotSupported,
                name + " is no tensor (" + tag.str() +
                    "); pass it as a constant when exporting, inputs of a "
                    "training step are tensors");
  }
  Input input;
  input.name = json::getString(json::asObject(value), "name");
  Pt2TensorMeta meta = getMeta(input.name, input.name);
  input.type = TensorType::contiguous(meta.type.dtype, meta.type.sizes);
  program.userInputs.push_back({input.name, program.inputs.size(), nullptr});
  program.inputs.push_back(std::move(input));
}

void Pt2Reader::readInputSpec(Tagged spec) {
  auto [tag, value] = spec;
  const json::Object &object = json::asObject(value);
  if (tag == "user_input")
    return addInput(object);
  if (tag == "constant_input") {
    program.userInputs.push_back({json::getString(object, "name"), std::nullopt,
                                  &json::get(object, "value")});
    return;
  }
  if (tag == "token")
    return;
  if (tag != "parameter" && tag != "buffer" && tag != "tensor_constant")
    throw Error(ErrorId::ModelNotSupported,
                "the model has an input of a kind that is not supported (" +
                    tag.str() + "); only tensors and constants are");
  std::string placeholder =
      json::getString(json::getObject(object, "arg"), "name");
  if (tag == "parameter")
    return addState(placeholder, json::getString(object, "parameter_name"),
                    StateRole::Parameter, /*isVolatile=*/false);
  if (tag == "buffer")
    return addState(placeholder, json::getString(object, "buffer_name"),
                    StateRole::Buffer, !json::getBool(object, "persistent"));
  // The name in the archive is one of torch.export's own making.
  std::string name = json::getString(object, "tensor_constant_name");
  std::string own = "constant/" + std::to_string(constants++);
  if (auto payload = payloads.extract(name)) {
    payload.key() = own;
    payloads.insert(std::move(payload));
  }
  addState(placeholder, own, StateRole::Constant, /*isVolatile=*/true);
}

void Pt2Reader::readOutputSpec(Tagged spec) {
  auto [tag, value] = spec;
  const json::Object &object = json::asObject(value);
  const json::Value &argument = json::get(object, "arg");
  if (tag == "user_output" || tag == "loss_output") {
    size_t position = returned++;
    const json::Value *name = &argument;
    if (tag == "user_output") {
      auto [kind, inner] = json::getUnion(argument);
      if (kind != "as_tensor")
        return;
      name = &inner;
    }
    Pt2Output output;
    output.value = json::getString(json::asObject(*name), "name");
    output.path = position < outputPaths.size()
                      ? outputPaths[position]
                      : OutputPath{{std::to_string(position)}, false};
    program.outputs.push_back(std::move(output));
    return;
  }
  if (tag == "buffer_mutation" || tag == "parameter_mutation") {
    bool isBuffer = tag == "buffer_mutation";
    program.updates.push_back(
        {json::getString(json::asObject(argument), "name"),
         stateOf.at(json::getString(object, isBuffer ? "buffer_name"
                                                     : "parameter_name"))});
    return;
  }
  // The step's own copy of an input ends with it; tokens order effects.
  if (tag == "user_input_mutation" || tag == "token")
    return;
  throw Error(ErrorId::ModelNotSupported,
              "the exported program has an output of a kind that is not "
              "supported (" +
                  tag.str() +
                  "); export the model itself with torch.export.export");
}

/// Different views of the same bytes would drift apart in training. Those that
/// nobody writes may overlap.
void Pt2Reader::checkOverlaps() {
  std::vector<State *> stored;
  for (State &state : program.states)
    if (state.source && state.source->bytes)
      stored.push_back(&state);
  std::sort(stored.begin(), stored.end(), [](const State *a, const State *b) {
    return a->source->offset < b->source->offset;
  });
  State *furthest = nullptr; // of those before, the one that ends last
  auto getEnd = [](const State *state) {
    return state->source->offset + state->source->bytes;
  };
  for (State *state : stored) {
    if (furthest && getEnd(furthest) > state->source->offset) {
      if (furthest->role == StateRole::Parameter ||
          state->role == StateRole::Parameter)
        throw Error(ErrorId::ModelNotSupported,
                    "'" + furthest->names.front() + "' and '" +
                        state->names.front() +
                        "' are different views of the same memory, which is "
                        "not supported; give each a tensor of its own");
      furthest->overlaps = state->names.front();
      state->overlaps = furthest->names.front();
    }
    if (!furthest || getEnd(state) > getEnd(furthest))
      furthest = state;
  }
}

void Pt2Reader::collectModules(const json::Object &graph) {
  for (const json::Value &value : json::getArray(graph, "nodes")) {
    const json::Object &node = json::asObject(value);
    forEachPt2Module(node, [&](const ModuleInfo &module) {
      classOf.try_emplace(module.path, module.className);
    });
    forEachPt2SubGraph(
        node, [&](const json::Object &inner) { collectModules(inner); });
  }
}

void Pt2Reader::readModules(const json::Object &module) {
  collectModules(*program.graph);
  std::unordered_set<std::string> owners = {""};
  for (const auto &[name, index] : stateOf)
    for (size_t dot = name.rfind('.'); dot != std::string::npos;
         dot = dot ? name.rfind('.', dot - 1) : std::string::npos)
      owners.insert(name.substr(0, dot));
  std::unordered_set<std::string> done;
  for (const json::Value &value : json::getArray(module, "module_call_graph")) {
    std::string path = json::getString(json::asObject(value), "fqn");
    auto found = classOf.find(path);
    if (found != classOf.end() && owners.contains(path) &&
        done.insert(path).second)
      program.modules.push_back({path, found->second});
  }
}

void Pt2Reader::readSamples() {
  auto [samples, objects] = readPt2Samples(archive);
  checkSharedInputs(program, objects);
  if (samples.size() != program.userInputs.size())
    return;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!program.userInputs[i].input || !samples[i])
      continue;
    Input &input = program.inputs[*program.userInputs[i].input];
    const TensorType &type = samples[i]->type;
    if (type.dtype == input.type.dtype && type.sizes == input.type.sizes)
      input.sample = samples[i]->record;
  }
}

} // namespace fsdp::capture

Pt2Program Pt2Program::read(const ZipDirectory &archive, const DimSizes &sizes,
                            const std::vector<std::vector<std::string>> &ties) {
  return Pt2Reader(archive, sizes, ties).read();
}
