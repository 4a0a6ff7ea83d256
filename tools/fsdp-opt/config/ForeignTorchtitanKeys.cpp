//===- ForeignTorchtitanKeys.cpp - The sections of torchtitan's files -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Fields.h"
#include "tools/fsdp-opt/config/ForeignKeys.h"
#include "tools/fsdp-opt/config/ForeignReaders.h"
#include "tools/fsdp-opt/config/ForeignTexts.h"
#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;
using namespace fsdp::foreign;
using enum ForeignKey::Action;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static bool isMap(const YAML::Node &value) { return value.IsMap(); }

/// Of torch.optim's classes; those of keys of this project are in small
/// letters.
static bool isClass(const YAML::Node &value) {
  return value.IsScalar() &&
         (value.Scalar() == "AdamW" || value.Scalar() == "Adam" ||
          value.Scalar() == "SGD");
}

static void readClass(const Value &value) {
  const std::string &word = value.node.Scalar();
  OptimizerKind kind = word == "Adam"  ? OptimizerKind::adam
                       : word == "SGD" ? OptimizerKind::sgd
                                       : OptimizerKind::adamw;
  value.reading.result.config.optimizer.kind = kind;
  value.reading.becomeValue("optimizer.name", std::string(getFacts(kind).name));
}

/// `always`, `never`, or `default`, which is `always` without pipelines.
static void readReshard(const Value &value) {
  static constexpr std::string_view words[] = {"default", "always", "never"};
  bool keeps =
      value.reader().readChoice(value.node, value.key, words) == "never";
  value.reading.result.config.reshard = keeps ? Reshard::None : Reshard::All;
  value.reading.becomeValue("fsdp_config.reshard_after_forward", !keeps);
}

/// Above 0; torchtitan's 0 clips to nothing at all.
static void readMaxNorm(const Value &value) {
  getTopLevel().readAt("max_grad_norm", value, value.reading.result.config);
  value.reading.become("max_grad_norm", value.node);
}

/// What its `selective_ac_option` says is read with it.
static void readCheckpointMode(const Value &value) {
  static constexpr std::string_view words[] = {"none", "full", "selective",
                                               "memory_budget"};
  std::string mode = value.reader().readChoice(value.node, value.key, words);
  if (mode == "memory_budget")
    value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                        "'mode: memory_budget' cannot be had: schedule: auto "
                        "with memory_budget and cluster decides what is "
                        "computed again");
  Config &config = value.reading.result.config;
  std::string path = "fsdp_config.activation_checkpointing";
  if (mode == "none")
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  CheckpointingConfig &checkpointing = config.checkpointing.emplace_back();
  YAML::Node option =
      value.reading.root["activation_checkpoint"]["selective_ac_option"];
  // torchtitan's default is each second layer.
  std::string word = option && option.IsScalar() ? option.Scalar() : "2";
  if (mode == "full") {
    value.reading.becomeValue(path, true);
  } else if (word == "op") {
    checkpointing.policy = RecomputeChoice::Selective;
    value.reading.becomeValue(path + ".policy", "selective");
  } else {
    Value every{value.reading, path + ".every", "selective_ac_option",
                YAML::Node(word)};
    checkpointing.every = from(1).read(every);
    value.reading.becomeValue(path + ".every", checkpointing.every);
  }
}

/// Read with `mode`.
static void readCheckpointOption(const Value &) {}

/// Batches of all ranks in a step.
static void readGlobalBatch(const Value &value) {
  if (Whole{.least = -1}.read(value) == -1)
    return value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
  std::string why = "gradient_accumulation_steps says how many micro-batches a "
                    "step has: this number by that of the rows of all ranks";
  if (value.reading.root["gradient_accumulation_steps"])
    return value.reading.classify(KeyOutcome::PassedOver, why);
  value.reading.classify(KeyOutcome::Warned, why);
  value.reading.addWarning(value.node, "'" + value.key +
                                           "' is not taken from here: " + why);
}

static void readLeftOut(const Value &value) {
  if (value.node.IsSequence() && !value.node.size())
    return;
  value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                      "'" + value.key +
                          "' is float8: {modules: …} here, which names the "
                          "linear layers that are meant, not those that are "
                          "left out");
}

/// Applied when all keys are read (StepChecks.cpp).
static void readEmaEnabled(const Value &value) {
  if (!Flag().read(value))
    value.reading.classify(KeyOutcome::Nothing, "asks for nothing");
}

static void readRecipe(const Value &value) {
  getTopLevel().readAt("float8.recipe", value, value.reading.result.config);
  value.reading.become("float8.recipe", value.node);
}

/// "mxfp8_cublas", "mxfp8_cublas_rceil", "mxfp8_emulated" are kernels of one
/// arithmetic; others have other numbers.
static void readBlockRecipe(const Value &value) {
  if (!value.node.IsScalar() || !value.node.Scalar().starts_with("mxfp8"))
    value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                        "expected mxfp8, the blocks of numbers of eight bits "
                        "that there are products of, found '" +
                            YAML::Dump(value.node) + "'");
  open(value.reading.result.config.float8).recipe = Float8Choice::Mxfp8;
  value.reading.becomeValue("float8.recipe", "mxfp8");
}

/// The section alone asks for it.
static void readFloat8Section(const Value &value) {
  open(value.reading.result.config.float8);
  value.reading.become("float8", YAML::Node(YAML::NodeType::Map));
  value.reading.readSection("quantize.linear.float8", "quantize.linear.float8",
                            value.node,
                            [](std::string_view) { return ReadValue(); });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {
constexpr unsigned titan = Torchtitan;
constexpr std::string_view blockKernel =
    "blocks are cast by one kernel along either dim";
constexpr std::string_view checkpoint =
    "the compiler knows which operators cost what";

/// Not this project's key of that name.
bool isLogging(const YAML::Node &value) {
  return value.IsMap() && !value["norms"] && !value["by"];
}

constexpr ForeignKey torchtitanKeys[] = {
    taken(titan, "optimizer", "name", "optimizer.name", readClass,
          "`optimizer.name`, in small letters")
        .only(isClass),
    told(titan, Ignored, "optimizer",
         "fsdp_config: {optimizer_in_backward: auto} does it where it can",
         "early_step_in_backward"),
    taken(titan, "optimizer", "beta1", "optimizer.betas[0]", readBeta1,
          "the first of `optimizer.betas`"),
    taken(titan, "optimizer", "beta2", "optimizer.betas[1]", readBeta2,
          "the second of `optimizer.betas`"),
    taken(titan, "lr_scheduler", "min_lr_factor lr_min",
          "lr_scheduler.min_lr_ratio", readMinFactor),

    taken(titan, "ema", "enable", "", readEmaEnabled,
          "`ema`, which is there where it is true"),
    taken(titan, "ema", "update_every_n_steps", "ema.every"),
    told(titan, Moved, "ema",
         "is ema: {update_after_step: …} here, until which the average is the "
         "parameter",
         "start_step"),
    told(titan, Refused, "ema",
         "there is no decay by a half-life; write ema: {decay: …}, with "
         "warmup: ratio for one that grows",
         "half_life_fraction step_bias"),
    told(titan, Ignored, "ema",
         "averages lie where the optimizer's states do "
         "(fsdp_config.offload_optimizer)",
         "offload_to_cpu"),

    told(titan, Ignored, "", run, "metrics").only(isLogging),

    section(titan, "", "training"),
    taken(titan, "training", "local_batch_size batch_size", "", readRows,
          "nothing: compared with the rows that the model was exported with; a "
          "difference is a warning"),
    taken(titan, "training", "global_batch_size", "", readGlobalBatch,
          "nothing: a warning where `gradient_accumulation_steps` is not "
          "given"),
    taken(titan, "training", "seq_len", "", readTokens,
          "nothing: compared with the exported tokens of a row; a difference "
          "is a warning"),
    taken(titan, "training", "steps", "lr_scheduler.total_steps", readMaxSteps,
          "`lr_scheduler.total_steps`; `fsdp-run --steps` says how long to "
          "run"),
    taken(titan, "training", "max_norm", "max_grad_norm", readMaxNorm,
          "`max_grad_norm`"),
    taken(titan, "training", "seed", "seed"),
    taken(titan, "training", "deterministic", "deterministic").quietIfOff(),
    taken(titan, "training", "mixed_precision_param",
          "fsdp_config.mixed_precision.param_dtype"),
    taken(titan, "training", "mixed_precision_reduce",
          "fsdp_config.mixed_precision.reduce_dtype"),
    taken(titan, "training", "enable_cpu_offload", "fsdp_config.offload_params")
        .quietIfOff(),
    taken(titan, "training", "data_parallel_shard_degree", "mesh.dp_shard"),
    taken(titan, "training", "data_parallel_replicate_degree",
          "mesh.dp_replicate"),
    taken(titan, "training", "tensor_parallel_degree", "mesh.tp"),
    told(titan, Changes, "training",
         "fsdp-run --data, or data: in this file, names what is read",
         "dataset dataset_path"),
    told(titan, Ignored, "training", run, "gc_freq gc_debug log_freq"),
    told(titan, Ignored, "training", kernels, "compile dtype"),

    section(titan, "", "debug").only(isMap),
    taken(titan, "debug", "seed", "seed"),
    taken(titan, "debug", "deterministic", "deterministic").quietIfOff(),
    told(titan, Ignored, "debug", run,
         "deterministic_warn_only moe_force_load_balance print_config "
         "save_config_file enable_structured_logging"),

    section(titan, "", "parallelism"),
    taken(titan, "parallelism", "data_parallel_shard_degree", "mesh.dp_shard"),
    taken(titan, "parallelism", "data_parallel_replicate_degree",
          "mesh.dp_replicate"),
    taken(titan, "parallelism", "tensor_parallel_degree", "mesh.tp"),
    taken(titan, "parallelism", "context_parallel_degree", "mesh.cp"),
    taken(titan, "parallelism", "context_parallel_rotate_method",
          "context_parallel_rotate_method"),
    taken(titan, "parallelism", "fsdp_reshard_after_forward",
          "fsdp_config.reshard_after_forward", readReshard,
          "`fsdp_config.reshard_after_forward`: `never` is false"),
    told(titan, Ignored, "parallelism", schedule,
         "enable_async_tensor_parallel enable_compiled_autograd "
         "disable_loss_parallel module_fqns_per_model_part "
         "pipeline_parallel_schedule pipeline_parallel_schedule_csv "
         "pipeline_parallel_layers_per_stage pipeline_parallel_split_points "
         "pipeline_parallel_microbatch_size pipeline_parallel_first_stage_less_"
         "layers pipeline_parallel_last_stage_less_layers "
         "expert_tensor_parallel_degree expert_parallel_comm_backend "
         "context_parallel_load_balancer"),
    told(titan, RefusedAboveOne, "parallelism", parallel,
         "pipeline_parallel_degree expert_parallel_degree"),

    section(titan, "", "activation_checkpoint").only(isMap),
    told(titan, Moved, "", "is fsdp_config: {activation_checkpointing: …} here",
         "activation_checkpoint"),
    taken(titan, "activation_checkpoint", "mode", "", readCheckpointMode,
          "`fsdp_config.activation_checkpointing`: `full` is true; "
          "`selective` with `op` is `{policy: selective}`, with a number k "
          "`{every: k}`"),
    taken(titan, "activation_checkpoint", "selective_ac_option", "",
          readCheckpointOption, "see `mode`"),
    told(titan, Ignored, "activation_checkpoint", checkpoint,
         "per_op_sac_force_recompute_mm_shapes_by_fqns early_stop "
         "memory_budget visualize_memory_budget_pareto "
         "determinism_check preserve_rng_state debug"),

    section(titan, "", "quantize").only([](const YAML::Node &value) {
      return value.IsMap() && (value["linear"] || value["grouped_mm"]);
    }),
    section(titan, "quantize", "linear"),
    told(titan, Refused, "quantize",
         "experts are multiplied in the types of the exported model",
         "grouped_mm"),
    taken(titan, "quantize.linear", "float8", "float8", readFloat8Section,
          "`float8: {}`"),
    told(titan, Refused, "quantize.linear",
         "there are no products of numbers of four bits; float8: {} has those "
         "of eight",
         "nvfp4"),
    section(titan, "quantize.linear", "mx"),
    taken(titan, "quantize.linear.mx", "recipe_name", "float8.recipe",
          readBlockRecipe, "`float8.recipe: mxfp8`"),
    taken(titan, "quantize.linear.mx", "filter_fqns", "", readLeftOut,
          "refused: `float8.modules` names those that are meant"),
    told(titan, Ignored, "quantize.linear.mx", blockKernel,
         "mxfp8_dim1_cast_kernel_choice"),
    taken(titan, "quantize.linear.float8", "enable_fsdp_float8_all_gather",
          "float8.enable_fsdp_float8_all_gather"),
    taken(titan, "quantize.linear.float8", "recipe_name", "float8.recipe",
          readRecipe, "`float8.recipe`"),
    taken(titan, "quantize.linear.float8", "filter_fqns", "", readLeftOut,
          "refused: `float8.modules` names those that are meant"),
    taken(titan, "float8", "filter_fqns", "", readLeftOut,
          "refused: `float8.modules` names those that are meant"),
    taken(titan, "float8", "recipe_name", "float8.recipe", readRecipe,
          "`float8.recipe`"),
    told(titan, Ignored, "float8",
         "scales are computed in one pass over all weights",
         "precompute_float8_dynamic_scale_for_fsdp "
         "force_recompute_fp8_weight_in_bwd enable_float8_linear"),
    told(titan, Ignored, "quantize.linear.float8",
         "scales are computed in one pass over all weights",
         "precompute_float8_dynamic_scale_for_fsdp "
         "force_recompute_fp8_weight_in_bwd"),

    section(titan, "", "compile").only(isMap),
    told(titan, Ignored, "", "the step is compiled ahead of time", "compile"),
    told(titan, Ignored, "compile", "the step is compiled ahead of time",
         "enable components backend precompile_artifact_dir mode"),
    section(titan, "", "checkpoint").only(isMap),
    told(titan, Ignored, "checkpoint", run,
         "enable enable_checkpoint folder interval interval_type "
         "last_save_model_only last_save_in_hf model_weights_only export_dtype "
         "create_seed_checkpoint async_mode keep_latest_k load_step "
         "exclude_from_loading enable_first_step_checkpoint load_only "
         "initial_load_in_hf initial_load_in_hf_quantized "
         "initial_load_model_only use_node_local_storage"),
    told(titan, Changes, "checkpoint",
         "fsdp-run --weights=FOLDER, or --load=FOLDER, names what it starts "
         "from",
         "initial_load_path"),
    section(titan, "", "validation").only(isMap),
    told(titan, Changes, "validation",
         "eval: {data: ..., every: ...} in this file says what to validate on",
         "enable enabled"),
    told(titan, Ignored, "validation",
         "eval: {data: ...} in this file names what to validate on",
         "dataset dataset_path local_batch_size seq_len freq steps"),
    section(titan, "", "fault_tolerance"),
    told(titan, Refused, "fault_tolerance",
         "ranks that fail end a run; fsdp-run --load goes on from the last "
         "checkpoint, with any number of ranks",
         "enable"),
    told(titan, Ignored, "fault_tolerance", "it belongs to enable",
         "process_group process_group_timeout_ms replica_id group_size "
         "min_replica_size semi_sync_method sync_steps should_quantize "
         "fragment_sync_delay fragment_update_alpha module_fqns_per_model_"
         "fragment num_fragments"),
    section(titan, "", "comm"),
    told(titan, Ignored, "comm", "fsdp-run's options say how long ranks wait",
         "init_timeout_seconds train_timeout_seconds trace_buf_size "
         "save_traces_folder save_traces_file_prefix mode"),
    section(titan, "", "experimental"),
    told(titan, Ignored, "experimental", "the model is the exported file",
         "custom_import custom_args_module"),
    told(titan, Ignored, "", run, "memory_estimation"),
    section(titan, "", "mx").only(isMap),
    taken(titan, "mx", "recipe_name", "float8.recipe", readBlockRecipe,
          "`float8.recipe: mxfp8`"),
    taken(titan, "mx", "filter_fqns", "", readLeftOut,
          "refused: `float8.modules` names those that are meant"),
    told(titan, Ignored, "mx", blockKernel, "mxfp8_dim1_cast_kernel_choice"),
};
} // namespace

std::span<const ForeignKey> foreign::getTorchtitanKeys() {
  return torchtitanKeys;
}
