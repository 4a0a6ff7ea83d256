// RUN: fsdp-opt %s --fsdp-annotate='with={step<divide_in_optimizer = true>}' --fsdp-divide-gradients --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={step<divide_in_optimizer = true, divide_factor = 6.0>}' --fsdp-divide-gradients --split-input-file | FileCheck %s --check-prefix=FACTOR
// RUN: fsdp-opt %s --fsdp-divide-gradients --split-input-file | FileCheck %s --check-prefix=PLAIN

// PLAIN-NOT: fsdp.optimizer_divisor

// Over eight ranks gradients are summed, and left to the optimizer to divide.

// CHECK:      module attributes {{.*}}fsdp.optimizer_divisor = 8.000000e+00 : f64
// CHECK-LABEL: func.func @"train/sums"
// CHECK-NEXT: fsdp.reduce_scatter sum %{{.+}} dim 0 {{.*}} of @w
// CHECK-NEXT: fsdp.all_reduce sum %{{.+}} over {{.*}} of @w
// CHECK-NEXT: fsdp.all_reduce sum %{{.+}} over {{.*}} of @s
// CHECK-NEXT: fsdp.all_reduce avg
// FACTOR:     fsdp.gradient_divide_factor = 6.000000e+00
// FACTOR-SAME: fsdp.optimizer_divisor = 6.000000e+00 : f64
// FACTOR-NOT: {{pre|post}}
// FACTOR:     return
#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
#world = #fsdp.group<"world", 8>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 4>} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @s : tensor<f32>
  func.func @"train/sums"(%g: tensor<8xf32> {fsdp.input = "g"}, %k: tensor<f32> {fsdp.input = "k"}, %l: tensor<f32> {fsdp.input = "l"})
      -> (tensor<2xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.gradient = @s}, tensor<f32> {fsdp.output = "loss"}) {
    %p = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<8xf32> -> tensor<2xf32>
    %r = fsdp.all_reduce avg %p over #replicate of @w : tensor<2xf32>
    %q = fsdp.all_reduce avg %k over #world of @s : tensor<f32>
    %m = fsdp.all_reduce avg %l over #world for metric : tensor<f32>
    return %r, %q, %m : tensor<2xf32>, tensor<f32>, tensor<f32>
  }
}

// -----

// Sums of many f16 overflow: all gradients are divided by their reductions.

// CHECK-NOT:  fsdp.optimizer_divisor
// CHECK-LABEL: func.func @"train/half"
// CHECK-NEXT: fsdp.reduce_scatter avg %{{.+}} dim 0 {{.*}} of @w
// CHECK-NEXT: fsdp.reduce_scatter sum %{{.+}} pre 2.000000e+00 post 2.000000e+00 dim 0 {{.*}} of @h
#shard = #fsdp.group<"shard", 4>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @h : tensor<8xf16> sharded <dim 0 over #shard>
  func.func @"train/half"(%g: tensor<8xf32> {fsdp.input = "g"}, %k: tensor<8xf16> {fsdp.input = "k"})
      -> (tensor<2xf32> {fsdp.gradient = @w}, tensor<2xf16> {fsdp.gradient = @h}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<8xf32> -> tensor<2xf32>
    %t = fsdp.reduce_scatter avg %k dim 0 over #shard of @h : tensor<8xf16> -> tensor<2xf16>
    return %s, %t : tensor<2xf32>, tensor<2xf16>
  }
}

// -----

// A gradient that each rank keeps for itself is no sum.

// CHECK-NOT:  fsdp.optimizer_divisor
// CHECK-LABEL: func.func @"train/own"
// CHECK-NEXT: fsdp.reduce_scatter avg %{{.+}} dim 0 {{.*}} of @w
#shard = #fsdp.group<"shard", 4>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @own : tensor<8xf32> gradient <local>
  func.func @"train/own"(%g: tensor<8xf32> {fsdp.input = "g"}, %k: tensor<8xf32> {fsdp.input = "k"})
      -> (tensor<2xf32> {fsdp.gradient = @w}, tensor<8xf32> {fsdp.gradient = @own}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<8xf32> -> tensor<2xf32>
    return %s, %k : tensor<2xf32>, tensor<8xf32>
  }
}
