//===- FirstValues.cpp - Where a program's states start -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/compile/FirstValues.h"

#include "ir/fsdp/Fsdp.h"
#include "passes/emit/PlanEnums.h"
#include "passes/emit/Types.h"
#include "plan/DType.h"
#include "plan/Quantized.h"
#include "runtime/weights/CodedWeights.h"
#include "runtime/weights/MissingValues.h"
#include "runtime/weights/WeightFiles.h"
#include "support/AdapterNames.h"
#include "support/Nearest.h"
#include "support/Pattern.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>

using namespace fsdp;
using namespace mlir;

namespace {

bool isOfModel(StateOp state) {
  return isParameter(state) || state.getRole() == Role::Buffer ||
         state.getRole() == Role::Constant;
}

MissingValue describeMissing(StateOp state) {
  ArrayRef<int64_t> shape = state.getWholeType().getShape();
  return {state.getSymName().str(),
          {shape.begin(), shape.end()},
          isParameter(state)};
}

class Resolver {
public:
  Resolver(ModuleOp module, const Config &config,
           const std::vector<std::string> &paths)
      : module(module), config(config),
        addsAdapters(module->hasAttr(AdapterSettingsAttr::name)) {
    if (!paths.empty())
      files.emplace(paths);
    for (const RenameRule &rule : config.weights.rename)
      renames.emplace_back(std::regex(rule.from), rule.to);
  }

  std::vector<std::string> run();

private:
  void checkTies();
  const InitRule *getRule(StateOp state);
  [[noreturn]] void refuseTaken(StateOp state, const std::string &what);
  void setInit(StateOp state, const InitRule &rule);
  std::vector<std::string> getFileNames(StateOp state);
  void setWeight(StateOp state);
  bool takesWeight(StateOp state, bool &isRequired);
  void setFiles();
  void checkMissing();
  std::string suggestTie(StateOp state);
  void addNotes();
  bool isIgnored(const std::string &name) const;
  bool startsAsAdapter(StateOp state) const {
    return addsAdapters && isOfAdapter(state.getSymName());
  }

  ModuleOp module;
  const Config &config;
  bool addsAdapters; ///< that capture put in
  std::optional<WeightFiles> files;
  std::vector<std::pair<std::regex, std::string>> renames;
  std::set<const InitRule *> used;
  std::set<std::string> read; ///< names in the files
  std::map<std::string, size_t> conversions;
  std::map<std::string, size_t> codes; ///< tensors, by how they are coded
  std::vector<StateOp> missing, later;
  size_t overridden = 0;
  std::vector<std::string> notes;
};

void Resolver::checkTies() {
  llvm::StringMap<StateOp> states;
  std::vector<std::string_view> names;
  for (StateOp state : module.getOps<StateOp>())
    if (isOfModel(state))
      for (StringRef name : state.getAllNames()) {
        states[name] = state;
        names.push_back(name);
      }
  for (const std::vector<std::string> &group : config.ties)
    for (const std::string &name : group) {
      if (!states.contains(name)) {
        std::string_view nearest = findNearest(name, names);
        throw Error(
            ErrorId::ConfigBadValue,
            "'tied': the model has no parameter or buffer '" + name + "'" +
                (nearest.empty()
                     ? ""
                     : "; did you mean '" + std::string(nearest) + "'?"));
      }
      if (states[name] != states[group.front()])
        throw Error(ErrorId::ConfigBadValue,
                    "'tied': '" + group.front() + "' and '" + name +
                        "' are two tensors in the captured program; only a "
                        ".pt2 file without data can be told what is tied, so "
                        "tie them in the model");
    }
}

const InitRule *Resolver::getRule(StateOp state) {
  std::vector<std::string> names;
  for (StringRef name : state.getAllNames())
    names.push_back(name.str());
  if (isParameter(state) && !startsAsAdapter(state))
    return findRule(config.init, names);
  // Nor for adapters that begin as PEFT's do, unless it names them.
  if (startsAsAdapter(state)) {
    std::span<const InitRule> rules = config.init;
    const InitRule *rule = findRule(rules, names);
    while (rule && rule->pattern.find("lora_") == std::string::npos) {
      rules = rules.first(rule - rules.data());
      rule = findRule(rules, names);
    }
    return rule;
  }
  // "*" is not meant for masks and frequencies.
  if (state.getValueAttr())
    return nullptr;
  std::span<const InitRule> rules = config.init;
  while (const InitRule *rule = findRule(rules, names)) {
    if (!isRandom(rule->call))
      return rule;
    rules = rules.first(rule - rules.data());
  }
  return nullptr;
}

/// Of an adapter whose base begins without it.
static bool isTaken(StateOp state) {
  auto init = dyn_cast_or_null<InitAttr>(state.getValueAttr());
  return init && init.getKind() == InitKind::Pissa;
}

void Resolver::refuseTaken(StateOp state, const std::string &what) {
  throw Error(ErrorId::ConfigNotSupported,
              what + " says where '" + state.getSymName().str() +
                  "' begins, and init: pissa of 'adapter' too, with numbers "
                  "that its layer then lacks: leave out adapter: {init: pissa} "
                  "to go on from an adapter, which has twice the rank if it "
                  "began so");
}

void Resolver::setInit(StateOp state, const InitRule &rule) {
  RankedTensorType type = state.getModelType();
  Type element = type.getElementType();
  auto fail = [&](const std::string &what) {
    throw Error(ErrorId::ConfigBadValue,
                rule.place + ": 'init' of '" + rule.pattern +
                    "' does not fit '" + state.getSymName().str() +
                    "': " + what + "; add a rule for it behind this one");
  };
  Builder builder(module.getContext());
  Attribute value;
  try {
    auto init = resolveInit(rule.call, type.getShape(),
                            toDType(element).value_or(plan::DType::c128));
    if (auto *computed = std::get_if<plan::InitializerT>(&init)) {
      value =
          InitAttr::get(module.getContext(), fromPlan<InitKind>(computed->kind),
                        builder.getDenseF64ArrayAttr(computed->arguments));
    } else {
      double number = std::get<double>(init);
      if (isa<FloatType>(element))
        value = FloatAttr::get(element, number);
      else if (isa<IntegerType>(element) && number == std::trunc(number) &&
               std::abs(number) < 0x1p53)
        value = IntegerAttr::get(
            element, APInt(element.getIntOrFloatBitWidth(),
                           static_cast<uint64_t>(int64_t(number)),
                           /*isSigned=*/false, /*implicitTrunc=*/true));
      else
        throw std::invalid_argument("its elements cannot be that number");
    }
  } catch (const std::invalid_argument &error) {
    fail(error.what());
  }
  overridden += bool(state.getValueAttr());
  used.insert(&rule);
  state.setValueAttr(value);
}

bool Resolver::isIgnored(const std::string &name) const {
  return llvm::any_of(config.weights.ignore, [&](const std::string &pattern) {
    return matchesPattern(pattern, name);
  });
}

/// What the state's tensor may be called in the files.
std::vector<std::string> Resolver::getFileNames(StateOp state) {
  std::vector<std::string> names;
  for (StringRef own : state.getAllNames()) {
    std::string name = own.str();
    for (const auto &[from, to] : renames)
      if (std::regex_search(name, from)) {
        name = std::regex_replace(name, from, to,
                                  std::regex_constants::format_first_only);
        break;
      }
    // As PEFT's folders call what is trained, which has been there before.
    std::string peft = std::string(kPeftPrefix) + name;
    if (addsAdapters && !isIgnored(peft))
      names.push_back(peft);
    if (!isIgnored(name) && !llvm::is_contained(names, name))
      names.push_back(name);
  }
  return names;
}

/// Whether the state is read if the files have it, and whether they must.
bool Resolver::takesWeight(StateOp state, bool &isRequired) {
  bool has = bool(state.getValueAttr());
  isRequired = !has;
  if (isParameter(state)) {
    isRequired |= config.weights.strict && !startsAsAdapter(state);
    return true;
  }
  // As load_state_dict: what is not in a state dict is not replaced.
  return !has || (state.getRole() == Role::Buffer && !state.getVolatile_());
}

void Resolver::setWeight(StateOp state) {
  bool isRequired;
  if (!takesWeight(state, isRequired) || (!files && state.getValueAttr()))
    return;
  std::vector<std::string> names = getFileNames(state);
  SmallVector<StringAttr> attributes;
  for (const std::string &name : names)
    attributes.push_back(StringAttr::get(module.getContext(), name));
  if (!files) {
    later.push_back(state);
    if (!names.empty())
      state.setValueAttr(
          WeightAttr::get(module.getContext(), attributes, -1, 0, 0, Type()));
    return;
  }
  for (const std::string &name : names) {
    const WeightFiles::Tensor *tensor = files->find(name);
    if (!tensor)
      continue;
    RankedTensorType type = state.getModelType();
    std::optional<plan::DType> dtype = toDType(type.getElementType());
    const StoredTensor &stored = *tensor->stored;
    if (!dtype)
      break;
    const std::string &path = files->files()[tensor->file]->path();
    std::optional<CodedWeight> coded;
    if (isQuantizable(*dtype))
      coded = files->findCoded(name);
    if (coded) {
      coded->checkShape(state.getSymName().str(), type.getShape().vec(), path);
      ++codes[coded->describe()];
      read.insert(coded->parts().begin(), coded->parts().end());
    } else {
      checkWeight(state.getSymName().str(), type.getShape().vec(), *dtype, name,
                  stored, path);
    }
    if (!coded && stored.dtype != *dtype)
      ++conversions[std::string(dtypeName(stored.dtype)) + " to " +
                    std::string(dtypeName(*dtype))];
    if (isTaken(state))
      refuseTaken(state, "'" + files->files()[tensor->file]->path() + "'");
    read.insert(name);
    state.setValueAttr(WeightAttr::get(
        module.getContext(), attributes, static_cast<int64_t>(tensor->file),
        stored.offset, stored.bytes,
        toType(coded ? coded->dtype() : stored.dtype, module.getContext())));
    return;
  }
  if (isRequired)
    missing.push_back(state);
}

/// A head that the files lack because it is the embedding.
std::string Resolver::suggestTie(StateOp state) {
  llvm::StringMap<StringRef> classes;
  for (auto info : module.getOps<ModuleInfoOp>())
    classes[info.getPath()] = info.getClassName();
  StateOp found;
  for (StateOp other : module.getOps<StateOp>()) {
    StringRef owner = other.getSymName().rsplit('.').first;
    if (other == state || !isParameter(other) || !other.getWeight() ||
        other.getType() != state.getType() ||
        classes.lookup(owner) != "Embedding")
      continue;
    if (found)
      return "";
    found = other;
  }
  if (!found)
    return "";
  return "; if it is the same tensor as '" + found.getSymName().str() +
         "', say so with tied: [[" + found.getSymName().str() + ", " +
         state.getSymName().str() + "]]";
}

void Resolver::checkMissing() {
  if (missing.empty())
    return;
  std::vector<MissingValue> values;
  for (StateOp state : missing)
    values.push_back(describeMissing(state));
  StateOp first = missing.front();
  std::vector<std::string> names = getFileNames(first);
  std::string message =
      listMissing(values) + " of the model are not in " + files->describe();
  if (names.empty())
    message +=
        ": weights: {ignore: …} leaves out '" + first.getSymName().str() + "'";
  else
    message += ": '" + names.front() + "' is not among " +
               std::to_string(files->tensors().size()) + " tensors" +
               files->suggest(names.front());
  for (StateOp state : missing)
    if (std::string tie = suggestTie(state); !tie.empty()) {
      message += tie;
      break;
    }
  message += "; map names with weights: {rename: [{from: …, to: …}]}";
  if (llvm::any_of(missing,
                   [](StateOp state) { return bool(state.getValueAttr()); }))
    message += ", or keep the data of the model file with weights: {strict: "
               "false}";
  if (std::string rules = suggestRules(values); !rules.empty())
    message += ", or start from rules such as\n" + rules;
  throw Error(ErrorId::WeightsMissing, message);
}

/// Declares the files that states refer to, numbered from 0.
void Resolver::setFiles() {
  llvm::MapVector<int64_t, int64_t> numbers;
  SmallVector<Attribute> attributes;
  MLIRContext *context = module.getContext();
  for (StateOp state : module.getOps<StateOp>()) {
    WeightAttr weight = state.getWeight();
    if (!weight || weight.getFile() < 0)
      continue;
    auto [it, isNew] = numbers.insert({weight.getFile(), attributes.size()});
    if (isNew) {
      const SafetensorsFile &file = *files->files()[weight.getFile()];
      attributes.push_back(WeightsFileAttr::get(
          context, StringAttr::get(context, file.path()), file.size(),
          StringAttr::get(context, file.headerHash())));
    }
    state.setValueAttr(WeightAttr::get(context, weight.getNames(), it->second,
                                       weight.getOffset(), weight.getBytes(),
                                       weight.getType()));
  }
  module->setAttr(kWeightsAttr, ArrayAttr::get(context, attributes));
}

void Resolver::addNotes() {
  for (const InitRule &rule : config.init)
    if (!used.contains(&rule))
      notes.push_back(rule.place + ": 'init' of '" + rule.pattern +
                      "' has no effect: it matches nothing that a later rule "
                      "does not match too");
  if (overridden)
    notes.push_back(std::to_string(overridden) +
                    " tensors start from init rules and not from their data "
                    "in the model file");
  for (const auto &[types, count] : conversions)
    notes.push_back(std::to_string(count) + " tensors of " + files->describe() +
                    " are converted from " + types);
  for (const auto &[form, count] : codes)
    notes.push_back(std::to_string(count) + " tensors of " + files->describe() +
                    " are codes that bitsandbytes wrote, " + form +
                    ": where quantize asks for the same they are taken as they "
                    "are, elsewhere for the numbers that they stand for");
  if (files) {
    std::vector<MissingValue> unused;
    for (const auto &[name, tensor] : files->tensors())
      if (!read.contains(name) && !isIgnored(name))
        unused.push_back({name, {}});
    if (!unused.empty())
      notes.push_back(listMissing(unused) + " of " + files->describe() +
                      " are not used");
  }
  if (later.empty())
    return;
  std::vector<MissingValue> values;
  for (StateOp state : later)
    values.push_back(describeMissing(state));
  std::string rules = suggestRules(values);
  notes.push_back(listMissing(values) +
                  " of the model have no first value: give fsdp-run or this "
                  "command --weights=PATH" +
                  (rules.empty() ? ""
                                 : ", or to train from scratch add rules such "
                                   "as these to the config\n" +
                                       rules));
}

std::vector<std::string> Resolver::run() {
  checkTies();
  // Other files than those of an earlier run.
  if (files)
    for (StateOp state : module.getOps<StateOp>())
      if (state.getWeight())
        state.removeValueAttr();
  for (StateOp state : module.getOps<StateOp>()) {
    if (!isOfModel(state))
      continue;
    if (const InitRule *rule = getRule(state)) {
      if (isTaken(state))
        refuseTaken(state, "'init' of '" + rule->pattern + "'");
      setInit(state, *rule);
    } else {
      setWeight(state);
    }
  }
  checkMissing();
  if (files)
    setFiles();
  addNotes();
  return std::move(notes);
}

} // namespace

std::vector<std::string>
fsdp::resolveFirstValues(ModuleOp module, const Config &config,
                         const std::vector<std::string> &weights) {
  return Resolver(module, config, weights).run();
}
