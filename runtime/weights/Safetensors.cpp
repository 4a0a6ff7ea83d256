//===- Safetensors.cpp - Read and write safetensors files -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/weights/Safetensors.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/Hash.h"
#include "support/JsonIntegers.h"
#include "support/Nesting.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

using namespace fsdp;

static constexpr uint64_t kLengthBytes = 8;
/// What the format allows.
static constexpr uint64_t kMaxHeaderBytes = 100'000'000;
static constexpr const char *kMetadata = "__metadata__";

/// Empty for types that the files do not hold.
static constexpr std::pair<plan::DType, std::string_view> kNames[] = {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  {plan::DType::ENUMERATOR, SAFETENSORS},
#include "support/ElementTypes.def"
};

static std::optional<plan::DType> parseDType(const std::string &name) {
  for (const auto &[dtype, text] : kNames)
    if (!text.empty() && name == text)
      return dtype;
  return std::nullopt;
}

void SafetensorsFile::refuse(const std::string &what) const {
  throw Error(invalid, "'" + path() + "' is not a safetensors file: " + what +
                           "; write it with safetensors.torch.save_file");
}

SafetensorsFile::SafetensorsFile(const std::string &path, ErrorId invalid)
    : file(path, "the file"), invalid(invalid), mapping(file.data()),
      bytes(file.bytes()) {
  if (bytes == 0)
    refuse("it is empty");
  parse();
}

/// The header as JSON, whose names differ.
static nlohmann::json
parseHeader(std::string_view header,
            const std::function<void(const std::string &)> &refuse) {
  // The parser itself keeps the last of two equal keys.
  std::set<std::string> seen;
  std::optional<std::string> twice;
  auto watchKeys = [&](int depth, nlohmann::json::parse_event_t event,
                       nlohmann::json &parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1)
      if (auto name = parsed.get<std::string>(); !seen.insert(name).second)
        twice = name;
    return true;
  };
  nlohmann::json json = nlohmann::json::parse(header, watchKeys,
                                              /*allow_exceptions=*/false);
  if (!json.is_object())
    refuse("its header is no JSON object");
  if (twice)
    refuse("its header has two tensors '" + *twice + "'");
  return json;
}

void SafetensorsFile::parse() {
  if (bytes < kLengthBytes)
    refuse("it has " + std::to_string(bytes) + " bytes");
  uint64_t length = 0;
  for (uint64_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<uint8_t>(mapping[i]);
  if (length > bytes - kLengthBytes)
    refuse("it states a header of " + std::to_string(length) +
           " bytes and has " + std::to_string(bytes));
  if (length > kMaxHeaderBytes)
    refuse("it states a header of " + std::to_string(length) +
           " bytes, and at most " + std::to_string(kMaxHeaderBytes) +
           " are allowed");
  head = kLengthBytes + length;
  std::string_view header(mapping + kLengthBytes, length);
  checkJsonDepth(header, "the header of '" + path() + "'");
  nlohmann::json json =
      parseHeader(header, [this](const std::string &what) { refuse(what); });
  for (const auto &[name, entry] : json.items()) {
    try {
      if (name == kMetadata) {
        notes = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      std::string dtypeName = entry.at("dtype");
      std::optional<plan::DType> dtype = parseDType(dtypeName);
      if (!dtype)
        refuse("tensor '" + name + "' has the unknown dtype " + dtypeName);
      auto shape = readIntegers<int64_t>(entry.at("shape"));
      auto offsets = readIntegers<uint64_t>(entry.at("data_offsets"));
      auto extent = checkedExtent(shape, {}, dtypeBytes(*dtype));
      if (!extent || offsets.size() != 2 || offsets[1] > bytes - head ||
          offsets[0] > offsets[1] || offsets[1] - offsets[0] != *extent)
        refuse("the bytes of tensor '" + name +
               "' do not fit its shape, or the file ends before them");
      all[name] = {*dtype, std::move(shape), mapping + head + offsets[0],
                   head + offsets[0], *extent};
    } catch (const nlohmann::json::exception &) {
      refuse("the header's entry '" + name +
             (name == kMetadata ? "' is no list of texts"
                                : "' has no dtype, shape and data_offsets"));
    }
  }
  checkOverlaps();
}

void SafetensorsFile::checkOverlaps() const {
  std::vector<std::pair<const StoredTensor *, const std::string *>> order;
  for (const auto &[name, tensor] : all)
    if (tensor.bytes)
      order.emplace_back(&tensor, &name);
  std::ranges::sort(order, {},
                    [](const auto &entry) { return entry.first->offset; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i - 1].first->offset + order[i - 1].first->bytes >
        order[i].first->offset)
      refuse("the bytes of tensor '" + *order[i].second +
             "' are also those of '" + *order[i - 1].second + "'");
}

std::string SafetensorsFile::headerHash() const {
  return hash128(std::string_view(mapping, head));
}

std::string
fsdp::layoutSafetensors(std::vector<TensorToStore> &tensors,
                        const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty())
    json[kMetadata] = metadata;
  uint64_t end = 0;
  std::vector<TensorToStore *> order;
  for (TensorToStore &tensor : tensors)
    order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto *a, const auto *b) {
                     return dtypeBytes(a->dtype) > dtypeBytes(b->dtype);
                   });
  for (TensorToStore *next : order) {
    TensorToStore &tensor = *next;
    std::string_view dtypeText;
    for (const auto &[dtype, text] : kNames)
      if (dtype == tensor.dtype)
        dtypeText = text;
    if (dtypeText.empty())
      throw Error(ErrorId::RuntimeUnsupported,
                  "'" + tensor.name + "' has element type " +
                      std::string(dtypeName(tensor.dtype)) +
                      ", which safetensors files cannot hold");
    tensor.offset = end;
    end += *checkedExtent(tensor.shape, {}, dtypeBytes(tensor.dtype));
    json[tensor.name] = {{"dtype", dtypeText},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.offset, end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string head(kLengthBytes, '\0');
  for (uint64_t i = 0, length = text.size(); i < kLengthBytes;
       ++i, length >>= 8)
    head[i] = static_cast<char>(length & 255);
  head += text;
  for (TensorToStore &tensor : tensors)
    tensor.offset += head.size();
  return head;
}
