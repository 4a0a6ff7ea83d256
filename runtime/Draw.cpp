//===- Draw.cpp - Random numbers of a step --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/Instruction.h"

#include "runtime/Sampling.h"

using namespace fsdp;

namespace {

class DrawNumbers final : public Computation {
public:
  DrawNumbers(const Preparation &p, const plan::DrawT &op)
      : Computation(p.memory),
        state(p.values[op.random].const_data_ptr<int64_t>()), rank(p.rank),
        site(op.site), output(p.values[op.output]) {
    parameters.kind = op.distribution;
    parameters.numbers = op.numbers;
    parameters.range = op.range;
    for (uint32_t given : op.given)
      parameters.given.push_back(p.values[given]);
  }

private:
  void compute(StepState &) override {
    sample(parameters, RandomSequence(state[0], state[1], rank, site), output);
  }

  const int64_t *state; ///< (seed, offset)
  int rank;
  uint32_t site;
  at::Tensor output;
  DrawParameters parameters;
};

} // namespace

std::unique_ptr<Instruction> fsdp::prepareDraw(Preparation &p,
                                               const plan::DrawT &op) {
  return std::make_unique<DrawNumbers>(p, op);
}
