// A parameter that no gather stands in front of is copied to the device once more for
// backward where its bucket would be gathered again, and once where that is kept: by
// the policy, by a number of ranks, or by a rule.
//
// DEFINE: %{run} = fsdp-opt %S/../Inputs/uneven.mlir -o -
// DEFINE: %{told} = shards<world = 1>, optimizer<lr = 0.001>, offload<params = true>, buckets<policy = classes, classes = ["Linear"]
// RUN: %{run} --fsdp-annotate='with={%{told}, reshard = all>}' --fsdp-shard-pipeline | FileCheck %s --check-prefixes=CHECK,AGAIN
// RUN: %{run} --fsdp-annotate='with={%{told}, reshard = none>}' --fsdp-shard-pipeline | FileCheck %s --check-prefixes=CHECK,ONCE
// RUN: %{run} --fsdp-annotate='with={%{told}, reshard = all, reshard_ranks = 1>}' --fsdp-shard-pipeline | FileCheck %s --check-prefixes=CHECK,ONCE
// RUN: %{run} --fsdp-annotate='with={%{told}, reshard = all, rules = [#fsdp.rule<buckets = ["*"], reshard = 1>]>}' --fsdp-shard-pipeline | FileCheck %s --check-prefixes=CHECK,ONCE
//
// CHECK-LABEL: func.func @"train/step"
// CHECK:         fsdp.copy {{.*}} to device of @b.weight
// CHECK:         aten.mse_loss(
// AGAIN:         fsdp.replay
// AGAIN-NEXT:    fsdp.copy {{.*}} to device of @c.weight
// AGAIN:         fsdp.copy {{.*}} to device of @b.weight
// ONCE-NOT:      to device of
// CHECK:         fsdp.update adamw
