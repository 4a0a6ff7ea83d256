//===- Collectives.cpp - What ranks must agree on -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Collectives.h"

#include "plan/ProgramText.h"
#include "support/Hash.h"

using namespace fsdp;

uint64_t fsdp::hashCollectives(const plan::PlanT &plan) {
  std::string text;
  for (const auto &program : plan.programs) {
    text += program->name + "\n";
    for (const auto &instruction : program->instructions) {
      const plan::TransferT *start = transferOf(*instruction);
      if (!start)
        continue;
      const plan::GroupT &group = *plan.groups[start->group];
      text += std::string(getName(start->kind)) + "|";
      if (isReduction(start->kind))
        text += plan::EnumNameReduction(start->reduction);
      if (start->pre != 1 || start->post != 1)
        text += "/" + std::to_string(start->pre) + "/" +
                std::to_string(start->post);
      text += "|" + start->bucket + "|" + group.name + ":" +
              std::to_string(group.size) + ":" + std::to_string(group.stride) +
              "|" + plan::EnumNameStream(start->stream);
      for (const auto *values : {&start->inputs, &start->outputs})
        for (uint32_t index : *values) {
          const plan::ValueT &value = *program->values[index];
          text += "|" + typeText(value.dtype, value.shape);
        }
      text += "\n";
    }
  }
  return hash64(text);
}
