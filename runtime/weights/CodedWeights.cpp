//===- CodedWeights.cpp - Weights that bitsandbytes has coded -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/CodedWeights.h"

#include "plan/Shape.h"
#include "support/BlockNumbers.h"
#include "support/Error.h"
#include "support/JsonIntegers.h"
#include "support/Nesting.h"
#include "support/ReadOnlyFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

using namespace fsdp;
using nlohmann::json;

static constexpr std::string_view kState = ".quant_state.bitsandbytes__";
/// Some hundred bytes.
static constexpr uint64_t kMostStateBytes = 1 << 16;
/// Bytes behind the codes, where their tensor is of wider elements.
static constexpr uint64_t kMostPadding = 7;
/// Scales whose codes share a number.
static constexpr int64_t kMostTogether = 1 << 20;
/// Blocks that are read at once.
static constexpr int64_t kPiece = 1024;

/// PyTorch computes them with what its processor has, so the last bits of one
/// table of scales' numbers differ from machine to machine.
static bool areOurs(std::span<const float> found,
                    std::span<const float> expected) {
  for (size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected[i]) <= std::abs(expected[i]) * 0x1p-21f))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Which tensors are parts of one
//===----------------------------------------------------------------------===//

class CodedWeight::Finder {
public:
  Finder(CodedWeight &weight, const std::string &path, const Find &find)
      : weight(weight), path(path), find(find) {}

  [[noreturn]] void refuse(const std::string &what) const {
    throw Error(ErrorId::WeightsInvalid,
                "'" + path + "': '" + weight.name +
                    "' is coded as bitsandbytes' layers do, but " + what +
                    "; save the model again");
  }

  bool readState() {
    std::optional<WeightFiles::Tensor> state;
    for (auto kind : {BlockKind::Nf4, BlockKind::Fp4}) {
      std::string called =
          weight.name + std::string(kState) + std::string(getName(kind));
      if (!(state = find(called)))
        continue;
      weight.form.kind = kind;
      weight.beside.push_back(called);
      break;
    }
    if (!state)
      return false;
    std::string text(state->stored->data,
                     std::min(state->stored->bytes, kMostStateBytes));
    checkJsonDepth(text, "the state of '" + weight.name + "'");
    json told = json::parse(text, /*callback=*/nullptr,
                            /*allow_exceptions=*/false);
    try {
      readState(told);
    } catch (const json::exception &) {
      refuse("its state is no JSON object with blocksize and shape: " +
             text.substr(0, 200));
    }
    return true;
  }

  void findParts() {
    const WeightFiles::Tensor codes = *find(weight.name);
    weight.codes = placeOf(codes);
    int64_t elements = weight.countElements();
    uint64_t bytes = (static_cast<uint64_t>(elements) + 1) / 2;
    if (weight.codes.bytes < bytes || weight.codes.bytes > bytes + kMostPadding)
      refuse("has " + std::to_string(weight.codes.bytes) +
             " bytes of codes, and its shape " + toString(weight.shape) +
             " needs " + std::to_string(bytes));
    readTable(".quant_map", weight.numbers);
    int64_t blocks = weight.form.countBlocks(elements);
    weight.hasOurNumbers =
        areOurs(weight.numbers, getNumbers(weight.form.kind));
    if (!weight.form.hasCodedScales) {
      weight.scales = findArray(".absmax", plan::DType::f32, blocks);
      return;
    }
    weight.scales = findArray(".absmax", plan::DType::u8, blocks);
    weight.shared = findArray(".nested_absmax", plan::DType::f32,
                              (blocks + weight.together - 1) / weight.together);
    readTable(".nested_quant_map", weight.scaleNumbers);
    weight.hasOurNumbers &= areOurs(weight.scaleNumbers, kScaleNumbers) &&
                            weight.together == BlockForm::kTogether;
  }

  bool findRows() {
    constexpr std::string_view own = "weight";
    const WeightFiles::Tensor codes = *find(weight.name);
    if (!weight.name.ends_with(own) || codes.stored->dtype != plan::DType::i8 ||
        codes.stored->shape.size() != 2)
      return false;
    std::string module = weight.name.substr(0, weight.name.size() - own.size());
    std::string called = module + "SCB";
    std::optional<WeightFiles::Tensor> scales = find(called);
    if (!scales)
      return false;
    weight.isOfRows = true;
    weight.shape = codes.stored->shape;
    weight.codes = placeOf(codes);
    if (scales->stored->dtype != plan::DType::f32 ||
        scales->stored->bytes != static_cast<uint64_t>(weight.shape[0]) * 4)
      refuse("'" + called + "' has not one f32 for each of its " +
             std::to_string(weight.shape[0]) + " rows");
    weight.scales = placeOf(*scales);
    weight.beside.push_back(called);
    if (auto order = find(module + "weight_format")) {
      weight.beside.push_back(module + "weight_format");
      if (order->stored->bytes != 1 || *order->stored->data != 0)
        refuse("its 'weight_format' is none that is in rows");
    }
    return true;
  }

private:
  static Place placeOf(const WeightFiles::Tensor &tensor) {
    return {tensor.file, tensor.stored->offset, tensor.stored->bytes};
  }

  void readState(const json &told) {
    if (told.at("quant_type") != getName(weight.form.kind))
      refuse("its state is of type " + told.at("quant_type").dump());
    weight.form.elements = readInteger<int64_t>(told.at("blocksize"));
    if (!weight.form.isValid())
      refuse("its blocks have " + told.at("blocksize").dump() + " elements");
    weight.shape = readIntegers<int64_t>(told.at("shape"));
    auto elements = checkedElements(weight.shape);
    if (!elements || *elements == 0)
      refuse("its shape is " + told.at("shape").dump());
    if (!told.contains("nested_blocksize"))
      return;
    weight.form.hasCodedScales = true;
    weight.together = readInteger<int64_t>(told.at("nested_blocksize"));
    weight.offset = static_cast<float>(told.at("nested_offset").get<double>());
    if (weight.together < 1 || weight.together > kMostTogether ||
        !std::isfinite(weight.offset))
      refuse("its state has a nested_blocksize or nested_offset that is none");
    if (told.contains("nested_dtype") && told.at("nested_dtype") != "float32")
      refuse("its scales are of type " + told.at("nested_dtype").dump());
  }

  WeightFiles::Tensor get(const std::string &suffix) {
    std::optional<WeightFiles::Tensor> tensor = find(weight.name + suffix);
    if (!tensor)
      refuse("'" + weight.name + suffix + "' is not there");
    weight.beside.push_back(weight.name + suffix);
    return *tensor;
  }

  Place findArray(const std::string &suffix, plan::DType dtype, int64_t count) {
    WeightFiles::Tensor tensor = get(suffix);
    uint64_t element = dtype == plan::DType::u8 ? 1 : sizeof(float);
    if (tensor.stored->dtype != dtype ||
        tensor.stored->bytes != static_cast<uint64_t>(count) * element)
      refuse("'" + weight.name + suffix + "' has not the " +
             std::to_string(count) + " scales of its blocks");
    return placeOf(tensor);
  }

  template <size_t count>
  void readTable(const std::string &suffix, std::array<float, count> &to) {
    WeightFiles::Tensor tensor = get(suffix);
    if (tensor.stored->dtype != plan::DType::f32 ||
        tensor.stored->bytes != sizeof(to))
      refuse("'" + weight.name + suffix + "' has not " + std::to_string(count) +
             " numbers of f32");
    std::memcpy(to.data(), tensor.stored->data, sizeof(to));
  }

  CodedWeight &weight;
  const std::string &path;
  const Find &find;
};

std::optional<CodedWeight> CodedWeight::find(const std::string &name,
                                             const std::string &path,
                                             const Find &find) {
  CodedWeight weight;
  weight.name = name;
  Finder finder(weight, path, find);
  if (finder.readState()) {
    finder.findParts();
    return weight;
  }
  if (finder.findRows())
    return weight;
  return std::nullopt;
}

void CodedWeight::checkShape(const std::string &state,
                             const std::vector<int64_t> &expected,
                             const std::string &path) const {
  if (shape != expected)
    throw Error(ErrorId::WeightsMismatch,
                "'" + name + "' of '" + path + "' has codes of a tensor of " +
                    "shape " + toString(shape) + "; '" + state +
                    "' of the model has " + toString(expected));
}

std::string CodedWeight::describe() const {
  return isOfRows ? "int8 by rows" : getName(form);
}

int64_t CodedWeight::countElements() const {
  return static_cast<int64_t>(*checkedElements(shape));
}

//===----------------------------------------------------------------------===//
// What is in the files
//===----------------------------------------------------------------------===//

void CodedWeight::readRows(const Files &files, int64_t first, int64_t count,
                           uint8_t *to) const {
  int64_t blocks = form.countBlocks(countElements());
  int64_t codeBytes = form.getCodeBytes();
  auto present = static_cast<int64_t>(
      std::min(codes.bytes, (static_cast<uint64_t>(countElements()) + 1) / 2));
  auto zero = static_cast<uint8_t>(
      form.kind == BlockKind::Nf4 ? kZeroNf4 << 4 | kZeroNf4 : 0);
  for (int64_t row = first; row < first + count;
       ++row, to += form.getRowBytes()) {
    int64_t begin = row * form.getRowBlocks();
    int64_t known = std::min(form.getRowBlocks(), blocks - begin);
    uint8_t *rowCodes = to + form.getHeadBytes();
    const ReadOnlyFile &scaleFile = *files[scales.file];
    if (form.hasCodedScales) {
      auto group = static_cast<uint64_t>(row) * sizeof(float);
      files[shared.file]->read(shared.offset + group, sizeof(float), to);
      std::memcpy(to + sizeof(float), &offset, sizeof(float));
      uint8_t *scaleCodes = to + 2 * sizeof(float);
      std::memset(scaleCodes, kZeroScale, BlockForm::kTogether);
      scaleFile.read(scales.offset + static_cast<uint64_t>(begin),
                     static_cast<uint64_t>(known), scaleCodes);
    } else {
      scaleFile.read(scales.offset +
                         static_cast<uint64_t>(begin) * sizeof(float),
                     sizeof(float), to);
    }
    int64_t from = begin * codeBytes;
    int64_t bytes = std::min(known * codeBytes, present - from);
    files[codes.file]->read(codes.offset + static_cast<uint64_t>(from),
                            static_cast<uint64_t>(bytes), rowCodes);
    std::fill(rowCodes + bytes, to + form.getRowBytes(), zero);
  }
}

/// Of blocks, or of rows of 8 bits.
void CodedWeight::readScales(const Files &files, int64_t first, int64_t count,
                             float *to) const {
  auto begin = static_cast<uint64_t>(first);
  auto size = static_cast<uint64_t>(count);
  const ReadOnlyFile &file = *files[scales.file];
  if (!form.hasCodedScales)
    return file.read(scales.offset + begin * sizeof(float),
                     size * sizeof(float), to);
  std::vector<uint8_t> scaleCodes(size);
  file.read(scales.offset + begin, size, scaleCodes.data());
  auto each = static_cast<uint64_t>(together);
  std::vector<float> groups((begin + size - 1) / each - begin / each + 1);
  files[shared.file]->read(shared.offset + begin / each * sizeof(float),
                           groups.size() * sizeof(float), groups.data());
  for (uint64_t i = 0; i < size; ++i)
    to[i] =
        blocks::decodeScale(scaleNumbers[scaleCodes[i]],
                            groups[(begin + i) / each - begin / each], offset);
}

void CodedWeight::readNumbers(const Files &files, uint64_t first,
                              uint64_t count, float *to) const {
  // By LLM.int8(), as bitsandbytes multiplies.
  constexpr float kPart = 7.874015718698502e-3f;
  uint64_t together = isOfRows
                          ? static_cast<uint64_t>(countElements() / shape[0])
                          : static_cast<uint64_t>(form.elements);
  uint64_t perByte = isOfRows ? 1 : 2;
  std::vector<uint8_t> read;
  std::vector<float> scale;
  while (count != 0) {
    uint64_t begin = first / together;
    uint64_t some = std::min(
        count, (begin + static_cast<uint64_t>(kPiece)) * together - first);
    uint64_t end = (first + some - 1) / together + 1;
    scale.resize(end - begin);
    readScales(files, static_cast<int64_t>(begin),
               static_cast<int64_t>(end - begin), scale.data());
    uint64_t firstByte = first / perByte;
    read.resize((first + some - 1) / perByte + 1 - firstByte);
    files[codes.file]->read(codes.offset + firstByte, read.size(), read.data());
    for (uint64_t i = first; i < first + some; ++i) {
      uint8_t byte = read[i / perByte - firstByte];
      float of = scale[i / together - begin];
      *to++ =
          isOfRows
              ? static_cast<float>(static_cast<int8_t>(byte)) * of * kPart
              : blocks::decode(numbers[i % 2 == 0 ? byte >> 4 : byte & 15], of);
    }
    first += some;
    count -= some;
  }
}
