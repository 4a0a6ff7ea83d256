//===- SplitStatesTest.cpp - First values and exports of split states -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "plan/Target.h"
#include "plan/Verify.h"
#include "runtime/comm/local/Local.h"
#include "runtime/states/Export.h"
#include "runtime/states/Parts.h"
#include "runtime/states/States.h"
#include "support/Crc.h"
#include "support/Error.h"
#include "support/ZipDirectory.h"
#include "test/unit/runtime/Mesh.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;

namespace {

using Shape = std::vector<int64_t>;

/// How one artifact cuts the states.
struct Layout {
  uint32_t tp = 1, shard = 1, replicate = 1;
  int32_t dim = 0; ///< that FSDP cuts, of states that have it
  bool isFlat = false;
  uint32_t blocks = 1; ///< of what is split, where ranks divide them
};

void PrintTo(const Layout &layout, std::ostream *stream) {
  *stream << "tp " << layout.tp << " shard " << layout.shard << " replicate "
          << layout.replicate << " dim " << layout.dim
          << (layout.isFlat ? " flat" : "") << " blocks " << layout.blocks;
}

/// A zip archive of stored entries.
class Archive {
public:
  /// Returns where its bytes begin.
  uint64_t add(const std::string &name, const std::string &data) {
    auto begin = bytes.size();
    uint32_t crc = crc32Of(data.data(), data.size());
    auto sizes = [&](std::string &to) {
      put(to, crc, 4), put(to, data.size(), 4), put(to, data.size(), 4);
      put(to, name.size(), 2);
    };
    put(bytes, 0x04034b50, 4), put(bytes, 20, 2), put(bytes, 0, 8);
    sizes(bytes);
    put(bytes, 0, 2);
    bytes += name + data;
    put(directory, 0x02014b50, 4), put(directory, 20, 2), put(directory, 20, 2);
    put(directory, 0, 8);
    sizes(directory);
    put(directory, 0, 12), put(directory, begin, 4);
    directory += name;
    ++count;
    return bytes.size() - data.size();
  }
  void write(const std::string &path) {
    std::string end;
    put(end, 0x06054b50, 4), put(end, 0, 4), put(end, count, 2);
    put(end, count, 2), put(end, directory.size(), 4),
        put(end, bytes.size(), 4);
    put(end, 0, 2);
    std::ofstream(path, std::ios::binary) << bytes << directory << end;
  }

private:
  static void put(std::string &to, uint64_t value, int length) {
    for (; length-- > 0; value >>= 8)
      to += static_cast<char>(value & 255);
  }

  std::string bytes, directory;
  uint64_t count = 0;
};

/// Different numbers, which bf16 holds.
std::vector<float> numbers(uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i % 251);
  return values;
}

std::string bytesOf(const std::vector<float> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(float)};
}

/// Tensors of the model, and along which dim they are split.
struct Tensor {
  Shape shape;
  int32_t split;
};

const std::vector<Tensor> kTensors = {
    {{10, 3}, 0},   // of each half FSDP cuts five rows
    {{5, 8}, 1},    //
    {{3, 4, 5}, 1}, //
    {{6, 8192}, 1}, // long runs
    {{6}, 0},       {{7, 3}, -1}, {{}, -1}, {{0, 4}, 1}};

/// States of all of these, with first values of all kinds.
class Model {
public:
  Model(const Layout &layout, const std::string &folder)
      : layout(layout), folder(folder) {
    addMesh(plan, layout.replicate, layout.shard, layout.tp);
    plan.data_parallel = layout.shard * layout.replicate;
    plan.training = std::make_unique<plan::TrainingT>();
    plan.training->seed = 11;
    plan.memory = std::make_unique<plan::MemoryT>();
    plan.model = std::make_unique<plan::ModelT>();
    plan.model->path = "model.pt2";
    if (layout.isFlat)
      add("flat", DType::f32, {}).layout = plan::Layout::flat;
    std::vector<FloatTensor> weights;
    for (size_t i = 0; i < kTensors.size(); ++i)
      addTensor(kTensors[i], std::to_string(i), weights);
    writeTensors(weightsPath(), weights);
    plan.states.front()->aliases = {"tied"};
    place();
    std::string path = folder + "/model.pt2";
    archive.write(path);
    plan.model->bytes = std::filesystem::file_size(path);
    plan.model->directory = ZipDirectory::read(path).directoryHash();
    verifyPlan(plan);
  }

  /// Runs all ranks, which load and export. Returns what each throws.
  std::vector<std::string> run(const std::string &path,
                               uint64_t shardBytes = UINT64_MAX) const {
    auto world = static_cast<int>(getWorldSize(plan));
    auto fabrics = makeLocalFabrics(world, std::chrono::seconds(60));
    std::vector<std::string> errors(fabrics.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank)
      threads.emplace_back([&, rank] {
        auto each = static_cast<size_t>(rank);
        try {
          runRank(*fabrics[each], path, shardBytes);
        } catch (const Error &error) {
          errors[each] = error.what();
          fabrics[each]->abort(error.what());
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    return errors;
  }

  plan::PlanT plan;

private:
  std::string weightsPath() const { return folder + "/weights.safetensors"; }

  void runRank(Fabric &fabric, const std::string &path,
               uint64_t shardBytes) const {
    Arena arena(plan.memory->peak);
    arena.fill(0, 0xff, plan.memory->peak);
    ModelFile file(*plan.model, folder, "");
    WeightReader weights(plan, folder, {weightsPath()}, false);
    RecordChecks checks(plan, file, [](const plan::StateT &) { return true; });
    loadStates(
        plan, fabric.rank(), arena, &file, &weights,
        [](const plan::StateT &) { return true; }, &checks);
    checks.finish(fabric);
    checkPadding(arena, fabric.rank());
    exportWeights(plan, arena, fabric, "export", path, shardBytes);
  }

  /// What is no element of any state's is zero.
  void checkPadding(const Arena &arena, int rank) const {
    std::vector<bool> isElement(plan.memory->peak, false);
    for (const auto &state : plan.states)
      if (state->layout != plan::Layout::flat)
        for (const Part &part : ownParts(plan, *state, rank)) {
          uint64_t element = dtypeBytes(state->dtype);
          forEachRun(part.region.size, part.strides, part.strides,
                     [&](uint64_t, uint64_t at, uint64_t count) {
                       auto begin =
                           isElement.begin() +
                           static_cast<ptrdiff_t>(part.home->offset +
                                                  (part.first + at) * element);
                       std::fill_n(begin, count * element, true);
                     });
        }
    for (const auto &state : plan.states)
      for (uint64_t i = state->offset; i < state->offset + state->bytes; ++i)
        ASSERT_TRUE(isElement[i] || *arena.at(i) == 0) << state->name;
  }

  void addTensor(const Tensor &tensor, const std::string &number,
                 std::vector<FloatTensor> &weights) {
    const auto &[shape, split] = tensor;
    uint64_t count = *checkedElements(shape);
    for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      plan::StateT &state =
          add("normal_" + std::string(dtypeName(dtype)) + number, dtype, shape,
              split);
      state.initializer = std::make_unique<plan::InitializerT>();
      state.initializer->arguments = {0, 1};
    }
    if (shape.size() == 2 && count != 0) {
      plan::StateT &state = add("eye" + number, DType::f32, shape, split);
      state.initializer = std::make_unique<plan::InitializerT>();
      state.initializer->kind = plan::InitKind::eye;
      addStored("stored" + number, tensor, {});
      addStored("columns" + number, tensor, {1, shape[0]});
    } else {
      addStored("stored" + number, tensor, {});
    }
    std::string bytes = bytesOf(numbers(count));
    add("listed" + number, DType::f32, shape, split)
        .init.assign(bytes.begin(), bytes.end());
    bytes = bytesOf({7});
    add("number" + number, DType::f32, shape, split)
        .init.assign(bytes.begin(), bytes.end());
    add("zero" + number, DType::f32, shape, split);
    for (DType dtype : {DType::f32, DType::f64}) {
      plan::StateT &state =
          add("weight_" + std::string(dtypeName(dtype)) + number, dtype, shape,
              split);
      state.weight = std::make_unique<plan::WeightT>();
      state.weight->names = {state.name};
      weights.push_back({state.name, shape, numbers(count)});
    }
  }

  /// An entry of its own, so that its checksum is checked as it is read.
  void addStored(const std::string &name, const Tensor &tensor,
                 const Shape &strides) {
    uint64_t count = *checkedElements(tensor.shape);
    plan::StateT &state = add(name, DType::f32, tensor.shape, tensor.split);
    state.source = std::make_unique<plan::RecordT>();
    state.source->name = name;
    state.source->bytes = count * sizeof(float);
    state.source->offset =
        archive.add("model/" + name, bytesOf(numbers(count)));
    state.source->strides = strides;
  }

  plan::StateT &add(const std::string &name, DType dtype, Shape shape,
                    int32_t split = -1) {
    plan.states.push_back(std::make_unique<plan::StateT>());
    plan::StateT &state = *plan.states.back();
    state.name = name;
    state.dtype = dtype;
    state.shape = std::move(shape);
    if (split >= 0 && layout.tp > 1) {
      state.split_dim = split;
      state.split_group = 2;
      int64_t &rows = state.shape[static_cast<size_t>(split)];
      rows /= layout.tp;
      if (rows % layout.blocks == 0)
        state.split_blocks = layout.blocks;
    }
    return state;
  }

  /// Gives all states their bytes; the flat one holds what is of f32.
  void place() {
    uint64_t end = 64;
    auto placeAt = [&](plan::StateT &state, const Shape &local) {
      state.bytes = *checkedExtent(local, {}, dtypeBytes(state.dtype));
      state.offset = end;
      end += (state.bytes + 127) / 64 * 64;
    };
    uint64_t inFlat = 0;
    for (const auto &state : plan.states) {
      if (state->layout == plan::Layout::flat)
        continue;
      if (layout.isFlat && state->dtype == DType::f32) {
        state->flat = 0;
        state->flat_offset = inFlat + 1; // a gap in front of each
        inFlat = state->flat_offset + *checkedElements(state->shape);
        continue;
      }
      Shape local = state->shape;
      if (!local.empty() && layout.shard > 1) {
        state->shard_dim =
            std::min(layout.dim, static_cast<int32_t>(local.size()) - 1);
        state->group = 1;
        local = shardShape(local, static_cast<size_t>(state->shard_dim),
                           layout.shard);
      }
      placeAt(*state, local);
    }
    if (layout.isFlat) {
      plan::StateT &flat = *plan.states.front();
      int64_t part = shardRows(static_cast<int64_t>(inFlat), layout.shard);
      flat.shape = {part * layout.shard};
      flat.shard_dim = 0;
      flat.group = 1;
      placeAt(flat, {part});
      // Its members stand behind it, a tied name with one of them.
      std::swap(plan.states[0]->aliases, plan.states[1]->aliases);
    }
    plan.memory->peak = end;
  }

  const Layout layout;
  const std::string folder;
  Archive archive;
};

std::string readBytes(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class SplitStatesTest : public testing::TestWithParam<Layout> {};

/// Whatever cuts them, states begin with the model's values and are exported
/// whole: the files are those of one rank, byte by byte.
TEST_P(SplitStatesTest, AreThoseOfOneRank) {
  TemporaryFolder one, other;
  std::string want = one.path() + "/x.safetensors";
  std::string found = other.path() + "/x.safetensors";
  EXPECT_THAT(Model(Layout{}, one.path()).run(want), testing::Each(""));
  EXPECT_THAT(Model(GetParam(), other.path()).run(found), testing::Each(""));
  EXPECT_TRUE(readBytes(want) == readBytes(found));
}

/// What the one rank exports is what the files and the plan say.
TEST(SplitStates, BeginWithTheModelsValues) {
  TemporaryFolder folder;
  std::string path = folder.path() + "/x.safetensors";
  Model model({2, 2, 1, 0, true}, folder.path());
  EXPECT_THAT(model.run(path), testing::Each(""));
  SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), model.plan.states.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    uint64_t count = *checkedElements(kTensors[i].shape);
    for (const char *kind : {"stored", "listed", "weight_f32"}) {
      const StoredTensor &stored = file.tensors().at(kind + std::to_string(i));
      EXPECT_EQ(stored.shape, kTensors[i].shape) << kind;
      ASSERT_EQ(stored.bytes, count * sizeof(float)) << kind;
      EXPECT_EQ(std::string_view(stored.data, stored.bytes),
                bytesOf(numbers(count)))
          << kind << i;
    }
  }
  const StoredTensor &columns = file.tensors().at("columns0");
  for (int64_t row = 0; row < 10; ++row)
    for (int64_t column = 0; column < 3; ++column)
      EXPECT_EQ(reinterpret_cast<const float *>(columns.data)[row * 3 + column],
                static_cast<float>(column * 10 + row));
}

/// Names of all files' tensors are those of one file.
TEST(SplitStates, AreExportedInSeveralFiles) {
  TemporaryFolder folder;
  std::string one = folder.path() + "/x.safetensors";
  std::string many = folder.path() + "/many/";
  Model model({2, 2}, folder.path());
  EXPECT_THAT(model.run(one), testing::Each(""));
  EXPECT_THAT(model.run(many, 1 << 18), testing::Each(""));
  SafetensorsFile want(one);
  size_t count = 0, files = 0;
  for (const auto &each : std::filesystem::directory_iterator(many)) {
    if (each.path().extension() != ".safetensors")
      continue;
    ++files;
    SafetensorsFile file(each.path().string());
    for (const auto &[name, tensor] : file.tensors()) {
      const StoredTensor &same = want.tensors().at(name);
      EXPECT_EQ(tensor.shape, same.shape);
      EXPECT_EQ(std::string_view(tensor.data, tensor.bytes),
                std::string_view(same.data, same.bytes));
      ++count;
    }
  }
  EXPECT_EQ(count, want.tensors().size());
  EXPECT_GT(files, 1u);
}

/// A byte that only one rank takes: all ranks refuse the file.
TEST_P(SplitStatesTest, ShowDamage) {
  TemporaryFolder folder;
  Model model(GetParam(), folder.path());
  for (const char *name : {"stored0", "stored1", "stored2", "columns1"}) {
    const auto &state =
        *std::ranges::find(model.plan.states, name, &plan::StateT::name);
    std::string path = folder.path() + "/model.pt2";
    auto at = static_cast<std::streamoff>(state->source->offset +
                                          state->source->bytes - 1);
    auto flip = [&] {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(at);
      auto byte = static_cast<char>(file.get() ^ 1);
      file.seekp(at);
      file.put(byte);
    };
    flip();
    EXPECT_THAT(model.run(folder.path() + "/x.safetensors"),
                testing::Each(testing::HasSubstr("is damaged: entry '" +
                                                 std::string(name) + "'")));
    flip();
  }
  EXPECT_THAT(model.run(folder.path() + "/x.safetensors"), testing::Each(""));
}

INSTANTIATE_TEST_SUITE_P(
    All, SplitStatesTest,
    testing::Values(Layout{2}, Layout{2, 2}, Layout{2, 3, 2},
                    Layout{2, 2, 1, 1}, Layout{2, 3, 1, 2}, Layout{1, 3, 1, 1},
                    Layout{1, 2, 1, 0, true}, Layout{2, 1, 1, 0, true},
                    Layout{2, 2, 1, 0, true}, Layout{2, 3, 2, 1, true},
                    Layout{2, 1, 3}, Layout{2, 1, 1, 0, false, 2},
                    Layout{2, 2, 1, 0, false, 3}, Layout{2, 3, 1, 1, false, 2},
                    Layout{2, 2, 1, 0, true, 2}, Layout{2, 3, 1, 0, true, 3}));

} // namespace
