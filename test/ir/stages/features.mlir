// What no pass of today makes but the dialect can say: parts of an axis, two
// axes, unsharded accumulation.
//
// RUN: fsdp-opt %s --verify-roundtrip | grep -v "^$" > %t
// RUN: grep -vE "^(//|$)" %s | diff - %t
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | grep -v "^$" | diff %t -

#inner = #fsdp.group<"inner", 2>
#mesh = #fsdp.mesh<replicate = 2, shard = 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
#shard = #fsdp.group<"shard", 4>
module @features attributes {fsdp.mesh = #mesh} {
  fsdp.state parameter @emb.weight : tensor<13x17xf32> sharded <dim 0 over #shard> names ["emb.weight", "head.weight"]
  fsdp.state gradient @"emb.weight/gradient" of @emb.weight : tensor<13x17xf32>
  fsdp.state gradient @"emb.weight/gradient_shard" of @emb.weight : tensor<13x17xf32> sharded <dim 0 over #shard>
  func.func @hpz(%arg0: tensor<4x17xf32> {fsdp.state = @emb.weight}) -> (tensor<13x17xf32>, tensor<13x17xf32>) {
    %0 = fsdp.all_gather %arg0 dim 0 over #shard : tensor<4x17xf32> -> tensor<13x17xf32>
    %1 = fsdp.shard %0 dim 0 over #inner : tensor<13x17xf32> -> tensor<7x17xf32>
    %2 = fsdp.replay %1 : tensor<7x17xf32>
    %3 = fsdp.all_gather %2 dim 0 over #inner : tensor<7x17xf32> -> tensor<13x17xf32>
    return %0, %3 : tensor<13x17xf32>, tensor<13x17xf32>
  }
  func.func @hsdp(%arg0: tensor<13x17xf32>) -> (tensor<4x17xf32> {fsdp.state = @"emb.weight/gradient_shard"}) {
    %0 = fsdp.reduce_scatter avg %arg0 dim 0 over #shard of @emb.weight : tensor<13x17xf32> -> tensor<4x17xf32>
    %1 = fsdp.all_reduce avg %0 over #replicate for metric : tensor<4x17xf32>
    return %1 : tensor<4x17xf32>
  }
  func.func @"train/first"(%arg0: tensor<13x17xf32> {fsdp.state = @"emb.weight/gradient"}, %arg1: tensor<13x17xbf16>) -> (tensor<13x17xf32> {fsdp.state = @"emb.weight/gradient"}) attributes {fsdp.program = #fsdp.program<part = first>} {
    %0 = fsdp.accumulate %arg1 into %arg0 of @emb.weight : tensor<13x17xbf16>, tensor<13x17xf32>
    return %0 : tensor<13x17xf32>
  }
}
