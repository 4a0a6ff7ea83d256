//===- TorchScriptGuard.cpp - What a .pt may do ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/TorchScriptGuard.h"

#include "runtime/support/Error.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

using namespace fsdp;
using namespace fsdp::capture;
namespace jit = torch::jit;
namespace prim = c10::prim;

namespace {

/// Calls that nest deeper, or code that calls put in more often than that, no
/// model has.
constexpr size_t kDeepest = 500;
constexpr uint64_t kMostNodes = 20'000'000;
constexpr int64_t kMostIterations = 1'000'000;
constexpr int64_t kMostElements = 16'000'000;
constexpr int64_t kLongestText = 1 << 16;

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

using Names = std::unordered_set<std::string_view>;

/// Of TorchScript itself: control, values, attributes.
const Names primitives = {"Constant",
                          "If",
                          "Loop",
                          "Return",
                          "Param",
                          "GetAttr",
                          "SetAttr",
                          "CallMethod",
                          "CallFunction",
                          "Function",
                          "CreateObject",
                          "ListConstruct",
                          "ListUnpack",
                          "TupleConstruct",
                          "TupleUnpack",
                          "TupleIndex",
                          "TupleSlice",
                          "DictConstruct",
                          "NumToTensor",
                          "RaiseException",
                          "Uninitialized",
                          "unchecked_cast",
                          "unchecked_unwrap_optional",
                          "isinstance",
                          "min",
                          "max",
                          "abs",
                          "dtype",
                          "device",
                          "layout",
                          "data",
                          "type",
                          "name",
                          "index",
                          "requires_grad",
                          "itemsize",
                          "nbytes",
                          "is_cpu",
                          "is_cuda",
                          "is_ipu",
                          "is_maia",
                          "is_meta",
                          "is_mkldnn",
                          "is_mps",
                          "is_mtia",
                          "is_nested",
                          "is_quantized",
                          "is_sparse",
                          "is_sparse_csr",
                          "is_vulkan",
                          "is_xla",
                          "is_xpu",
                          "rangelist",
                          "tolist",
                          "EnumName",
                          "EnumValue",
                          "Enter",
                          "Exit",
                          "ModuleContainerIndex",
                          "StringIndex",
                          "ConstantChunk",
                          "fork",
                          "forkClosure",
                          "Closure",
                          "grad",
                          "with",
                          "shape",
                          "is_contiguous"};

/// aten:: operators of TorchScript alone, which no dispatcher knows.
const Names scriptOperators = {"Bool",
                               "Complex",
                               "ComplexImplicit",
                               "Delete",
                               "Float",
                               "FloatImplicit",
                               "Int",
                               "IntImplicit",
                               "ScalarImplicit",
                               "Size",
                               "__contains__",
                               "__derive_index",
                               "__getitem__",
                               "__interpolate",
                               "__is__",
                               "__isnot__",
                               "__not__",
                               "__range_length",
                               "__round_to_zero_floordiv",
                               "__upsample",
                               "__upsample_bilinear",
                               "__upsample_nearest",
                               "_get_tracing_state",
                               "_grad_sum_to_size",
                               "_infer_size",
                               "_list_to_tensor",
                               "_ncf_unsqueeze",
                               "_ncf_view",
                               "_no_grad_embedding_renorm_",
                               "_no_grad_fill_",
                               "_no_grad_normal_",
                               "_no_grad_uniform_",
                               "_no_grad_zero_",
                               "_pack_sequence",
                               "_set_item",
                               "_size_if_not_equal",
                               "_tensor_to_list",
                               "_unwrap_optional",
                               "append",
                               "as_tensor",
                               "capitalize",
                               "clear",
                               "count",
                               "cpu",
                               "cuda",
                               "degrees",
                               "device",
                               "dict",
                               "dim",
                               "divmod",
                               "element_size",
                               "endswith",
                               "extend",
                               "fabs",
                               "factorial",
                               "find",
                               "floordiv",
                               "format",
                               "gamma",
                               "get",
                               "get_autocast_dtype",
                               "get_device",
                               "has_torch_function",
                               "hash",
                               "insert",
                               "is_autocast_cpu_enabled",
                               "is_autocast_enabled",
                               "is_contiguous",
                               "is_grad_enabled",
                               "is_non_overlapping_and_dense",
                               "is_scripting",
                               "is_strides_like_format",
                               "isalnum",
                               "isalpha",
                               "isdecimal",
                               "isdigit",
                               "isidentifier",
                               "islower",
                               "isnumeric",
                               "isprintable",
                               "isspace",
                               "istitle",
                               "isupper",
                               "items",
                               "keys",
                               "len",
                               "list",
                               "lower",
                               "lstrip",
                               "mathremainder",
                               "modf",
                               "numel",
                               "ord",
                               "chr",
                               "percentFormat",
                               "pop",
                               "popitem",
                               "radians",
                               "remove",
                               "reverse",
                               "rfind",
                               "rindex",
                               "rsplit",
                               "rstrip",
                               "set_grad_enabled",
                               "setdefault",
                               "sorted",
                               "splitlines",
                               "startswith",
                               "storage_offset",
                               "str",
                               "strip",
                               "swapcase",
                               "tensor",
                               "title",
                               "update",
                               "upper",
                               "wait",
                               "warn"};

/// aten:: operators whose text is the name of a mode.
const Names withText = {"_convolution_mode",
                        "align_to",
                        "argsort",
                        "conv1d",
                        "conv2d",
                        "conv3d",
                        "div",
                        "div_",
                        "divide",
                        "divide_",
                        "einsum",
                        "fft_fft",
                        "fft_fft2",
                        "fft_fftn",
                        "fft_hfft",
                        "fft_hfft2",
                        "fft_hfftn",
                        "fft_ifft",
                        "fft_ifft2",
                        "fft_ifftn",
                        "fft_ihfft",
                        "fft_ihfft2",
                        "fft_ihfftn",
                        "fft_irfft",
                        "fft_irfft2",
                        "fft_irfftn",
                        "fft_rfft",
                        "fft_rfft2",
                        "fft_rfftn",
                        "gelu",
                        "gelu_",
                        "gelu_backward",
                        "index_reduce",
                        "index_reduce_",
                        "linalg_cond",
                        "linalg_eigh",
                        "linalg_eigvalsh",
                        "linalg_lstsq",
                        "linalg_matrix_norm",
                        "linalg_norm",
                        "linalg_qr",
                        "linalg_svd",
                        "linalg_svdvals",
                        "meshgrid",
                        "nanquantile",
                        "pad",
                        "pad_sequence",
                        "quantile",
                        "refine_names",
                        "rename",
                        "rename_",
                        "scatter",
                        "scatter_",
                        "scatter_reduce",
                        "scatter_reduce_",
                        "searchsorted",
                        "segment_reduce",
                        "stft",
                        "_assert_async",
                        "_functional_assert_async",
                        "bucketize"};

/// aten:: operators of the dispatcher that change more than their tensors.
const Names denied = {"_backward",
                      "_cufft_clear_plan_cache",
                      "_cufft_set_plan_cache_max_size",
                      "_print",
                      "_propagate_xla_data",
                      "from_file",
                      "record_stream",
                      "retain_grad",
                      "set_data",
                      "_cuda_getCurrentRawStream",
                      "set_",
                      "_resize_output_",
                      "_nnpack_available",
                      "_pin_memory",
                      "pin_memory",
                      "_share_memory",
                      "_validate_sparse_coo_tensor_args",
                      "_sparse_coo_tensor_unsafe",
                      "_sparse_csr_tensor_unsafe",
                      "_sparse_compressed_tensor_unsafe"};

/// Only numbers, tensors and what is made of them.
bool isPlain(const c10::TypePtr &type) {
  switch (type->kind()) {
  case c10::TypeKind::StorageType:
  case c10::TypeKind::StreamObjType:
  case c10::TypeKind::CapsuleType:
  case c10::TypeKind::PyObjectType:
  case c10::TypeKind::ClassType:
  case c10::TypeKind::RRefType:
    return false;
  default:
    return std::all_of(type->containedTypes().begin(),
                       type->containedTypes().end(), isPlain);
  }
}

bool holds(const c10::TypePtr &type, c10::TypeKind kind) {
  if (type->kind() == kind)
    return true;
  return std::any_of(
      type->containedTypes().begin(), type->containedTypes().end(),
      [&](const c10::TypePtr &inner) { return holds(inner, kind); });
}

/// By its schema: what the dispatcher calls with tensors, numbers and names of
/// types and modes alone computes. The rest is listed.
bool isAllowedAten(const jit::Node &node, std::string_view name) {
  if (denied.contains(name))
    return false;
  const c10::FunctionSchema *schema = node.maybeSchema();
  if (!schema)
    return false;
  if (scriptOperators.contains(name))
    return true;
  bool hasTensor = false, hasText = false;
  auto look = [&](const c10::Argument &argument) {
    hasTensor |= holds(argument.type(), c10::TypeKind::TensorType);
    hasText |= holds(argument.type(), c10::TypeKind::StringType);
    return isPlain(argument.type());
  };
  for (const c10::Argument &argument : schema->arguments())
    if (!look(argument))
      return false;
  bool takesText = hasText;
  for (const c10::Argument &argument : schema->returns())
    if (!look(argument))
      return false;
  static const Names texts = {"add",   "eq",   "ne",    "lt",    "le",
                              "gt",    "ge",   "add_",  "slice", "copy",
                              "index", "sort", "split", "select"};
  if (takesText && hasTensor)
    return withText.contains(name) || name.ends_with("_assert_async");
  // Of numbers, texts and lists.
  if (!hasTensor && takesText)
    return texts.contains(name) || name == "len" || name == "mul";
  return true;
}

std::string describeSource(const jit::Node &node) {
  if (auto place = node.sourceRange().file_line_col()) {
    auto [file, line, column] = *place;
    return " at " + file + ":" + std::to_string(line);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

struct Code {
  std::string name;
  jit::Function *function = nullptr;
  uint64_t nodes = 0;
  size_t depth = 1; ///< of its own blocks
  std::vector<size_t> calls = {};
};

/// All functions that a function may call, by name: of a method that is called
/// all classes' methods of that name, since an interface may stand for any.
class Reach {
public:
  explicit Reach(const jit::Module &module) {
    for (jit::Function *function :
         module._ivalue()->compilation_unit()->get_functions())
      if (function)
        byName[function->name()].push_back(function);
    add(&module.get_method("forward").function());
    // Operators on objects run these.
    for (const char *name : {"__enter__", "__exit__", "__lt__", "__len__",
                             "__contains__", "__getitem__", "__str__"})
      addNamed(name, root);
    for (size_t i = 0; i < codes.size(); ++i)
      if (codes[i].function->isGraphFunction())
        walk(i, jit::toGraphFunction(*codes[i].function).graph()->block(), 1);
  }

  /// Throws if calls make more code than anybody writes.
  void checkSize() {
    std::vector<uint64_t> nodes(codes.size());
    std::vector<size_t> depth(codes.size());
    enum : uint8_t { New, Open, Done };
    std::vector<uint8_t> state(codes.size(), New);
    std::vector<std::pair<size_t, size_t>> open = {{0, 0}};
    state[0] = Open;
    auto fail = [](const Code &code, const std::string &what) {
      throw Error(ErrorId::FileImplausible, "the code of '" + code.name + "' " +
                                                what +
                                                "; it was made to do harm");
    };
    while (!open.empty()) {
      auto &[index, next] = open.back();
      Code &code = codes[index];
      if (next < code.calls.size()) {
        size_t callee = code.calls[next++];
        if (state[callee] == Open)
          fail(code, "calls itself");
        if (state[callee] == New) {
          state[callee] = Open;
          open.emplace_back(callee, 0);
        }
        continue;
      }
      nodes[index] = code.nodes;
      for (size_t callee : code.calls) {
        nodes[index] = std::min(nodes[index] + nodes[callee], 2 * kMostNodes);
        depth[index] = std::max(depth[index], depth[callee]);
      }
      depth[index] += code.depth;
      state[index] = Done;
      open.pop_back();
    }
    if (depth[0] > kDeepest)
      fail(codes[0], "nests " + std::to_string(depth[0]) +
                         " calls and blocks, more than " +
                         std::to_string(kDeepest));
    if (nodes[0] > kMostNodes)
      fail(codes[0], "grows to more than " + std::to_string(kMostNodes) +
                         " operations by calls");
  }

  const std::vector<Code> &all() const { return codes; }

private:
  static constexpr size_t root = 0;

  size_t add(jit::Function *function) {
    auto [it, isNew] = indexOf.try_emplace(function, codes.size());
    if (isNew) {
      codes.push_back({function->qualname().qualifiedName(), function});
      function->ensure_defined();
    }
    return it->second;
  }

  void addNamed(const std::string &name, size_t caller) {
    auto found = byName.find(name);
    if (found == byName.end())
      return;
    for (jit::Function *function : found->second) {
      size_t callee = add(function);
      // An override may call the method that it overrides.
      if (callee != caller && caller != root)
        codes[caller].calls.push_back(callee);
    }
  }

  void walk(size_t index, const jit::Block *block, size_t depth) {
    codes[index].depth = std::max(codes[index].depth, depth);
    for (const jit::Node *node : block->nodes()) {
      ++codes[index].nodes;
      check(codes[index], *node);
      follow(index, *node);
      for (const jit::Block *inner : node->blocks())
        walk(index, inner, depth + 1);
      if (node->hasAttribute(c10::attr::Subgraph))
        walk(index, node->g(c10::attr::Subgraph)->block(), depth + 1);
    }
  }

  void follow(size_t index, const jit::Node &node) {
    if (node.kind() == prim::CallFunction) {
      auto type = node.input(0)->type()->cast<c10::FunctionType>();
      if (!type)
        throw Error(ErrorId::ModelNotSupported,
                    "the model calls a function that is not known" +
                        describeSource(node));
      // add() may move the codes.
      size_t callee = add(type->function());
      codes[index].calls.push_back(callee);
    } else if (node.kind() == prim::CallMethod) {
      const std::string &name = node.s(c10::attr::name);
      c10::ClassTypePtr type = node.input(0)->type()->cast<c10::ClassType>();
      if (jit::Function *method = type ? type->findMethod(name) : nullptr) {
        size_t callee = add(method);
        codes[index].calls.push_back(callee);
      } else {
        addNamed(name, index);
      }
    }
  }

  void check(const Code &code, const jit::Node &node) const {
    c10::Symbol kind = node.kind();
    std::string_view space = kind.ns().toUnqualString();
    std::string_view name = kind.toUnqualString();
    std::string where = " in '" + code.name + "'" + describeSource(node);
    if (space == "prim" ? primitives.contains(name)
                        : space == "aten" && isAllowedAten(node, name))
      return;
    if (space != "prim" && space != "aten")
      throw Error(ErrorId::CustomOperator,
                  std::string(kind.toQualString()) + where +
                      " is an operator of a library, which is not supported; "
                      "write it with PyTorch's own operators");
    throw Error(ErrorId::OperatorNotAllowed,
                std::string(kind.toQualString()) + where +
                    " may do more than compute, and programs of models may "
                    "not; take the call out of the model");
  }

  std::unordered_map<std::string, std::vector<jit::Function *>> byName;
  std::unordered_map<const jit::Function *, size_t> indexOf;
  std::vector<Code> codes;
};

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

// Of the one run that there is at a time; forked parts of it count too.
std::atomic<int64_t> iterations, elements;

int64_t lengthOf(const c10::IValue &value) {
  if (value.isString())
    return static_cast<int64_t>(value.toStringRef().size());
  if (value.isList())
    return static_cast<int64_t>(value.toList().size());
  if (value.isInt())
    return std::max<int64_t>(value.toInt(), 0);
  return 0;
}

void countElements(int64_t count) {
  if (count > kMostElements || (elements += count) > kMostElements)
    throw std::runtime_error("it makes texts and lists of more than " +
                             std::to_string(kMostElements) +
                             " elements, which no model needs");
}

/// Counts one more iteration of a loop.
void countIteration(jit::Stack &) {
  if (++iterations > kMostIterations)
    throw std::runtime_error("its loops run more than " +
                             std::to_string(kMostIterations) +
                             " times, and may have no end");
}

/// Of what was made.
void countSize(jit::Stack &stack) {
  c10::IValue value = jit::pop(stack);
  if (value.isString() && lengthOf(value) > kLongestText)
    throw std::runtime_error("it makes a text of more than " +
                             std::to_string(kLongestText) + " bytes");
  countElements(lengthOf(value));
}

/// Of what is about to be made out of two.
void countProduct(jit::Stack &stack) {
  int64_t b = lengthOf(jit::pop(stack)), a = lengthOf(jit::pop(stack));
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    product = INT64_MAX;
  countElements(product);
}

const jit::RegisterOperators bounds({
    jit::Operator("fsdp_bounds::iteration() -> ()", countIteration,
                  c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("fsdp_bounds::size(Any value) -> ()", countSize,
                  c10::AliasAnalysisKind::CONSERVATIVE),
    jit::Operator("fsdp_bounds::product(Any a, Any b) -> ()", countProduct,
                  c10::AliasAnalysisKind::CONSERVATIVE),
});

jit::Node *makeBound(jit::Node *at, const char *name,
                     at::ArrayRef<jit::Value *> inputs) {
  jit::Node *node = at->owningGraph()->create(
      c10::Symbol::fromQualString(std::string("fsdp_bounds::") + name), inputs,
      /*num_outputs=*/0);
  node->setSourceRange(at->sourceRange());
  return node;
}

bool mayGrow(const c10::TypePtr &type) {
  return type->kind() == c10::TypeKind::StringType ||
         type->kind() == c10::TypeKind::ListType;
}

void putBounds(jit::Block *block) {
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    jit::Node *node = *it++;
    for (jit::Block *inner : node->blocks())
      putBounds(inner);
    if (node->hasAttribute(c10::attr::Subgraph))
      putBounds(node->g(c10::attr::Subgraph)->block());
    if (node->kind() == prim::Loop)
      makeBound(node, "iteration", {})
          ->insertAfter(node->blocks()[0]->param_node());
    std::string_view name = node->kind().toQualString();
    if (name == "prim::rangelist")
      makeBound(node, "size", {node->input(0)})->insertBefore(node);
    if (!node->kind().is_aten())
      continue;
    if (name == "aten::mul" &&
        (mayGrow(node->input(0)->type()) || mayGrow(node->input(1)->type())))
      makeBound(node, "product", {node->input(0), node->input(1)})
          ->insertBefore(node);
    if (name == "aten::extend")
      makeBound(node, "size", {node->input(1)})->insertBefore(node);
    for (jit::Value *output : node->outputs())
      if (mayGrow(output->type()))
        makeBound(node, "size", {output})->insertAfter(node);
  }
}

} // namespace

void capture::guardTorchScript(const jit::Module &module) {
  Reach reach(module);
  reach.checkSize();
  for (const Code &code : reach.all())
    if (code.function->isGraphFunction())
      putBounds(jit::toGraphFunction(*code.function).graph()->block());
}

GuardedRun::GuardedRun() { iterations = elements = 0; }
