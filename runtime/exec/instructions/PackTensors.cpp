//===- PackTensors.cpp - Tensors side by side -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "runtime/device/Tensors.h"

#include <cstring>

using namespace fsdp;

/// Copies what was not computed in its place and zeroes what lies between.
std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::PackTensorsT &op) {
  std::vector<std::pair<at::Tensor, at::Tensor>> copies; // from, to
  std::vector<std::pair<char *, size_t>> gaps;
  std::vector<at::Tensor> deviceGaps; // what the host cannot reach
  auto addGap = [&](char *begin, size_t bytes) {
    if (bytes == 0)
      return;
    if (p.device.isHost())
      gaps.emplace_back(begin, bytes);
    else
      deviceGaps.push_back(bytesAt(begin, bytes, p.device.torch()));
  };
  const at::Tensor &output = p.values[op.output];
  auto *begin = static_cast<char *>(output.mutable_data_ptr());
  size_t element = output.element_size();
  size_t end = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const at::Tensor &input = p.values[op.inputs[i]];
    size_t at = op.offsets[i] * element;
    addGap(begin + end, at - end);
    end = at + input.nbytes();
    bool isThere =
        input.is_contiguous() && input.const_data_ptr() == begin + at;
    if (!isThere && input.numel() != 0)
      copies.emplace_back(
          input,
          output.narrow(0, static_cast<int64_t>(op.offsets[i]), input.numel())
              .view(input.sizes()));
  }
  addGap(begin + end, output.nbytes() - end);
  if (copies.empty() && gaps.empty() && deviceGaps.empty())
    return nullptr;
  // Rehearsed: a device loads kernels before transfers keep it busy.
  return makeComputation(p.memory,
                         [copies = std::move(copies), gaps = std::move(gaps),
                          deviceGaps = std::move(deviceGaps)] {
                           for (const auto &[from, to] : copies)
                             to.copy_(from);
                           for (auto [begin, bytes] : gaps)
                             std::memset(begin, 0, bytes);
                           for (const at::Tensor &gap : deviceGaps)
                             gap.zero_();
                         });
}
