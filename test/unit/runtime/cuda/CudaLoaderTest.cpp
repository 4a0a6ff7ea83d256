//===- CudaLoaderTest.cpp - CUDA is loaded when it is needed --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Needs no GPU. Each test loads in a process of its own: what LibTorch was once
// told stays.
//
//===----------------------------------------------------------------------===//

#include "runtime/session/CudaLoader.h"
#include "plan/Version.h"
#include "runtime/session/CudaLibrary.h"
#include "support/Error.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

using namespace fsdp;

namespace {

bool isLoaded(const char *library) {
  return dlopen(library, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

/// For EXPECT_EXIT: ends the process, with a word of why if it failed.
void require(bool condition, const char *what) {
  if (condition)
    return;
  std::fputs(what, stderr);
  std::exit(1);
}

/// For EXPECT_EXIT, too: ends the process with the words of the error.
template <typename Call>
void requireUnsupported(Call &&call) {
  try {
    call();
  } catch (const Error &error) {
    require(error.id() == ErrorId::RuntimeUnsupported, "another error");
    std::fputs(error.what(), stderr);
    std::exit(0);
  }
  require(false, "no error");
}

TEST(CudaLoaderDeathTest, LoadsWhenItIsAskedTo) {
  auto body = [] {
    require(hasCudaLibrary(), "not beside the runtime");
    require(!isLoaded("libtorch_cuda.so"), "CUDA is there before");
    const CudaLibrary *library = loadCudaLibrary();
    require(library && loadCudaLibrary() == library, "not the same library");
    require(library->version == kCompilerVersion, "another version");
    require(isLoaded("libtorch_cuda.so"), "CUDA is not there behind it");
    require(at::detail::getCUDAHooks().isBuilt(), "LibTorch knows nothing");
    std::exit(0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST(CudaLoaderDeathTest, ErrorsComeAcrossTheLibrarysBorder) {
  auto body = [] {
    requireUnsupported([] { loadCudaLibrary()->checkDevice("tpu"); });
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0),
              "for device 'tpu'; expected cpu, or a GPU such as cuda:sm_90");
}

TEST(CudaLoaderDeathTest, IsRefusedOnceLibTorchHasSaidThatThereIsNoCuda) {
  auto body = [] {
    require(!at::detail::getCUDAHooks().isBuilt(), "CUDA is there before");
    requireUnsupported([] { loadCudaLibrary(); });
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0),
              "libfsdp-cuda.so' was loaded after LibTorch was asked for CUDA");
}

} // namespace
