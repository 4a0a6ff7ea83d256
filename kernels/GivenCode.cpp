//===- GivenCode.cpp - Code that came with a kernel's program -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/GivenCode.h"

#include "kernels/CodeLibrary.h"
#include "kernels/Library.h"
#include "support/Error.h"

#include <algorithm>
#include <array>

using namespace fsdp;

namespace {
struct Target {
  std::string_view name;
  std::string_view older; ///< whose code it runs as well; empty: nobody's
};
} // namespace

static constexpr std::array<Target, 6> kTargets = {{{"x86-64-v3", ""},
                                                    {"x86-64-v4", "x86-64-v3"},
                                                    {"aarch64", ""},
                                                    {"sm_80", ""},
                                                    {"sm_90", "sm_80"},
                                                    {"sm_100", "sm_90"}}};

static const Target *findTarget(std::string_view name) {
  auto found = std::ranges::find(kTargets, name, &Target::name);
  return found == kTargets.end() ? nullptr : &*found;
}

bool fsdp::isCodeTarget(std::string_view name) { return findTarget(name); }

std::string fsdp::listCodeTargets() {
  std::string text;
  for (const Target &target : kTargets)
    text += (text.empty()                  ? ""
             : &target == &kTargets.back() ? " or "
                                           : ", ") +
            std::string(target.name);
  return text;
}

const plan::KernelCodeT *GivenCode::find(std::string_view target) const {
  for (const auto &each : plan->kernel_code)
    if (each->kernel == kernel && each->target == target &&
        each->emitter == kEmitterVersion)
      return each.get();
  return nullptr;
}

std::string_view GivenCode::take(std::string_view target) const {
  // Most have none, and need not look for the library.
  if (!plan || plan->kernel_code.empty())
    return {};
  const plan::KernelCodeT *given = find(target);
  bool makesCode = hasKernelLibrary();
  for (std::string_view older = target; !given && !makesCode;) {
    const Target *found = findTarget(older);
    if (!found || found->older.empty())
      break;
    older = found->older;
    given = find(older);
  }
  if (!given)
    return {};
  if (given->code.empty() && !makesCode)
    throw Error(ErrorId::KernelsUnusable,
                "the artifact has code of kernel '" +
                    plan->kernels[kernel]->name + "' for " + given->target +
                    ", which is run with --trust alone: nothing can say what "
                    "it does. If you compiled it yourself, run it with "
                    "--trust; else put libfsdp-kernels.so, which makes code of "
                    "kernels' programs, beside this program or in ../lib");
  return {reinterpret_cast<const char *>(given->code.data()),
          given->code.size()};
}
