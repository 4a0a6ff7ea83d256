//===- TemporaryFolder.h - Files of one test --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_TEMPORARYFOLDER_H
#define FSDP_TEST_UNIT_RUNTIME_TEMPORARYFOLDER_H

#include "runtime/weights/Safetensors.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace fsdp::test {

/// A folder of its own that goes with the object.
class TemporaryFolder {
public:
  TemporaryFolder()
      : name(
            (std::filesystem::temp_directory_path() / "fsdp-XXXXXX").string()) {
    if (!mkdtemp(name.data()))
      std::abort();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(name, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  const std::string &path() const { return name; }

private:
  std::string name;
};

struct FloatTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// Writes a safetensors file of float32 tensors.
inline void writeTensors(const std::string &path,
                         const std::vector<FloatTensor> &tensors) {
  std::vector<TensorToStore> layout;
  for (const FloatTensor &tensor : tensors)
    layout.push_back({tensor.name, plan::DType::f32, tensor.shape});
  std::ofstream stream(path, std::ios::binary);
  stream << layoutSafetensors(layout);
  for (const FloatTensor &tensor : tensors)
    stream.write(
        reinterpret_cast<const char *>(tensor.values.data()),
        static_cast<std::streamsize>(tensor.values.size() * sizeof(float)));
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_TEMPORARYFOLDER_H
