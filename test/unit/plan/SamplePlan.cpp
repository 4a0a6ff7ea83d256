//===- SamplePlan.cpp - A valid plan with every kind of instruction -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/plan/SamplePlan.h"

#include "support/Optimizers.h"
#include "support/Schedules.h"

using namespace fsdp;
using namespace fsdp::plan;

namespace {

class Builder {
public:
  PlanT plan;
  ProgramT program;

  Builder() {
    plan.compiler = "0.1.0";
    plan.model = std::make_unique<ModelT>();
    plan.model->path = "model.pt2";
    plan.model->bytes = 4096;
    plan.model->directory = "0123456789abcdef";
    plan.model->torch = "2.11.0";
    plan.mesh.push_back(std::make_unique<AxisT>());
    plan.mesh[0]->name = "shard";
    plan.mesh[0]->size = 2;
    plan.groups.push_back(std::make_unique<GroupT>());
    plan.groups[0]->name = "shard";
    plan.groups[0]->size = 2;
    plan.data_parallel = 2;
    plan.memory = std::make_unique<MemoryT>();
    plan.memory->peak = 4096;
    plan.memory->states = 128 * 8;
    plan.training = std::make_unique<TrainingT>();
    plan.training->lr = 1e-3;
    plan.training->device = "cpu";
    plan.locations = {"fc (model.py:7)"};
    program.name = "train/step";
    plan.host = std::make_unique<MemoryT>();
    plan.host->peak = 256;
    program.futures = 5;
  }

  uint32_t addState(const std::string &name, Role role,
                    std::vector<int64_t> shape, bool sharded) {
    auto state = std::make_unique<StateT>();
    state->name = name;
    state->role = role;
    uint64_t rows =
        shape.empty() ? 1 : (sharded ? (shape[0] + 1) / 2 : shape[0]);
    state->bytes = 4 * rows * (shape.size() > 1 ? shape[1] : 1);
    state->shape = std::move(shape);
    state->shard_dim = sharded ? 0 : -1;
    state->offset = plan.states.size() * 128;
    plan.states.push_back(std::move(state));
    return plan.states.size() - 1;
  }

  uint32_t addValue(std::vector<int64_t> shape, Place place, uint64_t offset,
                    uint64_t bytes) {
    auto value = std::make_unique<ValueT>();
    value->shape = std::move(shape);
    value->place = place;
    value->offset = offset;
    value->bytes = bytes;
    program.values.push_back(std::move(value));
    return program.values.size() - 1;
  }

  uint32_t addArgument(uint32_t state) {
    const StateT &s = *plan.states[state];
    auto shape = s.shape;
    if (s.shard_dim >= 0)
      shape[0] = (shape[0] + 1) / 2;
    uint32_t value = addValue(shape, Place::state, s.offset, s.bytes);
    program.values[value]->state = state;
    auto binding = std::make_unique<BindingT>();
    binding->value = value;
    binding->state = state;
    program.arguments.push_back(std::move(binding));
    return value;
  }

  template <typename T>
  void add(T body) {
    auto instruction = std::make_unique<InstructionT>();
    instruction->body.Set(std::move(body));
    instruction->at = 0;
    program.instructions.push_back(std::move(instruction));
  }

  std::unique_ptr<ArgT> arg(ArgKind kind, std::vector<int32_t> values = {},
                            std::vector<int64_t> ints = {},
                            std::vector<double> doubles = {}) {
    auto arg = std::make_unique<ArgT>();
    arg->kind = kind;
    arg->values = std::move(values);
    arg->ints = std::move(ints);
    arg->doubles = std::move(doubles);
    return arg;
  }

  void addResult(uint32_t value, int32_t state, const std::string &output) {
    auto binding = std::make_unique<BindingT>();
    binding->value = value;
    binding->state = state;
    binding->output = output;
    program.results.push_back(std::move(binding));
  }
};

} // namespace

PlanT fsdp::test::samplePlan() {
  Builder b;
  uint32_t weight = b.addState("w", Role::parameter, {3, 2}, true);
  uint32_t average = b.addState("w/exp_avg", Role::optimizer, {3, 2}, true);
  uint32_t square = b.addState("w/exp_avg_sq", Role::optimizer, {3, 2}, true);
  uint32_t step = b.addState("optimizer/step", Role::step, {}, false);
  uint32_t lr = b.addState("optimizer/lr", Role::learning_rate, {}, false);
  b.plan.states[weight]->source = std::make_unique<RecordT>();
  b.plan.states[weight]->source->name = "data/weights/weight_0";
  b.plan.states[weight]->source->offset = 64;
  b.plan.states[weight]->source->bytes = 24;
  b.plan.states[weight]->aliases = {"tied"};
  b.plan.states[weight]->bucket = "fc";
  b.plan.states[average]->of = b.plan.states[square]->of = weight;
  b.plan.states[lr]->init = {0, 0, 0x80, 0x3f};
  b.plan.training->rates = {lr};
  b.plan.training->schedule = std::make_unique<ScheduleT>();
  b.plan.training->schedule->kind = uint8_t(ScheduleKind::cosine);
  b.plan.training->schedule->warmup_steps = 2;
  b.plan.training->schedule->min_lr = 1e-4;
  uint32_t random = b.addState("random/state", Role::random, {2}, false);
  b.plan.states[random]->dtype = DType::i64;
  b.plan.states[random]->bytes = 16;
  b.plan.states[random]->init = {7, 0, 0, 0, 0, 0, 0, 0,
                                 0, 0, 0, 0, 0, 0, 0, 0};
  b.plan.inputs.push_back(std::make_unique<InputT>());
  b.plan.inputs[0]->name = "x";
  b.plan.inputs[0]->shape = {4, 3};

  uint32_t w = b.addArgument(weight), m = b.addArgument(average),
           v = b.addArgument(square), s = b.addArgument(step),
           l = b.addArgument(lr);
  uint32_t x = b.addValue({4, 3}, Place::slot, 1024, 48);
  auto input = std::make_unique<BindingT>();
  input->value = x;
  input->input = 0;
  b.program.arguments.push_back(std::move(input));
  uint32_t half = b.addValue({}, Place::literal, 0, 0);
  b.program.values[half]->literal = {0, 0, 0, 0x3f};
  b.program.values[half]->wrapped = true;

  uint32_t full = b.addValue({3, 2}, Place::slot, 1152, 32);
  uint32_t turned = b.addValue({2, 3}, Place::view, 0, 0);
  b.program.values[turned]->base = full;
  b.program.values[turned]->strides = {1, 2};
  uint32_t loss = b.addValue({}, Place::slot, 1280, 4);
  uint32_t gradient = b.addValue({3, 2}, Place::slot, 1408, 32);
  uint32_t reduced = b.addValue({2, 2}, Place::slot, 1536, 16);
  uint32_t mean = b.addValue({}, Place::view, 0, 0);
  b.program.values[mean]->base = loss;
  uint32_t cut = b.addValue({2, 2}, Place::slot, 1664, 16);

  uint32_t seed = b.addArgument(random);
  b.program.values[seed]->dtype = DType::i64;
  uint32_t noise = b.addValue({2, 2}, Place::slot, 1792, 16);

  uint32_t sum = b.addValue({2, 2}, Place::view, 0, 0);
  b.program.values[sum]->base = reduced;

  for (const char *overload : {"", "Tensor", "Scalar"}) {
    b.plan.operators.push_back(std::make_unique<OperatorT>());
    b.plan.operators.back()->name = *overload ? "aten::add" : "aten::t";
    b.plan.operators.back()->overload = overload;
  }

  TransferT gather;
  gather.bucket = "fc";
  gather.stream = Stream::gather;
  gather.inputs = {w};
  gather.outputs = {full};
  b.add(std::move(gather));
  b.add(WaitT{});
  CallT view;
  view.args.push_back(b.arg(ArgKind::tensor, {static_cast<int32_t>(full)}));
  view.results = {static_cast<int32_t>(turned)};
  b.add(std::move(view));
  CallT call;
  call.op = 1;
  auto id = [](uint32_t value) { return static_cast<int32_t>(value); };
  call.args.push_back(b.arg(ArgKind::tensors, {id(turned), id(x)}));
  call.args.push_back(b.arg(ArgKind::optional_tensors, {-1, id(half)}));
  call.args.push_back(b.arg(ArgKind::none));
  call.args.push_back(b.arg(ArgKind::integer, {}, {7}));
  call.args.push_back(b.arg(ArgKind::number, {}, {}, {0.5}));
  call.args.push_back(b.arg(ArgKind::boolean, {}, {1}));
  call.args.push_back(b.arg(ArgKind::text));
  call.args.back()->text = "mean";
  call.args.push_back(b.arg(ArgKind::integers, {}, {1, 2}));
  call.args.push_back(b.arg(ArgKind::numbers, {}, {}, {1.5, 2}));
  call.args.push_back(b.arg(ArgKind::booleans, {}, {0, 1}));
  call.args.push_back(b.arg(ArgKind::dtype, {}, {3}));
  call.args.push_back(b.arg(ArgKind::device));
  call.args.push_back(b.arg(ArgKind::layout));
  call.args.push_back(b.arg(ArgKind::memory_format, {}, {1}));
  call.args.push_back(b.arg(ArgKind::complex, {}, {}, {1, 2}));
  call.results = {id(loss), -1, id(gradient)};
  b.add(std::move(call));
  FreeT free;
  free.values = {full};
  b.add(std::move(free));
  ZeroPaddingT pad;
  pad.value = gradient;
  b.add(std::move(pad));
  TransferT scatter;
  scatter.kind = CollectiveKind::reduce_scatter;
  scatter.purpose = Purpose::gradient;
  scatter.bucket = "fc";
  scatter.stream = Stream::reduce;
  scatter.reduction = Reduction::avg;
  scatter.inputs = {gradient};
  scatter.outputs = {reduced};
  scatter.of = {weight};
  scatter.future = 1;
  b.add(std::move(scatter));
  TransferT all;
  all.kind = CollectiveKind::all_reduce;
  all.purpose = Purpose::metric;
  all.bucket = "metrics";
  all.stream = Stream::reduce;
  all.reduction = Reduction::avg;
  all.inputs = {loss};
  all.outputs = {mean};
  all.future = 2;
  b.add(std::move(all));
  WaitT wait;
  wait.future = 1;
  b.add(std::move(wait));
  wait.future = 2;
  b.add(std::move(wait));
  ShardT shard;
  shard.input = gradient;
  shard.output = cut;
  b.add(std::move(shard));
  AccumulateT accumulate;
  accumulate.gradient = reduced;
  accumulate.into = m;
  accumulate.output = sum;
  accumulate.divisor = 2;
  b.add(std::move(accumulate));
  UpdateT adam;
  adam.params = {w};
  adam.grads = {sum};
  adam.moments = {m, v};
  adam.step = id(s);
  adam.lr = l;
  adam.grad_scale = id(mean);
  adam.numbers = {0.9, 0.95, 1e-8, 0};
  b.add(std::move(adam));
  UpdateT sgd;
  sgd.kind = static_cast<uint8_t>(OptimizerKind::sgd);
  sgd.params = {w};
  sgd.grads = {reduced};
  sgd.moments = {m};
  sgd.lr = l;
  sgd.numbers = {0.9, 0, 0};
  b.add(std::move(sgd));
  CopyT copy;
  copy.from = mean;
  copy.to = s;
  b.add(std::move(copy));
  DrawT draw;
  draw.distribution = Distribution::normal;
  draw.random = seed;
  draw.site = 3;
  draw.output = noise;
  draw.numbers = {0, 1};
  b.add(std::move(draw));
  uint32_t left = b.addValue({2, 2}, Place::slot, 128, 16);
  b.program.values[left]->memory = MemorySpace::host;
  uint32_t back = b.addValue({2, 2}, Place::slot, 1920, 16);
  for (auto [from, to] : {std::pair(noise, left), std::pair(left, back)}) {
    bool isDown = to == left;
    CopyAcrossT across;
    across.bucket = "fc";
    across.to = isDown ? MemorySpace::host : MemorySpace::device;
    across.stream = isDown ? Stream::download : Stream::upload;
    across.inputs = {from};
    across.outputs = {to};
    across.future = isDown ? 3 : 4;
    wait.future = across.future;
    b.add(std::move(across));
    b.add(wait);
  }
  b.addResult(mean, -1, "loss");
  b.addResult(w, weight, "");
  b.addResult(s, step, "");
  b.plan.programs.push_back(std::make_unique<ProgramT>(b.program));
  return std::move(b.plan);
}
