//===- GpuCode.cpp - Programs of kernels as text for a GPU ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/GpuCode.h"

#include "kernels/CodeCache.h"
#include "kernels/CodeLibrary.h"
#include "kernels/Loader.h"
#include "kernels/Places.h"
#include "plan/Kernels.h"
#include "support/Error.h"

#include <algorithm>

using namespace fsdp;

const PtxLaunch *GpuCode::find(std::string_view entry) const {
  auto found = std::ranges::find(launches, entry, &PtxLaunch::entry);
  return found == launches.end() ? nullptr : &*found;
}

std::string_view fsdp::targetOfGpu(int capability) {
  struct Target {
    int least;
    std::string_view name;
  };
  static constexpr Target newestFirst[] = {
      {100, "sm_100"}, {90, "sm_90"}, {80, "sm_80"}};
  for (const Target &target : newestFirst)
    if (capability >= target.least)
      return target.name;
  throw Error(ErrorId::KernelsUnusable,
              "kernels of fsdp_config.kernels need a GPU of sm_80 or newer, "
              "and this one is an sm_" +
                  std::to_string(capability) +
                  ": compile the model with kernels: off");
}

static std::string findOrMakePtx(const std::string &request,
                                 std::string_view serialized,
                                 std::string_view target) {
  CodeCache cache;
  if (std::optional<std::string> text = cache.findText(request))
    return *text;
  std::string made = makeCode(serialized, target);
  cache.keep(request, made);
  return made;
}

std::shared_ptr<const GpuCode>
fsdp::makeGpuCode(const plan::KernelProgramT &program, int capability,
                  const GivenCode &given) {
  if (std::optional<std::string> problem = checkKernel(program))
    throw Error(ErrorId::KernelsUnusable, "a kernel's program " + *problem);
  if (wantsInterpreter())
    throw Error(ErrorId::KernelsUnusable,
                "FSDP_KERNELS is 'interpret', and the interpreter runs on no "
                "GPU; leave it out, or compile the model with kernels: off");
  std::string_view target = targetOfGpu(capability);
  std::string serialized = serialize(program);
  std::string request = requestFor(serialized, target);
  std::string text(given.take(target));
  static SharedPlaces<GpuCode> places;
  return places.find(request + text, [&] {
    auto code = std::make_shared<GpuCode>();
    code->ptx =
        text.empty() ? findOrMakePtx(request, serialized, target) : text;
    std::optional<std::vector<PtxLaunch>> launches = readLaunches(code->ptx);
    if (!launches)
      throw Error(ErrorId::KernelsUnusable,
                  "code for a GPU does not say how it is launched: "
                  "what made it is of another build");
    code->launches = std::move(*launches);
    return code;
  });
}
