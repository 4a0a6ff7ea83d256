//===- MergedDelta.cpp - What an adapter adds to its base -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/MergedDelta.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

using namespace fsdp;

/// Elements that are computed at a time.
static constexpr int64_t kChunkElements = 1 << 20;

MergedDelta::MergedDelta(const plan::AdapterT &adapter, at::Tensor down,
                         at::Tensor up, at::Tensor norms)
    : scale(adapter.scale), isTurned(adapter.base_is_in_by_out) {
  // Of convolutions.
  down = down.flatten(1);
  up = up.flatten(1);
  int64_t experts = std::max<int64_t>(adapter.experts, 1);
  down = down.view({experts, -1, down.size(1)});
  up = up.view({up.size(0), -1, experts});
  for (int64_t i = 0; i < experts; ++i) {
    at::Tensor ownDown = down.select(0, i), ownUp = up.select(2, i);
    lefts.push_back(isTurned ? ownDown.t() : ownUp);
    rights.push_back(isTurned ? ownUp.t() : ownDown);
  }
  if (!norms.defined())
    return;
  magnitude = norms.flatten().to(at::kDouble);
  squares = at::zeros_like(magnitude);
}

template <typename F>
void MergedDelta::forEachPart(const at::Tensor &elements, int64_t first,
                              F visit) const {
  bool isDouble = elements.scalar_type() == at::kDouble;
  at::ScalarType type = isDouble ? at::kDouble : at::kFloat;
  int64_t columns = rights.front().size(1), count = elements.numel();
  int64_t size = lefts.front().size(0) * columns;
  for (int64_t done = 0; done < count;) {
    int64_t expert = (first + done) / size, at = (first + done) % size;
    int64_t row = at / columns, column = at % columns;
    int64_t left = std::min(count - done, size - at);
    // Whole rows, or what there is of one.
    int64_t width = std::min(columns - column, left), rows = 1;
    if (width == columns)
      rows = std::min(left / columns,
                      std::max<int64_t>(1, kChunkElements / columns));
    at::Tensor part =
        elements.narrow(0, done, rows * width).view({rows, width});
    at::Tensor delta = at::mm(lefts[expert].narrow(0, row, rows).to(type),
                              rights[expert].narrow(1, column, width).to(type));
    // A copy also where the types are the same.
    at::Tensor sum =
        part.to(type, /*non_blocking=*/false, /*copy=*/true).add_(delta, scale);
    visit(part, sum, row, column);
    done += rows * width;
  }
}

void MergedDelta::measure(const at::Tensor &elements, int64_t first) {
  forEachPart(elements, first,
              [&](const at::Tensor &, const at::Tensor &sum, int64_t row,
                  int64_t column) {
                at::Tensor own = sum.to(at::kDouble).square();
                if (isTurned)
                  squares.narrow(0, column, own.size(1)).add_(own.sum(0));
                else
                  squares.narrow(0, row, own.size(0)).add_(own.sum(1));
              });
}

void MergedDelta::addTo(at::Tensor elements, int64_t first) const {
  forEachPart(
      elements, first,
      [&](at::Tensor part, at::Tensor sum, int64_t row, int64_t column) {
        if (hasMagnitude()) {
          at::Tensor ratio = magnitude.div(squares.sqrt());
          ratio = isTurned ? ratio.narrow(0, column, sum.size(1))
                           : ratio.narrow(0, row, sum.size(0)).unsqueeze(1);
          sum.mul_(ratio.to(sum.scalar_type()));
        }
        part.copy_(sum);
      });
}
