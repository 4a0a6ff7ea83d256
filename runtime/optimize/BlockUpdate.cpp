//===- BlockUpdate.cpp - Optimizers in blocks -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/BlockUpdate.h"

#include "runtime/optimize/RandomRounding.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <bit>
#include <cstring>

using namespace fsdp;

namespace {

/// A tensor with the forms of what it has.
class Updater {
public:
  Updater(const UpdateRule &rule, const UpdateNumbers &numbers,
          const UpdatedTensor &tensor)
      : tensor(tensor), arithmetic(getArithmetic(rule.kind)),
        coefficients(computeCoefficients(getNumbers(rule), numbers)),
        paramForm(formOf(tensor.param, true)) {
    for (size_t i = 0; i < tensor.moments.size(); ++i)
      forms.push_back(formOf(tensor.moments[i], i == 0));
  }

  /// Reads a piece and computes its new moments.
  void begin(const BlockPiece &piece, Block &block) const {
    auto count = static_cast<int>(piece.count);
    auto from = [&](const at::Tensor &values, Form form) {
      return static_cast<const char *>(values.const_data_ptr()) +
             piece.local * bytesOf(form);
    };
    readBlock(paramForm, from(tensor.param, paramForm), count, 1, block.param);
    readBlock(paramForm, from(tensor.grad, paramForm), count, 1, block.grad);
    for (size_t i = 0; i < forms.size(); ++i)
      readBlock(forms[i], from(tensor.moments[i], forms[i]), count,
                isCode(forms[i]) ? scaleOf(i)[piece.block] : 1,
                block.moments[i]);
    arithmetic.moments(coefficients, count, block);
  }

  /// Computes the new parameter of a piece that `begin` had, and stores all.
  void end(const BlockPiece &piece, Block &block,
           const uint16_t *random) const {
    auto count = static_cast<int>(piece.count);
    auto to = [&](const at::Tensor &values, Form form) {
      return static_cast<char *>(values.mutable_data_ptr()) +
             piece.local * bytesOf(form);
    };
    for (size_t i = 0; i < forms.size(); ++i) {
      float scale = 1;
      if (isCode(forms[i])) {
        scale = toScale(forms[i], greatestOf(i, piece, block));
        if (tensor.maxima.empty())
          scaleOf(i)[piece.block] = scale;
      }
      writeBlock(forms[i], block.moments[i], count, scale,
                 to(tensor.moments[i], forms[i]));
    }
    arithmetic.param(coefficients, count, block);
    char *param = to(tensor.param, paramForm);
    if (random)
      writeBf16AtRandom(block.param, random, count,
                        reinterpret_cast<uint16_t *>(param));
    else
      writeBlock(paramForm, block.param, count, 1, param);
  }

  /// Ranks that share blocks have their new scales from elsewhere.
  void takeScales() const {
    for (size_t i = 0; i < tensor.maxima.size(); ++i) {
      auto *maxima =
          static_cast<const float *>(tensor.maxima[i].const_data_ptr());
      for (int64_t block = 0; block < tensor.maxima[i].numel(); ++block)
        scaleOf(i)[block] = toScale(forms[i], maxima[block]);
    }
  }

  size_t countMoments() const { return forms.size(); }

private:
  float *scaleOf(size_t moment) const {
    return static_cast<float *>(tensor.scales[moment].mutable_data_ptr());
  }

  float greatestOf(size_t moment, const BlockPiece &piece,
                   const Block &block) const {
    if (!tensor.maxima.empty())
      return static_cast<const float *>(
          tensor.maxima[moment].const_data_ptr())[piece.block];
    return std::bit_cast<float>(
        findGreatest(block.moments[moment], static_cast<int>(piece.count)));
  }

  const UpdatedTensor &tensor;
  const UpdateArithmetic &arithmetic;
  Coefficients coefficients;
  Form paramForm;
  std::vector<Form> forms;
};

/// Pieces that a thread is worth waking for.
constexpr int64_t kGrain = 64;

template <typename Function>
void forEachPiece(const UpdatedTensor &tensor, Function function) {
  at::parallel_for(0, static_cast<int64_t>(tensor.pieces.size()), kGrain,
                   [&](int64_t begin, int64_t end) {
                     Block block;
                     for (int64_t i = begin; i < end; ++i)
                       function(tensor.pieces[static_cast<size_t>(i)], block);
                   });
}

} // namespace

void fsdp::update(const UpdateRule &rule, const UpdateNumbers &numbers,
                  const UpdatedTensor &tensor, std::optional<uint64_t> seed) {
  Updater updater(rule, numbers, tensor);
  philox::Key key{};
  if (seed)
    key = philox::deriveKey(*seed, philox::Domain::Rounding, 0);
  auto step = static_cast<uint32_t>(static_cast<int64_t>(numbers.step));
  forEachPiece(tensor, [&](const BlockPiece &piece, Block &block) {
    updater.begin(piece, block);
    uint16_t random[kMost];
    if (seed)
      fillRandom(tensor.runs, piece, step, key, random);
    updater.end(piece, block, seed ? random : nullptr);
  });
  updater.takeScales();
}

void fsdp::findMaxima(const UpdateRule &rule, const UpdateNumbers &numbers,
                      const UpdatedTensor &tensor) {
  Updater updater(rule, numbers, tensor);
  for (const at::Tensor &maxima : tensor.maxima)
    std::memset(maxima.mutable_data_ptr(), 0, maxima.nbytes());
  forEachPiece(tensor, [&](const BlockPiece &piece, Block &block) {
    updater.begin(piece, block);
    for (size_t i = 0; i < updater.countMoments(); ++i) {
      uint32_t greatest =
          findGreatest(block.moments[i], static_cast<int>(piece.count));
      // Threads may have pieces of one block.
      std::atomic_ref<uint32_t> all(static_cast<uint32_t *>(
          tensor.maxima[i].mutable_data_ptr())[piece.block]);
      uint32_t before = all.load(std::memory_order_relaxed);
      while (before < greatest &&
             !all.compare_exchange_weak(before, greatest,
                                        std::memory_order_relaxed))
        ;
    }
  });
}
