//===- StepProgram.h - What a program's decisions change --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_DECIDE_STEPPROGRAM_H
#define FSDP_DECIDE_STEPPROGRAM_H

#include "decide/StepModel.h"
#include "plan/Instructions.h"
#include "simulate/CollectiveModel.h"
#include "simulate/Engine.h"
#include "simulate/Work.h"

#include <array>
#include <set>
#include <tuple>

namespace fsdp {

inline constexpr uint32_t kNone = UINT32_MAX;

/// A tensor in the device's region; instructions by number.
struct Storage {
  uint64_t bytes = 0;
  uint32_t made = 0, last = 0;    ///< that need it
  uint32_t lastForward = 0;       ///< that names it
  uint32_t firstBackward = kNone; ///< that reads it
  int block = -1;                 ///< whose forward makes it
  int gather = -1;                ///< that brings it

  bool isSaved() const {
    return block >= 0 && gather < 0 && firstBackward != kNone;
  }
};

struct Gather {
  uint32_t start = 0, wait = 0;
  int bucket = -1;
  bool isBackward = false;
  int twin = -1;      ///< the other one of the same bucket and type
  uint64_t bytes = 0; ///< that it makes
  std::vector<uint32_t> storages;
};

/// A block's second computation under one policy.
struct Repetition {
  std::vector<uint32_t> kernels; ///< in order
  uint32_t before = kNone;       ///< instruction of backward
  std::vector<uint32_t> dropped; ///< storages that are made again, ascending
  /// Others that it makes, with the first and last of `kernels` that name them.
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> temporary;
  std::set<int> buckets; ///< that it reads
};

/// One program of a plan: its instructions with their seconds, where forward
/// ends, which tensors wait for backward, and what each block would compute
/// again.
class StepProgram {
public:
  StepProgram(const plan::PlanT &plan, const plan::ProgramT &program,
              const Cluster &cluster, uint32_t runs,
              const std::vector<std::string> &buckets,
              const std::vector<std::string> &blocks);

  void addFacts(std::vector<BucketFacts> &buckets,
                std::vector<BlockFacts> &blocks) const;
  Outcome evaluate(const Decisions &decisions) const;
  MemoryProfile profile(const Decisions &decisions) const;

  const uint32_t runs;

private:
  friend class Evaluation;

  void findBorder();
  void findBlocks(const std::vector<std::string> &paths);
  void findStorages();
  void findGathers(const std::vector<std::string> &buckets);
  /// Of a block's storages, which instructions write them in forward, and what
  /// stays because the rest of forward reads it, or of `selective` policies.
  struct Makers {
    std::map<uint32_t, std::vector<uint32_t>> by;
    std::set<uint32_t> kept;
  };
  Makers findMakers(int block, bool selective) const;
  Repetition recompute(int block, bool selective) const;
  /// How many in front of each gather it is ahead of: no kernel stands between
  /// their waits and its start.
  std::vector<uint32_t> findPrefetch() const;
  uint32_t storageOf(uint32_t value) const {
    return byRoot[rootOf(program, value)];
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  CollectiveModel collectives;
  EngineOptions options;
  size_t size;                  ///< instructions
  std::vector<LaneStep> steps;  ///< by instruction
  std::vector<WorkKind> kinds;  ///< by instruction
  std::vector<int> blocks;      ///< by instruction
  uint32_t border = 0;          ///< forward's last instruction
  std::vector<uint32_t> byRoot; ///< storages, by value
  std::vector<Storage> storages;
  std::vector<std::vector<uint32_t>> saved; ///< storages, by block
  std::vector<Gather> gathers;
  std::vector<int> gatherAt; ///< by instruction: starts and waits
  std::array<std::vector<Repetition>, 2> again; ///< full, selective; by block
  std::vector<std::vector<int>> readers; ///< by bucket: blocks computed again
  size_t bucketCount, blockCount;
};

} // namespace fsdp

#endif // FSDP_DECIDE_STEPPROGRAM_H
