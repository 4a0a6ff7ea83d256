//===- EndProcess.cpp - The end of a program ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/EndProcess.h"

#include "support/Vectorized.h"

#include <cstdio>
#include <iostream>

#include <dlfcn.h>
#include <unistd.h>

/// The driver is there once anything of the process has used a GPU.
static bool usesGpus() {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver)
    dlclose(driver);
  return driver;
}

int fsdp::endProcess(int status) {
#ifdef FSDP_SANITIZED
  return status;
#endif
  if (usesGpus())
    return status;
  std::cout.flush();
  std::cerr.flush();
  std::clog.flush();
  std::fflush(nullptr);
  _exit(status);
}
