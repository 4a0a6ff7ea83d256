//===- TinyModel.cpp - One linear layer, planned by hand ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/runtime/TinyModel.h"

#include "plan/Shape.h"
#include "plan/Writer.h"
#include "support/Crc.h"
#include "support/ZipDirectory.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace fsdp;
using namespace fsdp::test;
using plan::ArgKind;
using plan::Place;

namespace {

/// A zip archive of one stored entry.
std::string makeArchive(const std::string &data) {
  std::string bytes;
  auto put = [&](uint64_t value, int count) {
    for (; count-- > 0; value >>= 8)
      bytes += static_cast<char>(value & 255);
  };
  std::string name = "model/data";
  uint32_t crc = crc32Of(data.data(), data.size());
  put(0x04034b50, 4), put(20, 2), put(0, 8), put(crc, 4);
  put(data.size(), 4), put(data.size(), 4), put(name.size(), 2), put(0, 2);
  bytes += name + data;
  size_t begin = bytes.size();
  put(0x02014b50, 4), put(20, 2), put(20, 2), put(0, 8), put(crc, 4);
  put(data.size(), 4), put(data.size(), 4), put(name.size(), 2), put(0, 8);
  put(0, 4), put(0, 4);
  bytes += name;
  size_t end = bytes.size();
  put(0x06054b50, 4), put(0, 4), put(1, 2), put(1, 2), put(end - begin, 4);
  put(begin, 4), put(0, 2);
  return bytes;
}

constexpr uint64_t kDataOffset = 30 + 10;

std::string bytesOf(const std::vector<float> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(float)};
}

/// The model file's data: weight, x, y.
std::string modelData(const TinyModel &model) {
  std::vector<float> weight = TinyModel::initialWeight(model.in);
  if (model.isSourceStrided) {
    std::vector<float> columns;
    for (int64_t j = 0; j < model.in; ++j)
      for (int64_t i = 0; i < TinyModel::kOut; ++i)
        columns.push_back(weight[i * model.in + j]);
    weight = columns;
  }
  return bytesOf(weight) + bytesOf(TinyModel::sampleX(model.in)) +
         bytesOf(TinyModel::sampleY());
}

class Builder {
public:
  explicit Builder(const TinyModel &model) : model(model) {}
  plan::PlanT build();

private:
  using Ints = std::vector<int64_t>;

  uint64_t place(uint64_t bytes) {
    uint64_t at = end;
    end += (bytes + 127) / 128 * 128;
    return at;
  }
  std::unique_ptr<plan::RecordT> record(uint64_t offset, const Ints &shape,
                                        const Ints &strides = {}) {
    auto record = std::make_unique<plan::RecordT>();
    record->name = "data";
    record->offset = kDataOffset + offset;
    record->bytes = *checkedExtent(shape, {}, 4);
    record->strides = strides;
    return record;
  }
  /// Returns its argument.
  int state(const std::string &name, plan::Role role, const Ints &shape,
            bool isSharded, std::unique_ptr<plan::RecordT> source, float init);
  int input(const std::string &name, const Ints &shape, uint64_t offset);
  int slot(const Ints &shape, int64_t rows = -1, const Ints &strides = {});
  int view(int base, const Ints &shape, const Ints &strides = {});
  int overwrite(int argument);
  static std::unique_ptr<plan::ArgT> arg(ArgKind kind,
                                         std::vector<int32_t> values = {},
                                         Ints ints = {},
                                         std::vector<double> doubles = {});
  static auto tensor(int v) { return arg(ArgKind::tensor, {v}); }
  static auto none() { return arg(ArgKind::none); }
  static auto integer(int64_t v) { return arg(ArgKind::integer, {}, {v}); }
  static auto number(double v) { return arg(ArgKind::number, {}, {}, {v}); }
  template <typename... Args>
  void call(const std::string &op, const std::string &overload, int result,
            Args... args);
  template <typename T>
  void add(T body);
  void addOptimizer(int grad, int scale);

  const TinyModel &model;
  plan::PlanT plan;
  plan::ProgramT *program = nullptr;
  uint64_t end = 0;
  int weight = -1, momentum1 = -1, momentum2 = -1, step = -1, lr = -1;
};

int Builder::state(const std::string &name, plan::Role role, const Ints &shape,
                   bool isSharded, std::unique_ptr<plan::RecordT> source,
                   float init) {
  auto state = std::make_unique<plan::StateT>();
  state->name = name;
  state->role = role;
  state->shape = shape;
  Ints local = shape;
  if (isSharded) {
    state->shard_dim = 0;
    local = shardShape(local, 0, model.worldSize);
  }
  state->bytes = *checkedExtent(local, {}, 4);
  state->offset = place(state->bytes);
  state->source = std::move(source);
  if (!state->source) {
    state->init.resize(4);
    std::memcpy(state->init.data(), &init, 4);
  }
  auto value = std::make_unique<plan::ValueT>();
  value->shape = local;
  value->place = Place::state;
  value->offset = state->offset;
  value->bytes = state->bytes;
  value->state = static_cast<uint32_t>(plan.states.size());
  auto binding = std::make_unique<plan::BindingT>();
  binding->value = static_cast<uint32_t>(program->values.size());
  binding->state = static_cast<int32_t>(plan.states.size());
  program->arguments.push_back(std::move(binding));
  plan.states.push_back(std::move(state));
  program->values.push_back(std::move(value));
  return static_cast<int>(program->values.size()) - 1;
}

int Builder::input(const std::string &name, const Ints &shape,
                   uint64_t offset) {
  auto input = std::make_unique<plan::InputT>();
  input->name = name;
  input->shape = shape;
  if (model.hasSample)
    input->sample = record(offset, shape);
  auto binding = std::make_unique<plan::BindingT>();
  int value = slot(shape);
  binding->value = static_cast<uint32_t>(value);
  binding->input = static_cast<int32_t>(plan.inputs.size());
  plan.inputs.push_back(std::move(input));
  program->arguments.push_back(std::move(binding));
  return value;
}

int Builder::slot(const Ints &shape, int64_t rows, const Ints &strides) {
  auto value = std::make_unique<plan::ValueT>();
  value->shape = shape;
  value->strides = strides;
  value->place = Place::slot;
  Ints room = shape;
  if (rows >= 0)
    room[0] = rows;
  value->bytes = *checkedExtent(room, {}, 4);
  value->offset = place(value->bytes);
  program->values.push_back(std::move(value));
  return static_cast<int>(program->values.size()) - 1;
}

int Builder::view(int base, const Ints &shape, const Ints &strides) {
  auto value = std::make_unique<plan::ValueT>();
  value->shape = shape;
  value->strides = strides;
  value->place = Place::view;
  value->base = static_cast<uint32_t>(base);
  program->values.push_back(std::move(value));
  return static_cast<int>(program->values.size()) - 1;
}

/// A value that takes the place of the state at `argument`.
int Builder::overwrite(int argument) {
  program->values.push_back(
      std::make_unique<plan::ValueT>(*program->values[argument]));
  auto binding = std::make_unique<plan::BindingT>();
  binding->value = static_cast<uint32_t>(program->values.size() - 1);
  binding->state = static_cast<int32_t>(program->values[argument]->state);
  program->results.push_back(std::move(binding));
  return static_cast<int>(program->values.size()) - 1;
}

std::unique_ptr<plan::ArgT> Builder::arg(ArgKind kind,
                                         std::vector<int32_t> values, Ints ints,
                                         std::vector<double> doubles) {
  auto arg = std::make_unique<plan::ArgT>();
  arg->kind = kind;
  arg->values = std::move(values);
  arg->ints = std::move(ints);
  arg->doubles = std::move(doubles);
  return arg;
}

template <typename T>
void Builder::add(T body) {
  auto instruction = std::make_unique<plan::InstructionT>();
  instruction->body.Set(std::move(body));
  program->instructions.push_back(std::move(instruction));
}

template <typename... Args>
void Builder::call(const std::string &op, const std::string &overload,
                   int result, Args... args) {
  plan::CallT call;
  call.op = static_cast<uint32_t>(plan.operators.size());
  plan.operators.push_back(std::make_unique<plan::OperatorT>());
  plan.operators.back()->name = "aten::" + op;
  plan.operators.back()->overload = overload;
  (call.args.push_back(std::move(args)), ...);
  call.results.push_back(result);
  add(std::move(call));
  plan.locations.push_back("net (model.py:7)");
  program->instructions.back()->at =
      static_cast<int32_t>(plan.locations.size()) - 1;
}

void Builder::addOptimizer(int grad, int scale) {
  using enum OptimizerNumber;
  plan::UpdateT op;
  op.kind = static_cast<uint8_t>(model.optimizer);
  op.params = {static_cast<uint32_t>(weight)};
  op.grads = {static_cast<uint32_t>(grad)};
  op.moments = {static_cast<uint32_t>(momentum1)};
  op.lr = static_cast<uint32_t>(lr);
  op.grad_scale = scale;
  op.numbers = getFacts(model.optimizer)
                   .toList({{beta1, model.beta1},
                            {beta2, model.beta2},
                            {eps, model.eps},
                            {momentum, model.momentum},
                            {weight_decay, model.weightDecay}});
  if (getFacts(model.optimizer).countsUpdates) {
    op.step = overwrite(step);
    call("add", "Scalar", op.step, tensor(step), integer(1), integer(1));
    op.moments.push_back(static_cast<uint32_t>(momentum2));
  }
  add(std::move(op));
}

plan::PlanT Builder::build() {
  constexpr int64_t kOut = TinyModel::kOut, kBatch = TinyModel::kBatch;
  const int64_t in = model.in;
  int64_t world = model.worldSize;
  plan.programs.push_back(std::make_unique<plan::ProgramT>());
  program = plan.programs.back().get();
  program->name = "train/step";
  plan.mesh.push_back(std::make_unique<plan::AxisT>());
  plan.mesh[0]->name = "shard";
  plan.mesh[0]->size = static_cast<uint32_t>(world);
  plan.groups.push_back(std::make_unique<plan::GroupT>());
  plan.groups[0]->name = "shard";
  plan.groups[0]->size = static_cast<uint32_t>(world);
  plan.data_parallel = static_cast<uint32_t>(world);
  plan.training = std::make_unique<plan::TrainingT>();
  plan.training->lr = model.lr;
  plan.training->device = "cpu";

  Ints shape{kOut, in};
  bool isSharded = world > 1;
  weight = state(
      "net.weight", plan::Role::parameter, shape, isSharded,
      record(0, shape, model.isSourceStrided ? Ints{1, kOut} : Ints{}), 0);
  plan.states[0]->aliases = {"tied.weight"};
  momentum1 = state("net.weight/exp_avg", plan::Role::optimizer, shape,
                    isSharded, nullptr, 0);
  if (model.optimizer != Optimizer::sgd)
    momentum2 = state("net.weight/exp_avg_sq", plan::Role::optimizer, shape,
                      isSharded, nullptr, 0);
  step = state("optimizer/step", plan::Role::step, {}, false, nullptr, 0);
  lr = state("optimizer/lr", plan::Role::learning_rate, {}, false, nullptr,
             static_cast<float>(model.lr));
  plan.training->rates = {static_cast<uint32_t>(plan.states.size() - 1)};
  state("net.scale", plan::Role::buffer, {1}, false, nullptr, 2.5f);
  uint64_t weightBytes = kOut * in * 4;
  int x = input("x", {kBatch, in}, weightBytes);
  int y = input("y", {kBatch, kOut}, weightBytes + kBatch * in * 4);

  int64_t padded = shardRows(kOut, world) * world;
  int full = weight;
  if (isSharded) {
    full = slot(shape, padded);
    plan::TransferT gather;
    gather.bucket = "net";
    gather.stream = plan::Stream::gather;
    gather.inputs = {static_cast<uint32_t>(weight)};
    gather.outputs = {static_cast<uint32_t>(full)};
    add(std::move(gather));
    plan::WaitT wait;
    add(std::move(wait));
  }
  int wt = view(full, {in, kOut}, {1, in});
  call("t", "", wt, tensor(full));
  int prediction =
      slot({kBatch, kOut}, -1, model.isTransposed ? Ints{1, kBatch} : Ints{});
  call("mm", "", prediction, tensor(x), tensor(wt));
  int loss = slot({});
  call("mse_loss", "", loss, tensor(prediction), tensor(y), integer(1));
  int ones = slot({});
  call("ones_like", "", ones, tensor(loss), none(), none(), none(), none(),
       none());
  int gp = slot({kBatch, kOut});
  call("mse_loss_backward", "", gp, tensor(ones), tensor(prediction), tensor(y),
       integer(1));
  int gpt = view(gp, {kOut, kBatch}, {1, kOut});
  call("t", "", gpt, tensor(gp));
  int grad = slot(shape, padded);
  call("mm", "", grad, tensor(gpt), tensor(x));
  uint32_t future = 1;
  if (isSharded) {
    plan::ZeroPaddingT padding;
    padding.value = static_cast<uint32_t>(grad);
    if (model.zeroesPadding)
      add(std::move(padding));
    int shard = slot(shardShape(shape, 0, world));
    plan::TransferT reduce;
    reduce.kind = plan::CollectiveKind::reduce_scatter;
    reduce.purpose = plan::Purpose::gradient;
    reduce.bucket = "net";
    reduce.stream = plan::Stream::reduce;
    reduce.reduction = plan::Reduction::avg;
    reduce.inputs = {static_cast<uint32_t>(grad)};
    reduce.outputs = {static_cast<uint32_t>(shard)};
    reduce.of = {0};
    reduce.future = future;
    add(std::move(reduce));
    plan::WaitT wait;
    wait.future = future++;
    add(std::move(wait));
    grad = shard;
  }
  int squares = slot(isSharded ? shardShape(shape, 0, world) : shape);
  call("mul", "Tensor", squares, tensor(grad), tensor(grad));
  int sum = slot({});
  call("sum", "", sum, tensor(squares), none());
  if (isSharded) {
    int meanLoss = view(loss, {}), mean = view(sum, {});
    plan::TransferT reduce;
    reduce.kind = plan::CollectiveKind::all_reduce;
    reduce.purpose = plan::Purpose::metric;
    reduce.bucket = "metrics";
    reduce.stream = plan::Stream::reduce;
    reduce.reduction = plan::Reduction::avg;
    reduce.inputs = {static_cast<uint32_t>(loss), static_cast<uint32_t>(sum)};
    reduce.outputs = {static_cast<uint32_t>(meanLoss),
                      static_cast<uint32_t>(mean)};
    reduce.future = future;
    add(std::move(reduce));
    plan::WaitT wait;
    wait.future = future++;
    add(std::move(wait));
    loss = meanLoss;
    int total = slot({});
    call("mul", "Scalar", total, tensor(mean), integer(world));
    sum = total;
  }
  program->futures = isSharded ? future : 0;
  int norm = slot({});
  call("sqrt", "", norm, tensor(sum));
  int scale = -1;
  if (model.maxGradNorm != 0) {
    int shifted = slot({});
    call("add", "Scalar", shifted, tensor(norm), number(1e-6), integer(1));
    int ratio = slot({});
    call("div", "Scalar", ratio, tensor(shifted), number(model.maxGradNorm));
    scale = slot({});
    call("clamp_min", "", scale, tensor(ratio), number(1));
  }
  addOptimizer(grad, scale);
  std::vector<std::pair<int, const char *>> outputs{{loss, "loss"},
                                                    {norm, "grad_norm"}};
  if (model.keepsPrediction)
    outputs.emplace_back(prediction, "prediction");
  for (auto [value, output] : outputs) {
    auto binding = std::make_unique<plan::BindingT>();
    binding->value = static_cast<uint32_t>(value);
    binding->output = output;
    program->results.push_back(std::move(binding));
  }

  plan.memory = std::make_unique<plan::MemoryT>();
  plan.memory->peak = end;
  plan.memory->scratch_bound = 4096;
  plan.model = std::make_unique<plan::ModelT>();
  plan.model->path = "model.pt2";
  plan.model->bytes = makeArchive(modelData(model)).size();
  plan.model->torch = "2.11.0";
  return std::move(plan);
}

std::vector<float> ramp(size_t count, float first, float step) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(first + step * static_cast<float>(i * 7 % 11));
  return values;
}

} // namespace

std::vector<float> TinyModel::initialWeight(int64_t in) {
  return ramp(kOut * in, -0.5f, 0.13f);
}
std::vector<float> TinyModel::sampleX(int64_t in) {
  return ramp(kBatch * in, 0.3f, 0.2f);
}
std::vector<float> TinyModel::sampleY() {
  return ramp(kBatch * kOut, -1.0f, 0.17f);
}

plan::PlanT TinyModel::makePlan() const { return Builder(*this).build(); }

void TinyModel::write(const std::string &folder) const {
  std::string model = folder + "/model.pt2";
  std::ofstream(model, std::ios::binary) << makeArchive(modelData(*this));
  plan::PlanT plan = makePlan();
  plan.model->directory = ZipDirectory::read(model).directoryHash();
  writePlan(plan, folder + "/step.fsdp");
}

LaunchOptions TinyModel::writeForThreads(const std::string &folder) const {
  write(folder);
  LaunchOptions options;
  options.artifact = folder + "/step.fsdp";
  options.session.dataPath = "sample";
  options.backend = "local";
  options.threads = 1;
  return options;
}

TinyReference::TinyReference(const TinyModel &model) : model(model) {
  for (float value : TinyModel::initialWeight(model.in))
    weight.push_back(value);
  first.resize(weight.size());
  second.resize(weight.size());
}

void TinyReference::step(const std::vector<float> &x,
                         const std::vector<float> &y) {
  constexpr int64_t kOut = TinyModel::kOut;
  const int64_t in = model.in;
  int64_t rows = static_cast<int64_t>(x.size()) / in;
  std::vector<double> grad(weight.size());
  loss = 0;
  // The mean over ranks of means is the mean over all rows.
  double count = static_cast<double>(rows * kOut);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < kOut; ++o) {
      double p = -y[r * kOut + o];
      for (int64_t i = 0; i < in; ++i)
        p += weight[o * in + i] * x[r * in + i];
      loss += p * p / count;
      for (int64_t i = 0; i < in; ++i)
        grad[o * in + i] += 2 * p * x[r * in + i] / count;
    }
  double sum = 0;
  for (double g : grad)
    sum += g * g;
  gradNorm = std::sqrt(sum);
  double scale = model.maxGradNorm == 0
                     ? 1
                     : std::max(1.0, (gradNorm + 1e-6) / model.maxGradNorm);
  ++steps;
  for (size_t i = 0; i < weight.size(); ++i) {
    double g = grad[i] / scale;
    if (model.optimizer == Optimizer::adamw)
      weight[i] *= 1 - model.lr * model.weightDecay;
    else
      g += model.weightDecay * weight[i];
    if (model.optimizer == Optimizer::sgd) {
      first[i] = model.momentum * first[i] + g;
      weight[i] -= model.lr * first[i];
      continue;
    }
    first[i] = model.beta1 * first[i] + (1 - model.beta1) * g;
    second[i] = model.beta2 * second[i] + (1 - model.beta2) * g * g;
    double m = first[i] / (1 - std::pow(model.beta1, steps));
    double v = second[i] / (1 - std::pow(model.beta2, steps));
    weight[i] -= model.lr * m / (std::sqrt(v) + model.eps);
  }
}
