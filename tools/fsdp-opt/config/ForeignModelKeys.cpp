//===- ForeignModelKeys.cpp - Other tools' keys of model and kernels ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignTexts.h"

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

namespace {
constexpr std::string_view model = "the model is the exported file";
constexpr std::string_view initial =
    "the exported model's values are the first ones, or those of init: {…}";
constexpr std::string_view structure =
    "the exported model has the layers that it was exported with: build it so "
    "before the export";

constexpr ForeignKey modelKeys[] = {
    told(
        OfTrainer | Accelerate | Torchtitan, Ignored, "", model,
        "model_config base_model base_model_config model_type model "
        "tokenizer_type tokenizer_config special_tokens tokens "
        "trust_remote_code strict revision_of_model tokenizer_use_fast "
        "tokenizer_legacy tokenizer_save_jinja_files "
        "tokenizer_use_mistral_common tokenizer_kwargs added_tokens_overrides "
        "resize_token_embeddings_to_32x shrink_embeddings "
        "overrides_of_model_config overrides_of_model_kwargs processor_type "
        "cls_model_config base_model_ignore_patterns processor_kwargs "
        "is_llama_derived_model is_falcon_derived_model "
        "is_mistral_derived_model is_qwen_derived_model torch_dtype dtype "
        "low_cpu_mem_usage model_name_or_path config_name tokenizer_name "
        "cache_dir use_fast_tokenizer model_revision token hf_use_auth_token "
        "fix_untrained_tokens embeddings_skip_upcast hf_hub_token ms_hub_token "
        "om_hub_token model_init_kwargs split_special_tokens "
        "new_special_tokens "
        "add_tokens add_special_tokens resize_vocab use_kv_cache use_cache "
        "infer_dtype infer_backend print_param_status eos_token pad_token "
        "llama4_linearized_experts hub_cache torchdistx_path"),
    told(LlamaFactory, Changes, "", structure,
         "rope_scaling shift_attn mixture_of_depths moe_aux_loss_coef "
         "use_llama_pro expand_layers train_from_scratch"),
    told(Axolotl, Changes, "", structure, "use_onebitllms"),
    told(Axolotl | LlamaFactory | Trl, Ignored, "", loading,
         "model_quantization_config model_quantization_config_kwargs "
         "experimental_skip_move_to_device device_map max_memory "
         "gpu_memory_limit offload_folder"),
    told(Axolotl, Changes, "", initial, "reinit_weights"),
    told(Torchtitan, Moved, "", "is init: {...} here", "init_weights"),
    told(OfTrainer, Ignored, "", kernels,
         "flash_attention xformers_attention sdp_attention eager_attention "
         "attn_implementation torch_compile plugins liger_rope liger_rms_norm "
         "liger_rms_norm_gated liger_layer_norm liger_glu_activation "
         "liger_swiglu liger_cross_entropy liger_use_token_scaling "
         "flash_attn_cross_entropy flash_attn_rms_norm flash_attn_fuse_qkv "
         "flash_attn_fuse_mlp flash_optimum flex_attention "
         "flex_attn_compile_kwargs s2_attention attention "
         "attn_implementation_kwargs use_kernels use_liger_kernel "
         "liger_kernel_config unsloth_cross_entropy_loss unsloth_rms_norm "
         "unsloth_rope torch_compile_backend torch_compile_mode "
         "torch_compile_kwargs torchdynamo dynamo_config sageattention "
         "sage_attention bettertransformer chunked_cross_entropy_num_chunks "
         "tiled_mlp tiled_mlp_num_shards experts_implementation "
         "use_scattermoe use_sonicmoe fused_attn_kernel "
         "gemma4_hybrid_attn_impl use_dsv4_kernels use_glm_dsa_kernels "
         "gptq_disable_exllama flash_attn use_unsloth use_unsloth_gc "
         "enable_liger_kernel upcast_layernorm upcast_lmhead_output "
         "use_v1_kernels optimum_kwargs gptq_groupsize gptq_model_v1"),
};
} // namespace

std::span<const ForeignKey> foreign::getModelKeys() { return modelKeys; }
