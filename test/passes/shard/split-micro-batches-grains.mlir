// RUN: fsdp-opt %s --fsdp-annotate='with={step<micro_batches = 4, sync = last, grains = 8>}' --fsdp-split-micro-batches | FileCheck %s

// Four grains leave two sums open at a time. All programs add their grain, the first
// one too; the last goes on with the sum, which the reduction divides. The place in the
// random sequence is the same for all of them.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK: fsdp.state scalar @"loss/sum" : tensor<2xf32>
  // CHECK: fsdp.state gradient @"w/gradient" of @w : tensor<2x5xf32>{{$}}
  fsdp.state parameter @w : tensor<5xf32> sharded <dim 0 over #shard>
  fsdp.state random @"random/state" : tensor<2xi64>

  // CHECK-LABEL: func.func @"train/first"
  // CHECK-SAME: -> (tensor<2xf32> {fsdp.output = "loss", fsdp.state = @"loss/sum"}, tensor<2x5xf32> {fsdp.state = @"w/gradient"})
  // CHECK:      fsdp.accumulate %{{.+}} into %{{.+}} tree : tensor<f32>, tensor<2xf32>
  // CHECK:      fsdp.accumulate %{{.+}} into %{{.+}} tree of @w : tensor<5xf32>, tensor<2x5xf32>
  // CHECK-NOT:  reduce_scatter

  // CHECK-LABEL: func.func @"train/middle"
  // CHECK:      fsdp.accumulate %{{.+}} into %{{.+}} tree of @w : tensor<5xf32>, tensor<2x5xf32>
  // CHECK-NOT:  reduce_scatter

  // CHECK-LABEL: func.func @"train/last"
  // CHECK-SAME: -> (tensor<f32> {fsdp.output = "loss"}, tensor<3xf32> {fsdp.gradient = @w}, tensor<2xi64> {fsdp.state = @"random/state"})
  // CHECK:      fsdp.accumulate %{{.+}} into %{{.+}} tree : tensor<f32>, tensor<2xf32> -> tensor<f32>
  // CHECK:      %[[G:.+]] = fsdp.accumulate %{{.+}} into %{{.+}} tree of @w : tensor<5xf32>, tensor<2x5xf32> -> tensor<5xf32>
  // CHECK-NEXT: fsdp.reduce_scatter tree %[[G]] post 8.{{.*}} dim 0
  func.func @"train/step"(%w: tensor<3xf32> {fsdp.state = @w}, %r: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<5xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<3xf32> {fsdp.gradient = @w}, tensor<2xi64> {fsdp.state = @"random/state"}) {
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<3xf32> -> tensor<5xf32>
    %p = aten.mul.Tensor(%f, %x) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %l = aten.sum(%p) : (tensor<5xf32>) -> tensor<f32>
    %g = aten.neg(%x) : (tensor<5xf32>) -> tensor<5xf32>
    %s = fsdp.reduce_scatter tree %g post 8.0 dim 0 over #shard of @w : tensor<5xf32> -> tensor<3xf32>
    %n = aten.neg(%r) : (tensor<2xi64>) -> tensor<2xi64>
    return %l, %s, %n : tensor<f32>, tensor<3xf32>, tensor<2xi64>
  }
}
