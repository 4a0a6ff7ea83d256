// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw, lr = 0.5, numbers = {weight_decay = 0.25}>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,ADAMW
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adam, max_grad_norm = 2.0>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,CLIP
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, numbers = {momentum = 0.5}>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=CHECK,SGD
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>}' --fsdp-insert-optimizer | FileCheck %s --check-prefixes=PLAIN
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<kind = lion>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<max_grad_norm = 0.0>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=NORM

// NAME: expected one of adamw, adam, sgd, found 'lion'
// NORM: expected a positive norm to clip to, found 0

// The states stand between the states of the model and the inputs; a changed
// buffer stays a result; f64 and f32 parameters are updated and summed apart;
// the loss becomes f32 where it is computed.

// CHECK:      fsdp.state buffer @b
// ADAMW-NEXT: fsdp.state optimizer @"v/exp_avg" of @v : tensor<5xf64> sharded <dim 0 over #shard>
// ADAMW-NEXT: fsdp.state optimizer @"v/exp_avg_sq" of @v : tensor<5xf64> sharded <dim 0 over #shard>
// ADAMW-NEXT: fsdp.state optimizer @"w/exp_avg" of @w : tensor<4xf32> sharded <dim 0 over #shard>
// ADAMW-NEXT: fsdp.state optimizer @"w/exp_avg_sq" of @w
// ADAMW-NEXT: fsdp.state step @"optimizer/step" : tensor<f32> init 0.000000e+00 : f32
// ADAMW-NEXT: fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 5.000000e-01 : f32
// SGD-NEXT:   fsdp.state optimizer @"v/momentum_buffer" of @v
// SGD-NEXT:   fsdp.state optimizer @"w/momentum_buffer" of @w
// SGD-NEXT:   fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.000000e-03 : f32
// PLAIN:      fsdp.state buffer @b
// PLAIN-NEXT: fsdp.state learning_rate @"optimizer/lr"

// CHECK-LABEL: func.func @"train/step"
// ADAMW-SAME:   %[[B:[^:]+]]: tensor<2xf32> {fsdp.state = @b}, %{{[^:]+}}: tensor<3xf64> {fsdp.state = @"v/exp_avg"}
// CHECK-SAME:   {fsdp.state = @"optimizer/lr"}, %[[X:[^:]+]]: tensor<f64> {fsdp.input = "x"}
// CHECK-SAME:   -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<2xf32> {fsdp.state = @b}, tensor<3xf64> {fsdp.state = @v},
// ADAMW-SAME:   tensor<3xf64> {fsdp.state = @"v/exp_avg"}, tensor<3xf64> {fsdp.state = @"v/exp_avg_sq"}, tensor<2xf32> {fsdp.state = @w}
// ADAMW-SAME:   tensor<f32> {fsdp.state = @"optimizer/step"})
// CHECK-NEXT:   %[[L64:.+]] = aten.neg(%[[X]])
// CHECK-NEXT:   %[[L32:.+]] = aten._to_copy(%[[L64]], dtype = f32)
// CHECK:        %[[SV:.+]] = fsdp.reduce_scatter {{.*}} of @v
// CHECK:        %[[SW:.+]] = fsdp.reduce_scatter {{.*}} of @w
// CHECK-NEXT:   %[[NV:.+]] = aten._foreach_norm.Scalar([%[[SV]]]) : (tensor<3xf64>) -> tensor<f64>
// CHECK-NEXT:   %[[STV:.+]] = aten.stack([%[[NV]]])
// CHECK-NEXT:   %[[MV:.+]] = aten.mul.Tensor(%[[STV]], %[[STV]])
// CHECK-NEXT:   %[[SUMV:.+]] = aten.sum(%[[MV]]) : (tensor<1xf64>) -> tensor<f64>
// CHECK-NEXT:   %[[CV:.+]] = aten._to_copy(%[[SUMV]], dtype = f32)
// CHECK-NEXT:   %[[NW:.+]] = aten._foreach_norm.Scalar([%[[SW]]]) : (tensor<2xf32>) -> tensor<f32>
// CHECK:        %[[SUMW:.+]] = aten.sum
// CHECK-NEXT:   %[[SUM:.+]] = aten.add.Tensor(%[[CV]], %[[SUMW]])
// CHECK-NEXT:   %[[L:.+]] = fsdp.all_reduce avg %[[L32]]
// CHECK-NEXT:   %[[A:.+]] = fsdp.all_reduce avg %[[SUM]]
// CHECK-NEXT:   %[[A2:.+]] = aten.mul.Scalar(%[[A]], other = 2.000000e+00)
// CHECK-NEXT:   %[[N:.+]] = aten.sqrt(%[[A2]])

// ADAMW-NEXT:   %[[STEP:.+]] = aten.add.Scalar(%{{.+}}, other = 1.000000e+00)
// ADAMW-NEXT:   fsdp.update adamw {{.*}}step %[[STEP]] lr %{{[^ ]+}} betas(9.000000e-01, 0.99899999999999999) eps 1.000000e-08 weight_decay 2.500000e-01 : tensor<3xf64>
// ADAMW-NEXT:   fsdp.update adamw {{.*}} : tensor<2xf32>

// CLIP-NEXT:    %[[ABOVE:.+]] = aten.add.Scalar(%[[N]], other = 9.9999999999999995E-7)
// CLIP-NEXT:    %[[RATIO:.+]] = aten.div.Scalar(%[[ABOVE]], other = 2.000000e+00)
// CLIP-NEXT:    %[[BY:.+]] = aten.clamp_min(%[[RATIO]], min = 1.000000e+00)
// CLIP:         fsdp.update adam {{.*}} grad_scale %[[BY]]

// SGD-NEXT:     fsdp.update sgd params(%{{.+}}) grads(%[[SV]]) momentum_buffers(%{{.+}}) lr %{{.+}} momentum 5.000000e-01 weight_decay 0.000000e+00 : tensor<3xf64>
// PLAIN:        fsdp.update sgd params(%{{.+}}) grads(%{{.+}}) momentum_buffers() lr

// CHECK:        return %[[L]], %[[N]],
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @v : tensor<5xf64> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state buffer @b : tensor<2xf32>
  func.func @"train/step"(%v: tensor<3xf64> {fsdp.state = @v}, %w: tensor<2xf32> {fsdp.state = @w}, %b: tensor<2xf32> {fsdp.state = @b},
                          %x: tensor<f64> {fsdp.input = "x"}, %gv: tensor<5xf64> {fsdp.input = "gv"}, %gw: tensor<4xf32> {fsdp.input = "gw"})
      -> (tensor<f64> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.state = @b}, tensor<3xf64> {fsdp.gradient = @v}, tensor<2xf32> {fsdp.gradient = @w}) {
    %l = aten.neg(%x) : (tensor<f64>) -> tensor<f64>
    %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : tensor<5xf64> -> tensor<3xf64>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    return %l, %b, %sv, %sw : tensor<f64>, tensor<2xf32>, tensor<3xf64>, tensor<2xf32>
  }
}
