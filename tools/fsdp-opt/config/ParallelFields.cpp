//===- ParallelFields.cpp - Mesh and tensor parallelism of the config -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Names.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>

using namespace fsdp;

//===----------------------------------------------------------------------===//
// mesh
//===----------------------------------------------------------------------===//

/// -1 is resolved once the number of ranks is known.
static void readShard(const Value &value, Config &config) {
  int64_t size = value.reader().readInt(value.node, value.key);
  if (size != -1 && (size < 1 || size > kMostRanks))
    value.failRange("a number of ranks from 1 to " +
                    std::to_string(kMostRanks) + ", or -1 for all of --world");
  config.dpShard = size;
}

static const Table<Config> &getMesh() {
  static const Table<Config> table = {
      "mesh",
      {
          {"dp_shard", readShard, "whole number from 1, or -1",
           "what `--world` leaves",
           "over how many ranks each parameter is sharded; -1: what `--world` "
           "leaves. If both are given they must agree"},
          {"dp_replicate", &Config::dpReplicate, between(1, kMostRanks),
           "replicas of the sharded model (HSDP); the ranks of one replica are "
           "adjacent. Gradients are reduced and scattered within a replica, "
           "and the shards averaged across replicas. With `dp_shard: 1` every "
           "rank has the whole model, as DDP"},
          {"tp", &Config::tp, between(1, kMostRanks),
           "how many adjacent ranks compute each step together, with parts of "
           "the parameters that `tp_plan` says (tensor parallelism). They read "
           "the same rows. What a rank has of a parameter is sharded over "
           "`dp_shard` in turn"},
          {"cp", &Config::cp, between(1, kMostRanks),
           "how many ranks compute parts of each sequence of a batch (context "
           "parallelism): token by token but for attention, which gathers keys "
           "and values. They read the same rows. Parameters are sharded over "
           "`dp_shard` times `cp` ranks. Under a causal mask `2 * cp` has to "
           "divide the sequence, else `cp`"},
      }};
  return table;
}

//===----------------------------------------------------------------------===//
// tp_plan
//===----------------------------------------------------------------------===//

/// Styles of PyTorch and transformers that ask for something else.
static constexpr std::string_view kOtherStyles[] = {
    "packed_colwise",
    "packed_rowwise",
    "local_packed_rowwise",
    "embedding_rowwise",
    "local",
    "gather",
    "isolated",
    "isolated_parallel",
    "replicated_with_grad_allreduce",
    "mla_kv_a_proj",
    "ep_router",
    "grouped_gemm",
    "moe_tp_experts",
    "moe_identity_expert",
    "moe_experts_allreduce",
    "prepare_module_input",
    "prepare_module_output"};

static std::string joinStyles() {
  std::string text;
  for (const Named<ParallelChoice> &each : getNames<ParallelChoice>())
    text += (text.empty() ? "" : ", ") + std::string(each.name);
  return text;
}

static ParallelChoice readStyle(const Value &value, const std::string &pattern,
                                const YAML::Node &node) {
  const YamlReader &read = value.reader();
  std::string name = read.readString(node, pattern);
  for (const Named<ParallelChoice> &each : getNames<ParallelChoice>())
    if (each.name == name)
      return each.value;
  bool isKnown =
      std::ranges::find(kOtherStyles, name) != std::end(kOtherStyles);
  read.fail(isKnown ? ErrorId::ConfigNotSupported : ErrorId::ConfigBadValue,
            node,
            "'" + value.key + "' of '" + pattern + "': " +
                (isKnown ? "the style '" + name + "' is not supported"
                         : "unknown style '" + name + "'") +
                "; expected one of " + joinStyles());
}

static void readPlan(const Value &value, Config &config) {
  const YAML::Node &node = value.node;
  if (node.IsScalar() && node.Scalar() == "auto") {
    config.tpPlan.reset();
    return;
  }
  if (!node.IsMap())
    value.failType("auto, or a map of patterns of modules and styles such as "
                   "{\"*.q_proj\": colwise, \"*.o_proj\": rowwise}");
  std::vector<ParallelRule> &plan = config.tpPlan.emplace();
  for (const auto &entry : node) {
    std::string pattern = value.reader().readString(entry.first, value.key);
    if (pattern.empty())
      value.reader().fail(ErrorId::ConfigBadValue, entry.first,
                          "'" + value.key +
                              "': expected patterns of modules, found an "
                              "empty one");
    plan.push_back({pattern, readStyle(value, pattern, entry.second)});
  }
}

std::vector<Field<Config>> fsdp::getParallelFields() {
  return {
      section<Config>("mesh", std::identity(), getMesh(),
                      "the ranks, numbered in the order `dp_replicate`, "
                      "`dp_shard`, `tp`: those of one `tp` group are adjacent. "
                      "The product is their number, of which `--world=N` "
                      "leaves `dp_shard` open. Needed unless that is given"),
      {"tp_plan",
       readPlan,
       "`auto`, or map of patterns and styles",
       "`auto`",
       "with `mesh: {tp: N}`: which modules' parameters the N ranks hold parts "
       "of, `{\"*.q_proj\": colwise, \"*.o_proj\": rowwise}`; `auto`: what the "
       "compiler finds. See [below](#tensor-parallelism)",
       {.mayBeEmpty = true}},
      {"sequence_parallel", &Config::sequenceParallel,
       "with `mesh: {tp: N}`: norms, dropout and residuals are computed by "
       "parts of the sequence, with a gather and a scatter in place of each "
       "all-reduce"},
      {"context_parallel_rotate_method", &Config::rotate,
       "with `mesh: {cp: N}`: how a rank's queries meet other ranks' keys and "
       "values. `allgather`: all are gathered; `ring`, or PyTorch's word "
       "`alltoall`: they are passed from rank to rank while attention computes "
       "with those that came before; `auto`: gathered, but passed on where "
       "`schedule: auto` predicts that to be faster, or needs its memory"},
  };
}
