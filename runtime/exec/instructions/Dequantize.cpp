//===- Dequantize.cpp - Numbers that blocks of codes stand for ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/Quantized.h"
#include "runtime/exec/Device.h"
#include "support/BlockNumbers.h"
#include "support/Error.h"
#include "support/QuantizedBlocks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>

using namespace fsdp;

namespace {

/// Elements that a thread takes at a time, and those that it rounds at once.
constexpr int64_t kDequantizePiece = 1 << 16, kTogether = BlockForm::kGreatest;

/// `round` is of a type of its own, so that it is inlined.
template <typename T, typename Round>
void dequantize(const BlockForm &form, const uint8_t *rows, T *to,
                int64_t elements, Round round) {
  int64_t together = kTogether / form.elements;
  at::parallel_for(
      0, form.countBlocks(elements), kDequantizePiece / form.elements,
      [&](int64_t begin, int64_t end) {
        alignas(64) float wide[kTogether];
        for (int64_t at = begin; at < end; at += together) {
          int64_t count = std::min(together, end - at);
          int64_t first = at * form.elements;
          dequantizeBlocks(form, rows, at, count, wide);
          std::transform(
              wide, wide + std::min(count * form.elements, elements - first),
              to + first, round);
        }
      });
}

} // namespace

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::DequantizeT &op) {
  if (!p.deviceOf(op.output).is_cpu()) {
    if (auto own = p.device.prepareDequantize(p, op))
      return own;
    throw Error(ErrorId::RuntimeUnsupported,
                "nothing reads frozen parameters in blocks of codes (quantize) "
                "on this device, and the artifact has them there");
  }
  return makeComputation(p.memory, [form = toBlockForm(op),
                                    blocks = p.values[op.input],
                                    to = p.values[op.output]] {
    const auto *from = blocks.data_ptr<uint8_t>();
    if (to.scalar_type() == c10::ScalarType::Float)
      dequantize(form, from, to.mutable_data_ptr<float>(), to.numel(),
                 std::identity());
    else if (to.scalar_type() == c10::ScalarType::BFloat16)
      dequantize(form, from, static_cast<uint16_t *>(to.mutable_data_ptr()),
                 to.numel(),
                 [](float value) { return element::toBf16(value); });
    else
      dequantize(form, from, static_cast<uint16_t *>(to.mutable_data_ptr()),
                 to.numel(),
                 [](float value) { return blocks::roundToHalf(value); });
  });
}
