//===- ForeignKeys.cpp - Keys of other tools without a meaning ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignKeys.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>

using namespace fsdp;

namespace {
using enum ForeignKey::Action;

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
constexpr std::string_view parallel =
    "only data and tensor parallelism are compiled";
constexpr std::string_view quantised = "parameters keep the type in which they "
                                       "were exported";
constexpr std::string_view adapters =
    "apply adapters in Python before the export, as docs/examples/lora does; "
    "frozen parameters stay frozen";
constexpr std::string_view packing =
    "rows are read as the data's files hold them: fsdp_opt.data.write_rows(…, "
    "position_ids=True) packs documents into rows; export the model with the "
    "inputs input_ids, labels and position_ids and without attention_mask, so "
    "that its attention stays within a document (docs/Data.md)";
constexpr std::string_view order =
    "rows are read in the order of the files, or with data: {shuffle: true} in "
    "a random one";
constexpr std::string_view named = "fsdp-run --data, or data: in this file, "
                                   "names what is read";
constexpr std::string_view validation = "eval: {data: ...} in this file names "
                                        "what to validate on";
constexpr std::string_view trained =
    "the exported model's requires_grad says what is trained";
constexpr std::string_view ending =
    "fsdp-run --keep-best keeps the best checkpoint, and --patience=N ends the "
    "run when validation finds nothing better";
constexpr std::string_view loss = "the exported model computes the loss";
constexpr std::string_view means =
    "gradients are means over ranks and micro-batches of what each batch's "
    "loss "
    "is a mean of; with as many labels in each batch that is the same";
constexpr std::string_view initial =
    "the exported model's values are the first ones, or those of init: {…}";
constexpr std::string_view precision =
    "it asks for torch.autocast, which belongs into the exported model; "
    "fsdp_config: {mixed_precision: {param_dtype: …}} is FSDP2's way";

/// Keys of which the same is said.
struct Group {
  std::string_view section;
  ForeignKey::Action action;
  std::string_view reason;
  const char *names; ///< with spaces between them
};

constexpr Group groups[] = {
    {"parallelism_config", RefusedAboveOne, parallel, "sp_size"},
    {"parallelism_config", Refused, parallel,
     "sp_handler cp_handler tp_handler"},
    {"parallelism_config", Ignored, "their sizes say what is asked for",
     "cp_backend sp_backend sp_seq_length sp_seq_length_is_variable "
     "sp_attn_implementation"},
    {"", Ignored, loading,
     "model_quantization_config model_quantization_config_kwargs "
     "experimental_skip_move_to_device"},
    {"", Ignored, "memory is planned", "torch_empty_cache_steps"},
    {"", Changes, means, "average_tokens_across_devices"},
    {"", Changes, initial, "reinit_weights"},
    {"", Ignored, model,
     "model_config base_model base_model_config model_type model "
     "tokenizer_type "
     "tokenizer_config special_tokens tokens trust_remote_code strict "
     "revision_of_model tokenizer_use_fast tokenizer_legacy "
     "tokenizer_save_jinja_files tokenizer_use_mistral_common "
     "tokenizer_kwargs added_tokens_overrides "
     "resize_token_embeddings_to_32x shrink_embeddings "
     "overrides_of_model_config overrides_of_model_kwargs processor_type "
     "is_llama_derived_model is_falcon_derived_model "
     "is_mistral_derived_model is_qwen_derived_model torch_dtype dtype "
     "low_cpu_mem_usage model_name_or_path config_name tokenizer_name "
     "cache_dir use_fast_tokenizer model_revision token hf_use_auth_token "
     "fix_untrained_tokens embeddings_skip_upcast"},
    {"", Ignored, data,
     "chat_template test_datasets dataset_prepared_path dataset_processes "
     "shuffle_merged_datasets train_on_inputs eval_sample_packing "
     "pad_to_sequence_len dataset_keep_in_memory dataset_num_proc "
     "dataset_shard_num dataset_shard_idx dataset_exact_deduplication "
     "skip_prepare_dataset pretraining_dataset "
     "pretraining_sample_concatenation streaming "
     "streaming_multipack_buffer_size push_dataset_to_hub dataset_name "
     "dataset_config_name dataset_text_field train_file validation_file "
     "max_train_samples max_eval_samples preprocessing_num_workers "
     "overwrite_cache excess_length_strategy min_sample_len "
     "sample_packing_group_size sample_packing_bin_size "
     "sample_packing_sequentially sample_packing_mp_start_method "
     "sample_packing_drop_attention_mask multipack_real_batches "
     "multipack_attn batch_flattening pad_to_multiple_of packing "
     "padding_free default_system_message chat_template_jinja "
     "chat_template_kwargs eot_tokens roles_to_train train_on_eos "
     "shuffle_before_merging_datasets remove_unused_columns "
     "dataloader_num_workers dataloader_pin_memory "
     "dataloader_prefetch_factor dataloader_persistent_workers "
     "dataloader_drop_last length_column_name include_num_input_tokens_seen "
     "include_tokens_per_second eval_max_new_tokens eval_causal_lm_metrics "
     "predict_with_generate gc_steps"},
    {"", Changes, named, "datasets"},
    {"", Changes, validation, "val_set_size"},
    {"", Changes, order, "group_by_length curriculum_sampling"},
    {"", Changes, packing, "sample_packing"},
    {"", Changes, batch, "batch_size"},
    {"", Ignored, batch, "eval_batch_size"},
    {"", Ignored, run,
     "output_dir logging_steps logging_dir save_steps save_strategy "
     "save_total_limit save_safetensors saves_per_epoch eval_steps "
     "eval_strategy evals_per_epoch eval_table_size hub_model_id "
     "hub_strategy push_to_hub wandb_project wandb_entity wandb_watch "
     "wandb_name wandb_run_id wandb_log_model mlflow_tracking_uri "
     "mlflow_experiment_name report_to debug job profiling metrics do_train "
     "do_eval do_predict overwrite_output_dir run_name logging_strategy "
     "logging_first_step logging_nan_inf_filter log_level log_level_replica "
     "log_on_each_node eval_on_start eval_delay eval_accumulation_steps "
     "eval_do_concat_batches prediction_loss_only save_on_each_node "
     "save_only_model save_first_step save_only_on_rank0 "
     "auto_resume_from_checkpoints ignore_data_skip metric_for_best_model "
     "greater_is_better disable_tqdm hub_token hub_private_repo "
     "hub_always_push hub_revision use_tensorboard use_wandb wandb_mode "
     "wandb_run wandb_tags use_mlflow hf_mlflow_log_artifacts "
     "mlflow_run_name use_comet comet_api_key comet_workspace "
     "comet_project_name comet_experiment_key comet_mode comet_online "
     "comet_experiment_config use_trackio trackio_project_name use_swanlab "
     "swanlab_project swanlab_run_name swanlab_workspace swanlab_mode use_ray "
     "ray_run_name ray_num_workers ray_scope profiler_steps "
     "profiler_steps_start include_for_metrics include_inputs_for_metrics "
     "skip_memory_metrics do_bench_eval do_causal_lm_eval "
     "loss_watchdog_threshold loss_watchdog_patience jit_mode_eval "
     "trl verbose version bf16_full_eval fp16_full_eval "
     "restore_callback_states_from_checkpoint project"},
    {"", Changes, "fsdp-run --load=FOLDER names the checkpoint",
     "resume_from_checkpoint"},
    {"", Changes, ending, "early_stopping_patience load_best_model_at_end"},
    {"", Ignored, kernels,
     "flash_attention xformers_attention sdp_attention eager_attention "
     "attn_implementation torch_compile plugins liger_rope liger_rms_norm "
     "liger_rms_norm_gated liger_layer_norm liger_glu_activation "
     "liger_swiglu liger_cross_entropy liger_use_token_scaling "
     "flash_attn_cross_entropy "
     "flash_attn_rms_norm flash_attn_fuse_qkv flash_attn_fuse_mlp "
     "flash_optimum flex_attention flex_attn_compile_kwargs s2_attention "
     "attention attn_implementation_kwargs use_kernels use_liger_kernel "
     "unsloth_cross_entropy_loss unsloth_rms_norm unsloth_rope "
     "torch_compile_backend torch_compile_mode torch_compile_kwargs "
     "torchdynamo dynamo_config sageattention sage_attention "
     "bettertransformer chunked_cross_entropy_num_chunks tiled_mlp "
     "tiled_mlp_num_shards "
     "experts_implementation"},
    {"", Ignored, launch,
     "compute_environment distributed_type downcast_bf16 "
     "enable_cpu_affinity machine_rank main_process_ip main_process_port "
     "main_training_function num_machines rdzv_backend same_network tpu_env "
     "tpu_use_cluster tpu_use_sudo use_cpu local_rank ddp_timeout ddp "
     "ddp_backend ddp_bucket_cap_mb ddp_broadcast_buffers "
     "ddp_find_unused_parameters device_map max_memory gpu_memory_limit "
     "gpu_ids no_cuda world_size dispatch_batches split_batches "
     "fp16_opt_level fp16_backend half_precision_backend "
     "use_legacy_prediction_loop past_index use_ipex use_mps_device "
     "accelerator_config"},
    {"", RefusedAboveOne, parallel,
     "sequence_parallel_degree pipeline_parallel_size pipeline_parallel_degree "
     "expert_parallel_size "
     "expert_parallel_degree"},
    {"", Moved, "is fsdp_version: 2 here", "fsdp2"},
    {"", Refused, "only FSDP2's semantics are compiled",
     "deepspeed deepspeed_config megatron_lm_config"},
    {"", Refused, quantised, "gptq quantization quantize_moments"},
    {"", Refused, adapters, "lora_model_dir loraplus_lr_ratio relora_steps"},
    {"", Refused, precision, "float16 bfloat16"},
    {"", Moved, "is fsdp_config: {activation_checkpointing: …} here",
     "activation_checkpoint"},
    {"", Noted, "is not done: a layer's parameters are sharded instead",
     "layer_offloading"},
    {"", Refused, "there is no such schedule", "cosine_constant_lr_ratio"},
    {"", Moved, "is optimizer: {lr: …} here", "lr"},
    {"", Moved, "is max_grad_norm here", "max_norm"},
    {"", Changes, trained, "unfrozen_parameters"},
    {"", Refused, loss,
     "label_smoothing_factor neftune_noise_alpha noisy_embedding_alpha rl "
     "reward_model process_reward_model"},
    {"", Moved, "is optimizer: {groups: [...]} here",
     "embedding_lr embedding_lr_scale lr_groups optim_target_modules"},
    {"", Moved, "is optimizer: {...} here", "optim_args"},
    {"", Moved, "is init: {...} here", "init_weights"},
    {"", Ignored, "they say how activation checkpointing is done",
     "gradient_checkpointing_kwargs gradient_checkpointing_options"},
    {"", Ignored, adapters,
     "lora_r lora_alpha lora_dropout lora_target_modules "
     "lora_target_linear peft_layers_to_transform "
     "lora_target_parameters lora_modules_to_save lora_fan_in_fan_out "
     "lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_on_cpu peft "
     "peft_use_dora peft_use_rslora peft_init_lora_weights merge_lora"},
    {"mesh", RefusedAboveOne, parallel, "pp ep"},
    {"fsdp_config", Ignored, run, "state_dict_type final_state_dict_type"},
    {"fsdp_config", Ignored, loading,
     "cpu_ram_efficient_loading sync_module_states"},
    {"fsdp_config", Ignored, "parameters keep their names and shapes",
     "use_orig_params"},
    {"fsdp_config", Ignored, schedule,
     "limit_all_gathers forward_prefetch backward_prefetch"},
    {"fsdp_config", Moved,
     "is fsdp_config: {ignored_params: …} here, with patterns of names",
     "ignored_modules"},
    {"fsdp_config.mixed_precision", Refused,
     "buffers keep their type, as in FSDP2", "buffer_dtype"},
    {"fsdp_config.mixed_precision", Refused,
     "gradients reach the optimizer in the parameter's type, as in FSDP2",
     "keep_low_precision_grads"},
    {"optimizer", Ignored, "the optimizer is always fused",
     "fused foreach capturable implementation"},
    {"optimizer", Refused, "the optimizer is outside of what is differentiated",
     "differentiable"},
    {"optimizer", Refused, "is not supported", "amsgrad maximize dampening"},
    {"optimizer.groups", Refused, "is not supported",
     "dampening amsgrad maximize"},
    {"optimizer", Moved, "is optimizer: {name: adamw} here",
     "decoupled_weight_decay"},
};
} // namespace

const ForeignKey *fsdp::findForeignKey(std::string_view section,
                                       std::string_view name) {
  static const auto all = [] {
    std::map<std::pair<std::string, std::string>, ForeignKey> all;
    for (const Group &group : groups) {
      std::istringstream names(group.names);
      for (std::string name; names >> name;)
        all.try_emplace({std::string(group.section), name},
                        ForeignKey{group.action, group.reason});
    }
    return all;
  }();
  auto it = all.find({std::string(section), std::string(name)});
  return it == all.end() ? nullptr : &it->second;
}

bool fsdp::isOff(const YAML::Node &value) {
  static constexpr std::string_view words[] = {
      "",   "false", "False", "FALSE", "0",  "0.0",
      "no", "No",    "none",  "None",  "off"};
  return value.IsScalar() &&
         std::ranges::find(words, value.Scalar()) != std::end(words);
}

void fsdp::reportForeign(Reading &reading, const ForeignKey &key,
                         const Given &entry) {
  const YAML::Node &value = entry.value;
  bool isEmpty = value.IsNull() ||
                 ((value.IsMap() || value.IsSequence()) && !value.size());
  if (isEmpty || (isOff(value) && key.action != Moved))
    return;
  std::string quoted = "'" + entry.name.Scalar() + "' ";
  std::string reason(key.reason);
  switch (key.action) {
  case Ignored:
    return reading.addMinor(
        entry.name, quoted + "has no meaning here and is ignored: " + reason);
  case Noted:
    return reading.addNote(entry.name, quoted + reason);
  case Changes:
    return reading.addWarning(entry.name,
                              quoted + "is not taken from here: " + reason);
  case RefusedAboveOne:
    if (value.IsScalar() && value.Scalar() == "1")
      return;
    break;
  case Refused:
    if (value.IsScalar() && value.Scalar() == "constant")
      return;
    break;
  case Moved:
    break;
  }
  bool sentence = key.reason.starts_with("is ");
  reading.read.fail(ErrorId::ConfigNotSupported, entry.name,
                    quoted + (sentence ? "" : "cannot be had: ") + reason);
}
