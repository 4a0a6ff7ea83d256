//===- ForeignKeys.cpp - Config keys of other tools ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/ForeignKeys.h"

#include <algorithm>
#include <iterator>

using namespace fsdp;

namespace {
constexpr auto Ignored = ForeignKey::Ignored;
constexpr auto Moved = ForeignKey::Moved;
constexpr auto Refused = ForeignKey::Refused;
constexpr auto RefusedAboveOne = ForeignKey::RefusedAboveOne;

constexpr std::string_view model = "the model is the exported file";
constexpr std::string_view data = "fsdp-run --data names the data";
constexpr std::string_view batch = "the batch size is the exported one";
constexpr std::string_view run = "fsdp-run's options say how long to run and "
                                 "what to write";
constexpr std::string_view launch = "the mesh and the launcher say where ranks "
                                    "run";
constexpr std::string_view kernels =
    "the exported program says which operators "
    "run";
constexpr std::string_view loading = "each rank reads its own rows from the "
                                     "model file";
constexpr std::string_view schedule = "the compiler schedules the transfers";
constexpr std::string_view parallel = "only data parallelism is compiled";
constexpr std::string_view quantised = "parameters keep the type in which they "
                                       "were exported";
constexpr std::string_view adapters = "apply adapters in Python before the "
                                      "export; frozen parameters stay frozen";
constexpr std::string_view recompute = "activation checkpointing is not "
                                       "supported yet";
constexpr std::string_view precision =
    "it asks for torch.autocast, which belongs into the exported model; "
    "fsdp_config: {mixed_precision: {param_dtype: …}} is FSDP2's way";

constexpr ForeignKey keys[] = {
    {"", "base_model", Ignored, model},
    {"", "base_model_config", Ignored, model},
    {"", "model_type", Ignored, model},
    {"", "model", Ignored, model},
    {"", "tokenizer_type", Ignored, model},
    {"", "tokenizer_config", Ignored, model},
    {"", "special_tokens", Ignored, model},
    {"", "tokens", Ignored, model},
    {"", "chat_template", Ignored, data},
    {"", "trust_remote_code", Ignored, model},
    {"", "strict", Ignored, model},
    {"", "datasets", Ignored, data},
    {"", "test_datasets", Ignored, data},
    {"", "dataset_prepared_path", Ignored, data},
    {"", "dataset_processes", Ignored, data},
    {"", "shuffle_merged_datasets", Ignored, data},
    {"", "val_set_size", Ignored, data},
    {"", "train_on_inputs", Ignored, data},
    {"", "group_by_length", Ignored, data},
    {"", "sample_packing", Ignored, data},
    {"", "eval_sample_packing", Ignored, data},
    {"", "pad_to_sequence_len", Ignored, data},
    {"", "sequence_len", Ignored, "the sequence length is the exported one"},
    {"", "micro_batch_size", Ignored, batch},
    {"", "batch_size", Ignored, batch},
    {"", "eval_batch_size", Ignored, batch},
    {"", "num_epochs", Ignored, run},
    {"", "output_dir", Ignored, run},
    {"", "logging_steps", Ignored, run},
    {"", "logging_dir", Ignored, run},
    {"", "save_steps", Ignored, run},
    {"", "save_strategy", Ignored, run},
    {"", "save_total_limit", Ignored, run},
    {"", "save_safetensors", Ignored, run},
    {"", "saves_per_epoch", Ignored, run},
    {"", "eval_steps", Ignored, run},
    {"", "eval_strategy", Ignored, run},
    {"", "evals_per_epoch", Ignored, run},
    {"", "eval_table_size", Ignored, run},
    {"", "resume_from_checkpoint", Ignored, run},
    {"", "hub_model_id", Ignored, run},
    {"", "hub_strategy", Ignored, run},
    {"", "push_to_hub", Ignored, run},
    {"", "wandb_project", Ignored, run},
    {"", "wandb_entity", Ignored, run},
    {"", "wandb_watch", Ignored, run},
    {"", "wandb_name", Ignored, run},
    {"", "wandb_run_id", Ignored, run},
    {"", "wandb_log_model", Ignored, run},
    {"", "mlflow_tracking_uri", Ignored, run},
    {"", "mlflow_experiment_name", Ignored, run},
    {"", "report_to", Ignored, run},
    {"", "early_stopping_patience", Ignored, run},
    {"", "debug", Ignored, run},
    {"", "job", Ignored, run},
    {"", "profiling", Ignored, run},
    {"", "metrics", Ignored, run},
    {"", "flash_attention", Ignored, kernels},
    {"", "xformers_attention", Ignored, kernels},
    {"", "sdp_attention", Ignored, kernels},
    {"", "eager_attention", Ignored, kernels},
    {"", "attn_implementation", Ignored, kernels},
    {"", "torch_compile", Ignored, kernels},
    {"", "compute_environment", Ignored, launch},
    {"", "distributed_type", Ignored, launch},
    {"", "downcast_bf16", Ignored, launch},
    {"", "enable_cpu_affinity", Ignored, launch},
    {"", "machine_rank", Ignored, launch},
    {"", "main_process_ip", Ignored, launch},
    {"", "main_process_port", Ignored, launch},
    {"", "main_training_function", Ignored, launch},
    {"", "num_machines", Ignored, launch},
    {"", "rdzv_backend", Ignored, launch},
    {"", "same_network", Ignored, launch},
    {"", "tpu_env", Ignored, launch},
    {"", "tpu_use_cluster", Ignored, launch},
    {"", "tpu_use_sudo", Ignored, launch},
    {"", "use_cpu", Ignored, launch},
    {"", "local_rank", Ignored, launch},
    {"", "ddp_timeout", Ignored, launch},

    {"", "tensor_parallel_size", RefusedAboveOne, parallel},
    {"", "tensor_parallel_degree", RefusedAboveOne, parallel},
    {"", "context_parallel_size", RefusedAboveOne, parallel},
    {"", "context_parallel_degree", RefusedAboveOne, parallel},
    {"", "sequence_parallel_degree", RefusedAboveOne, parallel},
    {"", "pipeline_parallel_size", RefusedAboveOne, parallel},
    {"", "pipeline_parallel_degree", RefusedAboveOne, parallel},
    {"", "expert_parallel_size", RefusedAboveOne, parallel},
    {"", "expert_parallel_degree", RefusedAboveOne, parallel},
    {"", "dp_shard_size", Moved, "is mesh: {dp_shard: N} here"},
    {"", "dp_replicate_size", Moved, "is mesh: {dp_replicate: N} here"},
    {"", "data_parallel_shard_degree", Moved, "is mesh: {dp_shard: N} here"},
    {"", "data_parallel_replicate_degree", Moved,
     "is mesh: {dp_replicate: N} here"},
    {"", "fsdp", Moved, "is fsdp_config here"},
    {"", "fsdp2", Moved, "is fsdp_version: 2 here"},
    {"", "deepspeed", Refused, "only FSDP2's semantics are compiled"},
    {"", "deepspeed_config", Refused, "only FSDP2's semantics are compiled"},
    {"", "megatron_lm_config", Refused, "only FSDP2's semantics are compiled"},
    {"", "load_in_4bit", Refused, quantised},
    {"", "load_in_8bit", Refused, quantised},
    {"", "gptq", Refused, quantised},
    {"", "quantization", Refused, quantised},
    {"", "quantize_moments", Refused, quantised},
    {"", "fp8", Refused, quantised},
    {"", "adapter", Refused, adapters},
    {"", "lora_model_dir", Refused, adapters},
    {"", "lora_target_linear", Refused, adapters},
    {"", "float16", Refused, precision},
    {"", "bfloat16", Refused, precision},
    {"", "gradient_checkpointing", Refused, recompute},
    {"", "activation_checkpoint", Refused, recompute},
    {"", "activation_checkpointing", Refused, recompute},
    {"", "cosine_min_lr_ratio", Moved,
     "is lr_scheduler: {name: cosine_with_min_lr, min_lr: …} here, as a rate"},
    {"", "cosine_constant_lr_ratio", Refused, "there is no such schedule"},
    {"", "lr_scheduler_kwargs", Moved, "is lr_scheduler: {…} here"},
    {"", "lr", Moved, "is optimizer: {lr: …} here"},
    {"", "max_norm", Moved, "is max_grad_norm here"},

    {"mesh", "tensor", RefusedAboveOne, parallel},
    {"mesh", "tp", RefusedAboveOne, parallel},
    {"mesh", "cp", RefusedAboveOne, parallel},
    {"mesh", "pp", RefusedAboveOne, parallel},
    {"mesh", "ep", RefusedAboveOne, parallel},

    {"fsdp_config", "state_dict_type", Ignored, run},
    {"fsdp_config", "final_state_dict_type", Ignored, run},
    {"fsdp_config", "cpu_ram_efficient_loading", Ignored, loading},
    {"fsdp_config", "sync_module_states", Ignored, loading},
    {"fsdp_config", "use_orig_params", Ignored,
     "parameters keep their names and shapes"},
    {"fsdp_config", "limit_all_gathers", Ignored, schedule},
    {"fsdp_config", "forward_prefetch", Ignored, schedule},
    {"fsdp_config", "backward_prefetch", Ignored, schedule},
    {"fsdp_config", "activation_checkpointing", Refused, recompute},
    {"fsdp_config", "ignored_modules", Moved,
     "is fsdp_config: {ignored_params: …} here, with patterns of names"},

    {"fsdp_config.mixed_precision", "buffer_dtype", Refused,
     "buffers keep their type, as in FSDP2"},
    {"fsdp_config.mixed_precision", "keep_low_precision_grads", Refused,
     "gradients reach the optimizer in the parameter's type, as in FSDP2"},

    {"optimizer", "fused", Ignored, "the optimizer is always fused"},
    {"optimizer", "foreach", Ignored, "the optimizer is always fused"},
    {"optimizer", "capturable", Ignored, "the optimizer is always fused"},
    {"optimizer", "differentiable", Refused,
     "the optimizer is outside of what is differentiated"},
    {"optimizer", "amsgrad", Refused, "is not supported"},
    {"optimizer", "maximize", Refused, "is not supported"},
    {"optimizer", "dampening", Refused, "is not supported"},
    {"optimizer.groups", "dampening", Refused, "is not supported"},
    {"optimizer.groups", "amsgrad", Refused, "is not supported"},
    {"optimizer.groups", "maximize", Refused, "is not supported"},
    {"optimizer", "decoupled_weight_decay", Moved,
     "is optimizer: {name: adamw} here"},
    {"optimizer", "implementation", Ignored, "the optimizer is always fused"},
};
} // namespace

const ForeignKey *fsdp::findForeignKey(std::string_view section,
                                       std::string_view name) {
  auto it = std::ranges::find_if(keys, [&](const ForeignKey &key) {
    return key.section == section && key.name == name;
  });
  return it == std::end(keys) ? nullptr : it;
}
