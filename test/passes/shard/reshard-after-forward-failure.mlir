// RUN: fsdp-opt %s --fsdp-reshard-after-forward --verify-diagnostics

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @w : tensor<4xf32> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{expects to gather a parameter that has a bucket; run fsdp-assign-buckets first}}
    %f = fsdp.all_gather %w dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %l = aten.sum(%f) : (tensor<4xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
