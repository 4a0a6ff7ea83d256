//===- Collectives.cpp - What ranks must agree on -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Collectives.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "support/Hash.h"

using namespace fsdp;

template <typename OpTy>
static std::string describe(const OpTy &op) {
  std::string text = plan::EnumNameReduction(op.reduction);
  if (op.pre != 1 || op.post != 1)
    text += "/" + std::to_string(op.pre) + "/" + std::to_string(op.post);
  return text;
}

uint64_t fsdp::hashCollectives(const plan::PlanT &plan) {
  std::string text;
  for (const auto &program : plan.programs) {
    text += program->name + "\n";
    auto add = [&](const char *kind, const auto &op,
                   const std::string &reduction) {
      const plan::GroupT &group = *plan.groups[op.group];
      text += std::string(kind) + "|" + reduction + "|" + op.bucket + "|" +
              group.name + ":" + std::to_string(group.size) + ":" +
              std::to_string(group.stride) + "|" +
              plan::EnumNameStream(op.stream);
      for (const auto *values : {&op.inputs, &op.outputs})
        for (uint32_t index : *values) {
          const plan::ValueT &value = *program->values[index];
          text +=
              "|" + std::string(dtypeName(value.dtype)) + toString(value.shape);
        }
      text += "\n";
    };
    for (const auto &instruction : program->instructions) {
      const plan::BodyUnion &body = instruction->body;
      if (const auto *op = body.AsAllGather())
        add("all_gather", *op, "");
      else if (const auto *op = body.AsReduceScatter())
        add("reduce_scatter", *op, describe(*op));
      else if (const auto *op = body.AsAllReduce())
        add("all_reduce", *op, describe(*op));
    }
  }
  return hash64(text);
}
