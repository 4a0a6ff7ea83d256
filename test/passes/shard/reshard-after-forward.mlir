// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<reshard = all>}' --fsdp-reshard-after-forward --split-input-file | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: fsdp-opt %s --fsdp-reshard-after-forward --split-input-file | FileCheck %s --check-prefixes=CHECK,ROOT
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<reshard = none>}' --fsdp-reshard-after-forward --split-input-file | FileCheck %s --check-prefixes=CHECK,NONE

#shard = #fsdp.group<"shard", 2>

// Forward reads a transposed, rounded copy of @w; backward reads the transposed
// copy as well as @w itself: all of it is made again from the second gather. CSE
// cannot undo that. @b is read by forward alone, @g by backward alone.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    (%[[W:[^:]+]]: tensor<2x4xf32> {fsdp.state = @w}, %[[B:[^:]+]]: {{.*}}, %[[G:[^:]+]]: tensor<2x4xf32> {fsdp.state = @g}, %[[R:[^:]+]]: tensor<2x4xf32> {fsdp.state = @r}
// CHECK:         %[[WF:.+]] = fsdp.all_gather %[[W]]
// CHECK-NEXT:    %[[BF:.+]] = fsdp.all_gather %[[B]]
// CHECK-NEXT:    %[[RF:.+]] = fsdp.all_gather %[[R]]
// CHECK-NEXT:    %[[T:.+]] = aten.t(%[[WF]])
// CHECK-NEXT:    %[[C:.+]] = aten._to_copy(%[[T]], dtype = bf16)
// CHECK:         aten.sum
// ALL:           %[[RR:.+]] = fsdp.replay %[[R]]
// ALL-NEXT:      %[[RA:.+]] = fsdp.all_gather %[[RR]]
// ROOT-NOT:      fsdp.replay %[[R]]
// ALL:           aten.mul.Tensor(%{{.+}}, %[[RA]])
// ALL-NEXT:      %[[WR:.+]] = fsdp.replay %[[W]]
// ALL-NEXT:      %[[WA:.+]] = fsdp.all_gather %[[WR]]
// ALL-NEXT:      %[[TA:.+]] = aten.t(%[[WA]])
// ALL-NEXT:      %[[CA:.+]] = aten._to_copy(%[[TA]], dtype = bf16)
// ALL-NEXT:      aten.neg(%[[CA]])
// ALL:           aten.mul.Tensor(%{{.+}}, %[[WA]])
// ROOT:          aten.mul.Tensor(%{{.+}}, %[[RF]])
// ROOT-NEXT:     %[[WR:.+]] = fsdp.replay %[[W]]
// ROOT-NEXT:     %[[WA:.+]] = fsdp.all_gather %[[WR]]
// NONE-NOT:      fsdp.replay
// NONE:          aten.neg(%[[C]])
// CHECK-NOT:     fsdp.replay %[[B]]
// CHECK-NOT:     fsdp.replay %[[G]]
// CHECK:         return
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @b : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @g : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state frozen @r : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "root"
  func.func @"train/step"(%w: tensor<2x4xf32> {fsdp.state = @w}, %b: tensor<2x4xf32> {fsdp.state = @b}, %g: tensor<2x4xf32> {fsdp.state = @g}, %r: tensor<2x4xf32> {fsdp.state = @r})
      -> (tensor<bf16> {fsdp.output = "loss"}, tensor<2x4xf32> {fsdp.gradient = @w}) {
    %wf = fsdp.all_gather %w dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %bf = fsdp.all_gather %b dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %rf = fsdp.all_gather %r dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %t = aten.t(%wf) : (tensor<4x4xf32>) -> tensor<4x4xf32, #aten.strides<1, 4>>
    %c = aten._to_copy(%t, dtype = bf16) : (tensor<4x4xf32, #aten.strides<1, 4>>) -> tensor<4x4xbf16, #aten.strides<1, 4>>
    %m = aten.mul.Tensor(%bf, %rf) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %n = aten.mul.Tensor(%m, %c) : (tensor<4x4xf32>, tensor<4x4xbf16, #aten.strides<1, 4>>) -> tensor<4x4xf32>
    %l = aten.sum(%n, dtype = bf16) : (tensor<4x4xf32>) -> tensor<bf16>
    %1 = aten.mul.Tensor(%m, %rf) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = aten.neg(%c) : (tensor<4x4xbf16, #aten.strides<1, 4>>) -> tensor<4x4xbf16, #aten.strides<1, 4>>
    %3 = aten.mul.Tensor(%1, %2) : (tensor<4x4xf32>, tensor<4x4xbf16, #aten.strides<1, 4>>) -> tensor<4x4xf32>
    %4 = aten.mul.Tensor(%3, %wf) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gf = fsdp.all_gather %g dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %5 = aten.mul.Tensor(%4, %gf) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = fsdp.reduce_scatter avg %5 dim 0 over #shard of @w : tensor<4x4xf32> -> tensor<2x4xf32>
    return %l, %s : tensor<bf16>, tensor<2x4xf32>
  }
}

// -----

// A parameter that is given out is copied in forward; the result is no reason to
// gather it again.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  // CHECK-LABEL: func.func @"train/given"
  // CHECK-COUNT-1: fsdp.all_gather
  // CHECK-NOT: fsdp.all_gather
  // CHECK: return
  func.func @"train/given"(%w: tensor<2xf32> {fsdp.state = @w}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.output = "w"}, tensor<2xf32> {fsdp.gradient = @w}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %c = aten.clone(%f, memory_format = "contiguous") : (tensor<4xf32>) -> tensor<4xf32>
    %p = aten.mul.Tensor(%f, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    %s = fsdp.reduce_scatter avg %x dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %l, %c, %s : tensor<f32>, tensor<4xf32>, tensor<2xf32>
  }
}
