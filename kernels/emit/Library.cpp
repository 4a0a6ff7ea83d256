//===- Library.cpp - What libfsdp-kernels.so is entered by ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Library.h"

#include "kernels/emit/Compile.h"
#include "plan/Kernels.h"

#include <exception>
#include <optional>
#include <string>

using namespace fsdp;

static std::string readAndCompile(const char *bytes, size_t count,
                                  const char *target, bool &isDone) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t *>(bytes),
                                 count);
  if (!verifier.VerifyBuffer<plan::KernelProgram>(nullptr))
    return "is damaged";
  plan::KernelProgramT program;
  flatbuffers::GetRoot<plan::KernelProgram>(bytes)->UnPackTo(&program);
  if (std::optional<std::string> problem = checkKernel(program))
    return *problem;
  std::string image = compileKernel(program, target);
  isDone = true;
  return image;
}

static bool compile(const char *program, size_t bytes, const char *target,
                    void (*take)(void *to, const char *bytes, size_t count),
                    void *to) {
  bool isDone = false;
  std::string result;
  try {
    result = readAndCompile(program, bytes, target, isDone);
  } catch (const std::exception &failure) {
    result = failure.what();
  }
  take(to, result.data(), result.size());
  return isDone;
}

extern "C" __attribute__((visibility("default"))) const KernelLibrary *
fsdpKernelLibrary() {
  static constexpr KernelLibrary library{kEmitterVersion, compile};
  return &library;
}
