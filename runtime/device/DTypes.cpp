//===- DTypes.cpp - Element types of plan and LibTorch --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/device/DTypes.h"

#include "support/Error.h"

using namespace fsdp;

c10::ScalarType fsdp::toScalarType(plan::DType dtype) {
  switch (dtype) {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  case plan::DType::ENUMERATOR:                                                \
    return c10::ScalarType::TORCH;
#include "support/ElementTypes.def"
  }
  throw Error(ErrorId::ArtifactCorrupted, "the plan has an unknown dtype");
}
