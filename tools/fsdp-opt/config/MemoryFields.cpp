//===- MemoryFields.cpp - What fsdp_config says of memory -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Tables.h"

using namespace fsdp;

static const Table<CheckpointingConfig> &getCheckpointing() {
  static const Table<CheckpointingConfig> table = {
      "fsdp_config.activation_checkpointing",
      {
          {"policy", &CheckpointingConfig::policy,
           "`full`: a block keeps its inputs; `selective`: also what the "
           "operators of `save` return"},
          {"every", &CheckpointingConfig::every, from(1),
           "each so many-th block, counted from 1; the others keep all"},
          {"modules",
           &CheckpointingConfig::modules,
           NameList{"pattern"},
           "paths of the modules to checkpoint, instead of the blocks",
           {.absent = "the modules that are buckets by `auto_wrap_policy`"}},
          {"save",
           &CheckpointingConfig::save,
           NameList{"pattern"},
           "operators whose results are kept: `[aten.mm, \"aten._scaled_*\"]`",
           {.absent = "products of matrices, convolutions and attention"}},
      }};
  return table;
}

static void readCheckpointing(const Value &value, Config &config) {
  constexpr std::string_view expected =
      "true, false, a map such as {policy: selective}, or a list of such maps";
  config.checkpointing.clear();
  if (value.node.IsMap()) {
    getCheckpointing().read(value, config.checkpointing.emplace_back());
    return;
  }
  if (value.node.IsSequence()) {
    for (const auto &item : value.node) {
      std::string path =
          value.path + "[" + std::to_string(config.checkpointing.size()) + "]";
      value.reading.take(path, {item, item});
      Value each{value.reading, path, value.key, item};
      if (!item.IsMap())
        each.failType("a map such as {policy: selective, modules: layers.0}");
      getCheckpointing().read(each, config.checkpointing.emplace_back());
    }
    return;
  }
  if (!YamlReader::isBool(value.node))
    value.failType(expected);
  config.followsCheckpoints = Flag().read(value);
  if (config.followsCheckpoints)
    config.checkpointing.emplace_back();
}

static void readActivationOffloading(const Value &value, Config &config) {
  config.offloadActivations.clear();
  if (!YamlReader::isBool(value.node))
    config.offloadActivations = NameList{"pattern"}.read(value);
  else if (Flag().read(value))
    config.offloadActivations = {"*"};
}

static void readLossChunks(const Value &value, Config &config) {
  bool isAuto = value.node.IsScalar() && value.node.Scalar() == "auto";
  if (!isAuto && !YamlReader::isInt(value.node))
    value.failType("a number of chunks, or auto");
  config.lossChunks = isAuto ? 0 : between(1, 1 << 16).read(value);
}

std::vector<Field<Config>> fsdp::getMemoryFields() {
  Field<Config> checkpointing{
      "activation_checkpointing",
      readCheckpointing,
      "true, false, a map or a list of maps",
      "the model's own",
      "true: each block of the wrap policy keeps its inputs alone, and "
      "computes "
      "what else its backward reads again, in front of that. A map says more, "
      "and a list of maps different things of different modules: of several "
      "that choose one, the last counts. "
      "Modules that the exported model runs under `torch.utils.checkpoint` are "
      "treated so without being named, unless this is false",
      {.mayBeEmpty = true}};
  checkpointing.list = [](std::string_view path, std::vector<ConfigKey> &all) {
    (void)path;
    getCheckpointing().list(all);
  };
  return {
      std::move(checkpointing),
      {"activation_offloading",
       readActivationOffloading,
       "true, false or patterns",
       "`false`",
       "activations that backward reads lie in the host's memory until then: "
       "those of all modules, or of those whose paths match",
       {.mayBeEmpty = true}},
      {"loss_chunks", readLossChunks, "number from 1, or `auto`", "`1`",
       "a linear layer and the cross-entropy behind it are computed in so many "
       "parts of their rows, so that the logits never exist whole; `auto`: as "
       "many as make a part small"},
      {"kernels", &Config::kernels,
       Choice<bool>{{{"off", false}, {"on", true}}},
       "`on`: operators that follow each other and compute element by element, "
       "or sum over the last dim, become kernels of our own, which keep what "
       "is between them out of memory; LibTorch has the rest. GPUs from "
       "`cuda_arch: sm_80` on run them, too, and there products write "
       "gradients in float32 that are reduced in it. Losses are those of `off` "
       "within "
       "rounding, and so are those of options beside each other that give the "
       "same bits with `off`"},
      {"norms", &Config::fusesNorms,
       Choice<bool>{{{"written", false}, {"fused", true}}},
       "`fused`: RMS norms that the model writes out, as transformers' do, "
       "become LibTorch's norm, [see below](#norms-that-are-written-out): one "
       "kernel on GPUs. It rounds once less"},
      {"optimizer_in_backward", &Config::optimizerInBackward,
       Choice<bool>{{{"auto", true}, {"never", false}}},
       "`auto`: a bucket is updated as soon as its gradients are reduced and "
       "those of the next are computed, and their memory is free, unless the "
       "update waits for a number that all gradients have a part in: with "
       "`max_grad_norm`, `loss_scale` or `on_nonfinite: skip`. The same bits "
       "either way"},
      {"offload_params", &Config::offloadParams,
       "shards of parameters, their gradients and the optimizer's states lie "
       "in the host's memory, which updates them. What is gathered is copied "
       "to "
       "the device before, what was reduced back from there"},
      {"offload_optimizer", &Config::offloadOptimizer,
       "the optimizer's states alone lie in the host's memory, which computes "
       "the updates"},
      {"cpu_offload_pin_memory", &Config::pinMemory,
       "the host's memory is pinned, so that a GPU copies on its own; without "
       "anything offloaded it has no effect"},
  };
}
