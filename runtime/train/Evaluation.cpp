//===- Evaluation.cpp - When a run validates, and what it says ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Evaluation.h"

#include "plan/plan_generated.h"
#include "runtime/train/Progress.h"

#include <chrono>
#include <cstdio>

using namespace fsdp;

Evaluation::Evaluation(Session &session, std::optional<uint64_t> every,
                       Metrics *metrics)
    : session(session), metrics(metrics) {
  if (const auto &validation = session.plan().validation)
    this->every = validation->every;
  this->every = every.value_or(this->every);
}

bool Evaluation::isDue(uint64_t steps, bool isLast) const {
  return session.canEvaluate() && (isLast || (every && steps % every == 0));
}

void Evaluation::run(uint64_t steps) {
  auto begin = std::chrono::steady_clock::now();
  result = session.evaluate();
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  if (metrics)
    metrics->write(*result, steps, time.count());
  if (session.rank() == 0)
    printEvaluation(*result, steps, time.count());
}

void Evaluation::printSummary() const {
  if (result)
    std::printf("eval loss %.4f over %llu rows\n", result->loss,
                static_cast<unsigned long long>(result->rows));
}
