//===- CodedWeights.h - Weights that bitsandbytes has coded -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What bitsandbytes' layers write in the place of a matrix. Of 4 bits, beside
// NAME, which has codes, two a byte, in any type of elements:
//
//   NAME.quant_state.bitsandbytes__nf4 (or __fp4), a JSON text in bytes: the
//     kind, blocksize and shape; of coded scales nested_blocksize and
//     nested_offset
//   NAME.quant_map, the codes' 16 numbers
//   NAME.absmax, the blocks' scales, or their codes, with NAME.nested_absmax
//     and NAME.nested_quant_map
//
// Of 8 bits, beside M.weight, which has whole numbers: M.SCB, 127 of which are
// a row's scale.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_WEIGHTS_CODEDWEIGHTS_H
#define FSDP_RUNTIME_WEIGHTS_CODEDWEIGHTS_H

#include "runtime/weights/WeightFiles.h"
#include "support/BlockForm.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

class ReadOnlyFile;

class CodedWeight {
public:
  /// Finds a tensor by its name; nothing: no file has it.
  using Find =
      std::function<std::optional<WeightFiles::Tensor>(const std::string &)>;
  /// By the number of a file.
  using Files = std::vector<std::unique_ptr<ReadOnlyFile>>;

  /// What stands in the place of `name`, whose tensor `find` knows; nothing: it
  /// is a tensor as any other. `path`: of the file that has it. Throws
  /// fsdp::Error (WeightsInvalid) if what belongs to it does not fit.
  static std::optional<CodedWeight>
  find(const std::string &name, const std::string &path, const Find &find);

  /// Throws fsdp::Error (WeightsMismatch) unless it stands for a tensor of that
  /// shape, which the state has.
  void checkShape(const std::string &state, const std::vector<int64_t> &shape,
                  const std::string &path) const;

  /// "nf4-double", "int8 by rows".
  std::string describe() const;
  /// Names of the tensors beside.
  const std::vector<std::string> &parts() const { return beside; }
  /// The type that artifacts call its elements by.
  plan::DType dtype() const {
    return isOfRows ? plan::DType::i8 : plan::DType::u8;
  }

  /// Whether its blocks are those that a state of that form holds.
  bool isOf(const BlockForm &other) const {
    return !isOfRows && hasOurNumbers && form == other;
  }
  /// The rows [first, first + count) of the state's blocks, where `isOf`.
  void readRows(const Files &files, int64_t first, int64_t count,
                uint8_t *to) const;
  /// Elements [first, first + count) of the tensor.
  void readNumbers(const Files &files, uint64_t first, uint64_t count,
                   float *to) const;

private:
  struct Place {
    size_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  class Finder;

  void readScales(const Files &files, int64_t first, int64_t count,
                  float *to) const;
  int64_t countElements() const;

  std::string name;
  BlockForm form;
  bool isOfRows = false; ///< of 8 bits
  std::vector<int64_t> shape;
  Place codes, scales, shared;
  std::array<float, 16> numbers{};
  std::array<float, 256> scaleNumbers{};
  float offset = 0;
  int64_t together = 0; ///< scales whose codes share a number
  bool hasOurNumbers = false;
  std::vector<std::string> beside;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_WEIGHTS_CODEDWEIGHTS_H
