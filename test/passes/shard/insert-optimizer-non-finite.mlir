// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw>, on_nonfinite<skip>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,ADAMW
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, max_grad_norm = 2.0>, on_nonfinite<skip>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,SGD
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw>}' --fsdp-insert-optimizer | FileCheck %s --check-prefix=ALWAYS

// An update is left out where the reduced loss or norm is not finite: both are
// the same on all ranks. Such a step is none of the optimizer's.

// CHECK:        %[[L:.+]] = fsdp.all_reduce avg
// CHECK:        %[[N:.+]] = aten.sqrt
// CHECK-NEXT:   %[[PL:.+]] = aten.mul.Scalar(%[[L]], other = 0.000000e+00)
// CHECK-NEXT:   %[[PN:.+]] = aten.mul.Scalar(%[[N]], other = 0.000000e+00)
// CHECK-NEXT:   %[[P:.+]] = aten.add.Tensor(%[[PL]], %[[PN]])
// CHECK-NEXT:   %[[IS:.+]] = aten.ne.Tensor(%[[P]], %[[P]]) : (tensor<f32>, tensor<f32>) -> tensor<i1>
// CHECK-NEXT:   %[[FOUND:.+]] = aten._to_copy(%[[IS]], dtype = f32)
// ADAMW-NEXT:   %[[NEXT:.+]] = aten.add.Scalar(%{{.+}}, other = 1.000000e+00)
// ADAMW-NEXT:   %[[STEP:.+]] = aten.sub.Tensor(%[[NEXT]], %[[FOUND]])
// ADAMW-NEXT:   fsdp.update adamw {{.*}} step %[[STEP]] lr %{{[^ ]+}} found_inf %[[FOUND]] betas
// ADAMW:        return %[[L]], %[[N]], {{.*}}, %[[STEP]] :
// SGD:          %[[BY:.+]] = aten.clamp_min
// SGD-NEXT:     fsdp.update sgd {{.*}} grad_scale %[[BY]] found_inf %[[FOUND]] momentum

// ALWAYS-NOT:   found_inf
// ALWAYS-NOT:   aten.ne.Tensor
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "root"
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}, %gw: tensor<4xf32> {fsdp.input = "gw"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}) {
    %l = aten.neg(%x) : (tensor<f32>) -> tensor<f32>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %l, %sw : tensor<f32>, tensor<2xf32>
  }
}
