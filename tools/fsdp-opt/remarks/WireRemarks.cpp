//===- WireRemarks.cpp - Whether narrow wires pay -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "plan/Activities.h"
#include "plan/DType.h"
#include "plan/Instructions.h"
#include "simulate/CollectiveModel.h"
#include "simulate/ComputeModel.h"
#include "support/Format.h"
#include "tools/fsdp-opt/input/Diagnostics.h"
#include "tools/fsdp-opt/remarks/Remarks.h"

#include "mlir/IR/Remarks.h"

#include <algorithm>

using namespace fsdp;
using namespace mlir;

namespace {

/// Gradients whose parts ranks exchange and sum, beside NCCL's own sum of them.
struct Wire {
  std::string bucket;
  uint32_t ranks = 1;
  size_t start = 0;                       ///< its instruction
  double exchange = 0, sum = 0, wide = 0; ///< seconds

  bool pays() const { return exchange + sum < wide; }
  std::string describe() const {
    return "gradients of bucket '" + bucket + "' among " +
           std::to_string(ranks) + " ranks: exchanged in " +
           formatMilliseconds(exchange) + " ms and summed in " +
           formatMilliseconds(sum) +
           " ms, where a reduction in float32 takes " +
           formatMilliseconds(wide) + " ms";
  }
};

std::vector<Wire> listWires(const plan::PlanT &plan,
                            const plan::ProgramT &program,
                            const Cluster &cluster) {
  CollectiveModel collectives(cluster);
  ComputeModel compute(cluster);
  std::vector<Wire> wires;
  std::vector<int> sources(program.values.size(), -1); // by root: whose parts
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    if (const plan::SumPartsT *sum = instruction.body.AsSumParts()) {
      if (int source = sources[rootOf(program, sum->input)]; source >= 0)
        wires[size_t(source)].sum +=
            compute.seconds(estimateWork(plan, program, instruction));
      continue;
    }
    const plan::TransferT *start = transferOf(instruction);
    if (!start || start->kind != CollectiveKind::all_to_all ||
        start->purpose != plan::Purpose::gradient)
      continue;
    const plan::GroupT &group = *plan.groups[start->group];
    double narrow = 0, wide = 0;
    for (uint32_t output : start->outputs) {
      const plan::ValueT &value = *program.values[output];
      double elements = 1;
      for (int64_t size : value.shape)
        elements *= double(size);
      narrow += elements * double(dtypeBytes(value.dtype));
      wide += elements * double(dtypeBytes(plan::DType::f32));
      sources[rootOf(program, output)] = int(wires.size());
    }
    size_t pieces = start->outputs.size();
    wires.push_back(
        {start->bucket, group.size, i,
         collectives.collective(start->kind, narrow, group, pieces).seconds, 0,
         collectives
             .collective(CollectiveKind::reduce_scatter, wide, group, pieces)
             .seconds});
  }
  return wires;
}

} // namespace

std::string fsdp::remarkWires(ModuleOp module, const plan::PlanT &plan,
                              const Cluster &cluster) {
  MLIRContext *context = module.getContext();
  DiagnosticCollector diagnostics(context);
  const Wire *worst = nullptr;
  size_t slower = 0, count = 0;
  Wire kept;
  for (const auto &program : plan.programs) {
    std::vector<Wire> wires = listWires(plan, *program, cluster);
    std::vector<Activity> activities;
    if (context->getRemarkEngine() && !wires.empty())
      activities = describeActivities(plan, *program);
    for (const Wire &wire : wires) {
      ++count;
      if (!activities.empty()) {
        const Activity &at = activities[wire.start];
        Location location = makeLocation(context, at.module, at.source);
        auto name = [&](const char *text) {
          return remark::RemarkOpts::name(text)
              .category("predicted")
              .function(program->name);
        };
        if (wire.pays())
          remark::passed(location, name("WirePays")) << wire.describe();
        else
          remark::missed(location, name("WireIsSlower")) << wire.describe();
      }
      if (wire.pays())
        continue;
      ++slower;
      if (!worst || wire.exchange + wire.sum - wire.wide >
                        kept.exchange + kept.sum - kept.wide) {
        kept = wire;
        worst = &kept;
      }
    }
  }
  if (!worst)
    return "";
  return "reduce_wire_dtype is predicted to be slower on " + cluster.name +
         " than none for " + std::to_string(slower) + " of " +
         std::to_string(count) + " transfers: " + worst->describe() +
         "; leave it out, or write float32 for such buckets in overrides";
}
