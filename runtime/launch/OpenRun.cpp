//===- OpenRun.cpp - Ranks that wait for work -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/launch/OpenRun.h"

#include "runtime/comm/Communicator.h"
#include "support/Exceptions.h"

#include <algorithm>
#include <chrono>

using namespace fsdp;

using Clock = std::chrono::steady_clock;

/// How long a rank looks for work before it sleeps: what a program's loop does
/// between two steps.
static constexpr std::chrono::microseconds kSpin(200);

OpenRun::OpenRun(const LaunchOptions &options) {
  runner = std::thread([this, options] {
    try {
      launch(options, [this](Session &session) { serve(session); });
    } catch (...) {
      failure = toError(std::current_exception(), "", ErrorId::KernelFailed);
    }
    std::lock_guard lock(mutex);
    hasEnded = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock,
                 [&] { return hasEnded || (expected && ready == expected); });
    if (!hasEnded && !hasFailed) {
      std::ranges::sort(all, {}, &Session::rank);
      return;
    }
  }
  join();
}

OpenRun::~OpenRun() {
  try {
    close();
  } catch (const std::exception &) {
    // Whoever wants to know calls `close`.
  }
}

void OpenRun::serve(Session &session) {
  // A rank that fails before it comes here fails the others, too.
  session.fabric().exchange("open", "");
  {
    std::lock_guard lock(mutex);
    expected =
        session.isInProcess() ? static_cast<size_t>(session.worldSize()) : 1;
    all.push_back(&session);
    ++ready;
    changed.notify_all();
  }
  OpenRank rank{session, SIZE_MAX, nullptr};
  for (uint64_t done = 0;;) {
    // Ranks that sleep wake up on other processors, which are cold, or on one
    // that two of them share for a while.
    for (Clock::time_point end = Clock::now() + kSpin;
         published == done && Clock::now() < end;)
      std::this_thread::yield();
    const std::function<void(OpenRank &)> *mine;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock,
                   [&] { return isClosing || hasFailed || number != done; });
      // The rank that failed tells why; these have nothing to add.
      if (isClosing || hasFailed)
        return;
      done = number;
      mine = work;
      rank.number =
          static_cast<size_t>(std::ranges::find(all, &session) - all.begin());
    }
    try {
      (*mine)(rank);
    } catch (...) {
      Error error =
          toError(std::current_exception(), "", ErrorId::KernelFailed);
      // Before `own` waits for what the peers never do.
      session.fabric().abort(error.what());
      std::lock_guard lock(mutex);
      hasFailed = true;
      changed.notify_all();
      throw;
    }
    std::lock_guard lock(mutex);
    if (--busy == 0)
      changed.notify_all();
  }
}

void OpenRun::checkOpen() const {
  if (!isOpen())
    throw Error(ErrorId::RuntimeUnsupported,
                ended.empty() ? "the session is closed; open the artifact again"
                              : "the session ended with an error, after which "
                                "its ranks differ; open the artifact again (" +
                                    ended + ")");
}

void OpenRun::run(const std::function<void(OpenRank &)> &task) {
  checkOpen();
  {
    std::unique_lock lock(mutex);
    work = &task;
    busy = all.size();
    published = ++number;
    changed.notify_all();
    changed.wait(lock, [&] { return hasEnded || (!hasFailed && busy == 0); });
    work = nullptr;
    if (!hasEnded)
      return;
  }
  join();
  throw Error(ErrorId::KernelFailed, "the ranks ended without a reason");
}

void OpenRun::close(const std::string &reason) {
  if (!isOpen())
    return;
  {
    std::lock_guard lock(mutex);
    if (!reason.empty())
      for (Session *session : all)
        session->fabric().abort(reason);
    isClosing = true;
    changed.notify_all();
  }
  join();
}

void OpenRun::join() {
  runner.join();
  isOver = true;
  all.clear();
  if (!failure)
    return;
  ended = failure->what();
  throw *failure;
}
