// RUN: fsdp-opt %s --fsdp-annotate='with={step<grains = 8>}' --fsdp-divide-gradients | FileCheck %s

// Sums in the order of the tree; the last of them divides.

#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @w}) {
    // CHECK:      %[[S:.+]] = fsdp.reduce_scatter tree %{{.+}} dim 0 over
    // CHECK-NEXT: fsdp.all_reduce tree %[[S]] post 8.{{.+}} over
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %r = fsdp.all_reduce avg %s over #replicate of @w : tensor<2xf32>
    return %r : tensor<2xf32>
  }
}
