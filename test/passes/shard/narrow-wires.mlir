// RUN: fsdp-opt %s --fsdp-annotate='with={step<reduce_wire = "bfloat16">}' --fsdp-narrow-wires -o - | FileCheck %s
// RUN: fsdp-opt %s --fsdp-narrow-wires -o - | FileCheck %s --check-prefix=OFF
// RUN: not fsdp-opt %s --fsdp-annotate='with={step<reduce_wire = "float16">}' 2>&1 | FileCheck %s --check-prefix=TYPE

// TYPE: expected 'bfloat16' or 'float8' to send gradients in, found "float16"
// OFF-NOT: bf16>) -> tensor<4xf32>

// A gradient in f32 is cast for its way, also one that lies in another order in memory. What is reduced in bf16 stays as it is, and so do sums over replicas, what
// is no gradient, and what one rank alone has.

// CHECK-LABEL: @"train/step"
// CHECK-NEXT:  %[[G:.+]] = aten._to_copy(%{{.+}}, dtype = bf16) : (tensor<8x2xf32>) -> tensor<8x2xbf16>
// CHECK-NEXT:  %[[S:.+]] = fsdp.reduce_scatter avg %[[G]] dim 0 over {{.*}} of @w : tensor<8x2xbf16> -> tensor<2x2xf32>
// CHECK-NEXT:  fsdp.all_reduce avg %[[S]] over {{.*}} of @w : tensor<2x2xf32>
// CHECK-NEXT:  aten.t(
// CHECK-NEXT:  %[[C:.+]] = aten.clone(
// CHECK-NEXT:  %[[T:.+]] = aten._to_copy(%[[C]], dtype = bf16) : (tensor<2x8xf32>) -> tensor<2x8xbf16>
// CHECK-NEXT:  fsdp.reduce_scatter sum %[[T]] pre 4.000000e+00 dim 0 over {{.*}} of @t : tensor<2x8xbf16> -> tensor<1x8xf32>
// CHECK-NEXT:  fsdp.reduce_scatter avg %{{.+}} dim 0 over {{.*}} of @h : tensor<8xbf16> -> tensor<2xbf16>
// CHECK-NEXT:  fsdp.reduce_scatter sum %{{.+}} dim 0 over {{.*}} : tensor<8x2xf32> -> tensor<2x2xf32>
// CHECK-NEXT:  fsdp.reduce_scatter avg %{{.+}} dim 0 over {{.*}} of @w : tensor<8x2xf32> -> tensor<8x2xf32>
#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
#alone = #fsdp.group<"alone", 1>
module {
  fsdp.state parameter @w : tensor<8x2xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @t : tensor<2x8xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @h : tensor<8xbf16> sharded <dim 0 over #shard>
  func.func @"train/step"(%g: tensor<8x2xf32>, %h: tensor<8xbf16>) {
    %s = fsdp.reduce_scatter avg %g dim 0 over #shard of @w : tensor<8x2xf32> -> tensor<2x2xf32>
    %r = fsdp.all_reduce avg %s over #replicate of @w : tensor<2x2xf32>
    %t = aten.t(%g) : (tensor<8x2xf32>) -> tensor<2x8xf32, #aten.strides<1, 2>>
    %u = fsdp.reduce_scatter sum %t pre 4.0 dim 0 over #shard of @t : tensor<2x8xf32, #aten.strides<1, 2>> -> tensor<1x8xf32>
    %v = fsdp.reduce_scatter avg %h dim 0 over #shard of @h : tensor<8xbf16> -> tensor<2xbf16>
    %x = fsdp.reduce_scatter sum %g dim 0 over #shard : tensor<8x2xf32> -> tensor<2x2xf32>
    %y = fsdp.reduce_scatter avg %g dim 0 over #alone of @w : tensor<8x2xf32> -> tensor<8x2xf32>
    return
  }
}
