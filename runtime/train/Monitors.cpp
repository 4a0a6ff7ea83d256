//===- Monitors.cpp - What dashboards learn of a run ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Monitors.h"

using namespace fsdp;

Monitors::Monitors(const MonitorOptions &options, uint64_t first) {
  if (!options.tensorboard.empty())
    events.emplace(options.tensorboard, first);
  if (!options.prometheus.empty())
    server.emplace(options.prometheus);
}

void Monitors::write(const StepReport &report) {
  if (server)
    server->update(report);
  if (!events)
    return;
  const StepResult &result = report.result;
  EventFile::Values values;
  if (result.loss)
    values.emplace_back("train/loss", *result.loss);
  if (result.gradNorm)
    values.emplace_back("train/grad_norm", *result.gradNorm);
  if (result.lr)
    values.emplace_back("train/lr", *result.lr);
  for (const auto &[name, value] : result.metrics)
    values.emplace_back("outputs/" + name, value);
  for (const auto &[name, value] : result.norms)
    values.emplace_back("norm/" + name, value);
  values.emplace_back("speed/step_time_s", report.seconds);
  if (result.exposedSeconds)
    values.emplace_back("speed/exposed_s", *result.exposedSeconds);
  values.emplace_back("speed/samples_per_s", report.samplesPerSecond);
  if (report.tokensPerSecond)
    values.emplace_back("speed/tokens_per_s", *report.tokensPerSecond);
  if (report.flopsPerSecond)
    values.emplace_back("speed/flops_per_s", *report.flopsPerSecond);
  if (report.utilization)
    values.emplace_back("speed/mfu", *report.utilization);
  values.emplace_back("memory/peak_bytes",
                      static_cast<double>(report.peakBytes()));
  events->write(result.step, values);
}

void Monitors::write(const EvalResult &result, uint64_t steps) {
  if (server)
    server->update(result);
  // Beside the numbers of the step that it was after.
  if (events)
    events->write(steps - 1, {{"eval/loss", result.loss}});
}
