//===- Mesh.h - Axes and groups of a plan ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_TEST_UNIT_RUNTIME_MESH_H
#define FSDP_TEST_UNIT_RUNTIME_MESH_H

#include "plan/plan_generated.h"

#include <memory>
#include <tuple>

namespace fsdp::test {

/// Gives `plan` the axes 'replicate', 'shard' and 'tp' of these sizes, and a
/// group for each, in this order.
inline void addMesh(plan::PlanT &plan, uint32_t replicate, uint32_t shard,
                    uint32_t tp) {
  for (auto [name, size, stride] :
       {std::tuple("replicate", replicate, shard * tp),
        {"shard", shard, tp},
        {"tp", tp, 1u}}) {
    plan.mesh.push_back(std::make_unique<plan::AxisT>());
    plan.mesh.back()->name = name;
    plan.mesh.back()->size = size;
    plan.groups.push_back(std::make_unique<plan::GroupT>());
    plan.groups.back()->name = name;
    plan.groups.back()->size = size;
    plan.groups.back()->stride = stride;
  }
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_RUNTIME_MESH_H
