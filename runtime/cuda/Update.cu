//===- Update.cu - Updates in blocks on a device --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A warp has a piece of at most 256 elements, a thread 8 neighbours of it: what
// it reads and writes at once, what one block of random words is for. No
// barrier but those within a warp stands between pieces.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Elements.cuh"
#include "runtime/cuda/Launches.cuh"
#include "runtime/cuda/Update.h"
#include "support/Philox.h"

#include <cmath>
#include <cstdint>

using namespace fsdp;

namespace {

constexpr int kLanes = 32;
static_assert(kLanes * kEach == kBlockElements);
constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ const DynamicMap kSigned = makeDynamicMap(true),
                            kUnsigned = makeDynamicMap(false);
__device__ const Float8Map kFloat8 = makeFloat8Map();

/// Of each moment that is codes, near to the threads.
struct Tables {
  float values[kMostMoments][256], middles[kMostMoments][256];
  uint8_t cells[kMostMoments][DynamicMap::kCells];
  int32_t lastNegative[kMostMoments];
};

__device__ const DynamicMap *mapOf(Form form) {
  return form == Form::dynamicSigned     ? &kSigned
         : form == Form::dynamicUnsigned ? &kUnsigned
                                         : nullptr;
}

__device__ void fillTables(const DeviceUpdate &update, Tables &tables) {
  for (int i = 0; i < update.momentCount; ++i) {
    if (!isCode(update.moments[i]))
      continue;
    const DynamicMap *map = mapOf(update.moments[i]);
    const float *values = map ? map->values : kFloat8.values;
    for (unsigned at = threadIdx.x; at < 256; at += blockDim.x)
      tables.values[i][at] = values[at];
    if (!map)
      continue;
    for (unsigned at = threadIdx.x; at < 256; at += blockDim.x)
      tables.middles[i][at] = map->middles[at];
    // A rank is at most 255.
    for (unsigned at = threadIdx.x; at < DynamicMap::kCells; at += blockDim.x)
      tables.cells[i][at] = static_cast<uint8_t>(map->cells[at]);
    if (threadIdx.x == 0)
      tables.lastNegative[i] = map->lastNegative;
  }
}

__device__ double readNumber(DeviceNumber number, double otherwise) {
  if (!number.at)
    return otherwise;
  return number.isDouble
             ? *static_cast<const double *>(number.at)
             : static_cast<double>(*static_cast<const float *>(number.at));
}

/// What all threads of a block go by.
struct Shared {
  Tables tables;
  Coefficients coefficients;
  philox::Key key;
  uint32_t step;
};

__device__ void fill(const DeviceUpdate &update, Shared &shared) {
  fillTables(update, shared.tables);
  if (threadIdx.x == 0) {
    UpdateNumbers now;
    now.lr = readNumber(update.lr, 0);
    now.step = readNumber(update.step, 0);
    now.gradScale = static_cast<float>(readNumber(update.gradScale, 1));
    shared.coefficients = computeCoefficients(update.numbers, now);
    shared.step = static_cast<uint32_t>(static_cast<int64_t>(now.step));
    if (update.isRounded)
      shared.key = philox::deriveKey(update.seed, philox::Domain::Rounding, 0);
  }
  __syncthreads();
}

/// Those of a warp.
struct Piece {
  uint32_t tensor;
  int64_t local, block;
  int count;
};

__device__ Piece findPiece(const DeviceUpdate &update, int64_t number) {
  int64_t low = 0, high = update.spanCount;
  while (high - low > 1) {
    int64_t middle = (low + high) / 2;
    (update.spans[middle].firstPiece <= number ? low : high) = middle;
  }
  const UpdateSpan &span = update.spans[low];
  int64_t block = span.whole / kBlockElements + number - span.firstPiece;
  int64_t begin = block * kBlockElements, end = begin + kBlockElements;
  if (begin < span.whole)
    begin = span.whole;
  if (end > span.whole + span.count)
    end = span.whole + span.count;
  return {span.tensor, span.local + begin - span.whole, block,
          static_cast<int>(end - begin)};
}

/// The number of an element in what `grad` spans.
__device__ int64_t placeInGradient(const DeviceUpdatedTensor &tensor,
                                   int64_t at) {
  int64_t place = 0;
  for (int dim = tensor.gradDims - 1; dim >= 0; --dim) {
    place += at % tensor.gradSizes[dim] * tensor.gradStrides[dim];
    at /= tensor.gradSizes[dim];
  }
  return place;
}

/// A thread's elements on their way.
struct Elements {
  float param[kEach], grad[kEach], moments[kMostMoments][kEach];
};

/// A thread's part of a warp's piece.
class Worker {
public:
  __device__ Worker(const DeviceUpdate &update, const Shared &shared,
                    const Piece &piece)
      : update(update), shared(shared), tensor(update.tensors[piece.tensor]),
        block(piece.block) {
    int first = static_cast<int>(threadIdx.x % kLanes) * kEach;
    at = piece.local + first;
    count = piece.count - first;
    isWide = tensor.isAligned && count >= kEach && at % kEach == 0;
  }

  /// Reads what is there, and computes new moments.
  template <typename Arithmetic>
  __device__ void begin() {
    read(update.param, tensor.param, at, count, isWide, nullptr, 1, e.param);
    readGradient();
#pragma unroll
    for (int i = 0; i < kMostMoments; ++i) {
      if (i < update.momentCount) {
        bool isCoded = isCode(update.moments[i]);
        read(update.moments[i], tensor.moments[i], at, count, isWide,
             shared.tables.values[i], isCoded ? tensor.scales[i][block] : 1,
             e.moments[i]);
      } else {
#pragma unroll
        for (float &moment : e.moments[i])
          moment = 0;
      }
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      Arithmetic::moments(shared.coefficients, element_(i));
  }

  /// The bits of the greatest absolute value of a moment in the warp's piece,
  /// which all of its threads get.
  __device__ uint32_t findGreatest(int moment) const {
    uint32_t greatest = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      uint32_t own = i < count ? element::magnitudeOf(e.moments[moment][i]) : 0;
      greatest = own > greatest ? own : greatest;
    }
#pragma unroll
    for (int other = kLanes / 2; other != 0; other /= 2) {
      uint32_t theirs = __shfl_xor_sync(kAllLanes, greatest, other);
      greatest = theirs > greatest ? theirs : greatest;
    }
    return greatest;
  }

  /// Stores moments, then computes and stores parameters.
  template <typename Arithmetic>
  __device__ void end() {
#pragma unroll
    for (int i = 0; i < kMostMoments; ++i)
      if (i < update.momentCount)
        storeMoment(i);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      Arithmetic::param(shared.coefficients, element_(i));
    if (update.isRounded)
      storeAtRandom();
    else
      write(update.param, e.param, 1, 0, tensor.param);
  }

private:
  __device__ element::Updated element_(int i) {
    return {e.param[i], e.grad[i], e.moments[0][i], e.moments[1][i]};
  }

  __device__ void readGradient() {
    if (tensor.gradDims == 0)
      return read(update.param, tensor.grad, at, count, isWide, nullptr, 1,
                  e.grad);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      e.grad[i] = i < count ? readOne(placeInGradient(tensor, at + i)) : 0;
    }
  }

  __device__ float readOne(int64_t place) const {
    if (update.param == Form::f32)
      return reinterpret_cast<const float *>(tensor.grad)[place];
    if (update.param == Form::bf16)
      return element::fromBf16(
          reinterpret_cast<const uint16_t *>(tensor.grad)[place]);
    return static_cast<float>(
        reinterpret_cast<const __half *>(tensor.grad)[place]);
  }

  __device__ void storeMoment(int i) {
    float scale = 1;
    if (isCode(update.moments[i])) {
      float greatest = update.sharesBlocks ? tensor.maxima[i][block]
                                           : element::numberOf(findGreatest(i));
      scale = toScale(update.moments[i], greatest);
      // All of the warp have read the scale that was there: they gave away what
      // they computed with it.
      if (!update.sharesBlocks && threadIdx.x % kLanes == 0)
        tensor.scales[i][block] = scale;
    }
    write(update.moments[i], e.moments[i], scale, i, tensor.moments[i]);
  }

  __device__ uint8_t encode(Form form, int moment, float number,
                            float scale) const {
    if (scale == 0) // all of the block is zero
      return 0;
    if (form == Form::float8)
      return element::toFloat8(number / scale);
    const Tables &tables = shared.tables;
    auto bits = static_cast<int32_t>(element::bitsOf(number / scale));
    return static_cast<uint8_t>(element::toDynamic(
        tables.middles[moment], tables.lastNegative[moment], bits,
        element::findCell(tables.cells[moment], bits)));
  }

  __device__ void write(Form form, const float *from, float scale, int moment,
                        char *to) const {
    if (form == Form::f32)
      return storeAll(from, count, isWide, reinterpret_cast<float *>(to) + at);
    if (form == Form::bf16) {
      uint16_t codes[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        codes[i] = element::toBf16(from[i]);
      storeAll(codes, count, isWide, reinterpret_cast<uint16_t *>(to) + at);
    } else if (form == Form::f16) {
      uint16_t codes[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        codes[i] = __builtin_bit_cast(uint16_t, static_cast<__half>(from[i]));
      storeAll(codes, count, isWide, reinterpret_cast<uint16_t *>(to) + at);
    } else {
      uint8_t codes[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        codes[i] = encode(form, moment, from[i], scale);
      storeAll(codes, count, isWide, reinterpret_cast<uint8_t *>(to) + at);
    }
  }

  /// The last of the tensor's runs that begins at `local` or in front; null:
  /// none does.
  __device__ const ElementRun *findRun(int64_t local) const {
    const ElementRun *runs = update.runs + tensor.firstRun;
    uint32_t low = 0, high = tensor.runCount;
    while (low < high) {
      uint32_t middle = (low + high) / 2;
      if (runs[middle].local <= local)
        low = middle + 1;
      else
        high = middle;
    }
    return low == 0 ? nullptr : runs + low - 1;
  }

  __device__ philox::Block makeWords(int64_t whole, uint32_t name) const {
    auto number = static_cast<uint64_t>(whole / kEach);
    return philox::generate({static_cast<uint32_t>(number),
                             static_cast<uint32_t>(number >> 32), name,
                             shared.step},
                            shared.key);
  }

  __device__ static uint32_t halfOf(const philox::Block &words, int64_t whole) {
    int64_t number = whole / 2 % 4;
    // By no index: words stay in registers.
    uint32_t word = number == 0   ? words.words[0]
                    : number == 1 ? words.words[1]
                    : number == 2 ? words.words[2]
                                  : words.words[3];
    return word >> (whole % 2 * 16) & 0xFFFF;
  }

  /// 16 bits of one element (RandomRounding.h); 0 of padding, which is in no
  /// run.
  __device__ uint32_t makeRandom(int64_t local) const {
    const ElementRun *run = findRun(local);
    if (!run || local >= run->local + run->count)
      return 0;
    int64_t whole = run->whole + local - run->local;
    return halfOf(makeWords(whole, run->tensor), whole);
  }

  __device__ void storeAtRandom() const {
    uint16_t codes[kEach];
    const ElementRun *run = isWide ? findRun(at) : nullptr;
    int64_t whole = run ? run->whole + at - run->local : 1;
    if (run && whole % kEach == 0 && at + kEach <= run->local + run->count) {
      philox::Block words = makeWords(whole, run->tensor);
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        codes[i] = element::toBf16AtRandom(
            e.param[i], words.words[i / 2] >> (i % 2 * 16) & 0xFFFF);
    } else {
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        codes[i] = element::toBf16AtRandom(e.param[i],
                                           i < count ? makeRandom(at + i) : 0);
    }
    storeAll(codes, count, isWide,
             reinterpret_cast<uint16_t *>(tensor.param) + at);
  }

  const DeviceUpdate &update;
  const Shared &shared;
  const DeviceUpdatedTensor &tensor;
  const int64_t block;
  int64_t at; ///< the first element's number in what the rank holds
  int count;  ///< not above 0: none
  bool isWide;
  Elements e;
};

/// Calls `function` with each of the warp's pieces.
template <typename Function>
__device__ void forEachPiece(const DeviceUpdate &update, Function function) {
  int64_t warps = int64_t(gridDim.x) * (blockDim.x / kLanes);
  for (int64_t number =
           (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
       number < update.pieces; number += warps)
    function(findPiece(update, number));
}

template <typename Arithmetic>
__global__ void updatePieces(const __grid_constant__ DeviceUpdate update) {
  if (update.foundInf && *update.foundInf == 1)
    return;
  __shared__ Shared shared;
  fill(update, shared);
  forEachPiece(update, [&](const Piece &piece) {
    Worker worker(update, shared, piece);
    worker.template begin<Arithmetic>();
    worker.template end<Arithmetic>();
  });
}

template <typename Arithmetic>
__global__ void findMaxima(const __grid_constant__ DeviceUpdate update) {
  __shared__ Shared shared;
  fill(update, shared);
  forEachPiece(update, [&](const Piece &piece) {
    Worker worker(update, shared, piece);
    worker.template begin<Arithmetic>();
    const DeviceUpdatedTensor &tensor = update.tensors[piece.tensor];
#pragma unroll
    for (int i = 0; i < kMostMoments; ++i) {
      if (i >= update.momentCount)
        break;
      uint32_t greatest = worker.findGreatest(i);
      // A rank may have several pieces of a block.
      if (threadIdx.x % kLanes == 0)
        atomicMax(reinterpret_cast<unsigned *>(tensor.maxima[i]) + piece.block,
                  greatest);
    }
  });
}

__global__ void clear(float *numbers, int64_t count) {
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < count;
       at += int64_t(gridDim.x) * blockDim.x)
    numbers[at] = 0;
}

/// Behind all that read the scales that were.
__global__ void takeScales(const __grid_constant__ DeviceUpdate update) {
  if (update.foundInf && *update.foundInf == 1)
    return;
  for (int64_t number = blockIdx.x; number < update.tensorCount;
       number += gridDim.x) {
    const DeviceUpdatedTensor &tensor = update.tensors[number];
    for (int i = 0; i < update.momentCount; ++i)
      for (int64_t block = threadIdx.x; block < tensor.blocks;
           block += blockDim.x)
        tensor.scales[i][block] =
            toScale(update.moments[i], tensor.maxima[i][block]);
  }
}

unsigned blocksOfPieces(const DeviceUpdate &update) {
  return blocksFor(static_cast<size_t>(update.pieces) * kLanes);
}

unsigned blocksOfTensors(const DeviceUpdate &update) {
  return blocksFor(static_cast<size_t>(update.tensorCount) * kThreads);
}

} // namespace

void fsdp::updateOnDevice(const DeviceUpdate &update, StreamHandle stream) {
  if (update.pieces == 0)
    return;
  visitArithmetic(update.kind, [&]<typename Arithmetic>(Arithmetic) {
    launchKernel("the kernel of an update", updatePieces<Arithmetic>,
                 blocksOfPieces(update), kThreads, stream, update);
  });
  if (update.sharesBlocks)
    launchKernel("the kernel of an update's scales", takeScales,
                 blocksOfTensors(update), kThreads, stream, update);
}

void fsdp::findMaximaOnDevice(const DeviceUpdate &update, StreamHandle stream) {
  launchKernel("the kernel of blocks' maxima", clear,
               blocksFor(static_cast<size_t>(update.foundCount)), kThreads,
               stream, update.found, update.foundCount);
  if (update.pieces == 0)
    return;
  visitArithmetic(update.kind, [&]<typename Arithmetic>(Arithmetic) {
    launchKernel("the kernel of blocks' maxima", findMaxima<Arithmetic>,
                 blocksOfPieces(update), kThreads, stream, update);
  });
}
