//===- CaptureLoader.cpp - Load model capture when it is needed ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/CaptureLoader.h"

#include <filesystem>

#include <dlfcn.h>

using namespace fsdp;

namespace {
const CaptureLibrary *load() {
  std::error_code failure;
  std::filesystem::path bin =
      std::filesystem::read_symlink("/proc/self/exe", failure).parent_path();
  std::filesystem::path path;
  for (const char *folder : {"../lib", "../" FSDP_LIBDIR, "."}) {
    path = (bin / folder / "libfsdp-capture.so").lexically_normal();
    if (std::filesystem::exists(path, failure))
      break;
    path.clear();
  }
  if (path.empty())
    throw Error(ErrorId::CaptureNotInstalled,
                "model files need libfsdp-capture.so, which was expected in '" +
                    (bin / "../lib").lexically_normal().string() +
                    "' and is not there; .mlir files work without it");
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void *entry = library ? dlsym(library, "fsdpCaptureLibrary") : nullptr;
  if (!entry)
    throw Error(ErrorId::CaptureNotInstalled,
                "'" + path.string() + "' cannot be loaded: " + dlerror());
  return reinterpret_cast<decltype(&fsdpCaptureLibrary)>(entry)();
}
} // namespace

const CaptureLibrary &fsdp::loadCaptureLibrary() {
  static const CaptureLibrary *const library = load();
  return *library;
}
