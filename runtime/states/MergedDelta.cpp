//===- MergedDelta.cpp - What an adapter adds to its base -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/MergedDelta.h"

#include <ATen/ops/mm.h>

#include <algorithm>

using namespace fsdp;

/// Elements that are computed at a time.
static constexpr int64_t kChunkElements = 1 << 20;

MergedDelta::MergedDelta(const plan::AdapterT &adapter, at::Tensor down,
                         at::Tensor up)
    : scale(adapter.scale) {
  bool isTurned = adapter.base_is_in_by_out;
  // Of convolutions.
  down = down.flatten(1);
  up = up.flatten(1);
  left = isTurned ? down.t() : up;
  right = isTurned ? up.t() : down;
}

void MergedDelta::addTo(at::Tensor elements, int64_t first) const {
  bool isDouble = elements.scalar_type() == at::kDouble;
  at::ScalarType type = isDouble ? at::kDouble : at::kFloat;
  int64_t columns = right.size(1), count = elements.numel();
  for (int64_t done = 0; done < count;) {
    int64_t row = (first + done) / columns, column = (first + done) % columns;
    // Whole rows, or what there is of one.
    int64_t width = std::min(columns - column, count - done), rows = 1;
    if (width == columns)
      rows = std::min((count - done) / columns,
                      std::max<int64_t>(1, kChunkElements / columns));
    at::Tensor part =
        elements.narrow(0, done, rows * width).view({rows, width});
    at::Tensor delta = at::mm(left.narrow(0, row, rows).to(type),
                              right.narrow(1, column, width).to(type));
    part.copy_(part.to(type).add_(delta, scale));
    done += rows * width;
  }
}
