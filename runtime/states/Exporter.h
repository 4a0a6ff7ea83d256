//===- Exporter.h - One export of a model's states --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_STATES_EXPORTER_H
#define FSDP_RUNTIME_STATES_EXPORTER_H

#include "runtime/states/Export.h"
#include "runtime/states/ExportedStates.h"
#include "runtime/states/MergedDelta.h"
#include "runtime/weights/Safetensors.h"
#include "support/AtomicFile.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// What exportWeights does; all ranks alike, but for what rank 0 writes.
class Exporter {
public:
  Exporter(const plan::PlanT &plan, const Arenas &arenas, Fabric &fabric,
           const std::string &key, Exported what,
           const std::vector<std::string> &without);
  void open(const std::string &path);
  void openFolder(const std::string &path, uint64_t shardBytes);
  void addAdapterFolder(const std::string &path);
  void run();

private:
  struct Place {
    size_t file;
    uint64_t offset;
  };
  struct Entry {
    const plan::StateT *state;
    size_t home; ///< the state whose bytes it lies in
    std::vector<std::string> names;
    const plan::AdapterT *adapter = nullptr; ///< that is added to it
    std::vector<Place> places;               ///< one for each name
    /// Of a matrix of an adapter whose base lacked it at first: the dim in
    /// which that stands behind it, negated in `up`, so that what is written
    /// adds to the base as it was.
    int widened = -1;
    const plan::StateT *first = nullptr; ///< where it began
  };
  /// Tensors of one file, and the entries that they belong to.
  struct Contents {
    std::vector<TensorToStore> tensors;
    std::vector<size_t> owners;
    uint64_t bytes = 0;
  };

  size_t resolve(size_t state) const;
  Entry makeEntry(const ExportedState &each) const;
  std::vector<Contents> divide(uint64_t shardBytes);
  void addFile(const std::string &path, Contents contents);
  bool isWriter() const { return fabric.rank() == 0; }

  /// What all ranks of a grid hold of one state, or of the members of one flat
  /// state.
  struct Home {
    const plan::StateT *state;
    std::vector<const Entry *> entries;
  };
  /// Elements [first, first + count) of what each of `ranks` holds of a home,
  /// one rank's behind the other's.
  struct Block {
    const std::vector<int> &ranks;
    const char *data;
    uint64_t first, count;
  };
  /// Neighbouring bytes of a tensor.
  struct Run {
    uint64_t at;
    std::string_view bytes;
  };

  std::vector<Home> homes() const;
  Communicator *getCommunicator(const std::vector<const plan::GroupT *> &cuts,
                                const std::vector<int> &ranks);
  void gather(const Home &home);
  void gatherAdapters(const Home &home);
  void gatherMatrix(const plan::StateT *state);
  void addWidened();
  void writeWidened();
  std::vector<int64_t> shapeOf(const Entry &entry) const;
  void write(const Entry &entry, const Block &block);
  void write(const Entry &entry, std::vector<Run> runs);
  void writeNumbers(const Entry &entry, const Block &block);
  void store(const Entry &entry, const Run &run);

  const plan::PlanT &plan;
  const Arenas &arenas;
  Fabric &fabric;
  const std::string key;
  const bool asPeft; ///< a folder is one of its
  /// By the numbers of states that others stand in for: those.
  const std::map<size_t, size_t> substitutes;
  // On rank 0:
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::optional<AtomicFile> index;
  std::string replaced; ///< a file that readers would prefer to the new ones
  std::vector<Entry> entries;
  std::vector<Entry> matrices; ///< of adapters, which are written nowhere
  std::set<size_t> gathered;   ///< homes of these
  std::map<const plan::StateT *, at::Tensor> held;
  std::map<const plan::StateT *, MergedDelta> deltas; ///< of bases
  bool isMeasuring = false; ///< what is gathered goes to `deltas` alone
  std::map<std::vector<int>, std::unique_ptr<Communicator>> communicators;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_EXPORTER_H
