//===- CudaLoader.cpp - Load CUDA when a plan needs it --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/CudaLoader.h"

#include "plan/Version.h"
#include "runtime/session/CudaLibrary.h"
#include "support/Error.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <filesystem>
#include <mutex>
#include <string>

#include <dlfcn.h>

using namespace fsdp;

/// Where it would be: beside the library, or program, that this code is in.
static std::filesystem::path pathOfLibrary() {
  Dl_info own{};
  dladdr(reinterpret_cast<void *>(&hasCudaLibrary), &own);
  std::filesystem::path path = own.dli_fname ? own.dli_fname : "";
  return path.parent_path() / "libfsdp-cuda.so";
}

bool fsdp::hasCudaLibrary() {
  std::error_code failure;
  return std::filesystem::exists(pathOfLibrary(), failure);
}

static Error unusable(const std::string &reason) {
  return Error(ErrorId::RuntimeUnsupported,
               "'" + pathOfLibrary().string() + "' " + reason);
}

static const CudaLibrary *load() {
  if (!hasCudaLibrary())
    return nullptr;
  // Never closed: LibTorch keeps its kernels. Its symbols are found as those of
  // any library that was linked, so nothing is there twice.
  void *handle = dlopen(pathOfLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
  void *entry = handle ? dlsym(handle, "fsdpCudaLibrary") : nullptr;
  if (!entry) {
    const char *reason = dlerror();
    throw unusable(std::string("cannot be loaded: ") +
                   (reason ? reason : "no reason"));
  }
  const CudaLibrary *library =
      reinterpret_cast<decltype(&fsdpCudaLibrary)>(entry)();
  if (library->version != kCompilerVersion)
    throw unusable("is of version " + std::string(library->version) +
                   "; expected that of fsdp-run, " +
                   std::string(kCompilerVersion) +
                   ": install both from one build");
  // LibTorch looks once for whether there is CUDA, when it is first asked.
  if (!at::detail::getCUDAHooks().isBuilt())
    throw unusable("was loaded after LibTorch was asked for CUDA, which it "
                   "says ever since that it does not have: launch what is for "
                   "a GPU first, or in a process of its own");
  return library;
}

const CudaLibrary *fsdp::loadCudaLibrary() {
  // Another try after an error, which is then the same.
  static std::mutex mutex;
  static const CudaLibrary *library = nullptr;
  std::lock_guard lock(mutex);
  if (!library)
    library = load();
  return library;
}
