//===- Print.cpp - A plan as text -----------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Print.h"

#include "plan/DType.h"
#include "plan/FirstValues.h"
#include "plan/Schedule.h"
#include "plan/Shape.h"
#include "plan/Target.h"
#include "plan/TokenFormats.h"
#include "support/Hash.h"

#include <charconv>
#include <cstring>

using namespace fsdp;
using plan::Body;
using plan::Place;
using plan::PlanT;

namespace {

std::string quote(const std::string &text) { return '"' + text + '"'; }

/// The shortest text that reads back as the same number.
std::string print(double number) {
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  return {buffer, end};
}

template <typename Range, typename Print>
std::string join(const Range &range, Print &&print) {
  std::string text;
  for (const auto &item : range)
    text += (text.empty() ? "" : ", ") + print(item);
  return text;
}

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
  static std::string type(plan::DType dtype,
                          const std::vector<int64_t> &shape) {
    return std::string(dtypeName(dtype)) + toString(shape);
  }
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
    return text;
  }
  static std::string use(int64_t value) {
    return value < 0 ? "none" : "%" + std::to_string(value);
  }
  template <typename Values>
  static std::string uses(const Values &values) {
    return join(values, [](auto value) { return use(value); });
  }
  std::string definition(int64_t value) const;
  template <typename Values>
  std::string definitions(const Values &values) const {
    return join(values, [&](auto value) { return definition(value); });
  }
  static std::string stream(plan::Stream stream) {
    return plan::EnumNameStream(stream);
  }
  std::string over(uint32_t group) const {
    return " over " + plan.groups[group]->name;
  }
  static std::string future(uint32_t future) {
    return "future" + std::to_string(future);
  }
  std::string argument(const plan::ArgT &arg) const;
  std::string body(const plan::BodyUnion &body) const;
  std::string foundInf(int32_t value) const;
  std::string adam(const plan::AdamT &op) const;
  std::string sgd(const plan::SgdT &op) const;
  std::string reduceScatter(const plan::ReduceScatterT &op) const;
  std::string wait(const plan::WaitT &op) const;
  std::string draw(const plan::DrawT &op) const;
  void printHeader();
  void printTables();
  void printProgram(const plan::ProgramT &program);
  void line(const std::string &text) { out += text + "\n"; }

  const PlanT &plan;
  const plan::ProgramT *program = nullptr;
  std::vector<std::vector<uint32_t>> promised; ///< outputs by future
  std::string out;
};

std::string Printer::definition(int64_t index) const {
  if (index < 0)
    return "_";
  const plan::ValueT &value = *program->values[index];
  std::string text = use(index) + " : " + type(value.dtype, value.shape);
  if (!value.strides.empty())
    text += " strides " + toString(value.strides);
  switch (value.place) {
  case Place::slot:
    return text + " @" + std::to_string(value.offset);
  case Place::view:
    return text + " in " + use(value.base);
  case Place::state:
    return text + " @" + std::to_string(value.offset) + " " +
           quote(plan.states[value.state]->name);
  case Place::literal:
    break;
  }
  return text;
}

std::string Printer::argument(const plan::ArgT &arg) const {
  using plan::ArgKind;
  auto integer = [](int64_t value) { return std::to_string(value); };
  auto boolean = [](int64_t value) -> std::string {
    return value ? "true" : "false";
  };
  switch (arg.kind) {
  case ArgKind::none:
    return "none";
  case ArgKind::tensor:
    return use(arg.values[0]);
  case ArgKind::tensors:
  case ArgKind::optional_tensors:
    return "[" + uses(arg.values) + "]";
  case ArgKind::integer:
    return integer(arg.ints[0]);
  case ArgKind::number:
    return print(arg.doubles[0]);
  case ArgKind::boolean:
    return boolean(arg.ints[0]);
  case ArgKind::text:
    return quote(arg.text);
  case ArgKind::integers:
    return "[" + join(arg.ints, integer) + "]";
  case ArgKind::numbers:
    return "[" + join(arg.doubles, [](double d) { return print(d); }) + "]";
  case ArgKind::booleans:
    return "[" + join(arg.ints, boolean) + "]";
  case ArgKind::dtype:
    return std::string(dtypeName(static_cast<plan::DType>(arg.ints[0])));
  case ArgKind::device:
    return "device";
  case ArgKind::layout:
    return "strided";
  case ArgKind::memory_format: {
    static constexpr const char *kNames[] = {
        "contiguous", "preserve", "channels_last", "channels_last_3d"};
    return kNames[arg.ints[0]];
  }
  case ArgKind::complex:
    return print(arg.doubles[0]) + " + " + print(arg.doubles[1]) + "i";
  }
  return "?";
}

std::string Printer::foundInf(int32_t value) const {
  return value < 0 ? "" : " found_inf " + use(value);
}

std::string Printer::adam(const plan::AdamT &op) const {
  return std::string(plan::EnumNameAdamKind(op.kind)) + " params(" +
         uses(op.params) + ") grads(" + uses(op.grads) + ") exp_avgs(" +
         uses(op.exp_avgs) + ") exp_avg_sqs(" + uses(op.exp_avg_sqs) +
         ") step " + use(op.step) + " lr " + use(op.lr) + " grad_scale " +
         use(op.grad_scale) + foundInf(op.found_inf) + " betas(" +
         print(op.beta1) + ", " + print(op.beta2) + ") eps " + print(op.eps) +
         " weight_decay " + print(op.weight_decay);
}

std::string Printer::sgd(const plan::SgdT &op) const {
  return "sgd params(" + uses(op.params) + ") grads(" + uses(op.grads) +
         ") momentum_buffers(" + uses(op.momentum_buffers) + ") lr " +
         use(op.lr) + " grad_scale " + use(op.grad_scale) +
         foundInf(op.found_inf) + " momentum " + print(op.momentum) +
         " weight_decay " + print(op.weight_decay) +
         (op.nesterov ? " nesterov" : "");
}

template <typename OpTy>
static std::string division(const OpTy &op) {
  return (op.pre == 1 ? "" : " pre " + print(op.pre)) +
         (op.post == 1 ? "" : " post " + print(op.post));
}

std::string Printer::reduceScatter(const plan::ReduceScatterT &op) const {
  std::string of = join(
      op.of, [&](uint32_t state) { return quote(plan.states[state]->name); });
  return future(op.future) + " = reduce_scatter.start " +
         plan::EnumNameReduction(op.reduction) + " " + quote(op.bucket) + "(" +
         uses(op.inputs) + ")" + division(op) + over(op.group) + " on " +
         stream(op.stream) + (of.empty() ? "" : " of [" + of + "]");
}

std::string Printer::wait(const plan::WaitT &op) const {
  return definitions(promised[op.future]) + " = wait " + future(op.future);
}

std::string Printer::draw(const plan::DrawT &op) const {
  std::string text = definition(op.output) + " = draw " +
                     plan::EnumNameDistribution(op.distribution);
  if (!op.numbers.empty())
    text +=
        " with [" + join(op.numbers, [](double d) { return print(d); }) + "]";
  if (!op.range.empty())
    text += " range [" +
            join(op.range, [](int64_t i) { return std::to_string(i); }) + "]";
  text += " site " + std::to_string(op.site) + " from " + use(op.random);
  return op.given.empty() ? text : text + " given " + uses(op.given);
}

std::string Printer::body(const plan::BodyUnion &body) const {
  switch (body.type) {
  case Body::Call: {
    const plan::CallT &op = *body.AsCall();
    const plan::OperatorT &target = *plan.operators[op.op];
    std::string results = definitions(op.results);
    return results + (results.empty() ? "" : " = ") + target.name +
           (target.overload.empty() ? "" : "." + target.overload) + "(" +
           join(op.args, [&](const auto &arg) { return argument(*arg); }) + ")";
  }
  case Body::AllGather: {
    const plan::AllGatherT &op = *body.AsAllGather();
    return future(op.future) + " = all_gather.start " + quote(op.bucket) + "(" +
           uses(op.inputs) + ")" + over(op.group) + " on " + stream(op.stream);
  }
  case Body::ReduceScatter:
    return reduceScatter(*body.AsReduceScatter());
  case Body::AllReduce: {
    const plan::AllReduceT &op = *body.AsAllReduce();
    return future(op.future) + " = all_reduce.start " +
           plan::EnumNameReduction(op.reduction) + " " + quote(op.bucket) +
           "(" + uses(op.inputs) + ")" + division(op) + over(op.group) +
           " on " + stream(op.stream);
  }
  case Body::Wait:
    return wait(*body.AsWait());
  case Body::Free:
    return "free " + uses(body.AsFree()->values);
  case Body::ZeroPadding:
    return "zero_padding " + use(body.AsZeroPadding()->value) +
           over(body.AsZeroPadding()->group);
  case Body::Shard:
    return definition(body.AsShard()->output) + " = shard " +
           use(body.AsShard()->input) + over(body.AsShard()->group);
  case Body::Adam:
    return adam(*body.AsAdam());
  case Body::Sgd:
    return sgd(*body.AsSgd());
  case Body::Copy:
    return "copy " + use(body.AsCopy()->from) + " to " + use(body.AsCopy()->to);
  case Body::Draw:
    return draw(*body.AsDraw());
  case Body::Accumulate: {
    const plan::AccumulateT &op = *body.AsAccumulate();
    return definition(op.output) + " = accumulate " + use(op.gradient) +
           " into " + use(op.into) +
           (op.divisor == 1 ? "" : " divide " + std::to_string(op.divisor));
  }
  case Body::PackTensors: {
    const plan::PackTensorsT &op = *body.AsPackTensors();
    return definition(op.output) + " = pack " + uses(op.inputs) + " at [" +
           join(op.offsets, [](uint64_t at) { return std::to_string(at); }) +
           "]";
  }
  case Body::NONE:
    break;
  }
  return "?";
}

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
  const plan::TrainingT &training = *plan.training;
  line("training on " + training.device + ", lr " + print(training.lr) +
       ", seed " + std::to_string(training.seed) + ", accumulation " +
       std::to_string(training.gradient_accumulation_steps) +
       ", max_grad_norm " +
       (training.max_grad_norm < 0 ? "none" : print(training.max_grad_norm)) +
       ", norm of order " + print(training.norm_order) + ", on_nonfinite " +
       plan::EnumNameNonFinite(training.on_nonfinite));
  if (plan.arithmetic)
    line("arithmetic:" + std::string(plan.arithmetic->tf32 ? " tf32" : "") +
         (plan.arithmetic->reduced_precision_reduction
              ? " reduced_precision_reduction"
              : "") +
         (plan.arithmetic->fp16_accumulation ? " fp16_accumulation" : ""));
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
              : ""));
  const plan::MemoryT &memory = *plan.memory;
  std::optional<uint64_t> scratch = getScratchBound(plan);
  line("memory " + std::to_string(memory.peak) + " bytes: states " +
       std::to_string(memory.states) + " (params " +
       std::to_string(memory.params) + ", optimizer " +
       std::to_string(memory.optimizer) + ", buffers " +
       std::to_string(memory.buffers) + "), inputs " +
       std::to_string(memory.inputs) + ", activations " +
       std::to_string(memory.activations) + ", gathered " +
       std::to_string(memory.gathered) + ", grads " +
       std::to_string(memory.grads) + "; scratch " +
       (scratch ? "at most " + std::to_string(*scratch)
                : "unknown until the rehearsal"));
  line("collectives " + toHex(plan.collectives_hash));
}

void Printer::printTables() {
  line("\nstates");
  for (const auto &state : plan.states) {
    std::string text = "  " + std::string(plan::EnumNameRole(state->role)) +
                       " " + quote(state->name) + " : " +
                       type(state->dtype, state->shape);
    if (state->shard_dim >= 0)
      text += " dim " + std::to_string(state->shard_dim) + over(state->group);
    if (state->flat < 0)
      text += " @" + std::to_string(state->offset) + " " +
              std::to_string(state->bytes) + " bytes";
    else
      text += " in " + quote(plan.states[state->flat]->name) + " at " +
              std::to_string(state->flat_offset);
    if (state->layout == plan::Layout::flat)
      text += " flat";
    if (!state->bucket.empty())
      text += " bucket " + quote(state->bucket);
    if (!state->aliases.empty())
      text += " also " + join(state->aliases, quote);
    if (state->of >= 0)
      text += " of " + quote(plan.states[state->of]->name);
    if (state->source)
      text += " source " + record(*state->source);
    if (state->weight)
      text += " weight " + weight(*state->weight);
    if (state->initializer)
      text += " init " + describeInitializer(*state->initializer);
    if (state->volatile_)
      text += " volatile";
    line(text);
  }
  line("\ninputs");
  for (const auto &input : plan.inputs)
    line("  " + quote(input->name) + " : " + type(input->dtype, input->shape) +
         (input->sample ? " sample " + record(*input->sample) : ""));
}

void Printer::printProgram(const plan::ProgramT &each) {
  program = &each;
  promised.assign(each.futures, {});
  line("\nprogram " + quote(each.name));
  for (const auto &binding : each.arguments)
    line("  argument " + definition(binding->value) +
         (binding->input >= 0
              ? " input " + quote(plan.inputs[binding->input]->name)
              : ""));
  for (size_t i = 0; i < each.values.size(); ++i)
    if (each.values[i]->place == Place::literal)
      line("  literal " + definition(static_cast<int64_t>(i)) +
           (each.values[i]->wrapped ? " wrapped" : ""));
  for (size_t i = 0; i < each.instructions.size(); ++i) {
    const plan::InstructionT &instruction = *each.instructions[i];
    if (const auto *op = instruction.body.AsAllGather())
      promised[op->future] = op->outputs;
    else if (const auto *op = instruction.body.AsReduceScatter())
      promised[op->future] = op->outputs;
    else if (const auto *op = instruction.body.AsAllReduce())
      promised[op->future] = op->outputs;
    std::string number = std::to_string(i);
    line(std::string(number.size() < 5 ? 5 - number.size() : 0, ' ') + number +
         "  " + body(instruction.body) +
         (instruction.at >= 0 ? "  # " + plan.locations[instruction.at] : ""));
  }
  for (const auto &binding : each.results)
    line("  result " + use(binding->value) + " " +
         (binding->state >= 0
              ? "state " + quote(plan.states[binding->state]->name)
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
