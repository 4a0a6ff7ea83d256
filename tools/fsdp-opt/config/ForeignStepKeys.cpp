//===- ForeignStepKeys.cpp - Other tools' keys of the training step -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

namespace {
constexpr std::string_view loss =
    "the exported model computes the loss: export a module that returns this "
    "one, or let fsdp-train do so (docs/Recipes.md)";
constexpr std::string_view rewards =
    "a step computes one loss from rows that the run reads; what generates "
    "and judges between steps is not compiled. Preference losses (dpo, ipo, "
    "kto, orpo, simpo) train as the loss of the exported module";
constexpr std::string_view trained =
    "the exported model's requires_grad says what is trained";
constexpr std::string_view restarts =
    "the optimizer and its schedule do not start anew within a run";
constexpr std::string_view groups =
    "is optimizer: {groups: [{params: …, lr: …}]} here";

constexpr ForeignKey stepKeys[] = {
    // The optimizer.
    taken(OfTrainer, "", "learning_rate", "optimizer.lr"),
    taken(OfTrainer, "", "adam_beta1", "optimizer.betas[0]", readBeta1,
          "the first of `optimizer.betas`"),
    taken(OfTrainer, "", "adam_beta2", "optimizer.betas[1]", readBeta2,
          "the second of `optimizer.betas`"),
    taken(OfTrainer, "", "adam_epsilon", "optimizer.eps"),
    taken(OfTrainer, "", "weight_decay", "optimizer.weight_decay", readDecay,
          "`optimizer.weight_decay`, which spares biases and norms, as in "
          "transformers"),
    taken(OfTrainer, "", "optim", "optimizer"),
    told(OfTrainer, Moved, "", "is optimizer: {lr: …} here", "lr"),
    told(OfTrainer, Moved, "", "is max_grad_norm here", "max_norm"),
    told(Axolotl, Changes, "",
         "Axolotl does not read it either; adam_epsilon is its key, and "
         "optimizer: {eps: …} here",
         "adam_eps"),
    told(Axolotl, Changes, "",
         "Axolotl does not read it either; cosine_min_lr_ratio is its key, and "
         "lr_scheduler: {min_lr_ratio: …} here",
         "eta_min"),
    told(OfTrainer, Moved, "", groups,
         "embedding_lr embedding_lr_scale lr_groups optim_target_modules"),
    told(OfTrainer, Moved, "", "is optimizer: {...} here", "optim_args"),
    told(
        LlamaFactory | Axolotl, Refused, "",
        "there is no such optimizer; adamw with state_dtype: int8 keeps states "
        "in one byte",
        "use_galore use_apollo use_badam use_adam_mini use_muon "
        "use_adagc galore_rank apollo_rank"),
    told(OfTrainer, Ignored, "optimizer", "the optimizer is always fused",
         "fused foreach capturable implementation"),
    told(OfTrainer, Refused, "optimizer",
         "the optimizer is outside of what is differentiated",
         "differentiable"),
    told(OfTrainer, Refused, "optimizer", "is not supported",
         "amsgrad maximize dampening"),
    told(OfTrainer, Refused, "optimizer.groups", "is not supported",
         "dampening amsgrad maximize"),
    told(Torchtitan, Moved, "optimizer", "is optimizer: {name: adamw} here",
         "decoupled_weight_decay"),

    // The rate.
    taken(OfTrainer, "", "lr_scheduler_type", "lr_scheduler"),
    taken(OfTrainer, "", "warmup_steps", "lr_scheduler.warmup_steps",
          readWarmupSteps,
          "`lr_scheduler.warmup_steps`, or below 1 `warmup_ratio`; without "
          "effect for `constant`, as in transformers"),
    taken(OfTrainer, "", "warmup_ratio", "lr_scheduler.warmup_ratio"),
    taken(Axolotl, "", "cosine_min_lr_ratio", "lr_scheduler.min_lr_ratio",
          readMinRate,
          "with `lr_scheduler: cosine` or `rex`: "
          "`lr_scheduler.min_lr_ratio`"),
    taken(OfTrainer, "", "lr_scheduler_kwargs", "", readScheduleArguments,
          "keys of `lr_scheduler`: those of that name, `min_lr_rate` is "
          "`min_lr_ratio`, `lr_end` `min_lr`"),
    taken(Axolotl, "", "lr_quadratic_warmup", "lr_scheduler.warmup_power",
          readQuadraticWarmup,
          "with `lr_scheduler: cosine`: `lr_scheduler.warmup_power: 2`"),
    taken(Axolotl, "", "cosine_constant_lr_ratio",
          "lr_scheduler.constant_ratio", readConstantRatio,
          "with `lr_scheduler: cosine` and `cosine_min_lr_ratio`: "
          "`lr_scheduler.constant_ratio`"),
    told(Axolotl, Refused, "", restarts,
         "jagged_restart_steps jagged_restart_warmup_steps "
         "jagged_restart_anneal_steps relora relora_steps relora_prune_ratio"),
    told(Axolotl, Ignored, "", "it belongs to relora, which is refused",
         "relora_cpu_offload relora_warmup_steps relora_anneal_steps"),

    // How long.
    taken(OfTrainer, "", "max_steps", "lr_scheduler.total_steps", readMaxSteps,
          "`lr_scheduler.total_steps`; `fsdp-run --steps` says how long to "
          "run"),
    taken(Axolotl, "", "num_epochs", "data.epochs", readEpochs,
          "`data.epochs`, unless `max_steps` is given"),
    taken(OfTrainer, "", "num_train_epochs", "data.epochs", readEpochs,
          "`data.epochs`, unless `max_steps` is given"),
    taken(OfTrainer, "", "full_determinism", "deterministic").quietIfOff(),
    told(LlamaFactory | Transformers, Ignored, "",
         "`seed` says where random numbers begin, data: {seed: …} where the "
         "order of rows does",
         "data_seed"),

    // The loss.
    taken(OfTrainer, "", "average_tokens_across_devices", "", readTokenMean,
          "true: `loss_normalization: tokens`, unless that is given")
        .quietIfOff(),
    told(OfTrainer, Refused, "", loss, "label_smoothing_factor"),
    taken(Axolotl, "", "noisy_embedding_alpha", "neftune_noise_alpha")
        .quietIfOff(),
    taken(Axolotl, "", "rl", "", readPreference,
          "nothing: the loss is the exported module's. `dpo`, `ipo`, `kto`, "
          "`orpo` and `simpo` are warnings, what generates in between is "
          "refused"),
    taken(LlamaFactory, "", "stage", "", readPreference,
          "nothing: as `rl`; `pt` and `sft` say nothing"),
    told(Axolotl | LlamaFactory | Trl, Changes, "", loss,
         "reward_model process_reward_model num_labels "
         "center_rewards_coefficient rl_beta beta loss_type orpo_alpha "
         "use_weighting kto_desirable_weight kto_undesirable_weight "
         "dpo_use_weighting "
         "dpo_norm_loss dpo_label_smoothing dpo_use_logits_to_keep "
         "dpo_padding_free cpo_alpha use_eaft eaft_alpha eaft_k "
         "diffusion pref_beta pref_loss pref_ftx pref_bco_weight simpo_gamma "
         "kto_chosen_weight kto_rejected_weight dpo_ftx ref_model "
         "reference_free ref_model_quantization_bit sync_ref_model "
         "ref_model_mixup_alpha ref_model_sync_steps label_smoothing "
         "dpo_loss_type dpo_loss_weights reference kd kd_teacher kd_trainer "
         "kd_alpha kd_ce_alpha kd_temperature kd_beta kd_normalize_topk "
         "loss_weights f_divergence_type f_alpha_divergence_coef rpo_alpha "
         "ld_alpha discopop_tau generate_during_eval "
         "desirable_weight undesirable_weight num_labels_of_head "
         "use_asft_loss use_dft_loss use_eaft_loss "
         "nll_loss chunked_nll"),
    told(Trl | LlamaFactory, Changes, "",
         "the exported model has the reference in it, which computes in each "
         "step",
         "precompute_ref_log_probs ref_model_name_or_path ref_adapter_name "
         "ref_adapter_path ref_model_adapters ref_model_init_kwargs "
         "precompute_ref_batch_size force_use_ref_model reference_model"),
    told(Axolotl | Trl | LlamaFactory, Refused, "", rewards,
         "ebft num_generations num_generations_eval max_completion_length "
         "use_vllm "
         "reward_funcs reward_weights ppo_epochs ppo_target ppo_buffer_size "
         "ppo_score_norm ppo_whiten_rewards reward_model_path"),
    told(Axolotl, Ignored, "",
         "it belongs to rl, which is refused where it "
         "generates",
         "trl vllm"),

    // What is trained, and how.
    told(Axolotl | LlamaFactory, Changes, "", trained,
         "unfrozen_parameters freeze_mm_modules freeze_trainable_layers "
         "freeze_trainable_modules freeze_extra_modules freeze_vision_tower "
         "freeze_multi_modal_projector freeze_language_model "
         "train_mm_proj_only"),
    told(Axolotl, Refused, "",
         "which layers are trained cannot change during a run",
         "lisa_n_layers lisa_step_interval"),
    told(Axolotl, Ignored, "", "it belongs to lisa_n_layers, which is refused",
         "lisa_layers_attribute"),
    told(Axolotl | LlamaFactory, Changes, "",
         "fake quantisation is the exported model's: prepare it with torchao "
         "before the export, and it trains",
         "qat"),
    told(Axolotl, Refused, "",
         "weights are not kept at zero in a run: masks of sparse weights are "
         "not known here",
         "llmcompressor"),
    told(Axolotl, Ignored, "", "that is what happens without adapters",
         "full_finetune"),
};
} // namespace

std::span<const ForeignKey> foreign::getStepKeys() { return stepKeys; }
