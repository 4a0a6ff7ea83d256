//===- ForeignRunKeys.cpp - Other tools' keys of runs and launchers -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/ForeignTexts.h"

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

namespace {
constexpr std::string_view launch = "the mesh and the launcher say where ranks "
                                    "run";
constexpr std::string_view ending =
    "fsdp-run --keep-best keeps the best checkpoint, and --patience=N ends the "
    "run when validation finds nothing better";

constexpr ForeignKey runKeys[] = {
    told(OfTrainer | Accelerate | Torchtitan, Ignored, "", run,
         "output_dir logging_steps logging_dir save_steps save_strategy "
         "save_total_limit save_safetensors saves_per_epoch eval_steps "
         "eval_strategy evaluation_strategy evals_per_epoch eval_table_size "
         "hub_model_id hub_strategy push_to_hub wandb_project wandb_entity "
         "wandb_watch wandb_name wandb_run_id wandb_log_model "
         "mlflow_tracking_uri mlflow_experiment_name report_to debug job "
         "profiling do_train do_eval do_predict overwrite_output_dir "
         "run_name logging_strategy logging_first_step logging_nan_inf_filter "
         "log_level log_level_replica log_on_each_node eval_on_start "
         "eval_delay eval_accumulation_steps eval_do_concat_batches "
         "eval_use_gather_object batch_eval_metrics prediction_loss_only "
         "save_on_each_node save_only_model save_first_step save_only_on_rank0 "
         "auto_resume_from_checkpoints ignore_data_skip metric_for_best_model "
         "greater_is_better disable_tqdm hub_token hub_private_repo "
         "hub_always_push hub_revision use_tensorboard use_wandb wandb_mode "
         "wandb_run wandb_tags use_mlflow hf_mlflow_log_artifacts "
         "mlflow_run_name use_comet comet_api_key comet_workspace "
         "comet_project_name comet_experiment_key comet_mode comet_online "
         "comet_experiment_config use_trackio trackio_project_name "
         "trackio_space_id trackio_run_name use_swanlab swanlab_project "
         "swanlab_run_name "
         "swanlab_workspace swanlab_mode swanlab_experiment_name "
         "swanlab_description swanlab_log_completions swanlab_log_model "
         "swanlab_completion_log_interval swanlab_completion_max_buffer "
         "swanlab_api_key swanlab_logdir swanlab_lark_webhook_url "
         "swanlab_lark_secret use_otel_metrics otel_metrics_host "
         "otel_metrics_port use_ray ray_run_name ray_num_workers ray_scope "
         "ray_storage_path ray_storage_filesystem ray_init_kwargs "
         "resources_per_worker placement_strategy profiler_steps "
         "profiler_steps_start include_for_metrics include_inputs_for_metrics "
         "skip_memory_metrics do_bench_eval do_causal_lm_eval "
         "loss_watchdog_threshold loss_watchdog_patience jit_mode_eval "
         "verbose version bf16_full_eval fp16_full_eval "
         "restore_callback_states_from_checkpoint project plot_loss "
         "compute_accuracy include_mfu enable_jit_checkpoint label_names "
         "log_completions num_completions_to_print log_unique_prompts "
         "eval_sampling export_dir export_size export_device "
         "export_legacy_format "
         "dump_config save_peft_format tags"),
    told(OfTrainer, Changes, "", "fsdp-run --load=FOLDER names the checkpoint",
         "resume_from_checkpoint"),
    told(OfTrainer, Changes, "", ending,
         "early_stopping_patience early_stopping_steps load_best_model_at_end"),
    told(
        Accelerate | OfTrainer, Ignored, "", launch,
        "compute_environment downcast_bf16 enable_cpu_affinity machine_rank "
        "main_process_ip main_process_port main_training_function "
        "num_machines rdzv_backend same_network tpu_env tpu_use_cluster "
        "tpu_use_sudo local_rank ddp_timeout ddp ddp_backend ddp_bucket_cap_mb "
        "ddp_broadcast_buffers ddp_find_unused_parameters ddp_static_graph "
        "gpu_ids no_cuda world_size dispatch_batches split_batches "
        "fp16_opt_level fp16_backend half_precision_backend "
        "use_legacy_prediction_loop past_index use_ipex use_mps_device "
        "ipex_config mpirun_config tpu_name tpu_zone command_file commands "
        "use_parallelism_config"),
    taken(Accelerate, "", "distributed_type", "", readDistributedType,
          "nothing: `FSDP`, `DEEPSPEED` and `MULTI_GPU` are ranks of one mesh; "
          "others are refused"),
    taken(Transformers | Axolotl | Trl, "", "accelerator_config", "",
          readAcceleratorConfig,
          "nothing: `gradient_accumulation_kwargs: {sync_each_batch: true}` is "
          "`fsdp_config.gradient_sync: each`, the default; others say how rows "
          "are dealt"),
};
} // namespace

std::span<const ForeignKey> foreign::getRunKeys() { return runKeys; }
