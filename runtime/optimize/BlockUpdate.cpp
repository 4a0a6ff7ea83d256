//===- BlockUpdate.cpp - Optimizers in blocks -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/optimize/BlockUpdate.h"

#include "support/BlockCodes.h"
#include "support/Philox.h"
#include "support/Vectorized.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

using namespace fsdp;

namespace {

constexpr int kMost = kBlockElements;

/// One block's numbers on their way.
struct Block {
  alignas(64) float param[kMost], grad[kMost];
  alignas(64) float moments[2][kMost];
};

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

enum class Form { f32, bf16, f16, dynamicSigned, dynamicUnsigned, float8 };

Form formOf(const at::Tensor &tensor, bool isSigned) {
  switch (tensor.scalar_type()) {
  case c10::ScalarType::Float:
    return Form::f32;
  case c10::ScalarType::BFloat16:
    return Form::bf16;
  case c10::ScalarType::Half:
    return Form::f16;
  case c10::ScalarType::Byte:
    return isSigned ? Form::dynamicSigned : Form::dynamicUnsigned;
  case c10::ScalarType::Float8_e4m3fn:
    return Form::float8;
  default:
    TORCH_CHECK(false, "updates in blocks store f32, f16, bf16 and codes, not ",
                tensor.scalar_type());
  }
}

bool isCode(Form form) {
  return form != Form::f32 && form != Form::bf16 && form != Form::f16;
}

int64_t bytesOf(Form form) {
  return form == Form::f32 ? 4 : isCode(form) ? 1 : 2;
}

// Bytes become numbers of 32 bits first: vector units read tables by these.
FSDP_VECTORIZED
void readTable(const float *__restrict table, const uint8_t *__restrict from,
               int count, float scale, float *__restrict to) {
  alignas(64) int32_t codes[kMost];
  for (int i = 0; i < count; ++i)
    codes[i] = from[i];
  for (int i = 0; i < count; ++i)
    to[i] = table[codes[i]] * scale;
}

FSDP_VECTORIZED
void readBf16(const uint16_t *from, int count, float *to) {
  for (int i = 0; i < count; ++i)
    to[i] = std::bit_cast<float>(uint32_t(from[i]) << 16);
}

void read(Form form, const char *from, int count, float scale, float *to) {
  switch (form) {
  case Form::f32:
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(count));
    return;
  case Form::bf16:
    return readBf16(reinterpret_cast<const uint16_t *>(from), count, to);
  case Form::f16:
    for (int i = 0; i < count; ++i)
      to[i] = reinterpret_cast<const c10::Half *>(from)[i];
    return;
  case Form::dynamicSigned:
  case Form::dynamicUnsigned:
    return readTable(getDynamicMap(form == Form::dynamicSigned).values.data(),
                     reinterpret_cast<const uint8_t *>(from), count, scale, to);
  case Form::float8:
    return readTable(getFloat8Values().data(),
                     reinterpret_cast<const uint8_t *>(from), count, scale, to);
  }
}

/// To nearest, ties to even; NaNs stay NaNs.
FSDP_VECTORIZED
void writeBf16(const float *from, int count, uint16_t *to) {
  for (int i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(from[i]);
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    to[i] = static_cast<uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0
                                                                   : rounded);
  }
}

/// Up with the probability of what is cut off, which `random` exceeds then.
FSDP_VECTORIZED
void writeBf16AtRandom(const float *from, const uint16_t *random, int count,
                       uint16_t *to) {
  for (int i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(from[i]);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    uint32_t rounded = magnitude < 0x7F800000 ? bits + random[i] : bits;
    to[i] =
        static_cast<uint16_t>(magnitude > 0x7F800000 ? 0x7FC0 : rounded >> 16);
  }
}

/// The nearest codes of numbers that are at most `scale`; of two that are
/// equally near, the one nearer to zero.
FSDP_VECTORIZED
void writeDynamic(const DynamicMap &map, const float *__restrict from,
                  int count, float scale, uint8_t *__restrict to) {
  const int32_t *__restrict cells = map.cells.data();
  const float *__restrict middles = map.middles.data();
  int32_t lastNegative = map.lastNegative;
  alignas(64) int32_t bits[kMost], ranks[kMost];
  for (int i = 0; i < count; ++i)
    bits[i] = std::bit_cast<int32_t>(from[i] / scale);
  for (int i = 0; i < count; ++i) {
    constexpr int32_t kFirst = DynamicMap::kFirstCell,
                      kLast = DynamicMap::kLastCell;
    int32_t cell = (bits[i] & 0x7FFFFFFF) >> 16;
    cell = cell < kFirst ? kFirst : cell > kLast ? kLast : cell;
    ranks[i] = cells[cell - kFirst];
  }
  for (int i = 0; i < count; ++i) {
    auto magnitude = std::bit_cast<float>(bits[i] & 0x7FFFFFFF);
    int32_t rank = ranks[i] + (magnitude > middles[ranks[i]] ? 1 : 0);
    int32_t negative = rank < lastNegative ? rank : lastNegative;
    ranks[i] = bits[i] < 0 ? 256 - negative : rank;
  }
  for (int i = 0; i < count; ++i)
    to[i] = static_cast<uint8_t>(ranks[i]);
}

/// To nearest, ties to even; NaN above 464.
FSDP_VECTORIZED
void writeFloat8(const float *from, int count, float scale, uint8_t *to) {
  for (int i = 0; i < count; ++i) {
    auto bits = std::bit_cast<uint32_t>(from[i] / scale);
    uint32_t magnitude = bits & 0x7FFFFFFF;
    // Below the least normal number the digits end at 2^-9: an addition
    // rounds there.
    constexpr uint32_t kShift = uint32_t(127 + 23 - 9) << 23;
    uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) +
                                             std::bit_cast<float>(kShift)) -
                     kShift;
    uint32_t normal = (magnitude - (uint32_t(127 - 7) << 23) + 0x7FFFF +
                       (magnitude >> 20 & 1)) >>
                      20;
    uint32_t code = magnitude < uint32_t(127 - 6) << 23 ? small : normal;
    code = magnitude > 0x43E80000 ? 0x7F : code;
    to[i] = static_cast<uint8_t>(code | bits >> 31 << 7);
  }
}

/// `scale` is that of codes.
void write(Form form, const float *from, int count, float scale, char *to) {
  switch (form) {
  case Form::f32:
    std::memcpy(to, from, sizeof(float) * static_cast<size_t>(count));
    return;
  case Form::bf16:
    return writeBf16(from, count, reinterpret_cast<uint16_t *>(to));
  case Form::f16:
    for (int i = 0; i < count; ++i)
      reinterpret_cast<c10::Half *>(to)[i] = static_cast<c10::Half>(from[i]);
    return;
  case Form::dynamicSigned:
  case Form::dynamicUnsigned:
  case Form::float8:
    break;
  }
  // All of a block is zero.
  if (scale == 0)
    std::memset(to, 0, static_cast<size_t>(count));
  else if (form == Form::float8)
    writeFloat8(from, count, scale, reinterpret_cast<uint8_t *>(to));
  else
    writeDynamic(getDynamicMap(form == Form::dynamicSigned), from, count, scale,
                 reinterpret_cast<uint8_t *>(to));
}

/// The scale of a block whose greatest absolute value that is.
float toScale(Form form, float greatest) {
  return form == Form::float8 ? greatest / kGreatestFloat8 : greatest;
}

/// The greatest absolute value; NaN if one is. As a number of positive floats
/// orders their bits.
FSDP_VECTORIZED
uint32_t findGreatest(const float *from, int count) {
  uint32_t greatest = 0;
  for (int i = 0; i < count; ++i)
    greatest =
        std::max(greatest, std::bit_cast<uint32_t>(from[i]) & 0x7FFFFFFF);
  return greatest;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// The rule's numbers of one step, in the precision of the kernels.
struct Coefficients {
  float gradScale;
  float beta1, beta2, eps, decay, stepSize, rootCorrection;
  float lr, momentum;

  Coefficients(const UpdateRule &rule, const UpdateNumbers &numbers) {
    gradScale = numbers.gradScale;
    beta1 = static_cast<float>(rule.beta1);
    beta2 = static_cast<float>(rule.beta2);
    eps = static_cast<float>(rule.eps);
    bool isDecoupled = rule.kind == plan::OptimizerKind::adamw;
    decay =
        static_cast<float>(rule.weightDecay * (isDecoupled ? numbers.lr : 1));
    stepSize = static_cast<float>(numbers.lr /
                                  (1 - std::pow(rule.beta1, numbers.step)));
    rootCorrection =
        static_cast<float>(std::sqrt(1 - std::pow(rule.beta2, numbers.step)));
    lr = static_cast<float>(numbers.lr);
    momentum = static_cast<float>(rule.momentum);
  }
};

FSDP_VECTORIZED
void prepareGradient(const Coefficients &c, bool addsDecay, int count,
                     Block &block) {
  if (c.gradScale != 1)
    for (int i = 0; i < count; ++i)
      block.grad[i] /= c.gradScale;
  if (addsDecay && c.decay != 0)
    for (int i = 0; i < count; ++i)
      block.grad[i] += c.decay * block.param[i];
}

FSDP_VECTORIZED
void updateAdamMoments(const Coefficients &c, int count, Block &block) {
  float *first = block.moments[0], *second = block.moments[1];
  const float *grad = block.grad;
  for (int i = 0; i < count; ++i) {
    first[i] += (1 - c.beta1) * (grad[i] - first[i]);
    second[i] = second[i] * c.beta2 + (1 - c.beta2) * grad[i] * grad[i];
  }
}

FSDP_VECTORIZED
void updateAdamParam(const Coefficients &c, bool decays, int count,
                     Block &block) {
  const float *first = block.moments[0], *second = block.moments[1];
  float *param = block.param;
  if (decays)
    for (int i = 0; i < count; ++i)
      param[i] -= c.decay * param[i];
  for (int i = 0; i < count; ++i)
    param[i] -= c.stepSize * first[i] /
                (std::sqrt(second[i]) / c.rootCorrection + c.eps);
}

FSDP_VECTORIZED
void updateMomentum(const Coefficients &c, int count, Block &block) {
  float *buffer = block.moments[0];
  for (int i = 0; i < count; ++i)
    buffer[i] = c.momentum * buffer[i] + block.grad[i];
}

FSDP_VECTORIZED
void updateSgdParam(const Coefficients &c, bool hasBuffer, bool nesterov,
                    int count, Block &block) {
  if (hasBuffer && nesterov)
    for (int i = 0; i < count; ++i)
      block.grad[i] += c.momentum * block.moments[0][i];
  const float *way = hasBuffer && !nesterov ? block.moments[0] : block.grad;
  for (int i = 0; i < count; ++i)
    block.param[i] -= c.lr * way[i];
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

constexpr unsigned kLanes = 16;
/// Random numbers of 16 bits in one of Philox's blocks.
constexpr int64_t kOfBlock = 8;

FSDP_VECTORIZED
void generate(uint64_t first, uint32_t tensor, uint32_t step, philox::Key key,
              uint32_t (&words)[4][kLanes]) {
  for (unsigned i = 0; i < kLanes; ++i) {
    words[0][i] = uint32_t(first + i);
    words[1][i] = uint32_t((first + i) >> 32);
    words[2][i] = tensor;
    words[3][i] = step;
  }
  philox::generateLanes(words, key);
}

/// 16 bits for each of `count` elements from `first` on of the model's tensor:
/// element e has half e % 2 of word e / 2 % 4 of block e / 8.
void fillRandom(int64_t first, int64_t count, uint32_t tensor, uint32_t step,
                philox::Key key, uint16_t *to) {
  uint32_t words[4][kLanes];
  for (int64_t at = first / (kOfBlock * kLanes) * (kOfBlock * kLanes);
       at < first + count; at += kOfBlock * kLanes) {
    generate(static_cast<uint64_t>(at / kOfBlock), tensor, step, key, words);
    int64_t begin = std::max(at, first);
    int64_t end = std::min(at + kOfBlock * int64_t(kLanes), first + count);
    for (int64_t e = begin; e < end; ++e)
      to[e - first] = static_cast<uint16_t>(
          words[e / 2 % 4][(e - at) / kOfBlock] >> (e % 2 * 16));
  }
}

/// Those of a piece; padding has none, and stays zero with any.
void fillRandom(const UpdatedTensor &tensor, const BlockPiece &piece,
                uint32_t step, philox::Key key, uint16_t *to) {
  std::fill(to, to + piece.count, 0);
  int64_t end = piece.local + piece.count;
  auto run = std::ranges::upper_bound(tensor.runs, piece.local, {},
                                      &ElementRun::local);
  if (run != tensor.runs.begin())
    --run;
  for (; run != tensor.runs.end() && run->local < end; ++run) {
    int64_t from = std::max(piece.local, run->local);
    int64_t to_ = std::min(end, run->local + run->count);
    if (from < to_)
      fillRandom(run->whole + from - run->local, to_ - from, run->tensor, step,
                 key, to + (from - piece.local));
  }
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

/// A tensor with the forms of what it has.
class Updater {
public:
  Updater(const UpdateRule &rule, const UpdateNumbers &numbers,
          const UpdatedTensor &tensor)
      : rule(rule), tensor(tensor), coefficients(rule, numbers),
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
    read(paramForm, from(tensor.param, paramForm), count, 1, block.param);
    read(paramForm, from(tensor.grad, paramForm), count, 1, block.grad);
    for (size_t i = 0; i < forms.size(); ++i)
      read(forms[i], from(tensor.moments[i], forms[i]), count,
           isCode(forms[i]) ? scaleOf(i)[piece.block] : 1, block.moments[i]);
    prepareGradient(coefficients, rule.kind != plan::OptimizerKind::adamw,
                    count, block);
    if (rule.kind != plan::OptimizerKind::sgd)
      updateAdamMoments(coefficients, count, block);
    else if (!forms.empty())
      updateMomentum(coefficients, count, block);
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
      write(forms[i], block.moments[i], count, scale,
            to(tensor.moments[i], forms[i]));
    }
    if (rule.kind == plan::OptimizerKind::sgd)
      updateSgdParam(coefficients, !forms.empty(), rule.nesterov, count, block);
    else
      updateAdamParam(coefficients, rule.kind == plan::OptimizerKind::adamw,
                      count, block);
    char *param = to(tensor.param, paramForm);
    if (random)
      writeBf16AtRandom(block.param, random, count,
                        reinterpret_cast<uint16_t *>(param));
    else
      write(paramForm, block.param, count, 1, param);
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

  const UpdateRule &rule;
  const UpdatedTensor &tensor;
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
      fillRandom(tensor, piece, step, key, random);
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
