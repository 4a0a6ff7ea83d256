//===- Allowed.cpp - What artifacts may call ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/aten-table/Allowed.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <string_view>

using namespace fsdp;

namespace {

/// Texts that choose how to compute. File names, messages and names of dims are
/// none.
constexpr std::string_view kTexts[] = {
    "approximate", "driver",       "equation", "indexing", "mode",
    "norm",        "ord",          "p",        "pad_mode", "padding",
    "reduce",      "padding_side", "side",     "UPLO",     "rounding_mode"};

/// Parts of names that say that an operator reaches beyond planned tensors.
constexpr std::string_view kBeyond[] = {
    // Files and storages; aliases that LibTorch does not check.
    "from_file", "set.", "resize", "pin_memory", "_reshape_alias", "lazy_clone",
    "copy_from",
    // Tensors of other layouts: their indices are taken on trust.
    "sparse", "nested", "jagged", "mkldnn", "_coo", "_csr", "_csc", "_bsr",
    "_bsc", "csr_", "crow_", "ccol_", "row_indices", "col_indices", "coalesce",
    "_values", "_indices_copy", "_spdiags", "hspmm", "to_padded",
    // Tensors that hold pointers or a library's own format.
    "fbgemm", "int4", "int8", "pack_", "dyn_quant", "prepacked", "qparams",
    "dequantize", "int_repr", "::quantize_per", "::values", "::indices",
    "q_per_channel", "quantized", "_cslt", "_mixed_dtypes", "_rnn", "miopen",
    "mps", "nnpack", "lstm_mps", "_cudnn_init", "ctc_loss_cudnn", "_cudnn_ctc",
    "_use_cudnn", "triton",
    // Other machinery: levels of transformations, markers, tests.
    "_dual", "_fw_primal", "batch_dim", "_test_", "_foobar", "dep_token",
    "same_feature_meta", "_overrideable", "functorch", "tensor_from_mask",
    "_debug_", "assert", "::_fused_ada", "::_fused_sgd", "constrain_range",
    "transform_bias_rescale"};

/// Kernels that only GPUs have, of what models use.
constexpr std::string_view kDeviceOnly[] = {"aten::_scaled_dot_product_",
                                            "aten::_flash_attention_",
                                            "aten::_efficient_attention_",
                                            "aten::_fused_rms_norm",
                                            "aten::_thnn_fused_",
                                            "aten::cudnn_batch_norm",
                                            "aten::cudnn_convolution",
                                            "aten::mm",
                                            "aten::bmm",
                                            "aten::addmm",
                                            "aten::baddbmm",
                                            "aten::_conv_depthwise2d",
                                            "aten::conv_depthwise3d"};

bool isPlain(const c10::Argument &argument) {
  c10::TypePtr type = argument.type();
  while (true) {
    if (auto optional = type->cast<c10::OptionalType>())
      type = optional->getElementType();
    else if (auto list = type->cast<c10::ListType>())
      type = list->getElementType();
    else
      break;
  }
  switch (type->kind()) {
  case c10::TypeKind::TensorType:
  case c10::TypeKind::NumberType:
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
  case c10::TypeKind::FloatType:
  case c10::TypeKind::BoolType:
  case c10::TypeKind::DeviceObjType:
  case c10::TypeKind::GeneratorType:
    return true;
  case c10::TypeKind::StringType:
    return std::ranges::find(kTexts, argument.name()) != std::end(kTexts);
  default:
    return false;
  }
}

bool isTensor(const c10::Argument &result) {
  c10::TypePtr type = result.type();
  if (auto list = type->cast<c10::ListType>())
    type = list->getElementType();
  return type->kind() == c10::TypeKind::TensorType;
}

bool isNumber(const c10::Argument &result) {
  auto kind = result.type()->kind();
  return kind == c10::TypeKind::IntType || kind == c10::TypeKind::SymIntType ||
         kind == c10::TypeKind::FloatType;
}

} // namespace

bool fsdp::mayBeCalledByArtifacts(const c10::OperatorHandle &op) {
  const std::string &name = op.operator_name().name;
  if (!name.starts_with("aten::"))
    return false;
  std::string full = name + "." + op.operator_name().overload_name;
  for (std::string_view part : kBeyond)
    if (full.find(part) != std::string::npos)
      return false;
  const c10::FunctionSchema &schema = op.schema();
  auto writes = [](const c10::Argument &argument) {
    return argument.alias_info() && argument.alias_info()->isWrite();
  };
  if (schema.is_vararg() || schema.is_varret() ||
      std::ranges::any_of(schema.arguments(), writes) ||
      !std::ranges::all_of(schema.arguments(), isPlain) ||
      std::ranges::none_of(schema.returns(), isTensor) ||
      !std::ranges::all_of(schema.returns(), [](const c10::Argument &result) {
        return isTensor(result) || isNumber(result);
      }))
    return false;
  if (std::ranges::any_of(kDeviceOnly, [&](std::string_view prefix) {
        return name.starts_with(prefix);
      }))
    return true;
  // What LibTorch takes apart before autograd is taken apart by capture, too.
  using c10::DispatchKey;
  return op.hasKernelForDispatchKey(DispatchKey::CPU) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(
             DispatchKey::CompositeExplicitAutogradNonFunctional);
}
