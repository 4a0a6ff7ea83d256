// One rank exchanges nothing: no collective, no gather, no free; the optimizer
// takes the captured gradients, and equality is still proved.
//
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with={buckets<policy = classes, classes = ["Linear"], reshard = all>}' --fsdp-shard-pipeline --fsdp-schedule-pipeline | FileCheck %s

// CHECK:      #[[MESH:.+]] = #fsdp.mesh<shard = 1>
// CHECK-NOT:  sharded
// CHECK-NOT:  fsdp.all_
// CHECK-NOT:  fsdp.reduce
// CHECK-NOT:  fsdp.wait
// CHECK-NOT:  fsdp.free
// CHECK-NOT:  fsdp.replay
// CHECK:      aten.mse_loss(
// CHECK:      fsdp.update adamw params(%{{.+}}) {{.*}} : tensor<13x17xf32>, tensor<5x13xf32>, tensor<5xf32>
