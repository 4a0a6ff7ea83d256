//===- Batches.cpp - The rows of a program's inputs -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/Batches.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/Error.h"

#include <algorithm>

using namespace fsdp;

Batches::Batches(const RowSource &source, const std::vector<InputList> &inputs,
                 const RunData &data, RankRows rows, StepFacts facts)
    : rankRows(rows) {
  uint64_t bytes = 0;
  for (const InputList &each : inputs)
    bytes = std::max(bytes, open(source, each, data,
                                 facts.labels ? facts.labels->name : ""));
  checkRows(source, inputs.front(), data);
  if (source.lengths())
    chooseByLength(source, inputs, facts.rows);
  if (facts.labels)
    labels.emplace(*facts.labels, source.open(*facts.labels), leading().order,
                   facts.rows, data.shifts_labels);
  ahead.emplace(
      bytes, rows.ranks * rows.batch,
      [this](uint64_t firstRow, std::byte *to) { read(firstRow, to); });
}

uint64_t Batches::open(const RowSource &source, const InputList &inputs,
                       const RunData &data, const std::string &counted) {
  std::vector<Part> &parts = programs.emplace_back();
  uint64_t bytes = 0;
  for (const plan::InputT *input : inputs) {
    std::unique_ptr<RowReader> reader = source.open(*input);
    bool isRepeated = std::ranges::count(data.repeated, input->name) != 0;
    if (isRepeated && (reader->tokens() != 0 || input->name == counted))
      throw Error(ErrorId::DataShape,
                  "--data-options: 'repeat' names input '" + input->name +
                      "', whose rows belong to those of the others: they have "
                      "their lengths, or are counted; leave it out");
    // One order for all, which may keep what it has sorted.
    if (!isRepeated && !common)
      common.emplace(reader->rows(), data, source.lengths());
    RowOrder order(reader->rows());
    if (!isRepeated)
      order = reader->rows() == common->rowsOfEpoch()
                  ? *common
                  : RowOrder(reader->rows(), data);
    auto batch = static_cast<uint64_t>(input->shape[0]);
    uint64_t extent =
        *checkedExtent(input->shape, {}, dtypeBytes(input->dtype));
    parts.push_back({std::move(reader), order, batch, extent / batch, bytes});
    // Each at an address that suits its type, whatever was before.
    bytes += (extent + 63) / 64 * 64;
  }
  return bytes;
}

/// The tokens of a row of such a program.
static uint64_t checkTokens(const Batches::InputList &inputs,
                            const std::vector<uint64_t> &tokens) {
  uint64_t all = 0;
  for (size_t i = 0, first = 0; i < inputs.size(); ++i) {
    if (tokens[i] == 0)
      continue;
    if (all == 0) {
      all = tokens[i];
      first = i;
    }
    if (tokens[i] != all)
      throw Error(ErrorId::DataShape,
                  "rows of lengths of their own are padded alike, and input '" +
                      inputs[first]->name + "' takes rows of " +
                      std::to_string(all) + " tokens, '" + inputs[i]->name +
                      "' of " + std::to_string(tokens[i]) +
                      "; give both the same --dim when you compile");
  }
  return all;
}

void Batches::chooseByLength(const RowSource &source,
                             const std::vector<InputList> &inputs,
                             StepRows steps) {
  std::vector<uint64_t> tokens;
  for (size_t i = 0; i < programs.size(); ++i) {
    std::vector<uint64_t> each;
    for (const Part &part : programs[i])
      each.push_back(part.reader->tokens());
    tokens.push_back(checkTokens(inputs[i], each));
    if (std::ranges::count(tokens, tokens.back()) > 1)
      throw Error(ErrorId::DataShape,
                  "several programs of the artifact take rows of " +
                      std::to_string(tokens.back()) +
                      " tokens; choose one with --program=NAME");
    for (size_t j = 0; j < programs[i].size(); ++j)
      if (programs[i][j].batch != programs.front()[j].batch)
        throw Error(ErrorId::DataShape,
                    "programs that are chosen by the lengths of rows take as "
                    "many of them, and those of the artifact take " +
                        std::to_string(programs.front()[j].batch) + " and " +
                        std::to_string(programs[i][j].batch) +
                        " rows of input '" + inputs[i][j]->name +
                        "'; choose one with --program=NAME");
  }
  uint64_t most = std::ranges::max(tokens);
  auto [row, length] = source.lengths()->longest();
  // None of what is read has tokens.
  if (most == 0)
    return;
  if (length > most)
    throw Error(
        ErrorId::RowTooLong,
        "row " + std::to_string(row) + " of " + source.describe() + " has " +
            std::to_string(length) + " tokens, and the longest program takes " +
            std::to_string(most) + "; cut it, or compile the model for " +
            std::to_string(length) + " tokens, too (fsdp-opt --dim=INPUT.1=…," +
            std::to_string(length) + ")");
  lengths.emplace(*source.lengths(), leading().order, std::move(tokens), steps);
}

/// Row i of each input belongs to row i of the others; labels would else move
/// on to other samples once the shorter of two has come to its end.
void Batches::checkRows(const RowSource &source, const InputList &inputs,
                        const RunData &data) {
  const std::vector<Part> &parts = programs.front();
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
  const Part &part = programs[programOf(firstRow)][input];
  return part.order.at(positionOf(part, firstRow) + row, 1).first;
}

void Batches::read(uint64_t firstRow, std::byte *to) const {
  for (const Part &part : programs[programOf(firstRow)]) {
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
  current.clear();
  for (const Part &part : programs[programOf(firstRow)])
    current.push_back(bytes.subspan(part.offset, part.batch * part.rowBytes));
  return current;
}

std::optional<uint64_t> Batches::stepsFrom(uint64_t firstRow,
                                           uint64_t stepRows) const {
  return leading().order.stepsFrom(firstRow, stepRows);
}
