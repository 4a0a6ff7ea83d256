//===- Progress.cpp - What fsdp-opt is at ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/Progress.h"

#include <chrono>
#include <cstdio>

#include <unistd.h>

using namespace fsdp;
using Clock = std::chrono::steady_clock;

static Progress *current = nullptr;

/// A terminal's line would wrap, and a wrapped one is not cleared as a whole.
static constexpr size_t kMostLetters = 60;

Progress::Progress() {
  if (!isatty(STDERR_FILENO))
    return;
  current = this;
  thread = std::jthread([this](std::stop_token stop) { show(stop); });
}

Progress::~Progress() {
  if (current == this)
    current = nullptr;
}

void Progress::enter(std::string activity) {
  if (!current)
    return;
  std::lock_guard lock(current->mutex);
  current->activity = std::move(activity);
}

void Progress::enterPlan() {
  if (!current)
    return;
  std::lock_guard lock(current->mutex);
  ++current->plans;
}

void Progress::show(std::stop_token stop) {
  Clock::time_point begin = Clock::now();
  std::unique_lock lock(mutex);
  auto isStopped = [&](std::chrono::milliseconds time) {
    ended.wait_for(lock, stop, time, [] { return false; });
    return stop.stop_requested();
  };
  if (isStopped(std::chrono::seconds(1)))
    return;
  do {
    std::string text = activity;
    if (plans > 0)
      text = "plan " + std::to_string(plans) + ": " + text;
    text.resize(std::min(text.size(), kMostLetters));
    auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin);
    std::fprintf(stderr, "\r\033[K%3lld s  %s",
                 static_cast<long long>(seconds.count()), text.c_str());
    std::fflush(stderr);
  } while (!isStopped(std::chrono::milliseconds(200)));
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}
