//===- ForeignShardingKeys.cpp - Other tools' keys of ranks and memory ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignDeepSpeed.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/ForeignTexts.h"

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

namespace {
constexpr std::string_view ulysses =
    "sequences are cut by mesh: {cp: N}, and attention gathers keys or passes "
    "them on; heads are not exchanged";
constexpr std::string_view precision =
    "the exported model's types count: export model.to(torch.bfloat16), or "
    "float16, for a model that is all in it; fsdp_config: {mixed_precision: "
    "{param_dtype: …}} is FSDP2's way";

constexpr ForeignKey shardingKeys[] = {
    // Ranks.
    taken(Accelerate, "", "num_processes", "--world", readProcesses,
          "`--world`, unless that is given"),
    taken(Axolotl, "", "dp_shard_size", "mesh.dp_shard"),
    taken(Torchtitan, "", "data_parallel_shard_degree", "mesh.dp_shard"),
    taken(Axolotl, "", "dp_replicate_size", "mesh.dp_replicate"),
    taken(Torchtitan, "", "data_parallel_replicate_degree",
          "mesh.dp_replicate"),
    taken(Axolotl, "", "tensor_parallel_size", "mesh.tp").quietIfOff(),
    taken(Torchtitan, "", "tensor_parallel_degree", "mesh.tp").quietIfOff(),
    taken(Axolotl, "", "context_parallel_size", "mesh.cp").quietIfOff(),
    taken(Torchtitan, "", "context_parallel_degree", "mesh.cp").quietIfOff(),
    taken(Torchtitan, "mesh", "tensor", "mesh.tp"),
    told(Torchtitan, RefusedAboveOne, "mesh", parallel, "pp ep"),
    told(Axolotl | Torchtitan, RefusedAboveOne, "", parallel,
         "pipeline_parallel_size pipeline_parallel_degree "
         "expert_parallel_size expert_parallel_degree"),
    told(Axolotl, Ignored, "",
         "it says how experts are exchanged, which is refused",
         "expert_parallel_num_nvl_bytes expert_parallel_token_capacity "
         "expert_parallel_backend"),
    told(Axolotl, RefusedAboveOne, "", ulysses, "sequence_parallel_degree"),
    told(Axolotl, Ignored, "",
         "mesh: {cp: N} says how sequences are cut; "
         "context_parallel_rotate_method how keys are exchanged",
         "heads_k_stride ring_attn_func"),
    section(Accelerate | Transformers, "", "parallelism_config",
            "parallelism_config_"),
    taken(Accelerate, "parallelism_config", "dp_replicate_size",
          "mesh.dp_replicate"),
    taken(Accelerate, "parallelism_config", "dp_shard_size", "mesh.dp_shard"),
    taken(Accelerate, "parallelism_config", "tp_size", "mesh.tp"),
    taken(Accelerate, "parallelism_config", "cp_size", "mesh.cp"),
    taken(Accelerate, "parallelism_config", "cp_comm_strategy",
          "context_parallel_rotate_method"),
    told(Accelerate, RefusedAboveOne, "parallelism_config", ulysses, "sp_size"),
    told(Accelerate, RefusedAboveOne, "parallelism_config", parallel,
         "pp_size ep_size"),
    told(Accelerate, Refused, "parallelism_config", parallel,
         "sp_handler cp_handler tp_handler"),
    told(Accelerate, Ignored, "parallelism_config",
         "their sizes say what is asked for",
         "cp_backend sp_backend sp_seq_length sp_seq_length_is_variable "
         "sp_attn_implementation"),
    taken(Accelerate | Transformers | Trl, "", "use_cpu", "device", readUseCpu,
          "`device: cpu`")
        .quietIfOff(),

    // FSDP.
    taken(OfTrainer, "", "fsdp", "", readFsdpWords,
          "`full_shard`: `fsdp_config.reshard_after_forward: true`, "
          "`shard_grad_op`: false; `offload`: `fsdp_config.offload_params`; "
          "`auto_wrap`: `fsdp_config.auto_wrap_policy` by "
          "`transformer_layer_cls_to_wrap` or `min_num_params`, if one is "
          "given"),
    taken(Accelerate | OfTrainer, "fsdp_config", "fsdp_version version",
          "fsdp_version"),
    taken(Accelerate, "fsdp_config", "activation_checkpointing_offload",
          "fsdp_config.activation_offloading")
        .quietIfOff(),
    taken(Transformers, "fsdp_config", "cpu_offload",
          "fsdp_config.offload_params")
        .quietIfOff(),
    taken(Accelerate | Axolotl, "fsdp_config", "sharding_strategy", "",
          readStrategy, "FSDP1's, [see FromFsdp1.md](FromFsdp1.md)"),
    taken(Accelerate | Axolotl, "fsdp_config", "mixed_precision_policy",
          "fsdp_config.mixed_precision", readPrecision, "as `mixed_precision`")
        .quietIfOff(),
    told(Accelerate | OfTrainer, Ignored, "fsdp_config",
         "fsdp-run's options say how long to run and what to write",
         "state_dict_type final_state_dict_type"),
    told(Accelerate | OfTrainer, Ignored, "fsdp_config", loading,
         "cpu_ram_efficient_loading sync_module_states"),
    told(Accelerate | OfTrainer, Ignored, "fsdp_config",
         "parameters keep their names and shapes", "use_orig_params"),
    told(Accelerate | OfTrainer, Ignored, "fsdp_config", schedule,
         "limit_all_gathers forward_prefetch backward_prefetch "
         "backward_prefetch_policy forward_prefetch_policy"),
    told(Accelerate | OfTrainer, Moved, "fsdp_config",
         "is fsdp_config: {ignored_params: …} here, with patterns of names",
         "ignored_modules"),
    told(Transformers, Ignored, "fsdp_config", "0 is no size", "min_num_params")
        .only(isOff),
    told(Transformers, Refused, "fsdp_config", "only FSDP2 is compiled",
         "xla xla_fsdp_v2"),
    told(Transformers, Ignored, "fsdp_config", "it belongs to xla",
         "xla_fsdp_settings xla_fsdp_grad_ckpt"),
    told(Torchtitan | Accelerate, Refused, "fsdp_config.mixed_precision",
         "buffers keep their type, as in FSDP2", "buffer_dtype"),
    told(Accelerate, Refused, "fsdp_config.mixed_precision",
         "gradients reach the optimizer in the parameter's type, as in FSDP2",
         "keep_low_precision_grads"),
    told(Axolotl, Moved, "", "is fsdp_version: 2 here", "fsdp2"),
    told(Axolotl, Ignored, "", "a layer's parameters are gathered whole",
         "fsdp_final_state_dict_type"),

    // Other engines.
    taken(OfTrainer, "", "deepspeed", "", deepspeed::readIncluded,
          "the nearest config of that file, beside this one or from here, "
          "where this one says nothing")
        .quietIfOff()
        .reporting(),
    told(Accelerate, Refused, "", "only FSDP2's semantics are compiled",
         "megatron_lm_config"),

    // Element types.
    taken(Accelerate, "", "mixed_precision", "fsdp_config.mixed_precision",
          readPrecision,
          "`bf16`: `fsdp_config.mixed_precision` with all three types "
          "bfloat16, as Accelerate does under FSDP2; `fp16`: all three "
          "float16, with `loss_scale: dynamic` if that is not given; `fp8`: "
          "`float8: {}` over `bf16`")
        .quietIfOff(),
    taken(OfTrainer, "", "bf16", "fsdp_config.mixed_precision", readPrecision,
          "with `true` or `auto` as `mixed_precision: bf16`")
        .quietIfOff(),
    taken(OfTrainer, "", "fp16", "fsdp_config.mixed_precision", readFp16,
          "with `true` as `mixed_precision: fp16`")
        .quietIfOff(),
    taken(Axolotl | LlamaFactory, "", "fp8", "", readFloat8,
          "`float8: {}`, unless that is given")
        .quietIfOff(),
    taken(Axolotl | LlamaFactory, "", "fp8_enable_fsdp_float8_all_gather", "",
          readFloat8Gather,
          "`float8.enable_fsdp_float8_all_gather`, with `fp8`")
        .quietIfOff(),
    told(Accelerate | LlamaFactory, Ignored, "",
         "float8: {…} says how products are scaled", "fp8_config fp8_backend"),
    told(Axolotl | LlamaFactory, Changes, "", precision,
         "float16 bfloat16 pure_bf16"),

    // Memory.
    taken(OfTrainer, "", "gradient_checkpointing", "",
          readGradientCheckpointing,
          "`fsdp_config.activation_checkpointing`, unless that is given; "
          "with `offload` also `fsdp_config.activation_offloading`")
        .quietIfOff(),
    taken(Axolotl, "", "activation_checkpointing", "",
          readGradientCheckpointing, "as `gradient_checkpointing`")
        .quietIfOff(),
    told(OfTrainer, Ignored, "",
         "they say how activation checkpointing is done",
         "gradient_checkpointing_kwargs gradient_checkpointing_options "
         "use_reentrant_gc"),
    told(LlamaFactory, Ignored, "",
         "fsdp_config: {activation_checkpointing: true} asks for it",
         "disable_gradient_checkpointing"),
    taken(Axolotl | Trl, "", "chunked_cross_entropy", "", readFusedLoss,
          "`fsdp_config.loss_chunks: auto`, unless that is given")
        .quietIfOff(),
    taken(Axolotl, "", "liger_fused_linear_cross_entropy cut_cross_entropy", "",
          readFusedLoss, "as `chunked_cross_entropy`")
        .quietIfOff(),
    taken(Axolotl | Trl, "", "activation_offloading offload_activations",
          "fsdp_config.activation_offloading", readOffloading,
          "`fsdp_config.activation_offloading`; `legacy` and `disk` are true")
        .quietIfOff(),
    told(Axolotl, Noted, "",
         "is not done: a layer's parameters are sharded instead",
         "layer_offloading"),
    told(OfTrainer, Ignored, "", "memory is planned",
         "torch_empty_cache_steps"),
};
} // namespace

std::span<const ForeignKey> foreign::getShardingKeys() { return shardingKeys; }
