//===- Seeds.cpp - Valid files that mutations begin with ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// fsdp-fuzz-seeds FOLDER writes FOLDER/READER/…; made by the writers of today,
// seeds are never refused for their version.
//
//===----------------------------------------------------------------------===//

#include "plan/Worlds.h"
#include "plan/Writer.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/weights/Safetensors.h"
#include "test/unit/kernels/Programs.h"
#include "test/unit/plan/KernelPlan.h"
#include "test/unit/plan/SamplePlan.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace fsdp;

static std::string folder;

static void write(const std::string &name, const std::string &bytes) {
  std::filesystem::path path = std::filesystem::path(folder) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

template <typename T>
static std::string toBytes(std::initializer_list<T> numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), numbers.begin(), bytes.size());
  return bytes;
}

static void addPlan(const std::string &name, const plan::PlanT &plan) {
  write("artifact/" + name, serializePlan(plan));
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(plan::Plan::Pack(builder, &plan));
  write("plan/" + name,
        {reinterpret_cast<const char *>(builder.GetBufferPointer()),
         builder.GetSize()});
}

static void addWorlds() {
  plan::PlanT two = test::samplePlan(), four = two;
  four.mesh[0]->size = 4;
  write("artifact/worlds",
        joinWorlds(std::vector{serializePlan(two), serializePlan(four)}));
}

/// The backward of a pooling, whose kernel trusts indices.
static plan::PlanT poolingPlan() {
  plan::PlanT plan = test::samplePlan();
  plan::ProgramT &program = *plan.programs[0];
  plan.operators.push_back(std::make_unique<plan::OperatorT>());
  plan.operators.back()->name = "aten::max_pool2d_with_indices_backward";
  plan::CallT call;
  call.op = static_cast<uint32_t>(plan.operators.size() - 1);
  auto addValue = [&](std::vector<int64_t> shape, plan::DType dtype) {
    auto value = std::make_unique<plan::ValueT>();
    uint64_t bytes = dtype == plan::DType::i64 ? 8 : 4;
    for (int64_t size : shape)
      bytes *= static_cast<uint64_t>(size);
    value->shape = std::move(shape);
    value->dtype = dtype;
    value->place = plan::Place::literal;
    value->literal.resize(bytes);
    program.values.push_back(std::move(value));
    return static_cast<int32_t>(program.values.size() - 1);
  };
  auto add = [&](plan::ArgKind kind, std::vector<int32_t> values,
                 std::vector<int64_t> ints) {
    auto arg = std::make_unique<plan::ArgT>();
    arg->kind = kind;
    arg->values = std::move(values);
    arg->ints = std::move(ints);
    call.args.push_back(std::move(arg));
  };
  using plan::ArgKind;
  using plan::DType;
  add(ArgKind::tensor, {addValue({1, 2, 2}, DType::f32)}, {});
  add(ArgKind::tensor, {addValue({1, 4, 4}, DType::f32)}, {});
  for (int64_t number : {2, 2, 0, 1})
    add(ArgKind::integers, {}, {number, number});
  add(ArgKind::boolean, {}, {0});
  add(ArgKind::tensor, {addValue({1, 2, 2}, DType::i64)}, {});
  int32_t result = addValue({1, 4, 4}, DType::f32);
  program.values.back()->place = plan::Place::slot;
  program.values.back()->literal.clear();
  program.values.back()->offset = plan.memory->peak;
  program.values.back()->bytes = 64;
  plan.memory->peak += 64;
  call.results = {result};
  program.instructions.push_back(std::make_unique<plan::InstructionT>());
  program.instructions.back()->body.Set(std::move(call));
  return plan;
}

/// A kernel that runs, and programs of all operations.
static plan::PlanT kernelPlan(unsigned seed) {
  plan::PlanT plan = test::samplePlan();
  test::addKernel(plan);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 4; ++i)
    plan.kernels.push_back(
        std::make_unique<plan::KernelProgramT>(makeRandomProgram(random)));
  return plan;
}

static void addManifest() {
  Manifest manifest;
  manifest.step = 7;
  manifest.lr = 1e-3;
  manifest.schedule = "cosine";
  manifest.mesh = {{"dp_replicate", 2}, {"dp_shard", 2}};
  manifest.plan = "0123456789abcdef0123456789abcdef";
  manifest.files = {
      {"rank-0.safetensors", 4096, "00112233445566778899aabbccddeeff"}};
  manifest.states = {
      {"fc.weight", plan::Role::parameter, plan::DType::bf16, {3, 4}, false},
      {"random/state", plan::Role::random, plan::DType::i64, {2}, true}};
  write("manifest/two", printManifest(manifest));
}

static void addTensors() {
  std::vector<TensorToStore> tensors{{"x", plan::DType::f32, {2, 3}},
                                     {"y", plan::DType::i64, {2}}};
  std::string bytes = layoutSafetensors(tensors, {{"format", "pt"}});
  bytes.resize(bytes.size() + 24 + 16);
  write("safetensors/two", bytes);
  write("safetensors/none", layoutSafetensors(tensors = {}));
}

/// The first byte says how much of 255 parts is the index.
static void addTokens() {
  std::string raw = toBytes<uint16_t>({1, 2, 3, 4, 5, 6, 7, 8});
  write("tokens/raw", '\0' + raw);
  std::string header(1024, '\0');
  const int32_t fields[] = {20240520, 1, 8};
  std::memcpy(header.data(), fields, sizeof(fields));
  write("tokens/llm.c", '\0' + header + raw);
  std::string index = std::string("MMIDIDX\0\0", 9) + toBytes<uint64_t>({1}) +
                      toBytes<uint8_t>({8}) + toBytes<uint64_t>({2, 2}) +
                      toBytes<int32_t>({5, 3}) + toBytes<int64_t>({0, 10}) +
                      toBytes<int64_t>({0, 2});
  auto part = static_cast<char>((index.size() * 255 + index.size() + 15) /
                                (index.size() + 16));
  write("tokens/megatron", part + index + raw);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: fsdp-fuzz-seeds FOLDER\n");
    return 2;
  }
  folder = argv[1];
  addPlan("sample", test::samplePlan());
  addPlan("pooling", poolingPlan());
  for (unsigned seed = 0; seed < 4; ++seed)
    addPlan("kernels-" + std::to_string(seed), kernelPlan(seed));
  addWorlds();
  addManifest();
  addTensors();
  addTokens();
}
