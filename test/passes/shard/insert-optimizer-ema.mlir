// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>, ema<decay = 0.75>}' --fsdp-insert-optimizer --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>, on_nonfinite<skip>, ema<decay = 0.75, after = 4, every = 2, warmup = ratio>}' --fsdp-insert-optimizer --split-input-file | FileCheck %s --check-prefix=RATIO
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>, ema<warmup = power, gamma = 2.0, power = 0.5, keeps_type = true>}' --fsdp-insert-optimizer --split-input-file | FileCheck %s --check-prefix=POWER
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd>}' --fsdp-insert-optimizer --split-input-file | FileCheck %s --check-prefix=NONE

// Averages lie as their parameters do, begin as these, and take a part of what these
// become: one number for all, of the update's own. Nothing is kept of what is frozen.

// CHECK:        fsdp.state optimizer @"w/ema" of @w : tensor<4xf32> sharded <dim 0 over #{{.+}}> init #fsdp.init<owner>
// CHECK-NOT:    @"b/ema"
// CHECK:        fsdp.state optimizer @"h/ema" of @h : tensor<4xf32> sharded <dim 0 over #{{.+}}> init #fsdp.init<owner> model bf16
// CHECK:        func.func @"train/step"(%[[W:.+]]: tensor<2xf32> {fsdp.state = @w}, %[[B:.+]]: tensor<2xf32> {fsdp.state = @b}, %[[H:.+]]: tensor<2xbf16> {fsdp.state = @h}
// CHECK-SAME:   %[[WA:[a-z0-9]+]]: tensor<2xf32> {fsdp.state = @"w/ema"}, %[[HA:[a-z0-9]+]]: tensor<2xf32> {fsdp.state = @"h/ema"}
// CHECK:        %[[STEP:.+]] = aten.add.Scalar(%{{.+}}, other = 1.000000e+00)
// CHECK-NEXT:   %[[S:.+]] = aten._to_copy(%[[STEP]], dtype = f64)
// CHECK-NEXT:   %[[LESS:.+]] = aten.sub.Scalar(%[[S]], other = 1.000000e+00)
// CHECK-NEXT:   %[[T:.+]] = aten.div.Scalar(%[[LESS]], other = 1.000000e+00)
// CHECK-NEXT:   %[[LATER:.+]] = aten.gt.Scalar(%[[T]], other = 0.000000e+00)
// CHECK-NEXT:   %[[IS:.+]] = aten._to_copy(%[[LATER]], dtype = f64)
// CHECK-NEXT:   %[[D:.+]] = aten.mul.Scalar(%[[IS]], other = 7.500000e-01)
// CHECK-NEXT:   %[[PART:.+]] = aten.rsub.Scalar(%[[D]], other = 1.000000e+00)
// CHECK-NEXT:   %[[P:.+]] = aten._to_copy(%[[PART]], dtype = f32)
// CHECK:        %[[NW:.+]] = fsdp.update sgd params(%[[W]])
// CHECK:        %[[NH:.+]] = fsdp.update sgd params(%[[H]])
// CHECK-NEXT:   %[[A:.+]] = aten.lerp.Tensor(%[[WA]], %[[NW]], %[[P]])
// CHECK-NEXT:   %[[WIDE:.+]] = aten._to_copy(%[[NH]], dtype = f32)
// CHECK-NEXT:   %[[C:.+]] = aten.lerp.Tensor(%[[HA]], %[[WIDE]], %[[P]])
// CHECK:        return {{.*}}%[[NW]], %[[NH]], %[[A]], %[[C]]

// With a warm-up, every other update, and where none was made: 0.
// RATIO:        %[[FOUND:.+]] = aten._to_copy(%{{.+}}, dtype = f32)
// RATIO:        %[[S:.+]] = aten._to_copy(%{{.+}}, dtype = f64)
// RATIO-NEXT:   %[[LESS:.+]] = aten.sub.Scalar(%[[S]], other = 6.000000e+00)
// RATIO-NEXT:   %[[T:.+]] = aten.div.Scalar(%[[LESS]], other = 2.000000e+00)
// RATIO:        %[[T0:.+]] = aten.clamp_min(%[[T]], min = 0.000000e+00)
// RATIO-NEXT:   %[[ABOVE:.+]] = aten.add.Scalar(%[[T0]], other = 1.000000e+00)
// RATIO-NEXT:   %[[BELOW:.+]] = aten.add.Scalar(%[[T0]], other = 1.000000e+01)
// RATIO-NEXT:   %[[WARM:.+]] = aten.div.Tensor(%[[ABOVE]], %[[BELOW]])
// RATIO-NEXT:   aten.clamp_max(%[[WARM]], max = 7.500000e-01)
// RATIO:        %[[REST:.+]] = aten.remainder.Scalar(%[[S]], other = 2.000000e+00)
// RATIO-NEXT:   %[[EVEN:.+]] = aten.eq.Scalar(%[[REST]], other = 0.000000e+00)
// RATIO:        aten.mul.Tensor
// RATIO-NEXT:   %[[INF:.+]] = aten._to_copy(%[[FOUND]], dtype = f64)
// RATIO-NEXT:   %[[FINE:.+]] = aten.rsub.Scalar(%[[INF]], other = 1.000000e+00)
// RATIO-NEXT:   aten.mul.Tensor(%{{.+}}, %[[FINE]])

// In the parameter's own type it is computed in f32, and rounded once.
// POWER:        @"h/ema" of @h : tensor<4xbf16> {{.*}} init #fsdp.init<owner>{{$}}
// POWER:        aten.pow.Tensor_Scalar(%{{.+}}, exponent = -5.000000e-01)
// POWER:        %[[OLD:.+]] = aten._to_copy(%{{.+}}, dtype = f32) : (tensor<2xbf16>)
// POWER-NEXT:   %[[NEW:.+]] = aten._to_copy(%{{.+}}, dtype = f32) : (tensor<2xbf16>)
// POWER:        %[[SUM:.+]] = aten.lerp.Tensor(%[[OLD]], %[[NEW]]
// POWER-NEXT:   aten._to_copy(%[[SUM]], dtype = bf16)

// NONE-NOT:     /ema
// NONE-NOT:     aten.lerp
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state frozen @b : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @h : tensor<4xbf16> sharded <dim 0 over #shard>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %b: tensor<2xf32> {fsdp.state = @b}, %h: tensor<2xbf16> {fsdp.state = @h}, %x: tensor<f32> {fsdp.input = "x"}, %gw: tensor<4xf32> {fsdp.input = "gw"}, %gh: tensor<4xbf16> {fsdp.input = "gh"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}, tensor<2xbf16> {fsdp.gradient = @h}) {
    %l = aten.neg(%x) : (tensor<f32>) -> tensor<f32>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %sh = fsdp.reduce_scatter avg %gh dim 0 over #shard of @h : tensor<4xbf16> -> tensor<2xbf16>
    return %l, %sw, %sh : tensor<f32>, tensor<2xf32>, tensor<2xbf16>
  }
}

// -----

// Of a flat state's members by name.

// CHECK:        fsdp.state optimizer @"f/ema" of @f : tensor<8xf32> flat <over #{{.+}}>{{$}}
// CHECK-NEXT:   fsdp.state optimizer @"u/ema" of @u : tensor<2x2xf32> part <@"f/ema" at 0> init #fsdp.init<owner>
// CHECK-NEXT:   fsdp.state optimizer @"v/ema" of @v : tensor<3xf32> part <@"f/ema" at 4> init #fsdp.init<owner>
#flat = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @f : tensor<8xf32> flat <over #flat>
  fsdp.state parameter @u : tensor<2x2xf32> part <@f at 0>
  fsdp.state parameter @v : tensor<3xf32> part <@f at 4>
  func.func @"train/step"(%f: tensor<4xf32> {fsdp.state = @f}, %x: tensor<2x2xf32> {fsdp.input = "x"}, %y: tensor<3xf32> {fsdp.input = "y"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @f}) {
    %l = aten.sum(%x) : (tensor<2x2xf32>) -> tensor<f32>
    %p = fsdp.pack(%x, %y) at [0, 4] of @f : tensor<2x2xf32>, tensor<3xf32> -> tensor<8xf32>
    %g = fsdp.reduce_scatter avg %p dim 0 over #flat of @f : tensor<8xf32> -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}
