//===- LostCasts.cpp - Casts that an export holds as no-ops ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/LostCasts.h"
#include "ir/capture/pt2/Enums.h"
#include "ir/capture/pt2/Metadata.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <c10/core/ScalarType.h>

using namespace fsdp::capture;

namespace {

/// A cast as a line of the model spells it.
enum class Spelling {
  Named,    ///< .float(), .to(torch.float32)
  Anothers, ///< .type_as(x), .to(x.dtype), .to(input_dtype)
  Unclear,  ///< .to(x), which may be a device
};

/// A cast of the file that does nothing there.
struct LineCast {
  std::string result, source, module;
  llvm::StringRef line; ///< as the model says it
  bool isOfDtype;       ///< given a dtype alone
};

} // namespace

/// The text up to the parenthesis that closes the one in front of it.
static llvm::StringRef readArguments(llvm::StringRef text) {
  int depth = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0)
      return text.take_front(i);
  }
  return text;
}

static Spelling readTo(llvm::StringRef arguments, bool isOfDtype) {
  if (arguments.contains("float") || arguments.contains("double") ||
      arguments.contains("half"))
    return Spelling::Named;
  return isOfDtype || arguments.contains("dtype") ? Spelling::Anothers
                                                  : Spelling::Unclear;
}

/// Of all casts of a line, in order.
static llvm::SmallVector<Spelling> readSpellings(llvm::StringRef line,
                                                 bool isOfDtype) {
  llvm::SmallVector<Spelling> found;
  for (size_t at = 0; (at = line.find('.', at)) != llvm::StringRef::npos;) {
    llvm::StringRef rest = line.drop_front(++at);
    if (rest.starts_with("float()") || rest.starts_with("double()"))
      found.push_back(Spelling::Named);
    else if (rest.starts_with("type_as("))
      found.push_back(Spelling::Anothers);
    else if (rest.consume_front("to(") || rest.consume_front("type("))
      found.push_back(readTo(readArguments(rest), isOfDtype));
  }
  return found;
}

/// What each of a line's casts is: they run in the order in which they are
/// written, if as many ran as are written. Else only what all of them are.
static llvm::SmallVector<Spelling> spell(llvm::ArrayRef<LineCast> casts) {
  bool areOfDtype =
      llvm::all_of(casts, [](const LineCast &each) { return each.isOfDtype; });
  llvm::SmallVector<Spelling> written =
      readSpellings(casts.front().line, areOfDtype);
  if (written.size() == casts.size())
    return written;
  bool isOne = !written.empty() && llvm::all_equal(written);
  return llvm::SmallVector<Spelling>(casts.size(), isOne ? written.front()
                                                         : Spelling::Unclear);
}

static bool isWithin(llvm::StringRef module, llvm::StringRef outer) {
  return outer.empty() || module == outer ||
         (module.consume_front(outer) && module.starts_with("."));
}

/// The values that a node reads, in lists, too.
static void
forEachOperand(const json::Object &node,
               llvm::function_ref<void(const std::string &)> visit) {
  for (const json::Value &input : json::getArray(node, "inputs")) {
    const json::Value &argument = json::get(json::asObject(input), "arg");
    if (std::string name = getPt2ValueName(argument); !name.empty())
      visit(name);
    else if (auto [tag, list] = json::getUnion(argument);
             tag == "as_tensors" || tag == "as_optional_tensors")
      for (const json::Value &element : json::asArray(list))
        if (const json::Object *object = json::toObject(element)) {
          const json::Object *inner = json::findObject(*object, "as_tensor");
          if (auto text = json::findString(inner ? *inner : *object, "name"))
            visit(text->str());
        }
  }
}

static std::optional<c10::ScalarType> findDtype(const json::Object &metas,
                                                const std::string &value) {
  const json::Object *meta = json::findObject(metas, value);
  if (!meta)
    return std::nullopt;
  return getPt2ScalarType(json::getInt(*meta, "dtype"));
}

static std::optional<LineCast> readCast(const json::Object &node,
                                        const json::Object &metas) {
  llvm::StringRef target = json::findString(node, "target").value_or("");
  if (target != "torch.ops.aten.to.dtype" &&
      target != "torch.ops.aten.to.dtype_layout" &&
      target != "torch.ops.aten.type_as.default")
    return std::nullopt;
  const json::Array &inputs = json::getArray(node, "inputs");
  const json::Array &outputs = json::getArray(node, "outputs");
  if (inputs.empty() || outputs.size() != 1)
    return std::nullopt;
  LineCast cast{getPt2ValueName(outputs[0]),
                getPt2ValueName(json::get(json::asObject(inputs[0]), "arg")),
                getPt2Location(node).module,
                {},
                target != "torch.ops.aten.to.dtype_layout"};
  std::optional<c10::ScalarType> dtype = findDtype(metas, cast.source);
  if (!dtype || dtype != findDtype(metas, cast.result) ||
      !c10::isFloatingType(*dtype))
    return std::nullopt;
  forEachPt2Frame(node, [&](const Pt2Frame &frame) { cast.line = frame.text; });
  return cast;
}

void Pt2LostCasts::noteReaders(const json::Object &node) {
  std::string module = getPt2Location(node).module;
  forEachOperand(node, [&](const std::string &value) {
    if (auto it = widened.find(value); it != widened.end())
      it->second.isReadInside |= isWithin(module, it->second.module);
  });
}

Pt2LostCasts::Pt2LostCasts(const json::Object &graph) {
  const json::Object &metas = json::getObject(graph, "tensor_values");
  std::vector<LineCast> casts;
  for (const json::Value &node : json::getArray(graph, "nodes"))
    if (std::optional<LineCast> cast = readCast(json::asObject(node), metas))
      casts.push_back(std::move(*cast));
  for (size_t begin = 0, end; begin < casts.size(); begin = end) {
    auto isOfLine = [&](const LineCast &each) {
      return each.line == casts[begin].line &&
             each.module == casts[begin].module;
    };
    for (end = begin + 1; end < casts.size() && isOfLine(casts[end]);)
      ++end;
    llvm::ArrayRef<LineCast> line(&casts[begin], end - begin);
    for (auto [cast, spelling] : llvm::zip_equal(line, spell(line)))
      if (spelling == Spelling::Anothers)
        toAnothers.insert(cast.result);
      else if (spelling == Spelling::Named)
        widened[cast.result] = {cast.source, cast.module};
  }
  if (!widened.empty())
    for (const json::Value &node : json::getArray(graph, "nodes"))
      noteReaders(json::asObject(node));
}

const std::string &Pt2LostCasts::resolve(const std::string &value,
                                         llvm::StringRef module) const {
  const std::string *found = &value;
  // The source may be another module's cast.
  for (auto it = widened.find(*found);
       it != widened.end() && it->second.isReadInside &&
       !isWithin(module, it->second.module);
       it = widened.find(*found))
    found = &it->second.source;
  return *found;
}
