// RUN: fsdp-opt %s --fsdp-divide-gradients --split-input-file | FileCheck %s --check-prefix=PLAIN
// RUN: fsdp-opt %s --fsdp-annotate='with={step<divide_factor = 6.0>}' --fsdp-divide-gradients --split-input-file | FileCheck %s --check-prefix=FACTOR
// RUN: fsdp-opt %s --fsdp-annotate='with={step<divide_factor = 4.0>}' --fsdp-divide-gradients --split-input-file | FileCheck %s --check-prefix=GROUP
// RUN: fsdp-opt %s --fsdp-annotate='with={step<force_sum = true>}' --fsdp-divide-gradients --split-input-file | FileCheck %s --check-prefix=SUM
// RUN: not fsdp-opt %s --fsdp-annotate='with={step<divide_factor = -1.0>}' --fsdp-divide-gradients --split-input-file 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: expected a finite factor above zero to divide gradients by, found -1

// PLAIN-NOT: fsdp.gradient_divide_factor
// FACTOR: module attributes {fsdp.gradient_divide_factor = 6.000000e+00 : f64
#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 4>} {
  fsdp.state parameter @w : tensor<8xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @h : tensor<8xf16> sharded <dim 0 over #shard>

  // Averages stay; a factor divides the first operand, a sum the last result. A
  // factor of the first group's size is its average.
  // PLAIN-LABEL: @"train/step"
  // PLAIN-NEXT: fsdp.reduce_scatter avg %{{.+}} dim 0 {{.*}} of @w
  // PLAIN-NEXT: fsdp.all_reduce avg %{{.+}} over {{.*}} of @w
  // FACTOR-LABEL: @"train/step"
  // FACTOR-NEXT: fsdp.reduce_scatter sum %{{.+}} pre 6.000000e+00 dim 0 {{.*}} of @w
  // FACTOR-NEXT: fsdp.all_reduce sum %{{.+}} over {{.*}} of @w
  // GROUP-LABEL: @"train/step"
  // GROUP-NEXT: fsdp.reduce_scatter avg %{{.+}} dim 0 {{.*}} of @w
  // GROUP-NEXT: fsdp.all_reduce sum %{{.+}} over {{.*}} of @w
  // SUM-LABEL: @"train/step"
  // SUM-NEXT: fsdp.reduce_scatter sum %{{.+}} dim 0 {{.*}} of @w
  // SUM-NEXT: fsdp.all_reduce sum %{{.+}} post 8.000000e+00 over {{.*}} of @w

  // In f16 the root of the divisor comes off before the sum.
  // PLAIN-NEXT: fsdp.reduce_scatter sum %{{.+}} pre 4.000000e+00 dim 0 {{.*}} of @h
  // PLAIN-NEXT: fsdp.all_reduce sum %{{.+}} post 2.000000e+00 over {{.*}} of @h
  // FACTOR-NEXT: fsdp.reduce_scatter sum %{{.+}} pre 4.000000e+00 dim 0 {{.*}} of @h
  // FACTOR-NEXT: fsdp.all_reduce sum %{{.+}} post 1.500000e+00 over {{.*}} of @h
  // SUM-NEXT: fsdp.reduce_scatter sum %{{.+}} pre 4.000000e+00 dim 0 {{.*}} of @h
  // SUM-NEXT: fsdp.all_reduce sum %{{.+}} post 2.000000e+00 over {{.*}} of @h

  // What is no gradient is left alone.
  // PLAIN-NEXT: fsdp.all_reduce avg
  // FACTOR-NEXT: fsdp.all_reduce avg
  // SUM-NEXT: fsdp.all_reduce avg
  func.func @"train/step"(%g: tensor<8xf32> {fsdp.input = "g"}, %k: tensor<8xf16> {fsdp.input = "k"}, %l: tensor<f32> {fsdp.input = "l"})
      -> (tensor<2xf32> {fsdp.gradient = @w}, tensor<2xf16> {fsdp.gradient = @h}, tensor<f32> {fsdp.output = "loss"}) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<8xf32> -> tensor<2xf32>
    %r = fsdp.all_reduce avg %s over #replicate of @w : tensor<2xf32>
    %t = fsdp.reduce_scatter avg %k dim 0 over #shard of @h : tensor<8xf16> -> tensor<2xf16>
    %q = fsdp.all_reduce avg %t over #replicate of @h : tensor<2xf16>
    %m = fsdp.all_reduce avg %l over #shard for metric : tensor<f32>
    return %r, %q, %m : tensor<2xf32>, tensor<2xf16>, tensor<f32>
  }
}
