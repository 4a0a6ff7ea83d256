//===- OutputFile.cpp - Outputs of a run in one file ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/OutputFile.h"

#include "plan/DType.h"
#include "plan/Target.h"
#include "runtime/weights/Safetensors.h"
#include "support/Error.h"

#include <algorithm>

using namespace fsdp;

/// What a rank receives of all ranks at once.
static constexpr uint64_t kBlockBytes = 8 << 20;
static constexpr uint64_t kAlignment = 64;

static uint64_t alignUp(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

OutputFile::OutputFile(const Session &session, const std::string &path,
                       uint64_t batches)
    : session(session), ranks(session.plan().data_parallel) {
  const std::vector<OutputTensor> &outputs = session.outputs();
  if (outputs.empty())
    throw Error(ErrorId::OutputNotKept,
                "--outputs: the artifact keeps no outputs; compile the model "
                "with --output=NAME");
  if (session.choosesPrograms())
    throw Error(ErrorId::RuntimeUnsupported,
                "--outputs: rows of lengths of their own make outputs of other "
                "shapes in each step, which are not one tensor; choose one "
                "program for all rows with --program=NAME");
  std::vector<TensorToStore> tensors;
  for (const OutputTensor &output : outputs) {
    std::vector<int64_t> shape = output.shape;
    if (shape.empty())
      shape = {1};
    shape[0] *= static_cast<int64_t>(batches * ranks);
    tensors.push_back({output.name, *findDType(output.dtype), shape});
  }
  std::string head = layoutSafetensors(tensors);
  offsets.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    offsets[i] = tensors[i].offset;
  planBlocks();
  if (session.rank() == 0) {
    file.emplace(path);
    file->write(head);
    // The file has its whole size from the beginning.
    uint64_t end = head.size();
    for (size_t i = 0; i < outputs.size(); ++i)
      end =
          std::max(end, offsets[i] + outputs[i].bytes.size() * batches * ranks);
    if (end > head.size())
      file->writeAt(end - 1, std::string_view("\0", 1));
  }
  if (session.worldSize() > 1) {
    std::vector<int> all;
    for (int rank = 0; rank < session.worldSize(); ++rank)
      all.push_back(rank);
    communicator = session.fabric().createHostCommunicator({"outputs", all});
  }
}

void OutputFile::planBlocks() {
  auto world = static_cast<uint64_t>(session.worldSize());
  uint64_t budget = std::max(kBlockBytes / world, kAlignment);
  uint64_t used = budget, most = 0;
  for (size_t i = 0; i < session.outputs().size(); ++i) {
    uint64_t bytes = session.outputs()[i].bytes.size();
    for (uint64_t offset = 0; offset < bytes;) {
      if (used >= budget) {
        blocks.emplace_back();
        used = 0;
      }
      uint64_t size = std::min(bytes - offset, budget - used);
      blocks.back().push_back({i, offset, size});
      used += alignUp(size);
      most = std::max(most, used);
      offset += size;
    }
  }
  if (world > 1)
    received.resize(most * world);
}

void OutputFile::write(const Piece &piece, int rank, const char *data) {
  uint64_t position = getDataRank(session.plan(), rank);
  uint64_t bytes = session.outputs()[piece.output].bytes.size();
  file->writeAt(offsets[piece.output] + (appended * ranks + position) * bytes +
                    piece.offset,
                std::string_view(data, piece.bytes));
}

void OutputFile::gather(const Block &block) {
  auto world = static_cast<uint64_t>(session.worldSize());
  Members members;
  char *to = received.data();
  for (const Piece &piece : block) {
    members.push_back(
        {session.outputs()[piece.output].bytes.data() + piece.offset, to,
         piece.bytes});
    to += alignUp(piece.bytes) * world;
  }
  communicator->wait(communicator->start(
      {{CollectiveKind::all_gather, "outputs", appended}, members}));
  if (!file)
    return;
  for (size_t i = 0; i < block.size(); ++i)
    for (uint64_t rank = 0; rank < world; ++rank)
      write(block[i], static_cast<int>(rank),
            static_cast<const char *>(members[i].to) + rank * block[i].bytes);
}

void OutputFile::append() {
  for (const Block &block : blocks)
    if (communicator)
      gather(block);
    else
      for (const Piece &piece : block)
        write(piece, 0,
              reinterpret_cast<const char *>(
                  session.outputs()[piece.output].bytes.data()) +
                  piece.offset);
  ++appended;
}

void OutputFile::commit() {
  if (file)
    file->commit();
  // Nobody is done before the file is there.
  session.fabric().exchange("outputs", "written");
}
