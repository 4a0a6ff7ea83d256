//===- Foreign.cpp - Keys of other tools that have a meaning --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Foreign.h"

#include "tools/fsdp-opt/config/ForeignReaders.h"

#include <algorithm>

using namespace fsdp;
using namespace fsdp::foreign;

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

void fsdp::readOptimizerWord(const Value &value, OptimizerConfig &optimizer) {
  struct Word {
    std::string_view word;
    OptimizerKind kind;
    bool isInt8 = false;
    bool isPaged = false; ///< states move to the host where memory is short
  };
  static constexpr Word words[] = {
      {"adamw_torch", OptimizerKind::adamw},
      {"adamw_torch_fused", OptimizerKind::adamw},
      {"adamw_torch_8bit", OptimizerKind::adamw, true},
      {"adamw_8bit", OptimizerKind::adamw, true},
      {"adamw_bnb_8bit", OptimizerKind::adamw, true},
      {"paged_adamw_8bit", OptimizerKind::adamw, true, true},
      {"paged_adamw_32bit", OptimizerKind::adamw, false, true},
      {"sgd", OptimizerKind::sgd}};
  for (const Word &each : words) {
    if (value.node.Scalar() != each.word)
      continue;
    optimizer.kind = each.kind;
    if (each.isInt8)
      optimizer.stateDType = StateChoice::Int8;
    value.reading.addNote(
        value.node,
        "'" + value.key + ": " + std::string(each.word) +
            "' is taken as optimizer: {name: " +
            std::string(getFacts(each.kind).name) + ", weight_decay: 0" +
            (each.isInt8 ? ", state_dtype: int8" : "") +
            "}, transformers' defaults" +
            (each.isPaged ? "; states do not move where memory is short, "
                            "fsdp_config: {offload_optimizer: true} keeps them "
                            "in the host's memory"
                          : ""));
    return;
  }
  std::string known;
  for (const Word &each : words)
    known += (known.empty()                           ? ""
              : &each != &words[std::size(words) - 1] ? ", "
                                                      : " or ") +
             std::string(each.word);
  value.failType("a map such as {name: adamw, lr: 1.0e-3}, or " + known +
                 " as in transformers");
}

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

static constexpr std::string_view kComparedRows =
    "nothing: compared with the rows that the model was exported with; a "
    "difference is a warning";
static constexpr std::string_view kComparedTokens =
    "nothing: compared with the exported tokens of a row; a difference is a "
    "warning";

static constexpr Rename kRenames[] = {
    {"", "learning_rate", "optimizer.lr"},
    {"", "adam_beta1", "optimizer.betas[0]", readBeta1,
     "the first of `optimizer.betas`"},
    {"", "adam_beta2", "optimizer.betas[1]", readBeta2,
     "the second of `optimizer.betas`"},
    {"", "adam_epsilon", "optimizer.eps"},
    {"", "weight_decay", "optimizer.weight_decay", readDecay,
     "`optimizer.weight_decay`, 0 alone: transformers spares biases and norms, "
     "which `optimizer.groups` must say"},
    {"", "optim", "optimizer"},
    {"", "lr_scheduler_type", "lr_scheduler"},
    {.section = "",
     .name = "warmup_steps",
     .becomes = "lr_scheduler.warmup_steps",
     .text = "`lr_scheduler.warmup_steps`; without effect for `constant`, as "
             "in transformers"},
    {"", "warmup_ratio", "lr_scheduler.warmup_ratio"},
    {"", "cosine_min_lr_ratio", "lr_scheduler.min_lr", readMinRate,
     "with `lr_scheduler: cosine`: `lr_scheduler.min_lr`, this part of "
     "`optimizer.lr`"},
    {"", "lr_scheduler_kwargs", "", readScheduleArguments,
     "`min_lr` and `min_lr_rate`, of `cosine_with_min_lr`: "
     "`lr_scheduler.min_lr`"},
    {"", "max_steps", "lr_scheduler.total_steps", readMaxSteps,
     "`lr_scheduler.total_steps`; `fsdp-run --steps` says how long to run"},
    {"", "num_epochs", "data.epochs", readEpochs,
     "`data.epochs`, unless `max_steps` is given"},
    {"", "num_train_epochs", "data.epochs", readEpochs, "the same"},
    {.section = "",
     .name = "full_determinism",
     .becomes = "deterministic",
     .sayNothingIfOff = true},
    {"", "num_processes", "--world", readProcesses,
     "`--world`, unless that is given"},
    {"", "dp_shard_size", "mesh.dp_shard"},
    {"", "data_parallel_shard_degree", "mesh.dp_shard"},
    {"", "dp_replicate_size", "mesh.dp_replicate"},
    {"", "data_parallel_replicate_degree", "mesh.dp_replicate"},
    {.section = "",
     .name = "tensor_parallel_size",
     .becomes = "mesh.tp",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "tensor_parallel_degree",
     .becomes = "mesh.tp",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "context_parallel_size",
     .becomes = "mesh.cp",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "context_parallel_degree",
     .becomes = "mesh.cp",
     .sayNothingIfOff = true},
    {"mesh", "tensor", "mesh.tp"},
    {"", "parallelism_config", "", readParallelism,
     "`mesh`, by its `dp_replicate_size`, `dp_shard_size`, `tp_size` and "
     "`cp_size`; `context_parallel_rotate_method` by its `cp_comm_strategy`"},
    {.section = "",
     .name = "mixed_precision",
     .becomes = "fsdp_config.mixed_precision",
     .read = readPrecision,
     .text = "`bf16`: `fsdp_config.mixed_precision` with all three types "
             "bfloat16, as Accelerate does under FSDP2; `fp16`: all three "
             "float16, with `loss_scale: dynamic` if that is not given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "bf16",
     .becomes = "fsdp_config.mixed_precision",
     .read = readPrecision,
     .text = "with `true` or `auto` as `mixed_precision: bf16`",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "fp16",
     .becomes = "fsdp_config.mixed_precision",
     .read = readFp16,
     .text = "with `true` as `mixed_precision: fp16`",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "fp8",
     .becomes = "",
     .read = readFloat8,
     .text = "`float8: {}`, unless that is given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "fp8_enable_fsdp_float8_all_gather",
     .becomes = "",
     .read = readFloat8Gather,
     .text = "`float8.enable_fsdp_float8_all_gather`, with `fp8`",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "gradient_checkpointing",
     .becomes = "",
     .read = readGradientCheckpointing,
     .text = "`fsdp_config.activation_checkpointing`, unless that is given; "
             "with `offload` also `fsdp_config.activation_offloading`",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "activation_checkpointing",
     .becomes = "",
     .read = readGradientCheckpointing,
     .text = "the same",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "chunked_cross_entropy",
     .becomes = "",
     .read = readFusedLoss,
     .text = "`fsdp_config.loss_chunks: auto`, unless that is given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "liger_fused_linear_cross_entropy",
     .becomes = "",
     .read = readFusedLoss,
     .text = "the same",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "cut_cross_entropy",
     .becomes = "",
     .read = readFusedLoss,
     .text = "the same",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "load_in_4bit",
     .becomes = "",
     .read = readLoadIn4Bit,
     .text = "`quantize: {kind: nf4}`, unless that is given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "load_in_8bit",
     .becomes = "",
     .read = readLoadIn8Bit,
     .text = "`quantize: {kind: int8}`, unless that is given",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "activation_offloading",
     .becomes = "fsdp_config.activation_offloading",
     .sayNothingIfOff = true},
    {.section = "",
     .name = "offload_activations",
     .becomes = "fsdp_config.activation_offloading",
     .sayNothingIfOff = true},
    {"", "micro_batch_size", "", readRows, kComparedRows},
    {"", "per_device_train_batch_size", "", readRows, kComparedRows},
    {"", "sequence_len", "", readTokens, kComparedTokens},
    {"", "max_seq_length", "", readTokens, kComparedTokens},
    {"", "max_length", "", readTokens, kComparedTokens},
    {"", "block_size", "", readTokens, kComparedTokens},
    {"", "fsdp", "", readFsdpWords,
     "`full_shard`: `fsdp_config.reshard_after_forward: true`, "
     "`shard_grad_op`: false; `offload`: `fsdp_config.offload_params`; "
     "`auto_wrap`: `fsdp_config.auto_wrap_policy` by "
     "`transformer_layer_cls_to_wrap` or `min_num_params`, if one is given"},
    {"fsdp_config", "fsdp_version", "fsdp_version"},
    {"fsdp_config", "version", "fsdp_version"},
    {.section = "fsdp_config",
     .name = "activation_checkpointing_offload",
     .becomes = "fsdp_config.activation_offloading",
     .sayNothingIfOff = true},
    {.section = "fsdp_config",
     .name = "sharding_strategy",
     .becomes = "fsdp_config.reshard_after_forward",
     .read = readStrategy,
     .text = "FSDP1's, [see FromFsdp1.md](FromFsdp1.md)",
     .reports = true},
};

std::span<const Rename> fsdp::getRenames() { return kRenames; }

const Rename *fsdp::findRename(std::string_view section, std::string_view own,
                               std::string_view written) {
  auto it = std::ranges::find_if(kRenames, [&](const Rename &each) {
    return each.section == section &&
           (each.name == own || each.name == written);
  });
  return it == std::end(kRenames) ? nullptr : it;
}
