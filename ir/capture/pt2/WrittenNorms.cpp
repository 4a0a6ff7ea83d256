//===- WrittenNorms.cpp - RMS norms that a model writes out ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/WrittenNorms.h"
#include "ir/capture/pt2/Metadata.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <ATen/ops/rms_norm.h>

#include <array>

using namespace fsdp::capture;

/// "mul.Tensor"; empty for what is no operator of LibTorch's own.
static llvm::StringRef getTarget(const json::Object &node) {
  llvm::StringRef target = json::findString(node, "target").value_or("");
  return target.consume_front("torch.ops.aten.") ? target : "";
}

/// Argument number `i` as it is given; null if it is not.
static const json::Value *getArgument(const json::Object &node, size_t i) {
  const json::Array &inputs = json::getArray(node, "inputs");
  return i < inputs.size() ? &json::get(json::asObject(inputs[i]), "arg")
                           : nullptr;
}

/// The value that argument number `i` is; empty if it is none.
static std::string getOperand(const json::Object &node, size_t i) {
  const json::Value *argument = getArgument(node, i);
  return argument ? getPt2ValueName(*argument) : "";
}

static std::optional<double> getNumber(const json::Object &node, size_t i) {
  const json::Value *argument = getArgument(node, i);
  if (!argument)
    return std::nullopt;
  auto [tag, value] = json::getUnion(*argument);
  return tag == "as_float" || tag == "as_int" ? json::toNumber(value)
                                              : std::nullopt;
}

/// The only result; empty for other numbers of them.
static std::string getResult(const json::Object &node) {
  const json::Array &outputs = json::getArray(node, "outputs");
  return outputs.size() == 1 ? getPt2ValueName(outputs.front()) : "";
}

static bool isCast(const json::Object &node) {
  return llvm::StringSwitch<bool>(getTarget(node))
      .Cases({"to.dtype", "to.dtype_layout", "to.other", "type_as.default",
              "_to_copy.default"},
             true)
      .Default(false);
}

/// What `node` squares; empty if it does something else.
static std::string getSquared(const json::Object &node) {
  llvm::StringRef target = getTarget(node);
  bool isSquare =
      target == "square.default" ||
      (target == "pow.Tensor_Scalar" && getNumber(node, 1) == 2.0) ||
      (target == "mul.Tensor" && getOperand(node, 0) == getOperand(node, 1));
  return isSquare ? getOperand(node, 0) : "";
}

namespace fsdp::capture {

class Pt2NormMatcher {
public:
  Pt2NormMatcher(const json::Object &graph, Pt2WrittenNorms &found)
      : metas(json::getObject(graph, "tensor_values")), found(found) {
    for (const json::Value &value : json::getArray(graph, "nodes"))
      note(json::asObject(value));
    for (const json::Value &output : json::getArray(graph, "outputs"))
      readers[getPt2ValueName(output)].push_back(nullptr);
    for (const json::Value &value : json::getArray(graph, "nodes"))
      if (getTarget(json::asObject(value)) == "mean.dim")
        match(json::asObject(value));
  }

private:
  using Node = const json::Object *;

  void note(const json::Object &node) {
    // What only looks is no reader.
    if (getTarget(node).starts_with("_assert"))
      return;
    for (const json::Value &output : json::getArray(node, "outputs"))
      makers[getPt2ValueName(output)] = &node;
    const json::Array &inputs = json::getArray(node, "inputs");
    for (size_t i = 0; i < inputs.size(); ++i)
      noteNames(*getArgument(node, i), &node);
  }

  /// In lists, too.
  void noteNames(const json::Value &argument, Node node) {
    if (std::string name = getPt2ValueName(argument); !name.empty()) {
      readers[name].push_back(node);
      return;
    }
    auto [tag, list] = json::getUnion(argument);
    if (tag != "as_tensors" && tag != "as_optional_tensors")
      return;
    for (const json::Value &element : json::asArray(list))
      if (const json::Object *object = json::toObject(element)) {
        const json::Object *inner = json::findObject(*object, "as_tensor");
        if (auto text = json::findString(inner ? *inner : *object, "name"))
          readers[text->str()].push_back(node);
      }
  }

  Node findMaker(const std::string &value) const {
    auto it = makers.find(value);
    return it == makers.end() ? nullptr : it->second;
  }

  /// Of `module`; null if there is another reader, or if the model returns it.
  Node findOnlyReader(const std::string &value,
                      const std::string &module) const {
    auto it = readers.find(value);
    if (it == readers.end() || !it->second.front() ||
        !llvm::all_equal(it->second) ||
        getPt2Location(*it->second.front()).module != module)
      return nullptr;
    return it->second.front();
  }

  /// In front of the casts of `module`.
  std::string getUncast(std::string value, const std::string &module) const {
    for (Node maker = findMaker(value);
         maker && isCast(*maker) && getPt2Location(*maker).module == module;
         maker = findMaker(value))
      value = getOperand(*maker, 0);
    return value;
  }

  size_t countDims(const std::string &value) const {
    const json::Object *meta = json::findObject(metas, value);
    return meta ? json::getArray(*meta, "sizes").size() : 0;
  }

  /// Whether it is the mean over the last dim alone, which stays.
  std::string whyNoRowMean(const json::Object &mean) const {
    const json::Value *dims = getArgument(mean, 1),
                      *keep = getArgument(mean, 2);
    if (!dims || !keep || json::getUnion(*keep).first != "as_bool" ||
        !json::asBool(json::getUnion(*keep).second))
      return "its mean drops a dim";
    auto [tag, list] = json::getUnion(*dims);
    size_t rank = countDims(getOperand(mean, 0));
    if (tag != "as_ints" || json::asArray(list).size() != 1)
      return "its mean is over other dims than the last";
    int64_t dim = json::asInt(json::asArray(list).front());
    if (dim != -1 && dim != int64_t(rank) - 1)
      return "its mean is over another dim than the last";
    return "";
  }

  /// 1 / sqrt(mean + eps), of which `norm` gets the numbers; null for what is
  /// none. `why` says what else it is, if it is like it.
  Node findRoot(const json::Object &mean, const std::string &module,
                Pt2WrittenNorm &norm, std::string &why) const {
    std::string value = getResult(mean);
    Node reader = findOnlyReader(value, module);
    if (reader && getTarget(*reader) == "add.Tensor") {
      std::optional<double> eps = getNumber(*reader, 1);
      if (!eps)
        why = "its eps is no number";
      norm.eps = eps.value_or(0);
      reader = findOnlyReader(getResult(*reader), module);
    }
    if (!reader)
      return nullptr;
    llvm::StringRef target = getTarget(*reader);
    if (target == "sqrt.default")
      why = "it divides by the root, as LibTorch's does not";
    else if (target != "rsqrt.default" &&
             !(target == "pow.Tensor_Scalar" && getNumber(*reader, 1) == -0.5))
      return nullptr;
    norm.root = getResult(*reader);
    return reader;
  }

  void match(const json::Object &mean) {
    Node square = findMaker(getOperand(mean, 0));
    std::string squared = square ? getSquared(*square) : "";
    if (squared.empty())
      return;
    std::string module = getPt2Location(mean).module, why;
    Pt2WrittenNorm norm;
    if (!findRoot(mean, module, norm, why))
      return;
    if (why.empty())
      why = whyNoRowMean(mean);
    norm.source = getUncast(squared, module);
    std::string end;
    if (why.empty()) {
      end = findEnd(norm, module);
      if (end.empty())
        why = "its root does not multiply what it is of, or is read elsewhere";
    }
    if (why.empty())
      found.norms.emplace(end, std::move(norm));
    else
      found.unlike.emplace(getResult(mean), std::move(why));
  }

  /// The last value of the norm; empty if what is normalized is not its source.
  std::string findEnd(Pt2WrittenNorm &norm, const std::string &module) const {
    Node product = findOnlyReader(norm.root, module);
    if (!product || getTarget(*product) != "mul.Tensor")
      return "";
    bool isFirst = getOperand(*product, 0) == norm.root;
    if (getUncast(getOperand(*product, isFirst), module) != norm.source)
      return "";
    std::string end = getResult(*product);
    bool isBack = skipCast(end, module);
    Node reader = findOnlyReader(end, module);
    if (!reader || getTarget(*reader) != "mul.Tensor")
      return end;
    std::string other = getOperand(*reader, getOperand(*reader, 0) == end);
    if (other == end || countDims(other) != 1)
      return end;
    norm.weight = other;
    norm.isWeightedWide = !isBack;
    end = getResult(*reader);
    if (!isBack)
      skipCast(end, module);
    return end;
  }

  /// Makes `value` what it is cast to, if that is all that reads it.
  bool skipCast(std::string &value, const std::string &module) const {
    Node reader = findOnlyReader(value, module);
    if (!reader || !isCast(*reader) || getOperand(*reader, 0) != value)
      return false;
    value = getResult(*reader);
    return true;
  }

  const json::Object &metas;
  Pt2WrittenNorms &found;
  std::unordered_map<std::string, Node> makers;
  /// Null stands for the model's results.
  std::unordered_map<std::string, std::vector<Node>> readers;
};

} // namespace fsdp::capture

Pt2WrittenNorms::Pt2WrittenNorms(const json::Object &graph) {
  Pt2NormMatcher(graph, *this);
}

const Pt2WrittenNorm *Pt2WrittenNorms::find(const std::string &result) const {
  auto it = norms.find(result);
  return it == norms.end() ? nullptr : &it->second;
}

const std::string *Pt2WrittenNorms::findUnlike(const std::string &value) const {
  auto it = unlike.find(value);
  return it == unlike.end() ? nullptr : &it->second;
}

at::Tensor fsdp::capture::fuseNorm(const Pt2WrittenNorm &norm,
                                   const at::Tensor &source,
                                   const at::Tensor &root,
                                   const std::optional<at::Tensor> &weight,
                                   const at::Tensor &written,
                                   std::string &why) {
  auto name = [](const at::Tensor &tensor) {
    return std::string(c10::toString(tensor.scalar_type()));
  };
  if (root.scalar_type() != c10::kFloat || source.scalar_type() == c10::kDouble)
    why = "it takes the root of " + name(root) + " for " + name(source);
  else if (weight && (weight->dim() != 1 || source.dim() == 0 ||
                      weight->size(0) != source.size(-1)))
    why = "its weight is no vector of the last dim";
  if (!why.empty())
    return {};
  // LibTorch's kernel takes one type: the model's weight may be wider.
  bool isWide = weight && weight->scalar_type() != source.scalar_type();
  if (isWide && !(norm.isWeightedWide && weight->scalar_type() == c10::kFloat))
    why = "its weight is " + name(*weight) + ", its input " + name(source);
  else if (!isWide && written.scalar_type() != source.scalar_type())
    why = "it returns " + name(written) + ", its input is " + name(source);
  if (!why.empty())
    return {};
  at::Tensor fused = at::rms_norm(isWide ? source.to(c10::kFloat) : source,
                                  {source.size(-1)}, weight, norm.eps);
  return fused.to(written.scalar_type());
}
