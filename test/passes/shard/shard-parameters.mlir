// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 4>}' --fsdp-shard-parameters --split-input-file --verify-diagnostics | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 1>}' --fsdp-shard-parameters --split-input-file | FileCheck %s --check-prefix=ONE
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 0>}' --fsdp-shard-parameters --split-input-file 2>&1 | FileCheck %s --check-prefix=NONE

// NONE: expected a world size of at least 1, found 0

// Five rows over four ranks: two a rank, the last one holds padding alone. The
// gather stands in front of the first reader, the reduction behind the gradient.
// Buffers and inputs stay whole; a parameter that nothing reads is not gathered.

// CHECK: #[[MESH:.+]] = #fsdp.mesh<shard = 4>
// CHECK: #[[SHARD:.+]] = #fsdp.group<"shard", 4>
// CHECK: module attributes {fsdp.mesh = #[[MESH]]{{[,}]}}
// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[W:[^:]+]]: tensor<2x3xf32> {fsdp.state = @w}
// CHECK-SAME:    tensor<1xf32> {fsdp.state = @unread}
// CHECK-SAME:    tensor<3xf32> {fsdp.state = @b}
// CHECK-SAME:    %[[X:[^:]+]]: tensor<5x3xf32> {fsdp.input = "x"}
// CHECK-SAME:    tensor<2x3xf32> {fsdp.gradient = @w}
// CHECK-NOT:     fsdp.captured
// CHECK-NEXT:    aten.relu(%[[X]])
// CHECK-NEXT:    %[[F:.+]] = fsdp.all_gather %[[W]] dim 0 over #[[SHARD]] : tensor<2x3xf32> -> tensor<5x3xf32>
// CHECK-NEXT:    %[[P:.+]] = aten.mul.Tensor(%[[F]],
// CHECK-NEXT:    %[[S:.+]] = fsdp.reduce_scatter avg %[[P]] dim 0 over #[[SHARD]] of @w : tensor<5x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %[[L:.+]] = aten.sum(%[[P]])
// CHECK-NEXT:    aten.add.Tensor(%[[F]], %[[F]])
// CHECK-NEXT:    return %[[L]], %[[S]]

// One rank holds everything and exchanges nothing.

// ONE:       fsdp.mesh = #{{.+}}
// ONE:       fsdp.state parameter @w : tensor<5x3xf32>{{$}}
// ONE:       tensor<5x3xf32> {fsdp.state = @w}
// ONE-NOT:   fsdp.captured
// ONE-NOT:   fsdp.all_gather
// ONE-NOT:   fsdp.reduce_scatter
module {
  fsdp.state parameter @w : tensor<5x3xf32>
  fsdp.state frozen @unread : tensor<3xf32>
  fsdp.state buffer @b : tensor<3xf32>
  func.func @"train/step"(%w: tensor<5x3xf32> {fsdp.state = @w}, %u: tensor<3xf32> {fsdp.state = @unread}, %b: tensor<3xf32> {fsdp.state = @b},
                          %x: tensor<5x3xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<5x3xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    %r = aten.relu(%x) : (tensor<5x3xf32>) -> tensor<5x3xf32>
    %p = aten.mul.Tensor(%w, %r) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    %l = aten.sum(%p) : (tensor<5x3xf32>) -> tensor<f32>
    %a = aten.add.Tensor(%w, %w) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
    return %l, %p : tensor<f32>, tensor<5x3xf32>
  }
}
