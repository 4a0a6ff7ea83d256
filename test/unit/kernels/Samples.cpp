//===- Samples.cpp - Programs that models have ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/unit/kernels/Samples.h"

using namespace fsdp;
using K = KernelOpKind;
using plan::DType;

namespace {

/// Arithmetic on a builder's values.
class Maths : public ProgramBuilder {
public:
  Maths(DType dtype, std::vector<int64_t> rows)
      : ProgramBuilder(std::move(rows)), dtype(dtype) {}

  uint32_t number(double value) { return op(K::constant, {}, {}, value); }
  uint32_t sum(uint32_t x, uint32_t y) { return op(K::add, {x, y}); }
  uint32_t minus(uint32_t x, uint32_t y) { return op(K::sub, {x, y}); }
  uint32_t times(uint32_t x, uint32_t y) { return op(K::mul, {x, y}); }
  uint32_t over(uint32_t x, uint32_t y) { return op(K::div, {x, y}); }
  /// What an operator leaves in memory.
  uint32_t kept(uint32_t x) {
    return dtype == DType::bf16 ? op(K::round_bf16, {x}) : x;
  }
  /// The same for all rows.
  uint32_t shared(uint64_t columns) {
    return load(dtype, columns, std::vector<int64_t>(program.rows.size()), 1);
  }
  uint32_t sigmoid(uint32_t x) {
    uint32_t one = number(1);
    return over(one, sum(one, op(K::exp, {op(K::neg, {x})})));
  }
  /// Whether a column is the one that a row's target names.
  uint32_t isTarget(uint64_t columns) {
    uint32_t target = load(DType::i64, 1);
    return op(K::equal_integers,
              {op(K::column, {}, {int64_t(columns)}), target});
  }

  DType dtype;
};

} // namespace

static plan::KernelProgramT normForward(DType dtype, int64_t rows,
                                        uint64_t columns) {
  Maths m(dtype, {rows});
  uint32_t x = m.load(dtype, columns), residual = m.load(dtype, columns);
  uint32_t weight = m.shared(columns);
  uint32_t h = m.kept(m.sum(x, residual));
  uint32_t mean =
      m.over(m.op(K::sum_columns, {m.times(h, h)}), m.number(double(columns)));
  uint32_t scale =
      m.over(m.number(1), m.op(K::sqrt, {m.sum(mean, m.number(1e-5))}));
  m.store(dtype, h);
  m.store(dtype, m.kept(m.times(m.kept(m.times(h, scale)), weight)));
  m.store(DType::f32, scale);
  return std::move(m.program);
}

static plan::KernelProgramT normBackward(DType dtype, int64_t rows,
                                         uint64_t columns) {
  Maths m(dtype, {rows});
  uint32_t dy = m.load(dtype, columns), h = m.load(dtype, columns);
  uint32_t scale = m.load(DType::f32, 1), weight = m.shared(columns);
  uint32_t after = m.load(dtype, columns);
  uint32_t normal = m.kept(m.times(h, scale));
  uint32_t d = m.kept(m.times(dy, weight));
  uint32_t along = m.op(K::sum_columns, {m.times(d, h)});
  uint32_t cube = m.times(m.times(scale, scale), scale);
  uint32_t factor = m.over(m.times(along, cube), m.number(double(columns)));
  uint32_t dx = m.kept(m.minus(m.times(d, scale), m.times(h, factor)));
  m.store(dtype, m.kept(m.sum(dx, after)));
  m.storeSum(m.kept(m.times(dy, normal)));
  return std::move(m.program);
}

static plan::KernelProgramT gateForward(DType dtype, int64_t rows,
                                        uint64_t columns) {
  Maths m(dtype, {rows});
  uint32_t gate = m.load(dtype, columns), up = m.load(dtype, columns);
  uint32_t silu = m.kept(m.times(gate, m.sigmoid(gate)));
  m.store(dtype, m.kept(m.times(silu, up)));
  return std::move(m.program);
}

static plan::KernelProgramT gateBackward(DType dtype, int64_t rows,
                                         uint64_t columns) {
  Maths m(dtype, {rows});
  uint32_t dy = m.load(dtype, columns), gate = m.load(dtype, columns),
           up = m.load(dtype, columns);
  uint32_t sigmoid = m.sigmoid(gate), one = m.number(1);
  uint32_t silu = m.kept(m.times(gate, sigmoid));
  uint32_t slope =
      m.times(sigmoid, m.sum(one, m.times(gate, m.minus(one, sigmoid))));
  m.store(dtype, m.kept(m.times(m.kept(m.times(dy, up)), slope)));
  m.store(dtype, m.kept(m.times(dy, silu)));
  return std::move(m.program);
}

static plan::KernelProgramT lossForward(DType dtype, int64_t rows,
                                        uint64_t columns) {
  Maths m(dtype, {rows});
  uint32_t x = m.load(dtype, columns), isTarget = m.isTarget(columns);
  uint32_t most = m.op(K::max_columns, {x});
  uint32_t total = m.op(K::sum_columns, {m.op(K::exp, {m.minus(x, most)})});
  uint32_t whole = m.sum(most, m.op(K::log, {total}));
  uint32_t picked =
      m.op(K::sum_columns, {m.op(K::select, {isTarget, x, m.number(0)})});
  m.store(DType::f32, m.minus(whole, picked));
  m.store(DType::f32, whole);
  return std::move(m.program);
}

static plan::KernelProgramT lossBackward(DType dtype, int64_t rows,
                                         uint64_t columns) {
  Maths m(dtype, {rows});
  uint32_t x = m.load(dtype, columns), isTarget = m.isTarget(columns);
  uint32_t whole = m.load(DType::f32, 1);
  uint32_t share = m.op(K::exp, {m.minus(x, whole)});
  uint32_t less = m.op(K::select, {isTarget, m.number(1), m.number(0)});
  m.store(dtype, m.kept(m.times(m.minus(share, less), m.number(1.0 / 512))));
  return std::move(m.program);
}

static plan::KernelProgramT rotate(DType dtype, int64_t rows,
                                   uint64_t columns) {
  // Positions, heads.
  uint64_t width = 64;
  int64_t heads = std::max<int64_t>(int64_t(columns / width), 1);
  Maths m(dtype, {rows, heads});
  auto half = int64_t(width / 2), row = int64_t(width);
  uint32_t x = m.load(dtype, width);
  uint32_t cosine = m.load(dtype, width, {row, 0}, 1);
  uint32_t sine = m.load(dtype, width, {row, 0}, 1);
  uint32_t low = m.op(K::slice, {x}, {0, half}),
           high = m.op(K::slice, {x}, {half, half});
  uint32_t turned = m.op(K::cat, {m.op(K::neg, {high}), low});
  m.store(dtype, m.kept(m.sum(m.kept(m.times(x, cosine)),
                              m.kept(m.times(turned, sine)))));
  return std::move(m.program);
}

static plan::KernelProgramT adamw(DType dtype, int64_t rows, uint64_t columns) {
  uint64_t count = uint64_t(rows) * columns;
  Maths m(dtype, {});
  uint32_t p = m.load(DType::f32, count), mean = m.load(DType::f32, count),
           square = m.load(DType::f32, count), g = m.load(dtype, count);
  uint32_t rate = m.load(DType::f32, 1);
  uint32_t d = m.minus(g, mean);
  uint32_t mean2 = m.op(K::fma, {d, m.number(0.1), mean});
  uint32_t square2 = m.sum(m.times(square, m.number(0.999)),
                           m.times(m.times(g, g), m.number(0.001)));
  uint32_t under = m.sum(m.op(K::sqrt, {square2}), m.number(1e-8));
  uint32_t decayed = m.minus(p, m.times(m.times(rate, m.number(0.1)), p));
  uint32_t p2 = m.minus(decayed, m.times(rate, m.over(mean2, under)));
  m.store(DType::f32, p2);
  m.store(DType::f32, mean2);
  m.store(DType::f32, square2);
  if (dtype == DType::bf16)
    m.store(dtype, p2);
  return std::move(m.program);
}

std::vector<Sample> fsdp::makeSamples(DType dtype, int64_t rows,
                                      uint64_t columns) {
  std::vector<Sample> samples;
  auto add = [&](const char *name, auto make) {
    samples.push_back({name, make(dtype, rows, columns)});
  };
  add("RMSNorm", normForward);
  add("RMSNorm backward", normBackward);
  add("SwiGLU", gateForward);
  add("SwiGLU backward", gateBackward);
  add("cross-entropy", lossForward);
  add("cross-entropy backward", lossBackward);
  add("rotary", rotate);
  add("AdamW", adamw);
  return samples;
}
