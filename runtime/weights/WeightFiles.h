//===- WeightFiles.h - A model's weights in safetensors files ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights as Hugging Face lays them out: one .safetensors file, several with a
// model.safetensors.index.json that says which tensor lies where, or a folder
// of either kind. Only headers are read here.
//
// "teacher.=PATH" is that path with 'teacher.' in front of its tensors' names,
// as a model that is part of another one has them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WEIGHTS_WEIGHTFILES_H
#define FSDP_RUNTIME_WEIGHTS_WEIGHTFILES_H

#include "runtime/weights/Safetensors.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

class CodedWeight;

/// What stands in front of names, and the path itself.
struct WeightPath {
  std::string prefix;
  std::string path;
};
WeightPath parseWeightPath(const std::string &text);

class WeightFiles {
public:
  /// A tensor and the file that has it, by index into `files()`.
  struct Tensor {
    size_t file;
    const StoredTensor *stored;
  };

  /// Opens all of `paths`, each a file, an index or a folder, perhaps with a
  /// prefix. Of a tensor that
  /// several have, the first path's counts. Throws fsdp::Error:
  /// FileNotReadable, WeightsInvalid.
  explicit WeightFiles(const std::vector<std::string> &paths);

  const std::vector<std::unique_ptr<SafetensorsFile>> &files() const {
    return opened;
  }
  const std::map<std::string, Tensor> &tensors() const { return all; }
  /// What bitsandbytes put in the place of the tensor, which a file has;
  /// nothing: it is one as any other. Throws fsdp::Error (WeightsInvalid).
  std::optional<CodedWeight> findCoded(const std::string &name) const;
  /// Null if no file has it.
  const Tensor *find(const std::string &name) const;
  /// "'a', 'b'": what was opened, for messages.
  const std::string &describe() const { return description; }
  /// "; the nearest name there is 'x'", or nothing if none is near.
  std::string suggest(std::string_view name) const;

private:
  void addPath(const WeightPath &given);
  void addFolder(const std::string &path);
  void addIndex(const std::string &path);
  size_t addFile(const std::string &path);
  void addTensors(size_t file);

  std::string prefix; ///< of the path that is being added
  std::vector<std::unique_ptr<SafetensorsFile>> opened;
  std::map<std::string, Tensor> all;
  std::string description;
};

/// Throws fsdp::Error (WeightsMismatch) unless `stored`, found as `name`, has
/// the state's shape and a type that converts to the state's.
void checkWeight(const std::string &state, const std::vector<int64_t> &shape,
                 plan::DType dtype, const std::string &name,
                 const StoredTensor &stored, const std::string &file);

} // namespace fsdp

#endif // FSDP_RUNTIME_WEIGHTS_WEIGHTFILES_H
