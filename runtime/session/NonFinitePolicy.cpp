//===- NonFinitePolicy.cpp - What a NaN does to a run ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/NonFinitePolicy.h"

#include "plan/Instructions.h"
#include "plan/Target.h"
#include "runtime/comm/Communicator.h"
#include "runtime/device/Arena.h"
#include "runtime/device/DTypes.h"
#include "runtime/exec/Device.h"
#include "runtime/exec/Executor.h"
#include "runtime/log/Log.h"
#include "support/Error.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace fsdp;
using Origin = NonFiniteTrace::Origin;

static plan::NonFinite choosePolicy(const plan::PlanT &plan,
                                    const std::string &given) {
  plan::NonFinite own = plan.training->on_nonfinite;
  if (given.empty())
    return own;
  const char *const *names = plan::EnumNamesNonFinite();
  for (int i = 0; names[i]; ++i) {
    if (given != names[i])
      continue;
    auto chosen = static_cast<plan::NonFinite>(i);
    // Whether updates are left out was settled when they were compiled.
    bool skips = own == plan::NonFinite::skip;
    if (chosen == plan::NonFinite::skip && !skips)
      throw Error(ErrorId::RuntimeUnsupported,
                  "--on-nonfinite=skip: the artifact's updates cannot be left "
                  "out; compile the model with on_nonfinite: skip in the "
                  "config");
    if (chosen == plan::NonFinite::ignore && skips)
      throw Error(ErrorId::RuntimeUnsupported,
                  "--on-nonfinite=ignore: the artifact leaves such updates "
                  "out; compile the model with another on_nonfinite than skip "
                  "in the config");
    return chosen;
  }
  throw Error(ErrorId::BadUsage,
              "--on-nonfinite: expected stop, skip or ignore, found '" + given +
                  "'");
}

NonFinitePolicy::NonFinitePolicy(const plan::PlanT &plan, Fabric &fabric,
                                 bool isTraining, const SessionOptions &options)
    : plan(plan), fabric(fabric),
      policy(choosePolicy(plan, options.onNonFinite)),
      traces(options.debugNan) {
  if (!isTraining && (traces || !options.onNonFinite.empty()))
    throw Error(ErrorId::RuntimeUnsupported,
                std::string(traces ? "--debug-nan" : "--on-nonfinite") +
                    " is about a training's loss and gradients, and the "
                    "artifact is for inference");
  if (traces && !isForHost(plan))
    throw Error(ErrorId::RuntimeUnsupported,
                "--debug-nan looks at each operator on the CPU; compile the "
                "model with device: cpu, and load the checkpoint into that");
}

static std::string describe(NonFiniteKinds what) {
  return what.nan ? "a NaN" : "an infinity";
}

static const std::string *nameOfArgument(const plan::PlanT &plan,
                                         const plan::ProgramT &program,
                                         uint32_t value, bool &isInput) {
  uint32_t root = rootOf(program, value);
  for (const auto &binding : program.arguments) {
    if (rootOf(program, binding->value) != root)
      continue;
    isInput = binding->input >= 0;
    return isInput ? &plan.inputs[binding->input]->name
                   : &plan.states[binding->state]->name;
  }
  return nullptr;
}

std::string NonFinitePolicy::describe(const plan::ProgramT &program,
                                      const Executor &executor,
                                      const Origin &origin) const {
  std::string what = ::describe(origin.what);
  bool isInput = false;
  switch (origin.kind) {
  case Origin::given:
    if (const std::string *name =
            nameOfArgument(plan, program, origin.value, isInput))
      return std::string(isInput ? "input" : "state") + " '" + *name +
             "' held " + what + " before the step";
    return what + " was there before the step";
  case Origin::received:
    return executor.describe(origin.instruction) + " brought " + what;
  case Origin::computed:
    break;
  }
  std::string text = executor.describe(origin.instruction) + " made " + what;
  if (origin.infinity && *origin.infinity != origin.instruction)
    text +=
        " of infinities that " + executor.describe(*origin.infinity) + " made";
  else if (origin.what.nan)
    text += origin.infinity ? " of infinities" : " of finite numbers";
  return text;
}

void NonFinitePolicy::note(const plan::ProgramT &program,
                           const Executor &executor,
                           const NonFiniteTrace &trace) {
  if (cause)
    return;
  std::optional<Origin> first;
  for (const auto &binding : program.results) {
    // Other outputs may be infinite and mean it.
    bool isNumber = binding->output == "loss" || binding->output == "grad_norm";
    if (binding->state < 0 && !isNumber)
      continue;
    std::optional<Origin> origin = trace.findOrigin(binding->value);
    if (origin && (!first || origin->isBefore(*first)))
      first = origin;
  }
  if (first)
    cause = {first->kind, describe(program, executor, *first)};
}

/// What began it, on whichever rank that was. Collective.
std::string NonFinitePolicy::explain(uint64_t step) {
  if (!traces)
    return "; with --debug-nan a run says which operator made it";
  nlohmann::json mine;
  if (cause)
    mine = {static_cast<int>(cause->kind), cause->text};
  cause.reset();
  std::vector<std::string> all =
      fabric.exchange("nonfinite/" + std::to_string(step), mine.dump());
  // What a rank received another one made.
  std::string text;
  std::vector<size_t> others;
  for (bool isOwn : {true, false})
    for (size_t rank = 0; rank < all.size(); ++rank) {
      nlohmann::json each = nlohmann::json::parse(all[rank]);
      if (!each.is_array() || (each[0] != Origin::received) != isOwn)
        continue;
      if (text.empty())
        text = "; first, on rank " + std::to_string(rank) + ", " +
               each[1].get<std::string>();
      else if (isOwn)
        others.push_back(rank);
    }
  if (!others.empty()) {
    text += " (likewise on rank";
    for (size_t i = 0; i < others.size(); ++i)
      text += (i == 0 ? " " : ", ") + std::to_string(others[i]);
    text += ")";
  }
  return text.empty() ? "; what made it was not found" : text;
}

/// Leaving out an update does not undo what forward passes keep.
void NonFinitePolicy::checkBuffers(const std::string &what,
                                   const Arena &arena) const {
  c10::InferenceMode guard;
  for (const auto &state : plan.states) {
    if (state->role != plan::Role::buffer || state->bytes == 0)
      continue;
    c10::ScalarType type = toScalarType(state->dtype);
    auto elements = static_cast<int64_t>(state->bytes / c10::elementSize(type));
    std::vector<char> bytes(state->bytes);
    arena.read(state->offset, bytes.data(), bytes.size());
    if (findNonFinite(at::from_blob(bytes.data(), {elements}, type)))
      throw Error(ErrorId::NotFinite,
                  what + ", and so is now buffer '" + state->name +
                      "', which forward passes update: leaving the step's "
                      "update out cannot mend it; continue from a checkpoint");
  }
}

/// A loss scale that changes grows until gradients overflow.
bool NonFinitePolicy::isExpected(const StepResult &result) const {
  return result.loss && std::isfinite(*result.loss) &&
         std::ranges::any_of(plan.states, [](const auto &state) {
           return state->role == plan::Role::loss_growth;
         });
}

void NonFinitePolicy::judge(StepResult &result, const Arena &arena) {
  std::string what;
  for (auto [name, number] : {std::pair("the loss", &result.loss),
                              {"the norm of the gradients", &result.gradNorm}})
    if (*number && !std::isfinite(**number))
      what += (what.empty() ? "" : " and ") + std::string(name) + " is " +
              (std::isnan(**number) ? "NaN" : "infinite");
  if (what.empty()) {
    cause.reset();
    return;
  }
  what = "step " + std::to_string(result.step) + ": " + what;
  if (policy == plan::NonFinite::ignore && !traces)
    return;
  std::string why = explain(result.step);
  result.isSkipped = plan.training->on_nonfinite == plan::NonFinite::skip;
  if (policy == plan::NonFinite::stop)
    throw Error(ErrorId::NotFinite,
                what + why +
                    "; continue from a checkpoint with other data or a lower "
                    "learning rate, or compile with on_nonfinite: skip");
  if (fabric.rank() == 0)
    log(isExpected(result) ? LogLevel::info : LogLevel::warning,
        what + (result.isSkipped ? "; its update is left out" : "") +
            (traces ? why : ""));
  if (result.isSkipped)
    checkBuffers(what, arena);
}
