//===- OutputFile.h - Outputs of a run in one file --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_RUNTIME_TRAIN_OUTPUTFILE_H
#define FSDP_RUNTIME_TRAIN_OUTPUTFILE_H

#include "runtime/comm/Communicator.h"
#include "runtime/session/Session.h"
#include "support/AtomicFile.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Collects the kept outputs of all micro-batches and ranks in a safetensors
/// file, in the order of the data's rows: a tensor of shape [B, …] becomes one
/// of [batches · W · B, …], one without dims becomes [batches · W], where rows
/// of a micro-batch follow one another by rank. Rows travel to rank 0 through
/// the run's back end, in blocks, so that no rank holds more than its own and
/// one block of all.
class OutputFile {
public:
  /// Collective. Throws fsdp::Error: OutputNotKept if the program has none,
  /// FileNotWritable.
  OutputFile(const Session &session, const std::string &path, uint64_t batches);

  /// Collective: adds the rows of the micro-batch that was just made.
  void append();

  /// Collective: the file is there afterwards, on rank 0's machine.
  void commit();

private:
  /// Bytes of an output that travel at once with those of others.
  struct Piece {
    size_t output;
    uint64_t offset, bytes; ///< of one rank's output
  };
  using Block = std::vector<Piece>;

  void planBlocks();
  void gather(const Block &block);
  void write(const Piece &piece, int rank, const char *data);

  const Session &session;
  const uint64_t ranks;          ///< that read different rows
  std::vector<uint64_t> offsets; ///< of each output, in the file
  std::vector<Block> blocks;
  std::unique_ptr<Communicator> communicator;
  std::vector<char> received;     ///< one block of all ranks
  std::optional<AtomicFile> file; ///< on rank 0
  uint64_t appended = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_OUTPUTFILE_H
