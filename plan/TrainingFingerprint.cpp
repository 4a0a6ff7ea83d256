//===- TrainingFingerprint.cpp - What a plan trains -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/DType.h"
#include "plan/StateParts.h"
#include "plan/Worlds.h"
#include "support/Hash.h"
#include "support/Optimizers.h"

#include <concepts>
#include <cstring>
#include <set>
#include <string>

using namespace fsdp;

namespace {

/// Its bytes, which are equal for equal tables.
template <typename Table, typename Contents>
std::string pack(const std::unique_ptr<Contents> &contents) {
  if (!contents)
    return "";
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Table::Pack(builder, contents.get()));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

/// Lasts from step to step, in every world.
bool isLasting(const plan::StateT &state) {
  switch (state.role) {
  case plan::Role::parameter:
  case plan::Role::frozen:
  case plan::Role::buffer:
  case plan::Role::constant:
  case plan::Role::optimizer:
  case plan::Role::random:
  case plan::Role::step:
  case plan::Role::learning_rate:
  case plan::Role::loss_scale:
  case plan::Role::loss_growth:
    return state.layout != plan::Layout::flat;
  case plan::Role::gradient:
  case plan::Role::gathered:
  case plan::Role::scalar:
    return false;
  }
  return false;
}

/// Strings and numbers one behind the other, so that no two lists are alike.
class Text {
public:
  Text &add(std::string_view text) {
    all += std::to_string(text.size()) + ":" + std::string(text);
    return *this;
  }
  Text &add(double number) {
    char bytes[sizeof(number)];
    std::memcpy(bytes, &number, sizeof(number));
    return add(std::string_view(bytes, sizeof(bytes)));
  }
  template <std::integral Number>
  Text &add(Number number) {
    return add(std::string_view(std::to_string(number)));
  }
  std::string all;
};

std::string describe(const plan::PlanT &plan, const plan::StateT &state) {
  Text text;
  text.add(state.name).add(static_cast<int>(state.role));
  text.add(dtypeName(state.dtype)).add(state.volatile_);
  for (const std::string &alias : state.aliases)
    text.add(alias);
  for (int64_t size : wholeShape(plan, state))
    text.add(size);
  text.add(pack<plan::Record>(state.source));
  text.add(pack<plan::Initializer>(state.initializer));
  text.add(pack<plan::Weight>(state.weight));
  text.add(std::string_view(reinterpret_cast<const char *>(state.init.data()),
                            state.init.size()));
  return text.all;
}

/// The numbers of an optimizer, which several instructions may share.
std::string describe(const plan::InstructionT &instruction) {
  Text text;
  if (const plan::UpdateT *update = instruction.body.AsUpdate()) {
    text.add(getFacts(OptimizerKind(update->kind)).name);
    for (double number : update->numbers)
      text.add(number);
    text.add(update->rounding).add(update->rounding_seed);
  }
  return text.all;
}

} // namespace

std::string fsdp::fingerprintTraining(const plan::PlanT &plan) {
  const plan::TrainingT &training = *plan.training;
  Text text;
  text.add(plan.compiler).add(pack<plan::Model>(plan.model));
  for (const auto &file : plan.weights)
    text.add(pack<plan::WeightsFile>(file));
  // Bucketing and the number of micro-batches settle the order.
  std::set<std::string> states, optimizers;
  for (const auto &state : plan.states)
    if (isLasting(*state))
      states.insert(describe(plan, *state));
  for (const auto &program : plan.programs)
    for (const auto &instruction : program->instructions)
      if (std::string each = describe(*instruction); !each.empty())
        optimizers.insert(each);
  for (const std::string &each : states)
    text.add(each);
  for (const std::string &each : optimizers)
    text.add(each);
  for (const auto &input : plan.inputs)
    text.add(pack<plan::Input>(input));
  for (uint32_t rate : training.rates)
    text.add(plan.states[rate]->name);
  text.add(pack<plan::Schedule>(training.schedule));
  // Absent, it is no part: older artifacts have what they had.
  if (training.averages)
    text.add(pack<plan::Averages>(training.averages));
  text.add(training.device).add(training.seed).add(training.lr);
  text.add(training.max_grad_norm).add(training.norm_order);
  text.add(static_cast<int>(training.on_nonfinite));
  text.add(training.grains);
  if (!training.grains)
    text.add(uint64_t{plan.data_parallel} *
             training.gradient_accumulation_steps);
  text.add(pack<plan::Data>(plan.data));
  text.add(pack<plan::Validation>(plan.validation));
  text.add(pack<plan::Arithmetic>(plan.arithmetic));
  return hash128(text.all);
}
