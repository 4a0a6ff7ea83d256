//===- RecordChecks.h - First values are what was exported ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model file states a CRC-32 for each of its entries. Each rank takes its
// own elements of them alone; the ranks that an entry's tensor is cut over have
// all of it together, each element once. So each computes the checksum of what
// it takes, and those of such ranks give the entry's: nothing is read for the
// check, and what is checked is what is used, also where machines have copies
// of the file of their own.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_STATES_RECORDCHECKS_H
#define FSDP_RUNTIME_STATES_RECORDCHECKS_H

#include "runtime/comm/Communicator.h"
#include "runtime/states/ModelFile.h"

#include <functional>
#include <map>
#include <set>

namespace fsdp {

class RecordChecks {
public:
  /// For the states that `isWanted`, the same on all ranks. Entries that are
  /// not read front to back, or hold several states, are read here, as a whole.
  /// Throws fsdp::Error (ModelFileChanged, FileNotReadable).
  RecordChecks(const plan::PlanT &plan, const ModelFile &model,
               const std::function<bool(const plan::StateT &)> &isWanted);

  /// Bytes of `state`'s value from byte `begin` of its record on, which are
  /// this rank's, were read to `data`; each once.
  void note(const plan::StateT &state, uint64_t begin, uint64_t bytes,
            const char *data);

  /// Collective. Throws fsdp::Error (ModelFileChanged), on all ranks, if what
  /// any group of ranks read is not what the file was written with.
  void finish(Fabric &fabric) const;

private:
  struct Entry {
    const ZipEntry *entry;
    const plan::StateT *state;
    uint32_t share = 0; ///< of this rank
  };

  const plan::PlanT &plan;
  const ModelFile &model;
  std::vector<Entry> entries; ///< in the order of the states
  std::map<const plan::StateT *, size_t> entryOf;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATES_RECORDCHECKS_H
