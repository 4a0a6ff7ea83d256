//===- CodeLibrary.cpp - Asks libfsdp-kernels.so for code -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/CodeLibrary.h"

#include "kernels/Library.h"
#include "support/Error.h"

#include <filesystem>
#include <mutex>

#include <dlfcn.h>
#include <link.h>

using namespace fsdp;
namespace fs = std::filesystem;

/// Of the library, or program, that this code is in.
static fs::path ownFolder() {
  Dl_info own{};
  link_map *map = nullptr;
  std::error_code failure;
  if (!dladdr1(reinterpret_cast<void *>(&hasKernelLibrary), &own,
               reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP))
    return "";
  // A program's name is what it was called by, which may be found in PATH.
  fs::path file = map->l_name && *map->l_name
                      ? fs::absolute(map->l_name, failure)
                      : fs::read_symlink("/proc/self/exe", failure);
  return failure ? "" : file.parent_path();
}

/// Beside this code's file; else where the libraries of a program are. Empty:
/// it is in neither.
static std::string findLibrary() {
  fs::path folder = ownFolder();
  if (folder.empty())
    return "";
  for (const char *from : {".", "../lib"}) {
    std::error_code failure;
    fs::path path = folder / from / "libfsdp-kernels.so";
    if (fs::exists(path, failure))
      return path.lexically_normal().string();
  }
  return "";
}

bool fsdp::hasKernelLibrary() { return !findLibrary().empty(); }

static std::string identifyLibrary() {
  std::string path = findLibrary();
  std::error_code error;
  auto time = std::filesystem::last_write_time(path, error);
  auto bytes = std::filesystem::file_size(path, error);
  return error ? ""
               : std::to_string(bytes) + "@" +
                     std::to_string(time.time_since_epoch().count());
}

std::string fsdp::requestFor(std::string_view serialized,
                             std::string_view target) {
  static const std::string library = identifyLibrary();
  return std::string(serialized) + std::string(target) +
         std::to_string(kEmitterVersion) + library;
}

static const KernelLibrary *load() {
  std::string path = findLibrary();
  if (path.empty())
    throw Error(ErrorId::KernelsUnusable,
                "code for kernels cannot be made: libfsdp-kernels.so is "
                "neither beside this program or library nor in ../lib; put it "
                "there, or compile the model with --kernel-code for this "
                "machine");
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void *entry = handle ? dlsym(handle, "fsdpKernelLibrary") : nullptr;
  if (!entry) {
    const char *reason = dlerror();
    throw Error(ErrorId::KernelsUnusable, "'" + path + "' cannot be loaded: " +
                                              (reason ? reason : "no reason"));
  }
  const KernelLibrary *library =
      reinterpret_cast<decltype(&fsdpKernelLibrary)>(entry)();
  if (library->version != kEmitterVersion)
    throw Error(ErrorId::KernelsUnusable, "'" + path + "' is of version " +
                                              std::to_string(library->version) +
                                              "; expected " +
                                              std::to_string(kEmitterVersion) +
                                              ": install both from one build");
  return library;
}

static const KernelLibrary &getLibrary() {
  // Another try after an error, which is then the same.
  static std::mutex mutex;
  static const KernelLibrary *library = nullptr;
  std::lock_guard lock(mutex);
  if (!library)
    library = load();
  return *library;
}

std::string_view fsdp::targetOfProcessor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4"))
    return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3"))
    return "x86-64-v3";
#elif defined(__aarch64__)
  return "aarch64";
#endif
  throw Error(ErrorId::KernelsUnusable,
              "code for kernels needs a processor of x86-64-v3 (AVX2, FMA) or "
              "of AArch64; this is none");
}

std::string fsdp::serialize(const plan::KernelProgramT &program) {
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(plan::KernelProgram::Pack(builder, &program));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

std::string fsdp::makeCode(std::string_view serialized,
                           std::string_view target) {
  std::string result;
  auto take = [](void *to, const char *bytes, size_t count) {
    static_cast<std::string *>(to)->assign(bytes, count);
  };
  // Tables are read where they lie, aligned as their builder had them.
  std::vector<uint64_t> aligned((serialized.size() + 7) / 8);
  serialized.copy(reinterpret_cast<char *>(aligned.data()), serialized.size());
  if (!getLibrary().compile(reinterpret_cast<const char *>(aligned.data()),
                            serialized.size(), std::string(target).c_str(),
                            take, &result))
    throw Error(ErrorId::KernelsUnusable, "a kernel's program " + result);
  return result;
}
