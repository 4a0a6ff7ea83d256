//===- Batches.cpp - The rows of a program's inputs -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Batches.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/Error.h"

#include <algorithm>

using namespace fsdp;

Batches::Batches(const RowSource &source,
                 const std::vector<const plan::InputT *> &inputs,
                 const RunData &data, RankRows rows)
    : rankRows(rows) {
  uint64_t bytes = 0;
  for (const plan::InputT *input : inputs) {
    std::unique_ptr<RowReader> reader = source.open(*input);
    bool isRepeated = std::ranges::count(data.repeated, input->name) != 0;
    RowOrder order =
        isRepeated ? RowOrder(reader->rows()) : RowOrder(reader->rows(), data);
    auto batch = static_cast<uint64_t>(input->shape[0]);
    uint64_t extent =
        *checkedExtent(input->shape, {}, dtypeBytes(input->dtype));
    parts.push_back({std::move(reader), order, batch, extent / batch, bytes});
    // Each at an address that suits its type, whatever was before.
    bytes += (extent + 63) / 64 * 64;
  }
  checkRows(source, inputs, data);
  current.resize(parts.size());
  ahead.emplace(
      bytes, rows.ranks * rows.batch,
      [this](uint64_t firstRow, std::byte *to) { read(firstRow, to); });
}

/// Row i of each input belongs to row i of the others; labels would else move
/// on to other samples once the shorter of two has come to its end.
void Batches::checkRows(const RowSource &source,
                        const std::vector<const plan::InputT *> &inputs,
                        const RunData &data) {
  std::optional<size_t> first;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (std::ranges::count(data.repeated, inputs[i]->name))
      continue;
    if (!first) {
      first = lead = i;
      continue;
    }
    const Part &a = parts[lead], &b = parts[i];
    uint64_t aRows = a.reader->rows(), bRows = b.reader->rows();
    bool isStrict = b.order.isStrict();
    if (isStrict ? aRows == bRows : aRows * b.batch == bRows * a.batch)
      continue;
    std::string expected = "as many for both";
    if (a.batch != b.batch)
      expected = isStrict ? "as many for both, where rows are shuffled or "
                            "epochs counted"
                          : std::to_string(a.batch) + " of the first for " +
                                std::to_string(b.batch) +
                                " of the second, as in a batch";
    throw Error(ErrorId::DataShape,
                source.describe() + " has " + std::to_string(aRows) +
                    " rows for input '" + inputs[lead]->name + "' and " +
                    std::to_string(bRows) + " for '" + inputs[i]->name +
                    "'; expected " + expected +
                    "; if one is meant to begin again on its own, say "
                    "--data-options=repeat=" +
                    inputs[aRows < bRows ? lead : i]->name);
  }
}

/// Of its rows' order.
uint64_t Batches::positionOf(const Part &part, uint64_t firstRow) const {
  uint64_t first = firstRow + rankRows.position * rankRows.batch;
  return first * part.batch / rankRows.batch;
}

uint64_t Batches::rowOf(size_t input, uint64_t firstRow, uint64_t row) const {
  const Part &part = parts[input];
  return part.order.at(positionOf(part, firstRow) + row, 1).first;
}

void Batches::read(uint64_t firstRow, std::byte *to) const {
  for (const Part &part : parts) {
    uint64_t position = positionOf(part, firstRow);
    std::byte *at = to + part.offset;
    for (uint64_t done = 0; done < part.batch;) {
      RowOrder::Run run = part.order.at(position + done, part.batch - done);
      part.reader->read(run.first, run.count, at);
      at += run.count * part.rowBytes;
      done += run.count;
    }
  }
}

const std::vector<std::span<const std::byte>> &Batches::get(uint64_t firstRow) {
  std::span<const std::byte> bytes = ahead->get(firstRow);
  for (size_t i = 0; i < parts.size(); ++i)
    current[i] =
        bytes.subspan(parts[i].offset, parts[i].batch * parts[i].rowBytes);
  return current;
}

std::optional<uint64_t> Batches::stepsFrom(uint64_t firstRow,
                                           uint64_t stepRows) const {
  return parts[lead].order.stepsFrom(firstRow, stepRows);
}
