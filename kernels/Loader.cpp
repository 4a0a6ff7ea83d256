//===- Loader.cpp - Programs of kernels, ready to run ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Loader.h"

#include "kernels/CodeCache.h"
#include "kernels/CodeImage.h"
#include "kernels/CodeLibrary.h"
#include "kernels/Interpreter.h"
#include "kernels/Places.h"
#include "plan/Kernels.h"
#include "support/Error.h"
#include "support/Format.h"

#include <cstdlib>
#include <span>
#include <string>

using namespace fsdp;

namespace {

class Interpreted final : public LoadedKernel {
public:
  explicit Interpreted(const plan::KernelProgramT &program)
      : program(program) {}

  void run(void *const *operands, int64_t begin, int64_t end) const override {
    interpret(program, std::span(operands, program.operands.size()), begin,
              end);
  }
  KernelFunction code() const override { return nullptr; }

private:
  plan::KernelProgramT program;
};

class Compiled final : public LoadedKernel {
public:
  explicit Compiled(CodeImage image) : image(std::move(image)) {}

  void run(void *const *operands, int64_t begin, int64_t end) const override {
    image.run(operands, begin, end);
  }
  KernelFunction code() const override { return image.function(); }

private:
  CodeImage image;
};

} // namespace

static CodeImage findOrMakeImage(const std::string &request,
                                 std::string_view program,
                                 std::string_view target) {
  CodeCache cache;
  if (std::optional<CodeImage> image = cache.find(request))
    return std::move(*image);
  std::string made = makeCode(program, target);
  cache.keep(request, made);
  // The file itself, where there is one: some systems let nobody execute what
  // is in no file.
  if (std::optional<CodeImage> image = cache.find(request))
    return std::move(*image);
  return CodeImage(made);
}

/// Code keeps a few columns at a time, the interpreter a whole row.
static void checkInterpreted(const plan::KernelProgramT &program) {
  constexpr uint64_t kMost = uint64_t{256} << 20;
  uint64_t bytes = interpretedBytes(program);
  if (bytes > kMost)
    throw Error(ErrorId::KernelsUnusable,
                "kernel '" + program.name + "' takes " + formatBytes(bytes) +
                    " for a row when it is interpreted; expected at most " +
                    formatBytes(kMost) +
                    "; run it as code, without FSDP_KERNELS=interpret");
}

bool fsdp::wantsInterpreter() {
  const char *wanted = std::getenv("FSDP_KERNELS");
  if (!wanted || !*wanted)
    return false;
  if (std::string_view(wanted) != "interpret")
    throw Error(ErrorId::KernelsUnusable,
                "FSDP_KERNELS is '" + std::string(wanted) +
                    "'; expected 'interpret', or nothing for code");
  return true;
}

std::shared_ptr<const LoadedKernel>
fsdp::loadKernel(const plan::KernelProgramT &program, const GivenCode &given) {
  if (std::optional<std::string> problem = checkKernel(program))
    throw Error(ErrorId::KernelsUnusable, "a kernel's program " + *problem);
  if (wantsInterpreter()) {
    checkInterpreted(program);
    return std::make_shared<Interpreted>(program);
  }
  std::string serialized = serialize(program);
  std::string_view target = targetOfProcessor();
  std::string request = requestFor(serialized, target);
  std::string_view code = given.take(target);
  static SharedPlaces<LoadedKernel> places;
  return places.find(request + std::string(code), [&] {
    return std::make_shared<Compiled>(
        code.empty() ? findOrMakeImage(request, serialized, target)
                     : CodeImage(code));
  });
}
