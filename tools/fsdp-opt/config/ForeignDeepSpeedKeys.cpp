//===- ForeignDeepSpeedKeys.cpp - The keys of DeepSpeed's files -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignDeepSpeed.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/ForeignTexts.h"

using namespace fsdp;
using namespace fsdp::foreign;
using namespace fsdp::deepspeed;
using enum ForeignKey::Action;

namespace {
constexpr unsigned ds = DeepSpeed;
constexpr std::string_view memory = "memory is planned";
constexpr std::string_view left = "left to the Trainer's arguments: a warning";

bool isMap(const YAML::Node &value) { return value.IsMap(); }

/// Of a section whose values may be left to the Trainer.
constexpr ForeignKey automatic(std::string_view section,
                               std::string_view names) {
  return taken(ds, section, names, "", readAuto, left).only(isAuto);
}

constexpr ForeignKey deepSpeedKeys[] = {
    // The step.
    taken(ds, "", "train_micro_batch_size_per_gpu", "", readRows,
          "nothing: compared with the rows that the model was exported with; a "
          "difference is a warning"),
    taken(ds, "", "train_batch_size", "", readBatch,
          "nothing: a warning where `gradient_accumulation_steps` is not "
          "given"),
    automatic("", "train_micro_batch_size_per_gpu train_batch_size "
                  "gradient_accumulation_steps gradient_clipping"),
    taken(ds, "", "gradient_clipping", "max_grad_norm", nullptr,
          "`max_grad_norm`")
        .quietIfOff(),
    told(ds, Ignored, "",
         "the sum over ranks is divided in one way or another, with the same "
         "values up to rounding",
         "prescale_gradients gradient_predivide_factor"),
    told(ds, Refused, "", "gradients are exchanged whole", "sparse_gradients"),
    taken(ds, "", "communication_data_type", "", readWire,
          "`fsdp_config.mixed_precision.reduce_dtype`"),
    told(ds, Ignored, "", run,
         "steps_per_print wall_clock_breakdown dump_state tensorboard "
         "flops_profiler comms_logger csv_monitor wandb monitor_config "
         "memory_breakdown nebula checkpoint use_node_local_storage "
         "disable_allgather zero_allow_untested_optimizer "
         "zero_force_ds_cpu_optimizer timers data_types aio "
         "graph_harvesting"),
    told(ds, RefusedIfEnabled, "",
         "the data's files, and the layers of the exported model, are as they "
         "are",
         "curriculum_learning data_efficiency progressive_layer_drop "
         "sparse_attention compression_training quantize_training eigenvalue "
         "random_ltd"),
    told(ds, RefusedIfEnabled, "",
         "fsdp-opt --simulate and --explain predict other settings",
         "autotuning"),
    told(ds, RefusedIfEnabled, "",
         "a checkpoint goes on with any number of ranks by itself; take it out",
         "elasticity"),
    told(ds, RefusedIfEnabled, "",
         "fsdp_config: {mixed_precision: {param_dtype: bfloat16}} is FSDP2's "
         "way",
         "amp torch_autocast"),
    told(ds, Refused, "",
         "only data, tensor and context parallelism are "
         "compiled",
         "pipeline"),
    told(ds, RefusedAboveOne, "",
         "sequences are cut by mesh: {cp: N}; heads are not exchanged",
         "sequence_parallel_size"),
    section(ds, "", "tensor_parallel"),
    taken(ds, "tensor_parallel", "autotp_size tp_size", "mesh.tp").quietIfOff(),
    taken(
        ds, "", "activation_checkpointing", "", readCheckpointing,
        "`cpu_checkpointing: true`: `fsdp_config.activation_offloading`; what "
        "is checkpointed, the model says")
        .only(isMap),

    // Element types.
    taken(ds, "", "bf16", "", readBf16,
          "`enabled: true`: as `mixed_precision: bf16`")
        .only(isMap),
    taken(ds, "", "fp16", "", deepspeed::readFp16,
          "`enabled: true`: as `mixed_precision: fp16`, with `loss_scale` by "
          "`loss_scale`, `initial_scale_power` and `loss_scale_window`")
        .only(isMap),

    // ZeRO.
    section(ds, "", "zero_optimization"),
    taken(ds, "zero_optimization", "stage", "fsdp_config.reshard_after_forward",
          readStage,
          "`fsdp_config.reshard_after_forward`: 3 is true, 2 and 1 are false; "
          "0: `mesh: {dp_shard: 1, dp_replicate: N}`")
        .reporting(),
    section(ds, "zero_optimization", "offload_optimizer"),
    taken(ds, "zero_optimization.offload_optimizer", "device", "",
          readOptimizerDevice, "`cpu`: `fsdp_config.offload_optimizer`"),
    section(ds, "zero_optimization", "offload_param"),
    taken(ds, "zero_optimization.offload_param", "device", "", readParamsDevice,
          "`cpu`: `fsdp_config.offload_params`"),
    told(ds, Ignored, "zero_optimization.offload_optimizer", memory,
         "pin_memory buffer_count fast_init ratio nvme_path pipeline_read "
         "pipeline_write pipeline"),
    told(ds, Ignored, "zero_optimization.offload_param", memory,
         "pin_memory buffer_count buffer_size max_in_cpu nvme_path"),
    taken(ds, "zero_optimization", "zero_hpz_partition_size", "", readSecondary,
          "`fsdp_config.reshard_after_forward: k`"),
    taken(ds, "zero_optimization", "mics_shard_size", "", readMics,
          "`mesh.dp_shard`"),
    told(
        ds, Ignored, "zero_optimization", schedule,
        "overlap_comm contiguous_gradients reduce_scatter reduce_bucket_size "
        "allgather_partitions allgather_bucket_size round_robin_gradients "
        "stage3_prefetch_bucket_size stage3_max_live_parameters "
        "prefetch_bucket_size max_live_parameters max_reuse_distance "
        "param_persistence_threshold model_persistence_threshold "
        "module_granularity_threshold "
        "stage3_max_reuse_distance stage3_param_persistence_threshold "
        "stage3_model_persistence_threshold sub_group_size "
        "stage3_module_granularity_threshold use_multi_rank_bucket_allreduce "
        "mics_hierarchical_params_gather memory_efficient_linear "
        "cpu_offload_use_pin_memory zeropp_loco_param log_trace_cache_warnings "
        "ignore_unused_parameters legacy_stage1 pipeline_loading_checkpoint "
        "override_module_apply stage3_use_all_reduce_for_fetch_params "
        "enable_sanity_checks use_all_reduce_for_fetch_params"),
    told(ds, Ignored, "zero_optimization", run,
         "stage3_gather_16bit_weights_on_model_save "
         "gather_16bit_weights_on_model_save "
         "stage3_gather_fp16_weights_on_model_save elastic_checkpoint "
         "load_from_fp32_weights"),
    told(ds, Moved, "zero_optimization",
         "is offload_optimizer: {device: cpu} in DeepSpeed, and fsdp_config: "
         "{offload_optimizer: true} here",
         "cpu_offload cpu_offload_params"),
    told(ds, Refused, "zero_optimization",
         "parameters travel in the type that is computed in; float8: "
         "{enable_fsdp_float8_all_gather: true} has one byte an element of "
         "linear layers that multiply in float8",
         "zero_quantized_weights zero_quantized_nontrainable_weights"),
    told(ds, Refused, "zero_optimization",
         "fsdp_config: {reduce_wire_dtype: float8} has gradients travel in one "
         "byte an element",
         "zero_quantized_gradients"),

    // Optimizer and rate.
    taken(ds, "optimizer", "type", "optimizer.name", readOptimizerType,
          "`optimizer.name`: `AdamW`, `Adam` (which decays as AdamW unless "
          "`adam_w_mode: false`) or `SGD`"),
    section(ds, "optimizer", "params"),
    taken(ds, "optimizer.params", "lr", "", readAutoRate,
          "refused without `learning_rate`")
        .only(isAuto),
    automatic("optimizer.params", "betas eps weight_decay momentum"),
    taken(ds, "optimizer.params", "lr", "optimizer.lr"),
    taken(ds, "optimizer.params", "betas", "optimizer.betas"),
    taken(ds, "optimizer.params", "eps", "optimizer.eps"),
    taken(ds, "optimizer.params", "weight_decay", "optimizer.weight_decay"),
    taken(ds, "optimizer.params", "momentum", "optimizer.momentum"),
    taken(ds, "optimizer.params", "nesterov", "optimizer.nesterov"),
    told(ds, Ignored, "optimizer.params", "see optimizer.type",
         "adam_w_mode torch_adam bias_correction fp32_optimizer_states "
         "set_grad_none fused"),
    told(ds, Refused, "optimizer.params", "is not supported", "amsgrad"),
    told(ds, Ignored, "optimizer", "gradients are exchanged once a step",
         "legacy_fusion"),
    section(ds, "", "scheduler"),
    taken(ds, "scheduler", "type", "", readScheduleType,
          "`lr_scheduler.name`: `WarmupLR` is `constant_with_warmup`, "
          "`WarmupDecayLR` `linear`, `WarmupCosineLR` `cosine`"),
    section(ds, "scheduler", "params"),
    automatic("scheduler.params", "warmup_min_lr warmup_max_lr "
                                  "warmup_num_steps total_num_steps"),
    taken(ds, "scheduler.params", "warmup_num_steps",
          "lr_scheduler.warmup_steps"),
    taken(ds, "scheduler.params", "total_num_steps",
          "lr_scheduler.total_steps"),
    taken(ds, "scheduler.params", "warmup_type", "", readWarmupType,
          "nothing: `linear` alone"),
    taken(ds, "scheduler.params", "warmup_max_lr", "", readMaxRate,
          "`optimizer.lr`, which it has to be"),
    taken(ds, "scheduler.params", "warmup_min_lr warmup_min_ratio", "",
          deepspeed::readMinRate, "nothing: 0 alone"),
    taken(ds, "scheduler.params", "cos_min_ratio", "lr_scheduler.min_lr_ratio",
          readMinRatio),
    told(ds, Ignored, "scheduler.params", "a run counts its steps itself",
         "last_batch_iteration"),

    // The same in accelerate's own file.
    section(Accelerate, "", "deepspeed_config"),
    taken(Accelerate, "deepspeed_config", "zero_stage",
          "fsdp_config.reshard_after_forward", readStage,
          "as `zero_optimization.stage`")
        .reporting(),
    taken(Accelerate, "deepspeed_config", "gradient_accumulation_steps",
          "gradient_accumulation_steps"),
    taken(Accelerate, "deepspeed_config", "gradient_clipping", "max_grad_norm")
        .quietIfOff(),
    taken(Accelerate, "deepspeed_config", "offload_optimizer_device", "",
          readOptimizerDevice, "`cpu`: `fsdp_config.offload_optimizer`"),
    taken(Accelerate, "deepspeed_config", "offload_param_device", "",
          readParamsDevice, "`cpu`: `fsdp_config.offload_params`"),
    told(Accelerate, Ignored, "deepspeed_config", run,
         "zero3_init_flag zero3_save_16bit_model deepspeed_multinode_launcher "
         "deepspeed_hostfile deepspeed_inclusion_filter "
         "deepspeed_exclusion_filter offload_optimizer_nvme_path "
         "offload_param_nvme_path"),
    taken(Accelerate, "deepspeed_config", "deepspeed_config_file", "",
          readIncluded, "as Axolotl's `deepspeed`")
        .quietIfOff()
        .reporting(),
    told(Accelerate, Ignored, "deepspeed_config",
         "experts are layers like others", "deepspeed_moe_layer_cls_names"),
};
} // namespace

std::span<const ForeignKey> foreign::getDeepSpeedKeys() {
  return deepSpeedKeys;
}
