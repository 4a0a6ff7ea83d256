//===- PlanEnums.h - Choices of the dialect and the artifact ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An enumeration that both have is one, under two names: the tables below are
// complete and in the order of the numbers, or do not compile.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_PASSES_EMIT_PLAN_ENUMS_H
#define FSDP_PASSES_EMIT_PLAN_ENUMS_H

#include "ir/fsdp/Fsdp.h"
#include "plan/plan_generated.h"

#include <utility>

namespace fsdp {
namespace detail {
template <typename Enum>
struct PlanEnum;

template <typename Enum, typename Plan, size_t size>
constexpr bool isNumbering(const std::pair<Enum, Plan> (&table)[size],
                           size_t last) {
  for (size_t i = 0; i < size; ++i)
    if (size_t(table[i].first) != i || size_t(table[i].second) != i)
      return false;
  return size == last + 1 && size == size_t(Plan::MAX) + 1;
}

template <>
struct PlanEnum<Role> {
  using Plan = plan::Role;
  static constexpr std::pair<Role, Plan> table[] = {
      {Role::Parameter, Plan::parameter},
      {Role::Frozen, Plan::frozen},
      {Role::Buffer, Plan::buffer},
      {Role::Constant, Plan::constant},
      {Role::Optimizer, Plan::optimizer},
      {Role::Gradient, Plan::gradient},
      {Role::Gathered, Plan::gathered},
      {Role::Scalar, Plan::scalar},
      {Role::Random, Plan::random},
      {Role::Step, Plan::step},
      {Role::LearningRate, Plan::learning_rate},
      {Role::LossScale, Plan::loss_scale},
      {Role::LossGrowth, Plan::loss_growth},
  };
};
static_assert(isNumbering(PlanEnum<Role>::table, getMaxEnumValForRole()));

template <>
struct PlanEnum<AdapterBias> {
  using Plan = plan::AdapterBias;
  static constexpr std::pair<AdapterBias, Plan> table[] = {
      {AdapterBias::None, Plan::none},
      {AdapterBias::All, Plan::all},
      {AdapterBias::LoraOnly, Plan::lora_only},
  };
};
static_assert(isNumbering(PlanEnum<AdapterBias>::table,
                          getMaxEnumValForAdapterBias()));

template <>
struct PlanEnum<QuantizedKind> {
  using Plan = plan::QuantizedKind;
  static constexpr std::pair<QuantizedKind, Plan> table[] = {
      {QuantizedKind::Nf4, Plan::nf4},
      {QuantizedKind::Int8, Plan::int8},
      {QuantizedKind::Fp4, Plan::fp4},
  };
};
static_assert(isNumbering(PlanEnum<QuantizedKind>::table,
                          getMaxEnumValForQuantizedKind()));

template <>
struct PlanEnum<ProgramKind> {
  using Plan = plan::ProgramKind;
  static constexpr std::pair<ProgramKind, Plan> table[] = {
      {ProgramKind::Train, Plan::train},
      {ProgramKind::Infer, Plan::infer},
      {ProgramKind::Eval, Plan::eval},
  };
};
static_assert(isNumbering(PlanEnum<ProgramKind>::table,
                          getMaxEnumValForProgramKind()));

template <>
struct PlanEnum<StepPart> {
  using Plan = plan::StepPart;
  static constexpr std::pair<StepPart, Plan> table[] = {
      {StepPart::Whole, Plan::whole},
      {StepPart::First, Plan::first},
      {StepPart::Middle, Plan::middle},
      {StepPart::Last, Plan::last},
  };
};
static_assert(isNumbering(PlanEnum<StepPart>::table,
                          getMaxEnumValForStepPart()));

template <>
struct PlanEnum<Reduction> {
  using Plan = plan::Reduction;
  static constexpr std::pair<Reduction, Plan> table[] = {
      {Reduction::Sum, Plan::sum},
      {Reduction::Avg, Plan::avg},
      {Reduction::Max, Plan::max},
      {Reduction::Tree, Plan::tree},
  };
};
static_assert(isNumbering(PlanEnum<Reduction>::table,
                          getMaxEnumValForReduction()));

template <>
struct PlanEnum<Collective> {
  using Plan = plan::CollectiveKind;
  static constexpr std::pair<Collective, Plan> table[] = {
      {Collective::AllGather, Plan::all_gather},
      {Collective::ReduceScatter, Plan::reduce_scatter},
      {Collective::AllReduce, Plan::all_reduce},
      {Collective::Rotate, Plan::rotate},
      {Collective::AllToAll, Plan::all_to_all},
  };
};
static_assert(isNumbering(PlanEnum<Collective>::table,
                          getMaxEnumValForCollective()));

template <>
struct PlanEnum<Purpose> {
  using Plan = plan::Purpose;
  static constexpr std::pair<Purpose, Plan> table[] = {
      {Purpose::Parameter, Plan::parameter},
      {Purpose::Gradient, Plan::gradient},
      {Purpose::Step, Plan::step},
      {Purpose::Scale, Plan::scale},
      {Purpose::Metric, Plan::metric},
  };
};
static_assert(isNumbering(PlanEnum<Purpose>::table, getMaxEnumValForPurpose()));

template <>
struct PlanEnum<Stream> {
  using Plan = plan::Stream;
  static constexpr std::pair<Stream, Plan> table[] = {
      {Stream::Compute, Plan::compute}, {Stream::Gather, Plan::gather},
      {Stream::Reduce, Plan::reduce},   {Stream::Replicate, Plan::replicate},
      {Stream::Upload, Plan::upload},   {Stream::Download, Plan::download},
  };
};
static_assert(isNumbering(PlanEnum<Stream>::table, getMaxEnumValForStream()));

template <>
struct PlanEnum<MemorySpace> {
  using Plan = plan::MemorySpace;
  static constexpr std::pair<MemorySpace, Plan> table[] = {
      {MemorySpace::Device, Plan::device},
      {MemorySpace::Host, Plan::host},
  };
};
static_assert(isNumbering(PlanEnum<MemorySpace>::table,
                          getMaxEnumValForMemorySpace()));

template <>
struct PlanEnum<Distribution> {
  using Plan = plan::Distribution;
  static constexpr std::pair<Distribution, Plan> table[] = {
      {Distribution::Bernoulli, Plan::bernoulli},
      {Distribution::Uniform, Plan::uniform},
      {Distribution::Normal, Plan::normal},
      {Distribution::Exponential, Plan::exponential},
      {Distribution::Cauchy, Plan::cauchy},
      {Distribution::LogNormal, Plan::log_normal},
      {Distribution::Geometric, Plan::geometric},
      {Distribution::Integer, Plan::integer},
      {Distribution::Poisson, Plan::poisson},
      {Distribution::Binomial, Plan::binomial},
      {Distribution::Gamma, Plan::gamma},
  };
};
static_assert(isNumbering(PlanEnum<Distribution>::table,
                          getMaxEnumValForDistribution()));

template <>
struct PlanEnum<EmaWarmup> {
  using Plan = plan::AverageWarmup;
  static constexpr std::pair<EmaWarmup, Plan> table[] = {
      {EmaWarmup::None, Plan::none},
      {EmaWarmup::Ratio, Plan::ratio},
      {EmaWarmup::Power, Plan::power},
  };
};
static_assert(isNumbering(PlanEnum<EmaWarmup>::table,
                          getMaxEnumValForEmaWarmup()));

template <>
struct PlanEnum<InitKind> {
  using Plan = plan::InitKind;
  static constexpr std::pair<InitKind, Plan> table[] = {
      {InitKind::Normal, Plan::normal},
      {InitKind::TruncNormal, Plan::trunc_normal},
      {InitKind::Uniform, Plan::uniform},
      {InitKind::Eye, Plan::eye},
      {InitKind::Rope, Plan::rope},
      {InitKind::Pissa, Plan::pissa},
      {InitKind::Loftq, Plan::loftq},
      {InitKind::Norms, Plan::norms},
      {InitKind::Owner, Plan::owner},
  };
};
static_assert(isNumbering(PlanEnum<InitKind>::table,
                          getMaxEnumValForInitKind()));

template <>
struct PlanEnum<OnNonFinite> {
  using Plan = plan::NonFinite;
  static constexpr std::pair<OnNonFinite, Plan> table[] = {
      {OnNonFinite::Stop, Plan::stop},
      {OnNonFinite::Skip, Plan::skip},
      {OnNonFinite::Ignore, Plan::ignore},
  };
};
static_assert(isNumbering(PlanEnum<OnNonFinite>::table,
                          getMaxEnumValForOnNonFinite()));

template <>
struct PlanEnum<TokenFormat> {
  using Plan = plan::TokenFormat;
  static constexpr std::pair<TokenFormat, Plan> table[] = {
      {TokenFormat::Recognized, Plan::recognized},
      {TokenFormat::Raw, Plan::raw},
      {TokenFormat::LlmC, Plan::llm_c},
      {TokenFormat::Megatron, Plan::megatron},
  };
};
static_assert(isNumbering(PlanEnum<TokenFormat>::table,
                          getMaxEnumValForTokenFormat()));

} // namespace detail

/// What the artifact calls `value`.
template <typename Enum>
auto toPlan(Enum value) {
  return static_cast<typename detail::PlanEnum<Enum>::Plan>(value);
}

/// What the dialect calls `value`.
template <typename Enum>
Enum fromPlan(typename detail::PlanEnum<Enum>::Plan value) {
  return static_cast<Enum>(value);
}

} // namespace fsdp

#endif // FSDP_PASSES_EMIT_PLAN_ENUMS_H
