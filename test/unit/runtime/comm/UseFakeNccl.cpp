//===- UseFakeNccl.cpp - Load the libnccl.so.2 that takes notes -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "FakeNccl.h"

#include "runtime/comm/nccl/Nccl.h"

#include <cstdlib>
#include <dlfcn.h>
#include <stdexcept>
#include <string>

using namespace fsdp::test;

NcclScript &fsdp::test::useFakeNccl(const char *path) {
  std::string found = path;
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    // On another machine than the one that built it, the loader knows where.
    found = found.substr(found.rfind('/') + 1);
    handle = dlopen(found.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (!handle)
    throw std::runtime_error(std::string("the fake NCCL is missing: ") +
                             dlerror());
  setenv("FSDP_NCCL_LIBRARY", found.c_str(), 1);
  prepareNccl(); // as a process that runs steps does, before it has threads
  auto get =
      reinterpret_cast<NcclScript *(*)()>(dlsym(handle, "fakeNcclScript"));
  NcclScript &script = *get();
  std::lock_guard lock(script.mutex);
  NcclScript fresh;
  script.calls.clear();
  script.version = fresh.version;
  script.initPolls = fresh.initPolls;
  script.callPolls = fresh.callPolls;
  script.initEnds = fresh.initEnds;
  script.failing.clear();
  script.asyncError = fresh.asyncError;
  script.lastError.clear();
  script.makesWindows = fresh.makesWindows;
  script.ranksAreAlike = script.ranksMeet = false;
  script.put = nullptr;
  script.observer = nullptr;
  script.isCapturing = nullptr;
  script.letGo = nullptr;
  script.isIdle = nullptr;
  script.take = nullptr;
  script.initBytes = script.callBytes = 0;
  script.isGraphAlive = false;
  script.alive = script.aborting = script.aborted = script.destroyed = 0;
  script.configs.clear();
  script.factors.clear();
  return script;
}
