//===- Samples.cpp - The sample inputs of an archive ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// They are a torch.save archive inside the archive, whose tensors are stored as
// they are: each gets its place in the outer file.
//
//===----------------------------------------------------------------------===//

#include "ir/capture/pt2/Samples.h"
#include "ir/capture/archive/PickleScan.h"

#include <torch/csrc/jit/serialization/unpickler.h>

#include "support/Error.h"

#include <cstring>
#include <map>

using namespace fsdp;
using namespace fsdp::capture;

static constexpr const char *kArchive = "data/sample_inputs/model.pt";

namespace {

class SampleReader {
public:
  explicit SampleReader(ZipDirectory directory)
      : directory(std::move(directory)) {}

  /// Throws Error (ModelNotSupported) for tensors without a storage, unless
  /// `takesMeta`: LibTorch knows none.
  std::vector<uint32_t> readObjects(bool takesMeta) {
    pickle = directory.readStored("data.pkl");
    return scanPickle(
        pickle,
        {"entry '" + std::string(kArchive) + "' of '" + directory.path() + "'",
         [&](const std::string &key) -> std::optional<uint64_t> {
           const ZipEntry *entry = directory.find("data/" + key);
           return entry ? std::optional(entry->bytes) : std::nullopt;
         },
         takesMeta});
  }

  /// Throws c10::Error for what LibTorch does not read. Behind `readObjects`.
  std::vector<std::optional<Pt2Sample>> readLeaves() {
    size_t position = 0;
    torch::jit::Unpickler unpickler(
        [&](char *buffer, size_t bytes) {
          bytes = std::min(bytes, pickle.size() - position);
          std::memcpy(buffer, pickle.data() + position, bytes);
          position += bytes;
          return bytes;
        },
        /*type_resolver=*/nullptr, /*obj_loader=*/nullptr,
        [&](const std::string &name) { return load("data/" + name); },
        /*device=*/std::nullopt);
    addLeaves(unpickler.parse_ivalue());
    return std::move(leaves);
  }

private:
  at::DataPtr load(const std::string &name) {
    const ZipEntry &entry = directory.stored(name);
    std::string &data = contents[&entry];
    data = directory.readStored(name);
    entryAt[data.data()] = &entry;
    return {data.data(), c10::kCPU};
  }

  void addLeaf(const at::Tensor &tensor) {
    auto entry = entryAt.end();
    if (tensor.has_storage() && tensor.device().is_cpu())
      entry = entryAt.find(static_cast<const char *>(tensor.storage().data()));
    if (entry == entryAt.end()) {
      leaves.push_back(std::nullopt);
      return;
    }
    Pt2Sample sample{TensorType::of(tensor), {}};
    uint64_t begin = tensor.storage_offset() * tensor.itemsize();
    uint64_t end = begin;
    if (tensor.numel()) {
      end += tensor.itemsize();
      for (int64_t dim = 0; dim < tensor.dim(); ++dim)
        end += (tensor.size(dim) - 1) * tensor.stride(dim) * tensor.itemsize();
    }
    const ZipEntry &zip = *entry->second;
    sample.record = {std::string(kArchive) + "/" + zip.name,
                     zip.offset + begin,
                     end - begin,
                     zip.crc,
                     {}};
    if (!tensor.is_contiguous())
      sample.record.strides = sample.type.strides;
    leaves.push_back(std::move(sample));
  }

  /// In the order in which torch.export flattens a call.
  void addLeaves(const c10::IValue &value) {
    if (value.isTensor())
      addLeaf(value.toTensor());
    else if (value.isTuple())
      for (const c10::IValue &element : value.toTupleRef().elements())
        addLeaves(element);
    else if (value.isList())
      for (const c10::IValue &element : value.toListRef())
        addLeaves(element);
    else if (value.isGenericDict())
      for (const auto &entry : value.toGenericDict())
        addLeaves(entry.value());
    else
      leaves.push_back(std::nullopt);
  }

  ZipDirectory directory;
  std::string pickle;
  std::map<const ZipEntry *, std::string> contents; // addresses must not change
  std::map<const char *, const ZipEntry *> entryAt; // by where it was loaded
  std::vector<std::optional<Pt2Sample>> leaves;
};

} // namespace

Pt2Samples fsdp::capture::readPt2Samples(const ZipDirectory &archive) {
  const ZipEntry *entry = archive.find(kArchive);
  if (!entry || !entry->stored)
    return {};
  Pt2Samples samples;
  try {
    SampleReader reader(
        ZipDirectory::read(archive.path(), entry->offset, entry->bytes));
    samples.objects = reader.readObjects(/*takesMeta=*/true);
    reader.readObjects(/*takesMeta=*/false);
    samples.leaves = reader.readLeaves();
  } catch (const c10::Error &) {
    // Tensors without data, or objects of Python classes: the inputs then come
    // from a data file.
  } catch (const Error &error) {
    if (error.id() != ErrorId::ModelNotSupported)
      throw;
  }
  return samples;
}
