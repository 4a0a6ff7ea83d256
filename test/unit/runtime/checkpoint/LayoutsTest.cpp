//===- LayoutsTest.cpp - From any layout of states to any other -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/DType.h"
#include "plan/Shape.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Loader.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/train/Checkpointer.h"
#include "support/AtomicFile.h"
#include "support/Error.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;
using plan::Role;
using testing::HasSubstr;

namespace {

/// How one artifact cuts the states.
struct Layout {
  uint32_t shard = 1, replicate = 1;
  int32_t dim = 0; ///< of states with several dims
  bool isFlat = false;
  DType dtype = DType::f32;

  int world() const { return static_cast<int>(shard * replicate); }
};

/// States of all kinds: rows that do not divide, other dims, a flat state whose
/// parts end within rows, numbers, buffers, one without elements.
class Model {
public:
  explicit Model(const Layout &layout) : layout(layout) {
    for (auto [name, size, stride] :
         {std::tuple("replicate", layout.replicate, layout.shard),
          {"shard", layout.shard, 1u}}) {
      plan.mesh.push_back(std::make_unique<plan::AxisT>());
      plan.mesh.back()->name = name;
      plan.mesh.back()->size = size;
      plan.groups.push_back(std::make_unique<plan::GroupT>());
      plan.groups.back()->name = name;
      plan.groups.back()->size = size;
      plan.groups.back()->stride = stride;
    }
    plan.training = std::make_unique<plan::TrainingT>();
    plan.memory = std::make_unique<plan::MemoryT>();
    DType dtype = layout.dtype;
    sharded("w", Role::parameter, dtype, {5, 3}, layout.dim);
    sharded("w/exp_avg", Role::optimizer, dtype, {5, 3}, layout.dim).of = 0;
    sharded("cube", Role::frozen, dtype, {2, 7, 3}, layout.dim);
    sharded("row", Role::parameter, dtype, {1, 11}, layout.dim);
    sharded("long", Role::buffer, DType::i64, {9}, 0);
    sharded("none", Role::parameter, dtype, {0, 4}, 0);
    whole("scale", Role::parameter, dtype, {});
    whole("table", Role::buffer, DType::i64, {2, 2});
    whole("optimizer/step", Role::step, DType::f32, {});
    whole("random/state", Role::random, DType::i64, {2});
    addFlat({{"a", {3, 7}}, {"b", {4}}, {"c", {2, 3, 5}}});
    plan.memory->peak = end;
  }

  /// What element `i` of a state is; of `rank` where ranks differ.
  static double valueOf(const std::string &name, uint64_t i, int rank) {
    double own = name == "table" ? 1000.0 * rank : 0;
    return own + static_cast<double>(name.size() + name[0] % 16) +
           static_cast<double>(i);
  }

  /// Room filled with ones; `write` puts the elements there.
  std::unique_ptr<Arena> makeArena() const {
    auto arena = std::make_unique<Arena>(end);
    std::memset(arena->at(0), 0xff, end);
    return arena;
  }

  void write(const Arena &arena, int rank) const {
    forEach(arena, rank, [](const plan::StateT &state, char *at, double value) {
      put(state.dtype, at, value);
    });
  }

  /// Compares, and returns how many elements there were.
  uint64_t check(const Arena &arena, int rank, bool ownTable) const {
    uint64_t count = 0;
    forEach(arena, ownTable ? rank : 0, rank,
            [&](const plan::StateT &state, char *at, double value) {
              char want[8];
              put(state.dtype, want, value);
              EXPECT_EQ(0, std::memcmp(at, want, dtypeBytes(state.dtype)))
                  << state.name << " on rank " << rank;
              ++count;
            });
    // Rows of padding.
    for (const SavedState &saved : savedStates(plan)) {
      const plan::StateT &state = *saved.state;
      if (state.flat >= 0 || state.shard_dim != 0)
        continue;
      uint64_t have = 0;
      for (const Part &part : ownParts(plan, state, rank))
        have = part.region.elements() * dtypeBytes(state.dtype);
      for (uint64_t i = have; i < state.bytes; ++i)
        EXPECT_EQ(0, *arena.at(state.offset + i)) << state.name;
    }
    return count;
  }

  /// What all ranks together write.
  void save(const std::string &to, bool mayChange = true) const {
    constexpr uint64_t step = 3;
    CheckpointFolder folder(to);
    folder.checkWritable();
    folder.begin(step);
    Manifest manifest;
    manifest.step = step;
    for (const auto &axis : plan.mesh)
      manifest.mesh.emplace_back(axis->name, axis->size);
    std::vector<std::vector<uint64_t>> hashes;
    std::vector<std::unique_ptr<Arena>> arenas;
    std::vector<std::unique_ptr<CheckpointStaging>> ranks;
    for (int rank = 0; rank < layout.world(); ++rank) {
      auto arena = makeArena();
      write(*arena, rank);
      ranks.push_back(std::make_unique<CheckpointStaging>(plan, rank));
      ranks.back()->copy(*arena, mayChange);
      if (mayChange)
        arena->clear();
      arenas.push_back(std::move(arena));
      hashes.push_back(ranks.back()->hashWhole());
    }
    std::vector<bool> isOfRank(hashes[0].size());
    for (const auto &each : hashes)
      for (size_t i = 0; i < each.size(); ++i)
        isOfRank[i] = isOfRank[i] || each[i] != hashes[0][i];
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      auto files = ranks[rank]->files(isOfRank);
      for (size_t i = 0; i < files.size(); ++i)
        manifest.files.push_back(writeCheckedFile(
            folder.temporaryOf(step) + "/" + std::to_string(rank) + "-" +
                std::to_string(i) + ".safetensors",
            files[i]));
    }
    size_t number = 0;
    for (const auto &[state, name] : ranks[0]->states())
      manifest.states.push_back(
          {name, state->role, state->dtype, state->shape,
           state->shard_dim < 0 && state->flat < 0 && isOfRank[number++]});
    writeFileAtomically(folder.temporaryOf(step) + "/" + kManifestName,
                        printManifest(manifest));
    folder.commit(step);
  }

  const Layout layout;
  plan::PlanT plan;

private:
  static void put(DType dtype, char *at, double value) {
    switch (dtype) {
    case DType::f32: {
      auto narrow = static_cast<float>(value);
      std::memcpy(at, &narrow, sizeof(narrow));
      return;
    }
    case DType::f64:
      std::memcpy(at, &value, sizeof(value));
      return;
    default: {
      auto integer = static_cast<int64_t>(value);
      std::memcpy(at, &integer, sizeof(integer));
    }
    }
  }

  template <typename Visit>
  void forEach(const Arena &arena, int rank, Visit visit) const {
    forEach(arena, rank, rank, visit);
  }
  /// Calls `visit` for each element that `rank` holds; values are those of
  /// `source`.
  template <typename Visit>
  void forEach(const Arena &arena, int source, int rank, Visit visit) const {
    for (const SavedState &saved : savedStates(plan)) {
      const plan::StateT &state = *saved.state;
      for (const Part &part : ownParts(plan, state, rank)) {
        std::vector<int64_t> strides = contiguousStrides(state.shape);
        uint64_t first = 0;
        for (size_t i = 0; i < strides.size(); ++i)
          first += static_cast<uint64_t>(part.region.offset[i] * strides[i]);
        forEachRun(
            part.region.size, strides, part.strides,
            [&](uint64_t a, uint64_t b, uint64_t count) {
              for (uint64_t i = 0; i < count; ++i)
                visit(state,
                      arena.at(part.home->offset +
                               (part.first + b + i) * dtypeBytes(state.dtype)),
                      valueOf(state.name, first + a + i, source));
            });
      }
    }
  }

  plan::StateT &add(const std::string &name, Role role, DType dtype,
                    std::vector<int64_t> shape) {
    plan.states.push_back(std::make_unique<plan::StateT>());
    plan::StateT &state = *plan.states.back();
    state.name = name;
    state.role = role;
    state.dtype = dtype;
    state.shape = std::move(shape);
    return state;
  }
  void place(plan::StateT &state, const std::vector<int64_t> &local) {
    state.bytes = *checkedExtent(local, {}, dtypeBytes(state.dtype));
    state.offset = end;
    end += (state.bytes + 127) / 64 * 64;
  }
  plan::StateT &sharded(const std::string &name, Role role, DType dtype,
                        std::vector<int64_t> shape, int32_t dim) {
    plan::StateT &state = add(name, role, dtype, std::move(shape));
    state.shard_dim =
        std::min(dim, static_cast<int32_t>(state.shape.size()) - 1);
    state.group = 1;
    place(state, shardShape(state.shape, static_cast<size_t>(state.shard_dim),
                            layout.shard));
    return state;
  }
  void whole(const std::string &name, Role role, DType dtype,
             std::vector<int64_t> shape) {
    plan::StateT &state = add(name, role, dtype, std::move(shape));
    place(state, state.shape);
  }
  void addFlat(const std::vector<std::pair<std::string, std::vector<int64_t>>>
                   &members) {
    if (!layout.isFlat) {
      for (const auto &[name, shape] : members)
        sharded(name, Role::parameter, layout.dtype, shape, 0);
      return;
    }
    auto flat = static_cast<int32_t>(plan.states.size());
    add("flat", Role::parameter, layout.dtype, {}).layout = plan::Layout::flat;
    uint64_t at = 1; // a gap in front of each
    for (const auto &[name, shape] : members) {
      plan::StateT &state = add(name, Role::parameter, layout.dtype, shape);
      state.flat = flat;
      state.flat_offset = at;
      at += *checkedElements(shape) + 1;
    }
    plan::StateT &state = *plan.states[flat];
    uint64_t part = (at + layout.shard - 1) / layout.shard;
    state.shape = {static_cast<int64_t>(part * layout.shard)};
    state.shard_dim = 0;
    state.group = 1;
    place(state, {static_cast<int64_t>(part)});
  }

  uint64_t end = 64;
};

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (uint32_t shard : {1u, 2u, 3u, 4u, 8u})
    for (bool isFlat : {false, true})
      all.push_back({shard, 1, 0, isFlat});
  all.push_back({3, 1, 1});
  all.push_back({2, 1, 2});
  all.push_back({2, 2, 0});
  all.push_back({2, 3, 1, true});
  all.push_back({1, 3, 0, true});
  return all;
}

TEST(Layouts, EachIsReadIntoEveryOther) {
  bool mayChange = false;
  for (const Layout &from : layouts()) {
    TemporaryFolder folder;
    Model(from).save(folder.path(), mayChange = !mayChange);
    std::string path = *findCheckpoint(folder.path());
    for (const Layout &to : layouts()) {
      Model model(to);
      SCOPED_TRACE(testing::Message()
                   << from.shard << "x" << from.replicate << " dim " << from.dim
                   << " to " << to.shard << "x" << to.replicate << " dim "
                   << to.dim << (to.isFlat ? " flat" : ""));
      bool isSame = from.shard == to.shard && from.replicate == to.replicate;
      for (int rank = 0; rank < to.world(); ++rank) {
        auto arena = model.makeArena();
        CheckpointLoader loader(model.plan, rank, path);
        EXPECT_EQ(loader.manifest()->step, 3u);
        loader.load(*arena);
        EXPECT_GT(model.check(*arena, rank, isSame), 0u);
      }
    }
  }
}

/// As many bytes as the states have, whatever the number of replicas.
TEST(Layouts, AreWrittenOnce) {
  for (const Layout &layout : layouts()) {
    TemporaryFolder folder;
    Model model(layout);
    model.save(folder.path());
    std::map<std::string, uint64_t> elements;
    Manifest manifest = readManifest(folder.path() + "/step_3");
    for (const FileSeal &seal : manifest.files) {
      std::string path = folder.path() + "/step_3/" + seal.name;
      CheckedFile file(path, seal);
      for (const StoredPiece &piece : file.pieces())
        elements[piece.name] += piece.region.elements();
    }
    for (const SavedState &saved : savedStates(model.plan))
      EXPECT_EQ(elements[saved.name], *checkedElements(saved.state->shape))
          << saved.name;
    // Only the buffer that differs has more names.
    EXPECT_EQ(elements.size(), savedStates(model.plan).size() +
                                   static_cast<size_t>(layout.world() - 1));
  }
}

TEST(Layouts, ConvertFloats) {
  TemporaryFolder folder;
  Model(Layout{2}).save(folder.path());
  Model wide(Layout{3, 1, 1, true, DType::f64});
  for (int rank = 0; rank < 3; ++rank) {
    auto arena = wide.makeArena();
    CheckpointLoader(wide.plan, rank, *findCheckpoint(folder.path()))
        .load(*arena);
    wide.check(*arena, rank, false);
  }
}

class Refusals : public testing::Test {
protected:
  Refusals() { Model(Layout{2}).save(folder.path()); }

  void expect(ErrorId id, const std::string &text, const plan::PlanT &plan) {
    try {
      CheckpointLoader(plan, 0, folder.path() + "/step_3");
      ADD_FAILURE() << "was accepted, expected: " << text;
    } catch (const Error &error) {
      EXPECT_EQ(error.id(), id) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }

  TemporaryFolder folder;
  Model model{Layout{3}};
};

TEST_F(Refusals, NameWhatDoesNotFit) {
  model.plan.states[0]->name = "weight";
  model.plan.states[1]->name = "weight/exp_avg";
  model.plan.states[2]->shape = {2, 7, 4};
  model.plan.states[4]->dtype = DType::f32;
  expect(ErrorId::CheckpointMismatch,
         "it has no 'weight'; it has no 'optimizer.exp_avg.weight' (but "
         "'optimizer.exp_avg.w'); 'cube' has shape [2, 7, 3], expected [2, 7, "
         "4]; and 2 more; load it into",
         model.plan);
}

TEST_F(Refusals, NameShapes) {
  model.plan.states[2]->shape = {2, 7, 4};
  expect(ErrorId::CheckpointMismatch,
         "'cube' has shape [2, 7, 3], expected [2, 7, 4]", model.plan);
}

TEST_F(Refusals, NameTypes) {
  model.plan.states[4]->dtype = DType::f32;
  expect(ErrorId::CheckpointMismatch,
         "'long' has element type i64, expected f32", model.plan);
}

TEST_F(Refusals, NameWhatTheModelLacks) {
  model.plan.states.erase(model.plan.states.begin() + 3);
  for (auto &state : model.plan.states)
    if (state->flat > 3)
      --state->flat;
  expect(ErrorId::CheckpointMismatch, "the model has no 'row'", model.plan);
}

TEST_F(Refusals, FindMissingFiles) {
  std::filesystem::remove(folder.path() + "/step_3/1-0.safetensors");
  expect(ErrorId::FileNotReadable, "1-0.safetensors", model.plan);
}

TEST_F(Refusals, FindFolderWithoutManifest) {
  std::filesystem::remove(folder.path() + "/step_3/manifest.json");
  expect(ErrorId::CheckpointDamaged, "it was not finished", model.plan);
}

} // namespace
