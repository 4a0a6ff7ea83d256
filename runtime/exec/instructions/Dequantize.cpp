//===- Dequantize.cpp - Numbers that blocks of codes stand for ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/Quantized.h"
#include "support/Error.h"

#include <ATen/Parallel.h>

#include <algorithm>

using namespace fsdp;

namespace {

/// Blocks that a thread takes at a time, and those that it rounds at once.
constexpr int64_t kPiece = 1024, kTogether = 16;

template <typename T>
void dequantize(BlockKind kind, const uint8_t *blocks, T *to,
                int64_t elements) {
  at::parallel_for(
      0, countBlocks(elements), kPiece, [&](int64_t begin, int64_t end) {
        alignas(64) float wide[kTogether * kQuantizedElements];
        for (int64_t at = begin; at < end; at += kTogether) {
          int64_t count = std::min(kTogether, end - at);
          int64_t first = at * kQuantizedElements;
          dequantizeBlocks(kind, blocks + at * getBlockBytes(kind), count,
                           wide);
          std::copy_n(wide,
                      std::min(count * kQuantizedElements, elements - first),
                      to + first);
        }
      });
}

} // namespace

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::DequantizeT &op) {
  if (!p.deviceOf(op.output).is_cpu())
    throw Error(ErrorId::RuntimeUnsupported,
                "frozen parameters in blocks of codes (quantize) are read on "
                "the host alone, and the artifact has them on a GPU");
  BlockKind kind = toBlockKind(op.kind);
  return makeComputation(p.memory, [kind, blocks = p.values[op.input],
                                    to = p.values[op.output]] {
    const auto *from = blocks.data_ptr<uint8_t>();
    if (to.scalar_type() == c10::ScalarType::Float)
      dequantize(kind, from, to.mutable_data_ptr<float>(), to.numel());
    else if (to.scalar_type() == c10::ScalarType::BFloat16)
      dequantize(kind, from, to.mutable_data_ptr<c10::BFloat16>(), to.numel());
    else
      dequantize(kind, from, to.mutable_data_ptr<c10::Half>(), to.numel());
  });
}
