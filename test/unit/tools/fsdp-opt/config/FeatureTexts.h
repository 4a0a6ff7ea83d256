//===- FeatureTexts.h - Configs that ask for features -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_TOOLS_FSDPOPT_CONFIG_FEATURETEXTS_H
#define FSDP_TEST_UNIT_TOOLS_FSDPOPT_CONFIG_FEATURETEXTS_H

#include "ir/features/Relations.h"

#include <yaml-cpp/yaml.h>

#include <utility>

namespace fsdp::test {

/// A file of two ranks, to which keys are added.
class ConfigYaml {
public:
  ConfigYaml() { set("mesh.dp_shard", "2"); }
  // A node that is copied is the same one.
  ConfigYaml(const ConfigYaml &other) : root(YAML::Clone(other.root)) {}
  ConfigYaml &operator=(const ConfigYaml &) = delete;

  /// "fsdp_config.prefetch" and its value in YAML.
  void set(const std::string &path, const std::string &value) {
    size_t dot = path.find('.');
    YAML::Node node = YAML::Load(value);
    if (dot == path.npos) {
      // A section that is there keeps its keys.
      if (!root[path] || !node.IsMap() || node.size() != 0)
        root[path] = node;
    } else {
      root[path.substr(0, dot)][path.substr(dot + 1)] = node;
    }
  }

  /// Keys that ask for it; another feature's key is written over.
  void add(Feature feature) {
    for (auto [path, value] : getKeys(feature))
      set(path, value);
  }

  std::string print() const { return YAML::Dump(root); }

private:
  using Keys = std::vector<std::pair<const char *, const char *>>;

  /// No feature is without: one that is new does not compile.
  static Keys getKeys(Feature feature) {
    switch (feature) {
#define FSDP_FEATURE(...)
#define FSDP_DEVICE_LACKS(name, member) case Feature::name:
#include "ir/features/Features.def"
      return {{"device", "cuda"}};
    case Feature::TensorParallel:
      return {{"mesh.tp", "2"}};
    case Feature::ContextParallel:
      return {{"mesh.cp", "2"}};
    case Feature::SequenceParallel:
      return {{"sequence_parallel", "true"}};
    case Feature::LocalIgnored:
      return {{"fsdp_config.reduce_ignored_params", "false"}};
    case Feature::KeepGathered:
      return {{"fsdp_config.reshard_after_backward", "false"}};
    case Feature::GatheredForBackward:
      return {{"fsdp_config.reshard_after_forward", "false"}};
    case Feature::BucketReshards:
      return {{"fsdp_config.reshard_after_forward", "false"},
              {"fsdp_config.overrides",
               "[{modules: a, reshard_after_forward: 2}]"}};
    case Feature::FlatLayout:
      return {{"fsdp_config.bucket_layout", "flat"}};
    case Feature::OtherShardDims:
      return {{"fsdp_config.shard_dims", "{w: 1}"}};
    case Feature::AheadByRule:
      return {{"schedule", "fsdp2"}};
    case Feature::BucketsByRule:
      return {{"schedule", "inductor"}};
    case Feature::Prefetch:
      return {{"fsdp_config.prefetch", "2"}};
    case Feature::NamedBuckets:
      return {{"fsdp_config.buckets", "{a: w}"}};
    case Feature::Grains:
      return {{"fsdp_config.grains", "4"}};
    case Feature::MicroBatches:
      return {{"gradient_accumulation_steps", "3"}};
    case Feature::SyncNotLast:
      return {{"fsdp_config.gradient_sync", "each"}};
    case Feature::AllReduceLast:
      return {{"fsdp_config.gradient_sync", "all_reduce_last"}};
    case Feature::LabelMeans:
      return {{"loss_normalization", "tokens"}};
    case Feature::LabelCount:
      return {{"data.label_count", "n"}, {"data.shifts_labels", "true"}};
    case Feature::DivideFactor:
      return {{"fsdp_config.gradient_divide_factor", "3"}};
    case Feature::DivideInOptimizer:
      return {{"fsdp_config.gradient_division", "optimizer"}};
    case Feature::ForceSum:
      return {{"fsdp_config.force_sum_reduction", "true"}};
    case Feature::NarrowWire:
      return {{"fsdp_config.reduce_wire_dtype", "bfloat16"}};
    case Feature::NormsByName:
      return {{"metrics", "{norms: gradients}"}};
    case Feature::NormOfSums:
      return {{"grad_norm_type", "1"}};
    case Feature::Float8:
      return {{"float8", "{}"}};
    case Feature::Float8Gathers:
      return {{"float8.enable_fsdp_float8_all_gather", "true"},
              {"float8.recipe", "rowwise"}};
    case Feature::Float8Tensorwise:
      return {{"float8.recipe", "tensorwise"}};
    case Feature::ScaledBlocks:
      return {{"float8.recipe", "mxfp8"}};
    case Feature::Quantize:
      return {{"quantize", "{}"}};
    case Feature::OffloadParams:
      return {{"fsdp_config.offload_params", "true"}};
    case Feature::OffloadOptimizer:
      return {{"fsdp_config.offload_optimizer", "true"}};
    case Feature::GpuBeforeKernels:
    case Feature::GpuBeforeFloat8:
      return {{"device", "cuda"}, {"cuda_arch", "sm_75"}};
    case Feature::GpuBeforeScaledBlocks:
      return {{"device", "cuda"}, {"cuda_arch", "sm_90"}};
    case Feature::OwnKernels:
      return {{"fsdp_config.kernels", "on"}};
    case Feature::StateDType:
      return {{"optimizer.state_dtype", "int8"}};
    case Feature::StochasticRounding:
      return {{"optimizer.stochastic_rounding", "true"}};
    case Feature::Averages:
      return {{"ema", "0.99"}};
    case Feature::AveragedEval:
      return {{"eval", "{weights: ema}"}};
    case Feature::DynamicLossScale:
      return {{"loss_scale", "dynamic"}};
    case Feature::StepsWithNan:
      return {{"on_nonfinite", "stop"}};
    }
    return {};
  }

  YAML::Node root;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_TOOLS_FSDPOPT_CONFIG_FEATURETEXTS_H
