//===- Validation.cpp - The loss over other data --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/Validation.h"

#include "runtime/log/Log.h"
#include "support/Error.h"
#include "support/LossWeight.h"

#include <algorithm>

using namespace fsdp;

/// A mean over ranks; null if the program has no such.
static const plan::BindingT *findMetric(const plan::ProgramT &program,
                                        std::string_view name) {
  auto found = std::ranges::find(program.results, name,
                                 [](const auto &each) { return each->metric; });
  return found == program.results.end() ? nullptr : found->get();
}

/// What a program has computed of a batch: the loss times its weight.
Validation::Term Validation::readLoss(const LossProgram &program) const {
  auto read = [&](const plan::BindingT &binding) {
    return device.readNumber(program.executor->getResult(binding));
  };
  // The plan was verified: there is one.
  Term term{read(*findMetric(*program.program, "loss")), 1};
  if (const plan::BindingT *weight = findMetric(*program.program, kLossWeight))
    term.weight = read(*weight);
  return term;
}

std::vector<const plan::ProgramT *> Validation::listPrograms() const {
  std::vector<const plan::ProgramT *> list;
  for (const LossProgram &each : all)
    list.push_back(each.program);
  return list;
}

Validation::Validation(const plan::PlanT &plan,
                       std::vector<LossProgram> programs, int rank,
                       const Arena &arena, Device &device,
                       const InputSources &sources, uint64_t batches)
    : all(std::move(programs)), device(device),
      inputs(plan, std::vector(1, listPrograms()), rank, arena, device,
             sources),
      batches(batches) {
  if (sources.data.files.empty() && !sources.data.isSample) {
    this->batches = 0;
    return;
  }
  std::optional<uint64_t> available =
      inputs.stepsFrom(/*firstRow=*/0, /*microBatches=*/1);
  if (!available) {
    this->batches = 1;
    return;
  }
  uint64_t rows = *inputs.dataRows(), each = inputs.globalRows();
  if (*available == 0)
    throw Error(ErrorId::DataShape,
                "the validation data has " + std::to_string(rows) +
                    " rows, and the ranks read " + std::to_string(each) +
                    " at once; use more");
  if (batches == 0 || batches > *available)
    this->batches = *available;
  if (rank == 0 && batches == 0 && rows % each != 0)
    log(LogLevel::info, "validation leaves out the last " +
                            std::to_string(rows % each) + " of " +
                            std::to_string(rows) +
                            " rows, which fill no batch of all ranks");
}

const LossProgram &Validation::pick(uint64_t firstRow, uint64_t step,
                                    ProgramAgreement *agreement) {
  size_t picked = inputs.pick(firstRow);
  if (agreement)
    agreement->check(picked, listPrograms(), step);
  return all[picked];
}

double Validation::runGiven(std::span<const GivenInput> given, uint64_t step,
                            ProgramAgreement *agreement) {
  inputs.lend(given);
  const LossProgram &program = pick(/*firstRow=*/0, step, agreement);
  inputs.forget();
  inputs.load(/*firstRow=*/0, /*part=*/0);
  device.run(*program.executor, step);
  Term term = readLoss(program);
  return term.loss / term.weight;
}

EvalResult Validation::run(uint64_t step, ProgramAgreement *agreement) {
  inputs.withdraw();
  // Training was in this memory.
  inputs.forget();
  EvalResult result;
  double weights = 0;
  for (; result.batches < batches; ++result.batches) {
    // Data says the same on all ranks; the first batch makes sure.
    const LossProgram &program =
        pick(result.rows, step, result.batches == 0 ? agreement : nullptr);
    inputs.load(result.rows, /*part=*/0);
    device.run(*program.executor, step);
    // Where labels are counted, each counts as much as any other.
    double weight =
        static_cast<double>(inputs.countLabels(result.rows).value_or(1));
    Term term = readLoss(program);
    result.loss += weight * term.loss;
    weights += weight * term.weight;
    result.rows += inputs.globalRows();
  }
  result.loss /= weights;
  return result;
}
