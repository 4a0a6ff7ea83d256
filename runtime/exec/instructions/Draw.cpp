//===- Draw.cpp - Random numbers of a step --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/Instruction.h"

#include "plan/Grains.h"
#include "plan/Target.h"
#include "runtime/random/Sampling.h"

#include <ATen/ops/empty_strided.h>

#include <algorithm>

using namespace fsdp;

namespace {

/// Whose numbers are drawn: a rank's, where those that compute a step together
/// draw alike, or a grain's, wherever it is computed.
class Drawer {
public:
  explicit Drawer(const Preparation &p)
      : number(static_cast<int>(getDataRank(p.plan, p.rank))) {
    if (p.plan.training->grains == 0)
      return;
    block = dealGrains(p.plan)[static_cast<size_t>(number)];
    number = static_cast<int>(block.first);
  }

  int at(const StepState &state) const {
    // Beyond the rank's last grain nobody looks.
    auto last = static_cast<int>(block.count) - 1;
    return number + std::min(static_cast<int>(state.microBatch), last);
  }

private:
  int number;
  GrainBlock block{0, 1, 1};
};

} // namespace

static DrawParameters makeParameters(const Preparation &p,
                                     const plan::DrawT &op) {
  DrawParameters parameters;
  parameters.kind = op.distribution;
  parameters.numbers = op.numbers;
  parameters.range = op.range;
  for (uint32_t given : op.given)
    parameters.given.push_back(p.values[given]);
  return parameters;
}

namespace {

/// On a device that cannot draw them itself: the host does, with its numbers.
class DrawOnHost final : public Instruction {
public:
  DrawOnHost(const Preparation &p, const plan::DrawT &op)
      : state(p.values[op.random]), drawer(p), site(op.site),
        output(p.values[op.output]),
        numbers(at::empty_strided(output.sizes(), output.strides(),
                                  output.scalar_type())),
        parameters(makeParameters(p, op)) {}

  void run(StepState &step) override {
    at::Tensor here = state.cpu();
    const int64_t *at = here.data_ptr<int64_t>();
    DrawParameters onHost = parameters;
    for (at::Tensor &given : onHost.given)
      given = given.cpu();
    sample(onHost, RandomSequence(at[0], at[1], drawer.at(step), site),
           numbers);
    output.copy_(numbers);
  }
  bool needsHost() const override { return true; }

private:
  at::Tensor state; ///< (seed, offset)
  Drawer drawer;
  uint32_t site;
  at::Tensor output, numbers;
  DrawParameters parameters;
};

} // namespace

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::DrawT &op) {
  if (p.device.isHost())
    return makeComputation(
        p.memory,
        [state = p.values[op.random].data_ptr<int64_t>(), drawer = Drawer(p),
         site = op.site, output = p.values[op.output],
         parameters = makeParameters(p, op)](StepState &step) {
          // (seed, offset)
          sample(parameters,
                 RandomSequence(state[0], state[1], drawer.at(step), site),
                 output);
        });
  if (auto draw = p.device.prepareDraw(p, op))
    return draw;
  return std::make_unique<DrawOnHost>(p, op);
}
