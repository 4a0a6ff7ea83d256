//===- LabelCount.cpp - How many labels of a step count -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/data/LabelCount.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/Error.h"

#include <cstddef>
#include <cstring>
#include <utility>

using namespace fsdp;

LabelCount::LabelCount(const plan::InputT &labels,
                       std::unique_ptr<RowReader> reader, RowOrder order,
                       StepRows steps, bool shifts)
    : reader(std::move(reader)), order(std::move(order)), steps(steps),
      isWide(labels.dtype == plan::DType::i64), shifts(shifts) {
  if (!isWide && labels.dtype != plan::DType::i32)
    throw Error(ErrorId::DataType,
                "'label_count' counts labels of type i64 or i32, and input '" +
                    labels.name + "' is " +
                    std::string(dtypeName(labels.dtype)) +
                    "; name the input of labels with 'labels'");
  perRow = *checkedExtent(labels.shape, {}, 1) /
           static_cast<uint64_t>(labels.shape[0]);
  if (shifts && labels.shape.size() != 2)
    throw Error(ErrorId::DataShape,
                "'shifts_labels' leaves the first label of each row out, and "
                "input '" +
                    labels.name + "' of shape " + toString(labels.shape) +
                    " has no rows of labels");
}

template <typename Label>
static uint64_t countIn(const std::byte *row, uint64_t first, uint64_t end) {
  uint64_t number = 0;
  for (uint64_t i = first; i < end; ++i) {
    Label label;
    std::memcpy(&label, row + i * sizeof(Label), sizeof(Label));
    number += label != kIgnoredLabel;
  }
  return number;
}

uint64_t LabelCount::count(uint64_t first) const {
  std::vector<std::byte> row(perRow * (isWide ? 8 : 4));
  uint64_t number = 0;
  for (uint64_t done = 0; done < steps.count;) {
    RowOrder::Run run = order.at(first + done, steps.count - done);
    for (uint64_t i = 0; i < run.count; ++i) {
      reader->read(run.first + i, 1, row.data());
      uint64_t begin = shifts ? 1 : 0;
      number += isWide ? countIn<int64_t>(row.data(), begin, perRow)
                       : countIn<int32_t>(row.data(), begin, perRow);
    }
    done += run.count;
  }
  return number;
}

uint64_t LabelCount::of(uint64_t row) const {
  const uint64_t first = steps.beginOf(row);
  std::lock_guard lock(mutex);
  if (!isKnown || keptFirst != first) {
    kept = count(first);
    keptFirst = first;
    isKnown = true;
  }
  return kept;
}
