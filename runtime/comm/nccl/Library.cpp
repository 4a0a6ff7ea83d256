//===- Library.cpp - NCCL, loaded when it is needed -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/comm/nccl/Library.h"
#include "support/Error.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace fsdp;

static std::string printVersion(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) +
         "." + std::to_string(code % 100);
}

std::shared_ptr<const NcclLibrary> NcclLibrary::load() {
  auto library = std::make_shared<NcclLibrary>();
  const char *named = std::getenv("FSDP_NCCL_LIBRARY");
  bool isNamed = named && *named;
  library->path = isNamed ? named : "libnccl.so.2";
  // Never closed: NCCL's own threads may be inside of it for as long as the
  // process lives.
  void *handle = dlopen(library->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    throw Error(ErrorId::NcclUnusable,
                "expected to load NCCL from '" + library->path + "'" +
                    (isNamed ? ", which FSDP_NCCL_LIBRARY names" : "") +
                    ", found: " + (reason ? reason : "no reason"));
  }
  auto find = [&](const char *name, bool isOptional, auto &function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        dlsym(handle, name));
    if (!function && !isOptional)
      throw Error(ErrorId::NcclUnusable,
                  "expected NCCL " + printVersion(kOldest) + " or newer in '" +
                      library->path + "', which has no function " + name);
  };
#define FSDP_NCCL_FUNCTION(name, result, ...)                                  \
  find("nccl" #name, false, library->name);
#define FSDP_NCCL_OPTIONAL(name, result, ...)                                  \
  find("nccl" #name, true, library->name);
#include "runtime/comm/nccl/Functions.def"

  if (library->GetVersion(&library->versionCode) != nccl::Result::success ||
      library->versionCode < kOldest)
    throw Error(ErrorId::NcclUnusable,
                "expected NCCL " + printVersion(kOldest) + " or newer in '" +
                    library->path + "', found version " +
                    printVersion(library->versionCode));
  return library;
}

std::string NcclLibrary::versionText() const {
  return printVersion(versionCode);
}

std::string NcclLibrary::describe(nccl::Result result, nccl::Comm comm) const {
  std::string text = GetErrorString(result);
  const char *last = GetLastError(comm);
  if (!last || !*last)
    return text;
  std::string detail = last;
  while (!detail.empty() && (detail.back() == '\n' || detail.back() == ' '))
    detail.pop_back();
  return detail.empty() ? text : text + ": " + detail;
}
