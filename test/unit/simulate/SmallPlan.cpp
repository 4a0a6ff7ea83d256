//===- SmallPlan.cpp - Plans whose times follow on paper ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/simulate/SmallPlan.h"

using namespace fsdp;
using namespace fsdp::plan;
using fsdp::test::SmallPlan;

static constexpr double kBytesOfMillisecond = 1e6;

Cluster fsdp::test::plainCluster() {
  Cluster cluster;
  cluster.name = "plain";
  cluster.ranksPerNode = 2;
  cluster.device.memory = 1e9;
  cluster.device.reserved = 1e8;
  cluster.device.bandwidth = 1e9;
  cluster.device.vectorRate = 1e18;
  cluster.device.matmul.rates = {{DType::f32, 1e12}};
  cluster.host.upload = cluster.host.download = 1e9;
  cluster.network.link = 1e9;
  cluster.network.network = 1e9;
  return cluster;
}

SmallPlan::SmallPlan() {
  plan.model = std::make_unique<ModelT>();
  plan.model->path = "folder/model.pt2";
  plan.mesh.push_back(std::make_unique<AxisT>());
  plan.mesh[0]->name = "shard";
  plan.mesh[0]->size = 2;
  plan.groups.push_back(std::make_unique<GroupT>());
  plan.groups[0]->name = "shard";
  plan.groups[0]->size = 2;
  plan.memory = std::make_unique<MemoryT>();
  plan.memory->peak = 4096;
  plan.memory->states = 1024;
  plan.training = std::make_unique<TrainingT>();
  plan.training->device = "cuda:sm_90";
  plan.locations = {"layers.0 (model.py:7)"};
  plan.states.push_back(std::make_unique<StateT>());
  begin("train/step");
}

void SmallPlan::begin(const char *name, StepPart part) {
  plan.programs.push_back(std::make_unique<ProgramT>());
  program().name = name;
  program().part = part;
}

uint32_t SmallPlan::slot(uint64_t bytes, uint64_t offset) {
  auto value = std::make_unique<ValueT>();
  value->shape = {static_cast<int64_t>(bytes / 4)};
  value->offset = offset;
  value->bytes = bytes;
  program().values.push_back(std::move(value));
  return program().values.size() - 1;
}

uint32_t SmallPlan::view(uint32_t base) {
  uint32_t value = slot(program().values[base]->bytes);
  program().values[value]->place = Place::view;
  program().values[value]->base = base;
  return value;
}

uint32_t SmallPlan::state(uint64_t bytes) {
  uint32_t value = slot(bytes);
  program().values[value]->place = Place::state;
  return value;
}

template <typename T>
void SmallPlan::add(T body) {
  auto instruction = std::make_unique<InstructionT>();
  instruction->body.Set(std::move(body));
  instruction->at = 0;
  program().instructions.push_back(std::move(instruction));
}

void SmallPlan::kernel(double milliseconds) {
  // Half is read and half written.
  auto bytes = static_cast<uint64_t>(milliseconds * kBytesOfMillisecond / 2);
  CopyT copy;
  copy.from = state(bytes);
  copy.to = state(bytes);
  add(std::move(copy));
}

void SmallPlan::make(uint32_t value) {
  DrawT draw;
  draw.distribution = Distribution::uniform;
  draw.random = state(16);
  draw.output = value;
  add(std::move(draw));
}

void SmallPlan::use(uint32_t value) {
  copy(value, state(program().values[value]->bytes));
}

void SmallPlan::copy(uint32_t from, uint32_t to) {
  CopyT copy;
  copy.from = from;
  copy.to = to;
  add(std::move(copy));
}

uint32_t SmallPlan::gather(double milliseconds, const char *bucket,
                           Stream stream) {
  // Of two ranks, each passes on its half.
  auto bytes = static_cast<uint64_t>(milliseconds * kBytesOfMillisecond);
  TransferT op;
  op.bucket = bucket;
  op.stream = stream;
  op.inputs = {state(bytes)};
  op.outputs = {slot(2 * bytes)};
  op.future = program().futures++;
  add(std::move(op));
  return program().futures - 1;
}

uint32_t SmallPlan::reduce(double milliseconds, const char *bucket) {
  auto bytes = static_cast<uint64_t>(milliseconds * kBytesOfMillisecond);
  TransferT op;
  op.kind = CollectiveKind::reduce_scatter;
  op.bucket = bucket;
  op.stream = Stream::reduce;
  op.inputs = {slot(2 * bytes)};
  op.outputs = {slot(bytes)};
  op.future = program().futures++;
  add(std::move(op));
  return program().futures - 1;
}

uint32_t SmallPlan::download(uint32_t value, uint32_t into) {
  CopyAcrossT op;
  op.bucket = "kept";
  op.to = MemorySpace::host;
  op.stream = Stream::download;
  op.inputs = {value};
  op.outputs = {into};
  op.future = program().futures++;
  add(std::move(op));
  return program().futures - 1;
}

void SmallPlan::wait(uint32_t future) {
  WaitT op;
  op.future = future;
  add(std::move(op));
}
