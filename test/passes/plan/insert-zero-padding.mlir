// RUN: fsdp-opt %s --fsdp-insert-zero-padding | FileCheck %s

#shard = #fsdp.group<"shard", 4>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>} {
  // Members whose rows do not divide evenly, tiny ones too; not the even one.
  // CHECK-LABEL: @"train/step"
  // CHECK: %[[A:.*]] = aten.ones
  // CHECK: %[[B:.*]] = aten.ones
  // CHECK: %[[C:.*]] = aten.ones
  // CHECK-NEXT: fsdp.zero_padding %[[A]] dim 0 over #shard : tensor<13x17xf32>
  // CHECK-NEXT: fsdp.zero_padding %[[C]] dim 0 over #shard : tensor<1xf32>
  // CHECK-NEXT: fsdp.start reduce_scatter
  func.func @"train/step"() {
    %a = aten.ones(size = [13, 17]) : () -> tensor<13x17xf32>
    %b = aten.ones(size = [8, 17]) : () -> tensor<8x17xf32>
    %c = aten.ones(size = [1]) : () -> tensor<1xf32>
    %f = fsdp.start reduce_scatter avg "fc"(%a, %b, %c) dims [0, 0, 0] over #shard on reduce : tensor<13x17xf32>, tensor<8x17xf32>, tensor<1xf32> -> !fsdp.future<tensor<4x17xf32>, tensor<2x17xf32>, tensor<1xf32>>
    %r:3 = fsdp.wait %f : !fsdp.future<tensor<4x17xf32>, tensor<2x17xf32>, tensor<1xf32>> -> tensor<4x17xf32>, tensor<2x17xf32>, tensor<1xf32>
    return
  }
}
