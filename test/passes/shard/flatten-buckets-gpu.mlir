// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat>}' --fsdp-flatten-buckets --split-input-file | FileCheck %s

// Rows of three parameters of 6 elements are 3 of each rank, 18 in all. That
// many elements leave no room for an alignment on the host …

// CHECK-LABEL: @"host/flat" : tensor<18xf32>
// CHECK-NEXT: at 0>
// CHECK-NEXT: at 6>
// CHECK-NEXT: at 12>
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<6xf32> sharded <dim 0 over #shard> bucket "host"
  fsdp.state parameter @b : tensor<6xf32> sharded <dim 0 over #shard> bucket "host"
  fsdp.state parameter @c : tensor<6xf32> sharded <dim 0 over #shard> bucket "host"
  func.func @"train/step"(%a: tensor<3xf32> {fsdp.state = @a}, %b: tensor<3xf32> {fsdp.state = @b}, %c: tensor<3xf32> {fsdp.state = @c}, %x: tensor<6xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<3xf32> {fsdp.gradient = @a}, tensor<3xf32> {fsdp.gradient = @b}, tensor<3xf32> {fsdp.gradient = @c}) {
    %fa = fsdp.all_gather %a dim 0 over #shard : tensor<3xf32> -> tensor<6xf32>
    %fb = fsdp.all_gather %b dim 0 over #shard : tensor<3xf32> -> tensor<6xf32>
    %fc = fsdp.all_gather %c dim 0 over #shard : tensor<3xf32> -> tensor<6xf32>
    %ab = aten.mul.Tensor(%fa, %fb) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %abc = aten.mul.Tensor(%ab, %fc) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %l = aten.sum(%abc) : (tensor<6xf32>) -> tensor<f32>
    %sa = fsdp.reduce_scatter avg %x dim 0 over #shard of @a : tensor<6xf32> -> tensor<3xf32>
    %sb = fsdp.reduce_scatter avg %x dim 0 over #shard of @b : tensor<6xf32> -> tensor<3xf32>
    %sc = fsdp.reduce_scatter avg %x dim 0 over #shard of @c : tensor<6xf32> -> tensor<3xf32>
    return %l, %sa, %sb, %sc : tensor<f32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}

// -----

// … but a GPU moves 16 bytes at a time.

// CHECK-LABEL: @"gpu/flat" : tensor<24xf32>
// CHECK-NEXT: at 0>
// CHECK-NEXT: at 8>
// CHECK-NEXT: at 16>
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.device = "cuda:sm_90"} {
  fsdp.state parameter @a : tensor<6xf32> sharded <dim 0 over #shard> bucket "gpu"
  fsdp.state parameter @b : tensor<6xf32> sharded <dim 0 over #shard> bucket "gpu"
  fsdp.state parameter @c : tensor<6xf32> sharded <dim 0 over #shard> bucket "gpu"
  func.func @"train/step"(%a: tensor<3xf32> {fsdp.state = @a}, %b: tensor<3xf32> {fsdp.state = @b}, %c: tensor<3xf32> {fsdp.state = @c}, %x: tensor<6xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<3xf32> {fsdp.gradient = @a}, tensor<3xf32> {fsdp.gradient = @b}, tensor<3xf32> {fsdp.gradient = @c}) {
    %fa = fsdp.all_gather %a dim 0 over #shard : tensor<3xf32> -> tensor<6xf32>
    %fb = fsdp.all_gather %b dim 0 over #shard : tensor<3xf32> -> tensor<6xf32>
    %fc = fsdp.all_gather %c dim 0 over #shard : tensor<3xf32> -> tensor<6xf32>
    %ab = aten.mul.Tensor(%fa, %fb) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %abc = aten.mul.Tensor(%ab, %fc) : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
    %l = aten.sum(%abc) : (tensor<6xf32>) -> tensor<f32>
    %sa = fsdp.reduce_scatter avg %x dim 0 over #shard of @a : tensor<6xf32> -> tensor<3xf32>
    %sb = fsdp.reduce_scatter avg %x dim 0 over #shard of @b : tensor<6xf32> -> tensor<3xf32>
    %sc = fsdp.reduce_scatter avg %x dim 0 over #shard of @c : tensor<6xf32> -> tensor<3xf32>
    return %l, %sa, %sb, %sc : tensor<f32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  }
}
