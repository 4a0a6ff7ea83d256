//===- Names.h - What the config calls its choices --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each enumeration has its names once: keys are read with them, messages and
// documents print them. Names of the plan's enumerations are the plan's.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_TOOLS_FSDPOPT_CONFIG_NAMES_H
#define FSDP_TOOLS_FSDPOPT_CONFIG_NAMES_H

#include "plan/Schedule.h"
#include "plan/TokenFormats.h"
#include "tools/fsdp-opt/config/Config.h"

#include <string_view>
#include <vector>

namespace fsdp {

template <typename T>
struct Named {
  std::string_view name;
  T value;
};

/// In the order in which messages list them. A value without a name is what
/// holds where the key is absent.
template <typename T>
std::vector<Named<T>> getNames();

template <>
inline std::vector<Named<WrapPolicy>> getNames() {
  return {{"TRANSFORMER_BASED_WRAP", WrapPolicy::Classes},
          {"SIZE_BASED_WRAP", WrapPolicy::Size},
          {"NO_WRAP", WrapPolicy::None}};
}

template <>
inline std::vector<Named<LayoutChoice>> getNames() {
  return {{"auto", LayoutChoice::Auto},
          {"rows", LayoutChoice::Rows},
          {"flat", LayoutChoice::Flat},
          {"fsdp2", LayoutChoice::Fsdp2}};
}

template <>
inline std::vector<Named<Sync>> getNames() {
  return {{"each", Sync::Each},
          {"last", Sync::Last},
          {"all_reduce_last", Sync::AllReduceLast}};
}

template <>
inline std::vector<Named<RotateChoice>> getNames() {
  return {{"auto", RotateChoice::Auto},
          {"allgather", RotateChoice::AllGather},
          {"ring", RotateChoice::Ring},
          {"alltoall", RotateChoice::Ring}}; // as PyTorch calls it
}

template <>
inline std::vector<Named<TypeChoice>> getNames() {
  return {{"given", TypeChoice::Given}, {"auto", TypeChoice::Auto}};
}

template <>
inline std::vector<Named<Planner>> getNames() {
  return {{"default", Planner::Default},
          {"auto", Planner::Auto},
          {"fsdp2", Planner::Fsdp2},
          {"deepcompile", Planner::DeepCompile},
          {"inductor", Planner::Inductor}};
}

template <>
inline std::vector<Named<plan::AverageWarmup>> getNames() {
  return {{"none", plan::AverageWarmup::none},
          {"ratio", plan::AverageWarmup::ratio},
          {"power", plan::AverageWarmup::power}};
}

template <>
inline std::vector<Named<StateChoice>> getNames() {
  return {{"bfloat16", StateChoice::BFloat16},
          {"int8", StateChoice::Int8},
          {"float8", StateChoice::Float8},
          {"float32", StateChoice::Float32}};
}

template <>
inline std::vector<Named<AdapterInit>> getNames() {
  return {{"default", AdapterInit::Default},
          {"gaussian", AdapterInit::Gaussian},
          {"pissa", AdapterInit::Pissa},
          {"loftq", AdapterInit::Loftq}};
}

template <>
inline std::vector<Named<TrainedBias>> getNames() {
  return {{"none", TrainedBias::None},
          {"all", TrainedBias::All},
          {"lora_only", TrainedBias::LoraOnly}};
}

template <>
inline std::vector<Named<Float8Choice>> getNames() {
  return {{"tensorwise", Float8Choice::Tensorwise},
          {"rowwise", Float8Choice::Rowwise},
          {"mxfp8", Float8Choice::Mxfp8}};
}

template <>
inline std::vector<Named<QuantizeChoice>> getNames() {
  return {{"nf4", QuantizeChoice::Nf4},
          {"fp4", QuantizeChoice::Fp4},
          {"int8", QuantizeChoice::Int8}};
}

template <>
inline std::vector<Named<RecomputeChoice>> getNames() {
  return {{"full", RecomputeChoice::Full},
          {"selective", RecomputeChoice::Selective}};
}

/// PyTorch's and transformers'. What some say beside it, who reads what whole,
/// is found from the program.
template <>
inline std::vector<Named<ParallelChoice>> getNames() {
  using enum ParallelChoice;
  return {{"colwise", Colwise},
          {"colwise_rep", Colwise},
          {"colwise_gather_output", Colwise},
          {"local_colwise", Colwise},
          {"rowwise", Rowwise},
          {"rowwise_rep", Rowwise},
          {"rowwise_split_input", Rowwise},
          {"local_rowwise", Rowwise},
          {"sequence_parallel", Replicate},
          {"replicate", Replicate}};
}

template <>
inline std::vector<Named<Mode>> getNames() {
  return {{"train", Mode::Train}, {"inference", Mode::Inference}};
}

template <>
inline std::vector<Named<Target::Device>> getNames() {
  return {{"cpu", Target::Device::Cpu}, {"cuda", Target::Device::Cuda}};
}

template <>
inline std::vector<Named<plan::NonFinite>> getNames() {
  std::vector<Named<plan::NonFinite>> names;
  for (plan::NonFinite value : plan::EnumValuesNonFinite())
    names.push_back({plan::EnumNameNonFinite(value), value});
  return names;
}

template <>
inline std::vector<Named<OptimizerKind>> getNames() {
  std::vector<Named<OptimizerKind>> names;
  for (const OptimizerFacts &each : getOptimizers())
    names.push_back({each.name, each.kind});
  return names;
}

template <>
inline std::vector<Named<ScheduleKind>> getNames() {
  std::vector<Named<ScheduleKind>> names;
  for (const ScheduleName &each : getScheduleNames())
    names.push_back({each.name, each.kind});
  return names;
}

template <>
inline std::vector<Named<plan::TokenFormat>> getNames() {
  std::vector<Named<plan::TokenFormat>> names;
  for (std::string_view name : kTokenFormats)
    names.push_back({name, getTokenFormat(name)});
  return names;
}

/// Of files of tokens alone.
template <>
inline std::vector<Named<plan::DType>> getNames() {
  std::vector<Named<plan::DType>> names;
  for (std::string_view name : kTokenTypes)
    names.push_back({name, getTokenType(name)});
  return names;
}

/// Empty for what has no name.
template <typename T>
std::string_view getName(T value) {
  for (const Named<T> &each : getNames<T>())
    if (each.value == value)
      return each.name;
  return {};
}

} // namespace fsdp

#endif // FSDP_TOOLS_FSDPOPT_CONFIG_NAMES_H
