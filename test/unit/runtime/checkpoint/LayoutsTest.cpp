//===- LayoutsTest.cpp - From any layout of states to any other -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/StateParts.h"
#include "plan/Verify.h"
#include "runtime/checkpoint/Folder.h"
#include "runtime/checkpoint/Loader.h"
#include "runtime/checkpoint/Staging.h"
#include "runtime/train/Checkpointer.h"
#include "support/AtomicFile.h"
#include "support/Error.h"
#include "test/unit/runtime/Mesh.h"
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
  uint32_t tp = 1;     ///< ranks that hold a part each of what can be split,
  bool splits = true;  ///< unless it is whole on all of them
  uint32_t blocks = 1; ///< of what is split, where ranks divide them

  int world() const { return static_cast<int>(shard * replicate * tp); }
};

/// States of all kinds: rows that do not divide, other dims, a flat state whose
/// parts end within rows, numbers, buffers, one without elements; such as are
/// split along any dim, and in front of FSDP.
class Model {
public:
  explicit Model(const Layout &layout) : layout(layout) {
    addMesh(plan, layout.replicate, layout.shard, layout.tp);
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
    // FSDP cuts five rows of each half of them, and four columns.
    sharded("up", Role::parameter, dtype, {10, 3}, layout.dim, 0);
    sharded("up/exp_avg", Role::optimizer, dtype, {10, 3}, layout.dim, 0).of =
        static_cast<int32_t>(plan.states.size()) - 2;
    sharded("down", Role::parameter, dtype, {5, 8}, layout.dim, 1);
    sharded("middle", Role::parameter, dtype, {3, 4, 5}, layout.dim, 1);
    sharded("empty", Role::parameter, dtype, {0, 4}, 0, 1);
    whole("stats", Role::buffer, DType::i64, {2, 4}, 1);
    whole("same", Role::frozen, dtype, {6}, 0);
    addFlat({{"a", {3, 7}, -1},
             {"b", {4}, 0},
             {"c", {2, 3, 5}, -1},
             {"d", {3, 8}, 1},
             {"e", {6, 5}, 0}});
    plan.memory->peak = end;
    verifyStates();
  }

  /// What element `i` of a state is; of a copy where ranks differ.
  static double valueOf(const std::string &name, uint64_t i, int copy) {
    double own = name == "table" || name == "stats" ? 1000.0 * copy : 0;
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
    forEach(arena, rank, differing(),
            [](const plan::StateT &state, char *at, double value) {
              put(state.dtype, at, value);
            });
  }

  /// The states in which ranks differ.
  static std::set<std::string> differing() { return {"table", "stats"}; }

  /// Compares, and returns how many elements there were. Of the states `own`
  /// the rank is to have its own copy, of others the first.
  uint64_t check(const Arena &arena, int rank,
                 const std::set<std::string> &own) const {
    uint64_t count = 0;
    forEach(arena, rank, own,
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
        have += part.region.elements() * dtypeBytes(state.dtype);
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
      hashes.push_back(ranks.back()->hashCopies());
    }
    std::vector<bool> differs = ranks[0]->findDifferences(hashes);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      auto files = ranks[rank]->files(differs);
      for (size_t i = 0; i < files.size(); ++i)
        manifest.files.push_back(writeCheckedFile(
            folder.temporaryOf(step) + "/" + std::to_string(rank) + "-" +
                std::to_string(i) + ".safetensors",
            files[i]));
    }
    manifest.states = ranks[0]->describe(differs);
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

  /// Calls `visit` for each element that `rank` holds, and its value.
  template <typename Visit>
  void forEach(const Arena &arena, int rank, const std::set<std::string> &own,
               Visit visit) const {
    for (const SavedState &saved : savedStates(plan)) {
      const plan::StateT &state = *saved.state;
      int copy = 0;
      if (own.contains(state.name))
        copy = static_cast<int>(copyOf(holdersOf(plan, state, rank), rank));
      for (const Part &part : ownParts(plan, state, rank)) {
        std::vector<int64_t> strides =
            contiguousStrides(wholeShape(plan, state));
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
                      valueOf(state.name, first + a + i, copy));
            });
      }
    }
  }

  /// What the runtime would refuse is no layout.
  void verifyStates() {
    plan.data_parallel = layout.shard * layout.replicate;
    verifyPlan(plan);
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
  /// Lets `state`, of the whole shape, be a part.
  void split(plan::StateT &state, int32_t dim) {
    if (dim < 0 || layout.tp == 1 || !layout.splits)
      return;
    state.split_dim = dim;
    state.split_group = 2;
    int64_t &rows = state.shape[static_cast<size_t>(dim)];
    rows /= layout.tp;
    if (rows % layout.blocks == 0)
      state.split_blocks = layout.blocks;
  }
  plan::StateT &sharded(const std::string &name, Role role, DType dtype,
                        std::vector<int64_t> shape, int32_t dim,
                        int32_t splitDim = -1) {
    plan::StateT &state = add(name, role, dtype, std::move(shape));
    split(state, splitDim);
    state.shard_dim =
        std::min(dim, static_cast<int32_t>(state.shape.size()) - 1);
    state.group = 1;
    place(state, shardShape(state.shape, static_cast<size_t>(state.shard_dim),
                            layout.shard));
    return state;
  }
  void whole(const std::string &name, Role role, DType dtype,
             std::vector<int64_t> shape, int32_t splitDim = -1) {
    plan::StateT &state = add(name, role, dtype, std::move(shape));
    split(state, splitDim);
    place(state, state.shape);
  }
  struct Member {
    std::string name;
    std::vector<int64_t> shape;
    int32_t splitDim;
  };
  void addFlat(const std::vector<Member> &members) {
    if (!layout.isFlat) {
      for (const auto &[name, shape, splitDim] : members)
        sharded(name, Role::parameter, layout.dtype, shape, 0, splitDim);
      return;
    }
    auto flat = static_cast<int32_t>(plan.states.size());
    add("flat", Role::parameter, layout.dtype, {}).layout = plan::Layout::flat;
    uint64_t at = 1; // a gap in front of each
    for (const auto &[name, shape, splitDim] : members) {
      plan::StateT &state = add(name, Role::parameter, layout.dtype, shape);
      split(state, splitDim);
      state.flat = flat;
      state.flat_offset = at;
      at += *checkedElements(state.shape) + 1;
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
  for (bool isFlat : {false, true}) {
    all.push_back({1, 1, 0, isFlat, DType::f32, 2});
    all.push_back({2, 1, 0, isFlat, DType::f32, 2});
    all.push_back({3, 2, 0, isFlat, DType::f32, 2});
  }
  all.push_back({1, 2, 0, false, DType::f32, 2});
  all.push_back({2, 1, 1, true, DType::f32, 2});
  all.push_back({3, 1, 2, false, DType::f32, 2});
  all.push_back({2, 1, 0, false, DType::f32, 2, true, 2});
  all.push_back({3, 1, 0, true, DType::f32, 2, true, 2});
  all.push_back({2, 1, 1, false, DType::f32, 2, true, 3});
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
                   << to.dim << (to.isFlat ? " flat" : "") << " tp " << from.tp
                   << " to " << to.tp);
      bool isSame = from.shard == to.shard && from.replicate == to.replicate &&
                    from.tp == to.tp;
      for (int rank = 0; rank < to.world(); ++rank) {
        auto arena = model.makeArena();
        CheckpointLoader loader(model.plan, rank, path);
        EXPECT_EQ(loader.manifest()->step, 3u);
        loader.load(*arena);
        std::set<std::string> own;
        if (isSame)
          own = Model::differing();
        EXPECT_GT(model.check(*arena, rank, own), 0u);
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
      EXPECT_EQ(elements[saved.name],
                *checkedElements(wholeShape(model.plan, *saved.state)))
          << saved.name;
    // Only the buffers that differ have more names: one has a copy on each
    // rank, the other one on each two ranks that have a half each.
    EXPECT_EQ(elements.size(),
              savedStates(model.plan).size() +
                  static_cast<size_t>(layout.world() - 1) +
                  static_cast<size_t>(layout.world()) / layout.tp - 1);
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
    wide.check(*arena, rank, {});
  }
}

/// Four ranks have four copies of what is not split, and two of what is: at the
/// same mesh ranks get the first of a state that was cut otherwise.
TEST(Layouts, DifferInWhatIsSplit) {
  Layout split{1, 2, 0, false, DType::f32, 2}, whole = split;
  whole.splits = false;
  for (auto [from, to] : {std::pair(split, whole), {whole, split}}) {
    TemporaryFolder folder;
    Model(from).save(folder.path());
    Model model(to);
    for (int rank = 0; rank < to.world(); ++rank) {
      auto arena = model.makeArena();
      CheckpointLoader(model.plan, rank, *findCheckpoint(folder.path()))
          .load(*arena);
      EXPECT_GT(model.check(*arena, rank, {"table"}), 0u);
    }
  }
}

/// Each part has one writer, and all who hold it have work.
TEST(Writers, TakeTurns) {
  for (const Layout &layout : layouts()) {
    Model model(layout);
    for (const auto &state : model.plan.states) {
      if (state->layout == plan::Layout::flat)
        continue;
      std::map<std::vector<int>, std::set<int>> grids;
      for (int rank = 0; rank < layout.world(); ++rank) {
        std::vector<int> holders = holdersOf(model.plan, *state, rank);
        EXPECT_TRUE(std::ranges::binary_search(holders, rank));
        grids[holders].insert(rank);
      }
      // Whoever holds the same agrees, and has the same elements.
      for (const auto &[holders, ranks] : grids) {
        EXPECT_EQ(std::set(holders.begin(), holders.end()), ranks);
        for (int rank : ranks) {
          std::vector<Part> first =
                                ownParts(model.plan, *state, *ranks.begin()),
                            own = ownParts(model.plan, *state, rank);
          ASSERT_EQ(own.size(), first.size());
          for (size_t i = 0; i < own.size(); ++i)
            EXPECT_EQ(own[i].region, first[i].region);
        }
      }
      // The grid of a rank has each part once.
      uint64_t elements = 0;
      for (int rank : ranksAcross(cutsOf(model.plan, *state), 0))
        for (const Part &part : ownParts(model.plan, *state, rank))
          elements += part.region.elements();
      EXPECT_EQ(elements, *checkedElements(wholeShape(model.plan, *state)));
    }
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
  for (auto &state : model.plan.states) {
    state->flat -= state->flat > 3;
    state->of -= state->of > 3;
  }
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
