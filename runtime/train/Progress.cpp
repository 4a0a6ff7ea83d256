//===- Progress.cpp - How far a run has come ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/train/Progress.h"

#include <cstdio>

#include <unistd.h>

using namespace fsdp;

/// "3 s", "12 min", "5.2 h"
static std::string duration(double seconds) {
  char text[64];
  if (seconds < 600)
    std::snprintf(text, sizeof(text), "%.0f s", seconds);
  else if (seconds < 36000)
    std::snprintf(text, sizeof(text), "%.0f min", seconds / 60);
  else
    std::snprintf(text, sizeof(text), "%.1f h", seconds / 3600);
  return text;
}

/// Of this step: tokens, where rows are such.
static std::string rate(const StepReport &report) {
  double value = report.tokensPerSecond.value_or(report.samplesPerSecond);
  char text[64];
  std::snprintf(text, sizeof(text), value < 100 ? "  %.1f %s/s" : "  %.0f %s/s",
                value, report.tokensPerSecond ? "tokens" : "samples");
  return text;
}

/// Nothing for a number that the step does not have.
static std::string number(const char *format, std::optional<double> value) {
  if (!value)
    return "";
  char text[64];
  std::snprintf(text, sizeof(text), format, *value);
  return text;
}

void fsdp::printEvaluation(const EvalResult &result, uint64_t steps,
                           double seconds) {
  // Above the bar, which is drawn again.
  std::fprintf(stderr, "%safter step %llu  eval loss %.4f  %.1f s\n",
               isatty(STDERR_FILENO) ? "\r\033[K" : "",
               static_cast<unsigned long long>(steps), result.loss, seconds);
}

Progress::Progress(uint64_t steps, uint64_t before)
    : steps(steps), before(before), isTerminal(isatty(STDERR_FILENO)),
      begin(Clock::now()), last(begin) {}

void Progress::update(const StepReport &report) {
  const StepResult &result = report.result;
  uint64_t done = result.step + 1, own = done - before;
  bool isEnd = done == steps;
  Clock::time_point now = Clock::now();
  auto interval = isTerminal ? std::chrono::milliseconds(100)
                             : std::chrono::milliseconds(5000);
  if (now - last < interval && !isEnd && own != 1)
    return;
  last = now;
  double seconds = std::chrono::duration<double>(now - begin).count();
  if (!isTerminal) {
    std::string text = number("  loss %.4f", result.loss);
    text += result.isSkipped ? "  not finite: update skipped"
                             : number("  grad norm %.3g", result.gradNorm);
    text += number("  lr %.3g", result.lr) + rate(report);
    std::fprintf(stderr, "step %llu/%llu%s  %s, %s left\n",
                 static_cast<unsigned long long>(done),
                 static_cast<unsigned long long>(steps), text.c_str(),
                 duration(seconds).c_str(),
                 duration(report.secondsLeft).c_str());
    return;
  }
  constexpr int kWidth = 30;
  int filled = static_cast<int>(done * kWidth / steps);
  std::string bar(static_cast<size_t>(filled), '#');
  std::fprintf(stderr, "\r\033[K[%-*s] %llu/%llu%s  %s left", kWidth,
               bar.c_str(), static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(steps),
               (number("  loss %.4f", result.loss) +
                (result.isSkipped ? "  update skipped" : "") +
                number("  lr %.3g", result.lr) + rate(report))
                   .c_str(),
               duration(report.secondsLeft).c_str());
  if (isEnd)
    std::fputc('\n', stderr);
  std::fflush(stderr);
}
