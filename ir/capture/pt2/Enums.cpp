//===- Enums.cpp - Enumerations of torch.export archives ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/Enums.h"
#include "support/Error.h"

#include <string>

using namespace fsdp;

c10::ScalarType fsdp::capture::getPt2ScalarType(int64_t number) {
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  if (NUMBER != 0 && number == NUMBER)                                         \
    return c10::ScalarType::TORCH;
#include "support/ElementTypes.def"
  throw Error(ErrorId::ModelNotSupported,
              "the model uses a dtype that is not supported (number " +
                  std::to_string(number) +
                  " of torch.export's list); supported are float32, "
                  "float64, float16, bfloat16, complex64, complex128, bool "
                  "and integers of 8 to 64 bits");
}

c10::MemoryFormat fsdp::capture::getPt2MemoryFormat(int64_t number) {
  switch (number) {
  case 1:
    return c10::MemoryFormat::Contiguous;
  case 2:
    return c10::MemoryFormat::ChannelsLast;
  case 3:
    return c10::MemoryFormat::ChannelsLast3d;
  case 4:
    return c10::MemoryFormat::Preserve;
  default:
    throw Error(
        ErrorId::ModelNotSupported,
        "the model uses a memory format that is not supported (number " +
            std::to_string(number) + " of torch.export's list)");
  }
}

void fsdp::capture::checkPt2Layout(int64_t number) {
  if (number != 7)
    throw Error(ErrorId::ModelNotSupported,
                "the model uses a sparse or blocked tensor layout (number " +
                    std::to_string(number) +
                    " of torch.export's list); only dense strided tensors are "
                    "supported");
}
