//===- Fusion.cpp - A step with and without own kernels -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Fusion.h"

#include "plan/DType.h"
#include "plan/Instructions.h"
#include "plan/Shape.h"

#include <algorithm>
#include <map>

using namespace fsdp;
using plan::InstructionT;
using plan::PlanT;
using plan::ProgramT;

/// Whether bytes, not operations, take its time, and other operators of the
/// kind could be in one kernel with it.
static bool isMover(const Work &work) {
  switch (work.kind) {
  case WorkKind::elementwise:
  case WorkKind::reduction:
  case WorkKind::indexing:
  case WorkKind::random:
  case WorkKind::optimizer:
  case WorkKind::copy:
    return !work.onHost;
  default:
    return false;
  }
}

namespace {

/// What of a program has to be read and written, whatever is one kernel.
class LeastBytes {
public:
  LeastBytes(const PlanT &plan, const ProgramT &program)
      : plan(plan), program(program), places(program.values.size()) {}

  double compute() {
    for (const auto &instruction : program.instructions)
      add(*instruction);
    // What the program leaves behind.
    for (uint32_t root = 0; root < places.size(); ++root)
      if (program.values[root]->place == plan::Place::state)
        countWrite(root);
    for (const auto &result : program.results)
      countWrite(rootOf(program, result->value));
    return total;
  }

private:
  struct Place {
    bool isRead = false;   ///< by one of them, since it was last written
    double unwritten = 0;  ///< bytes that one of them made, and none other saw
    bool isTheirs = false; ///< one of them made it
  };

  double bytesOf(uint32_t value) const {
    auto size = [&](uint32_t index) {
      const plan::ValueT &v = *program.values[index];
      return double(checkedElements(v.shape).value_or(0)) *
             double(dtypeBytes(v.dtype));
    };
    return std::min(size(value), size(rootOf(program, value)));
  }

  void countWrite(uint32_t root) {
    total += places[root].unwritten;
    places[root].unwritten = 0;
  }

  void add(const InstructionT &instruction) {
    Work work = estimateWork(plan, program, instruction);
    bool isTheirs = isMover(work);
    // Views name memory, and read none.
    if (work.kind == WorkKind::none && !flightOf(instruction))
      return;
    for (uint32_t value : valuesOf(instruction, reads)) {
      Place &place = places[rootOf(program, value)];
      if (!isTheirs) {
        countWrite(rootOf(program, value));
      } else if (!place.isTheirs && !place.isRead) {
        total += std::min(bytesOf(value), work.bytes);
        place.isRead = true;
      }
    }
    for (uint32_t value : valuesOf(instruction, writes)) {
      Place &place = places[rootOf(program, value)];
      place = {false, isTheirs ? std::min(bytesOf(value), work.bytes) : 0,
               isTheirs};
    }
  }

  const PlanT &plan;
  const ProgramT &program;
  std::vector<Place> places; ///< by root
  double total = 0;
};

} // namespace

static MovedBytes sum(const PlanT &plan, const Prediction &prediction,
                      std::map<std::string, OwnKernel> *kernels) {
  MovedBytes moved;
  moved.seconds = prediction.seconds;
  moved.planned = prediction.planned;
  for (const PredictedProgram &predicted : prediction.programs) {
    const ProgramT &program = *plan.programs[predicted.program];
    for (size_t kind = 0; kind < kWorkKinds; ++kind)
      moved.byKind[kind] += predicted.runs * predicted.byKind[kind];
    for (const PredictedKernel &kernel : predicted.kernels) {
      const InstructionT &instruction =
          *program.instructions[kernel.instruction];
      Work work = estimateWork(plan, program, instruction);
      if (!isMover(work))
        continue;
      moved.bytes += predicted.runs * work.bytes;
      moved.calls += predicted.runs;
      const plan::KernelT *own = instruction.body.AsKernel();
      if (!own || !kernels)
        continue;
      const std::string &name = plan.kernels[own->program]->name;
      OwnKernel &entry = (*kernels)[name];
      entry.name = name;
      entry.calls += predicted.runs;
      entry.seconds += predicted.runs * (kernel.end - kernel.begin);
      entry.bytes += predicted.runs * work.bytes;
    }
  }
  return moved;
}

Fusion fsdp::compareFusion(const PlanT &before, const Prediction &predicted,
                           const PlanT &after, const Prediction &fused) {
  Fusion result;
  std::map<std::string, OwnKernel> kernels;
  result.before = sum(before, predicted, nullptr);
  result.after = sum(after, fused, &kernels);
  for (const PredictedProgram &each : predicted.programs)
    result.leastBytes +=
        each.runs *
        LeastBytes(before, *before.programs[each.program]).compute();
  for (auto &[name, kernel] : kernels)
    result.kernels.push_back(std::move(kernel));
  std::ranges::stable_sort(result.kernels, std::ranges::greater(),
                           &OwnKernel::seconds);
  return result;
}
