//===- Reader.cpp - From an artifact to a plan ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Reader.h"

#include "plan/FileSize.h"
#include "plan/Verify.h"
#include "plan/Version.h"
#include "support/Error.h"
#include "support/Hash.h"
#include "support/ReadOnlyFile.h"

#include <algorithm>
#include <cstring>
#include <memory>

using namespace fsdp;

namespace {

/// A copy of bytes at an address that suits every field of a buffer.
struct AlignedCopy {
  explicit AlignedCopy(std::string_view bytes)
      : data(new (std::align_val_t(64)) uint8_t[bytes.size() + 1]),
        size(bytes.size()) {
    std::memcpy(data.get(), bytes.data(), size);
  }
  struct Delete {
    void operator()(uint8_t *p) const {
      ::operator delete[](p, std::align_val_t(64));
    }
  };
  std::unique_ptr<uint8_t, Delete> data;
  size_t size;
};

flatbuffers::Verifier verifierOf(const AlignedCopy &buffer) {
  // Deep enough for Plan > Program > Instruction > Call > Arg; the number of
  // tables is bounded by the buffer's size alone.
  return flatbuffers::Verifier(buffer.data.get(), buffer.size,
                               /*max_depth=*/16, /*max_tables=*/~0u);
}

// FlatBuffers' verifier sees to it that a vector's length is aligned, but not
// its elements, which loops over numbers of eight bytes may rely on.

template <typename... Number>
bool areAligned(const flatbuffers::Vector<Number> *...vectors) {
  return (
      (!vectors ||
       reinterpret_cast<uintptr_t>(vectors->Data()) % sizeof(Number) == 0) &&
      ...);
}

template <typename Table, typename Check>
bool all(const flatbuffers::Vector<flatbuffers::Offset<Table>> *tables,
         Check check) {
  return !tables || std::ranges::all_of(*tables, check);
}

bool isAligned(const plan::Record *record) {
  return !record || areAligned(record->strides());
}

bool isAligned(const plan::Instruction *instruction) {
  if (const plan::Call *call = instruction->body_as_Call())
    return all(call->args(), [](const plan::Arg *arg) {
      return areAligned(arg->ints(), arg->doubles());
    });
  if (const plan::Draw *draw = instruction->body_as_Draw())
    return areAligned(draw->numbers(), draw->range());
  const plan::PackTensors *pack = instruction->body_as_PackTensors();
  return !pack || areAligned(pack->offsets());
}

bool isAligned(const plan::Plan *plan) {
  return all(plan->states(),
             [](const plan::State *state) {
               return areAligned(state->shape()) &&
                      isAligned(state->source()) &&
                      (!state->initializer() ||
                       areAligned(state->initializer()->arguments()));
             }) &&
         all(plan->inputs(),
             [](const plan::Input *input) {
               return areAligned(input->shape()) && isAligned(input->sample());
             }) &&
         all(plan->programs(), [](const plan::Program *program) {
           return all(program->values(),
                      [](const plan::Value *value) {
                        return areAligned(value->shape(), value->strides());
                      }) &&
                  all(program->instructions(),
                      [](const plan::Instruction *instruction) {
                        return isAligned(instruction);
                      });
         });
}

void checkVersion(uint32_t version, const std::string &name) {
  std::string range = std::to_string(kFormatVersion);
  if (kOldestFormatVersion != kFormatVersion)
    range = std::to_string(kOldestFormatVersion) + " to " + range;
  if (version > kFormatVersion)
    throw Error(ErrorId::ArtifactNewer,
                "'" + name + "' has format version " + std::to_string(version) +
                    "; this build reads " + range +
                    "; use the runtime that came with the compiler that wrote "
                    "it, or compile the model again");
  if (version < kOldestFormatVersion)
    throw Error(ErrorId::ArtifactOlder, "'" + name + "' has format version " +
                                            std::to_string(version) +
                                            "; this build reads " + range +
                                            "; compile the model again");
}

} // namespace

bool PlanFile::isArtifact(std::string_view bytes) {
  return bytes.size() >= 8 &&
         bytes.substr(4, 4) == std::string_view(plan::ArtifactIdentifier(), 4);
}

PlanFile PlanFile::read(const std::string &path, Trust trust) {
  return fromBytes(readWholeFile(path, "the artifact", kMaxArtifactBytes), path,
                   trust);
}

PlanFile PlanFile::fromBytes(std::string_view bytes, const std::string &name,
                             Trust trust) {
  if (!isArtifact(bytes))
    throw Error(ErrorId::NotAnArtifact,
                "'" + name +
                    "' is not an artifact of fsdp-opt; expected a file that "
                    "fsdp-opt MODEL --config=FILE.yaml -o step.fsdp writes");
  auto corrupted = [&](const std::string &what) {
    return Error(ErrorId::ArtifactCorrupted, "'" + name +
                                                 "' is damaged: " + what +
                                                 "; copy or compile it again");
  };

  AlignedCopy file(bytes);
  flatbuffers::Verifier outer = verifierOf(file);
  // A whole artifact fills blocks of the payload's alignment: what is missing
  // of the last one may be padding, which no other check would miss.
  if (file.size % 16 || !plan::VerifyArtifactBuffer(outer))
    throw corrupted("its outer table does not hold together");
  const plan::Artifact *artifact = plan::GetArtifact(file.data.get());

  checkVersion(artifact->version(), name);
  if (!artifact->payload() || !artifact->payload_hash())
    throw corrupted("it holds no plan");

  AlignedCopy payload(std::string_view(
      reinterpret_cast<const char *>(artifact->payload()->data()),
      artifact->payload()->size()));
  PlanFile result;
  result.version = artifact->version();
  result.fingerprint = hash128(std::string_view(
      reinterpret_cast<const char *>(payload.data.get()), payload.size));
  if (artifact->payload_hash()->str() != result.fingerprint)
    throw corrupted("its contents give the hash " + result.fingerprint +
                    " and it states " + artifact->payload_hash()->str());
  flatbuffers::Verifier inner = verifierOf(payload);
  if (!inner.VerifyBuffer<plan::Plan>(nullptr) ||
      !isAligned(flatbuffers::GetRoot<plan::Plan>(payload.data.get())))
    throw corrupted("its plan does not hold together");
  flatbuffers::GetRoot<plan::Plan>(payload.data.get())
      ->UnPackTo(&result.contents);
  try {
    verifyPlan(result.contents);
  } catch (const Error &error) {
    throw corrupted(error.what());
  }
  verifyOperators(result.contents, trust);
  // That there is some is worth knowing; nobody is to run it.
  if (trust == Trust::stranger)
    for (const auto &code : result.contents.kernel_code)
      code->code.clear();
  return result;
}
