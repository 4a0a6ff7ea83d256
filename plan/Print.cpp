//===- Print.cpp - A plan as text -----------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Print.h"

#include "plan/FirstValues.h"
#include "plan/Kernels.h"
#include "plan/ProgramText.h"
#include "plan/Quantized.h"
#include "plan/Schedule.h"
#include "plan/StateParts.h"
#include "plan/Target.h"
#include "plan/TokenFormats.h"
#include "support/Hash.h"

using namespace fsdp;
using plan::PlanT;

namespace {

class Printer {
public:
  explicit Printer(const PlanT &plan) : plan(plan) {}

  std::string run() {
    printHeader();
    printTables();
    for (const auto &each : plan.programs)
      printProgram(*each);
    return std::move(out);
  }

private:
  /// What the artifact has code of the kernel for.
  std::string codeOf(size_t kernel) const;
  static std::string record(const plan::RecordT &record) {
    return quote(record.name) + " at " + std::to_string(record.offset) + " : " +
           std::to_string(record.bytes);
  }
  static std::string weight(const plan::WeightT &weight) {
    std::string text = join(weight.names, quote);
    if (weight.file >= 0)
      text += " in file " + std::to_string(weight.file) + " at " +
              std::to_string(weight.offset) + " : " +
              std::to_string(weight.bytes) + " " +
              std::string(dtypeName(weight.dtype));
    return text;
  }
  static std::string data(const plan::DataT &data) {
    std::string text = data.inputs.empty() ? "samples" : "tokens";
    if (!data.files.empty())
      text += " of " + join(data.files, quote);
    if (data.format != plan::TokenFormat::recognized)
      text += ", " +
              std::string(kTokenFormats[static_cast<size_t>(data.format) - 1]);
    if (!data.inputs.empty())
      text += ", " + std::string(dtypeName(data.dtype)) + " if raw, for " +
              join(data.inputs, quote);
    if (!data.targets.empty())
      text += ", one later for " + join(data.targets, quote);
    if (data.shuffle)
      text += ", shuffled with seed " + std::to_string(data.seed);
    if (data.epochs)
      text += ", " + std::to_string(data.epochs) + " epochs" +
              (data.drop_last ? "" : ", the last step filled");
    for (const auto &padding : data.pad)
      text += ", " + quote(padding->input) + " padded with " +
              formatNumber(padding->value);
    if (data.length_pool)
      text += ", by length in pools of " + std::to_string(data.length_pool) +
              " and groups of " + std::to_string(data.length_group);
    if (!data.labels.empty())
      text += ", labels " + quote(data.labels);
    if (!data.label_count.empty())
      text += std::string(", ") +
              (data.shifts_labels ? "all but first labels" : "labels") +
              " counted for " + quote(data.label_count);
    return text;
  }
  void printHeader();
  void printTraining(const plan::TrainingT &training);
  std::string describe(const plan::StateT &state) const;
  void printTables();
  void printProgram(const plan::ProgramT &program);
  void line(const std::string &text) { out += text + "\n"; }

  const PlanT &plan;
  std::string out;
};

void Printer::printHeader() {
  line("compiler " + plan.compiler);
  if (plan.model)
    line("model " + quote(plan.model->path) + ", " +
         std::to_string(plan.model->bytes) + " bytes, directory " +
         plan.model->directory + ", torch " + plan.model->torch);
  for (const auto &file : plan.weights)
    line("weights " + quote(file->path) + ", " + std::to_string(file->bytes) +
         " bytes, header " + file->header);
  line("mesh <" +
       join(plan.mesh,
            [](const auto &axis) {
              return axis->name + " = " + std::to_string(axis->size);
            }) +
       ">, data parallel " + std::to_string(plan.data_parallel));
  for (const auto &group : plan.groups)
    line("group " + group->name + ": " + std::to_string(group->size) +
         " ranks, stride " + std::to_string(group->stride));
  printTraining(*plan.training);
  // Buffers and inputs lie on the device alone.
  auto describe = [](const plan::MemoryT &use, bool isHost, bool isPinned) {
    return std::to_string(use.peak) + " bytes" + (isPinned ? ", pinned" : "") +
           ": states " + std::to_string(use.states) + " (params " +
           std::to_string(use.params) + ", optimizer " +
           std::to_string(use.optimizer) +
           (isHost ? ")"
                   : ", buffers " + std::to_string(use.buffers) + "), inputs " +
                         std::to_string(use.inputs)) +
           ", activations " + std::to_string(use.activations) + ", gathered " +
           std::to_string(use.gathered) + ", grads " +
           std::to_string(use.grads);
  };
  line("memory " +
       describe(*plan.memory, /*isHost=*/false, /*isPinned=*/false) +
       "; scratch " + describeScratch(plan, [](uint64_t bytes) {
         return std::to_string(bytes);
       }));
  if (plan.host)
    line("host memory " +
         describe(*plan.host, /*isHost=*/true, plan.pins_host));
  line("collectives " + toHex(plan.collectives_hash));
}

static std::string describeAverages(const plan::AveragesT &averages) {
  std::string text = "decay " + formatNumber(averages.decay);
  if (averages.after)
    text += ", after " + std::to_string(averages.after) + " updates";
  if (averages.every != 1)
    text += ", every " + std::to_string(averages.every);
  if (averages.warmup == plan::AverageWarmup::none)
    return text;
  text +=
      std::string(", warm-up ") + plan::EnumNameAverageWarmup(averages.warmup);
  if (averages.warmup == plan::AverageWarmup::power)
    text += "(" + formatNumber(averages.gamma) + ", " +
            formatNumber(averages.power) + ")";
  return text;
}

void Printer::printTraining(const plan::TrainingT &training) {
  line("training on " + training.device + ", lr " + formatNumber(training.lr) +
       ", seed " + std::to_string(training.seed) + ", accumulation " +
       std::to_string(training.gradient_accumulation_steps) +
       ", max_grad_norm " +
       (training.max_grad_norm < 0 ? "none"
                                   : formatNumber(training.max_grad_norm)) +
       ", norm of order " + formatNumber(training.norm_order) +
       ", on_nonfinite " + plan::EnumNameNonFinite(training.on_nonfinite) +
       (training.grains ? ", grains " + std::to_string(training.grains) : ""));
  if (training.averages)
    line("averages " + describeAverages(*training.averages));
  if (plan.arithmetic)
    line("arithmetic:" + std::string(plan.arithmetic->tf32 ? " tf32" : "") +
         (plan.arithmetic->reduced_precision_reduction
              ? " reduced_precision_reduction"
              : "") +
         (plan.arithmetic->fp16_accumulation ? " fp16_accumulation" : "") +
         (plan.arithmetic->deterministic ? " deterministic" : ""));
  if (!training.rates.empty())
    line("learning rates " +
         join(training.rates,
              [&](uint32_t state) { return quote(plan.states[state]->name); }) +
         ": " +
         (training.schedule ? describeSchedule(*training.schedule)
                            : "constant"));
  if (plan.data)
    line("data " + data(*plan.data));
  if (plan.validation)
    line("validation over " + join(plan.validation->files, quote) +
         (plan.validation->every
              ? ", every " + std::to_string(plan.validation->every) + " steps"
              : ", at the end") +
         (plan.validation->batches
              ? ", " + std::to_string(plan.validation->batches) + " batches"
              : "") +
         (plan.validation->averaged ? ", of averages" : ""));
}

std::string Printer::describe(const plan::StateT &state) const {
  std::string text = "  " + std::string(plan::EnumNameRole(state.role)) + " " +
                     quote(state.name) + " : " +
                     typeText(state.dtype, state.shape);
  if (const plan::QuantizedT *model = state.quantized.get())
    text += " of " + getName(toBlockForm(*model)) + " for " +
            typeText(model->dtype, model->shape);
  if (const plan::GroupT *split = splitOf(plan, state))
    text += " split dim " + std::to_string(state.split_dim) +
            (state.split_blocks == 1
                 ? ""
                 : " in " + std::to_string(state.split_blocks)) +
            " over " + split->name;
  if (state.shard_dim >= 0)
    text += " dim " + std::to_string(state.shard_dim) + " over " +
            plan.groups[state.group]->name;
  if (state.flat < 0)
    text += " @" + std::to_string(state.offset) + " " +
            std::to_string(state.bytes) + " bytes";
  else
    text += " in " + quote(plan.states[state.flat]->name) + " at " +
            std::to_string(state.flat_offset);
  if (state.memory == plan::MemorySpace::host)
    text += " host";
  if (state.layout == plan::Layout::flat)
    text += " flat";
  if (!state.bucket.empty())
    text += " bucket " + quote(state.bucket);
  if (!state.aliases.empty())
    text += " also " + join(state.aliases, quote);
  if (state.of >= 0)
    text += " of " + quote(plan.states[state.of]->name);
  if (state.source)
    text += " source " + record(*state.source);
  if (state.weight)
    text += " weight " + weight(*state.weight);
  if (state.initializer)
    text += " init " + describeInitializer(*state.initializer);
  if (state.volatile_)
    text += " volatile";
  return text;
}

void Printer::printTables() {
  line("\nstates");
  for (const auto &state : plan.states)
    line(describe(*state));
  if (!plan.adapters.empty())
    line("\nadapters");
  for (const auto &adapter : plan.adapters) {
    auto name = [&](uint32_t state) { return quote(plan.states[state]->name); };
    line("  " + name(adapter->base) + " + " + formatNumber(adapter->scale) +
         " * " + name(adapter->up) + " @ " + name(adapter->down) +
         (adapter->experts
              ? " of " + std::to_string(adapter->experts) + " experts"
              : "") +
         (adapter->base_is_in_by_out ? ", transposed" : "") +
         (adapter->magnitude >= 0 ? ", to norms " + name(adapter->magnitude)
                                  : "") +
         (adapter->first_down >= 0 ? ", began with " + name(adapter->first_up) +
                                         " @ " + name(adapter->first_down)
                                   : ""));
  }
  line("\ninputs");
  for (const auto &input : plan.inputs)
    line("  " + quote(input->name) + " : " +
         typeText(input->dtype, input->shape) +
         (input->sample ? " sample " + record(*input->sample) : ""));
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    line("\nkernel " + std::to_string(i) + codeOf(i) + "\n" +
         toText(*plan.kernels[i]));
}

std::string Printer::codeOf(size_t kernel) const {
  std::string text;
  for (const auto &code : plan.kernel_code)
    if (code->kernel == kernel)
      text += (text.empty() ? " with code for " : ", ") + code->target;
  return text;
}

void Printer::printProgram(const plan::ProgramT &program) {
  ProgramText text(plan, program);
  line("\nprogram " + quote(program.name));
  for (const auto &binding : program.arguments)
    line("  argument " + text.definition(binding->value) +
         (binding->input >= 0
              ? " input " + quote(plan.inputs[binding->input]->name)
              : ""));
  for (size_t i = 0; i < program.values.size(); ++i)
    if (program.values[i]->place == plan::Place::literal)
      line("  literal " + text.definition(static_cast<int64_t>(i)) +
           (program.values[i]->wrapped ? " wrapped" : ""));
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    auto [results, name, rest] = text.print(instruction);
    std::string number = std::to_string(i);
    line(std::string(number.size() < 5 ? 5 - number.size() : 0, ' ') + number +
         "  " + results + (results.empty() ? "" : " = ") + name + rest +
         (instruction.at >= 0 ? "  # " + plan.locations[instruction.at] : ""));
  }
  for (const auto &binding : program.results)
    line("  result " + text.use(binding->value) + " " +
         (binding->state >= 0
              ? "state " + quote(plan.states[binding->state]->name)
          : !binding->norms.empty()
              ? std::to_string(binding->norms.size()) + " norms, " +
                    quote(binding->norms.front())
          : binding->metric.empty() ? "output " + quote(binding->output)
                                    : "metric " + quote(binding->metric)));
}

} // namespace

std::string fsdp::printPlan(const PlanT &plan) { return Printer(plan).run(); }

std::string fsdp::printArtifact(const PlanFile &file) {
  return "artifact of fsdp-opt, format " +
         std::to_string(file.formatVersion()) + ", fingerprint " + file.hash() +
         "\n" + printPlan(file.plan());
}

std::string fsdp::printArtifact(WorldPlans plans) {
  std::string text;
  size_t count = plans.worlds().size();
  if (count > 1)
    text = "artifact of fsdp-opt with plans for " +
           join(plans.worlds(),
                [](uint64_t world) { return std::to_string(world); }) +
           " ranks, training " + plans.training() + "\n";
  for (uint64_t world : std::vector<uint64_t>(plans.worlds()))
    text += (count > 1 ? "\nfor " + std::to_string(world) +
                             (world == 1 ? " rank\n" : " ranks\n")
                       : "") +
            printArtifact(plans.take(world));
  return text;
}
