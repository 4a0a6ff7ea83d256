//===- AllowedOperators.cpp - Operators that do nothing but compute -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/torchscript/AllowedOperators.h"

#include "support/Error.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

using namespace fsdp;
using namespace fsdp::capture;
namespace jit = torch::jit;

namespace {

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

} // namespace

std::string capture::describeSource(const jit::Node &node) {
  if (auto place = node.sourceRange().file_line_col()) {
    auto [file, line, column] = *place;
    return " at " + file + ":" + std::to_string(line);
  }
  return {};
}

void capture::checkOperator(const jit::Node &node,
                            const std::string &function) {
  c10::Symbol kind = node.kind();
  std::string_view space = kind.ns().toUnqualString();
  std::string_view name = kind.toUnqualString();
  std::string where = " in '" + function + "'" + describeSource(node);
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
