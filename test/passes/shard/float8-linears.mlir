// RUN: fsdp-opt %s --fsdp-float8-linears --fsdp-lower-encodings --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-float8-linears --split-input-file | FileCheck %s --check-prefix=CODES

// CODES-LABEL:   func.func @"train/step"
// CODES:         %[[M:.+]] = fsdp.amax %[[H:.+]] : tensor<8x16xf32> -> tensor<f32>
// CODES-NEXT:    %[[S:.+]] = fsdp.scale %[[M]] to f8E4M3FN least {{9.99.+E-13}} : tensor<f32>
// CODES-NEXT:    %[[I:.+]] = aten.reciprocal(%[[S]])
// CODES-NEXT:    %[[C:.+]] = fsdp.encode %[[H]] by %[[S]] : tensor<8x16xf32>, tensor<f32> -> tensor<8x16xf8E4M3FN>
// CODES-LABEL:   @"infer/rows"
// CODES:         fsdp.amax %{{.+}} along 1 : tensor<8x3xf32> -> tensor<8x1xf32>
// CODES-NEXT:    fsdp.scale %{{.+}} to f8E4M3FN least {{.+}} power_of_two : tensor<8x1xf32>

// Forward and both gradients of a layer with a bias; what forward cast, backward
// reads. Another layer and what is no layer stay.

// CHECK:      module attributes {fsdp.casts = [
// CHECK-SAME:   {cause = "float8", count = 1 : i64, from = f32, name = "gradient", to = f8E5M2}
// CHECK-SAME:   {cause = "float8", count = 1 : i64, from = f32, name = "input", to = f8E4M3FN}
// CHECK-SAME:   {cause = "float8", count = 1 : i64, from = f32, name = "weight", to = f8E4M3FN}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["fc"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.module "other" class "Linear"
  fsdp.state parameter @fc.weight : tensor<32x16xf32>
  fsdp.state parameter @fc.bias : tensor<32xf32>
  fsdp.state frozen @other.weight : tensor<16x16xf32>
  // CHECK-LABEL: func.func @"train/step"
  // CHECK-SAME:    (%[[W:[^:]+]]: tensor<32x16xf32> {{.*}}, %[[B:[^:]+]]: tensor<32xf32> {{.*}}, %[[O:[^:]+]]: tensor<16x16xf32> {{.*}}, %[[X:[^:]+]]: tensor<8x16xf32>
  func.func @"train/step"(%w: tensor<32x16xf32> {fsdp.state = @fc.weight}, %b: tensor<32xf32> {fsdp.state = @fc.bias}, %o: tensor<16x16xf32> {fsdp.state = @other.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"}, %g: tensor<8x32xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<32x16xf32> {fsdp.gradient = @fc.weight}, tensor<32xf32> {fsdp.gradient = @fc.bias}) attributes {fsdp.captured} {
    // CHECK:         %[[OT:.+]] = aten.t(%[[O]])
    // CHECK-NEXT:    %[[H:.+]] = aten.mm(%[[X]], %[[OT]])
    %ot = aten.t(%o) : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<1, 16>>
    %h = aten.mm(%x, %ot) : (tensor<8x16xf32>, tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<8x16xf32> loc(#other)
    %wt = aten.t(%w) : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<1, 16>>
    // CHECK:         %[[M:.+]] = aten.linalg_vector_norm(%[[H]], ord = 0x7FF0000000000000 : f64) : (tensor<8x16xf32>) -> tensor<f32>
    // CHECK-NEXT:    %[[C:.+]] = aten.clamp_min(%[[M]], min = {{9.99.+E-13}})
    // CHECK-NEXT:    %[[L:.+]] = fsdp.constant dense<4.480000e+02>
    // CHECK-NEXT:    %[[S:.+]] = aten.div.Tensor(%[[L]], %[[C]])
    // CHECK-NEXT:    %[[I:.+]] = aten.reciprocal(%[[S]])
    // CHECK-NEXT:    %[[A:.+]] = aten.mul.Tensor(%[[H]], %[[S]]) : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf32>
    // CHECK-NEXT:    %[[H8:.+]] = aten._to_copy(%[[A]], dtype = f8E4M3FN) : (tensor<8x16xf32>) -> tensor<8x16xf8E4M3FN>
    // CHECK-NEXT:    aten.linalg_vector_norm(%[[W]]
    // CHECK:         %[[WI:.+]] = aten.reciprocal
    // CHECK:         %[[W8:.+]] = aten._to_copy(%{{.+}}, dtype = f8E4M3FN) : (tensor<32x16xf32>)
    // CHECK-NEXT:    %[[T8:.+]] = aten.t(%[[W8]])
    // CHECK-NEXT:    %[[P:.+]] = aten._scaled_mm(%[[H8]], %[[T8]], %[[I]], %[[WI]], out_dtype = f32) : {{.*}} -> tensor<8x32xf32>
    // CHECK-NEXT:    %[[Y:.+]] = aten.add.Tensor(%[[P]], %[[B]])
    %y = aten.addmm(%b, %h, %wt) : (tensor<32xf32>, tensor<8x16xf32>, tensor<16x32xf32, #aten.strides<1, 16>>) -> tensor<8x32xf32> loc(#fc)
    %loss = aten.sum(%y) : (tensor<8x32xf32>) -> tensor<f32>
    // CHECK:         fsdp.constant dense<5.734400e+04>
    // CHECK:         %[[GI:.+]] = aten.reciprocal
    // CHECK:         %[[G8:.+]] = aten._to_copy(%{{.+}}, dtype = f8E5M2) : (tensor<8x32xf32>)
    // CHECK-NEXT:    aten._scaled_mm(%[[G8]], %[[W8]], %[[GI]], %[[WI]], out_dtype = f32) : {{.*}} -> tensor<8x16xf32>
    %gh = aten.mm(%g, %w) : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32> loc(#fc)
    %gt = aten.t(%g) : (tensor<8x32xf32>) -> tensor<32x8xf32, #aten.strides<1, 32>>
    // CHECK:         %[[GT:.+]] = aten.t(%[[G8]])
    // CHECK-NEXT:    %[[GW:.+]] = aten._scaled_mm(%[[GT]], %[[H8]], %[[GI]], %[[I]], out_dtype = f32) : {{.*}} -> tensor<32x16xf32>
    %gw = aten.mm(%gt, %h) : (tensor<32x8xf32, #aten.strides<1, 32>>, tensor<8x16xf32>) -> tensor<32x16xf32> loc(#fc)
    %gb = aten.sum.dim_IntList(%g, dim = [0]) : (tensor<8x32xf32>) -> tensor<32xf32>
    // CHECK:         return %{{.+}}, %[[GW]], %{{.+}}
    return %loss, %gw, %gb : tensor<f32>, tensor<32x16xf32>, tensor<32xf32>
  }
}
#other = loc("other")
#fc = loc("fc")

// -----

// What mixed precision computes with in bf16 is cast from there, or from the
// parameter itself where that is gathered.

// CHECK:      module attributes
// CHECK-LABEL: @"infer/whole"
// CHECK-SAME:    (%[[W:[^:]+]]: tensor<32x16xf32>
// CHECK:         %[[B:.+]] = aten._to_copy(%[[W]], dtype = bf16)
// CHECK:         aten.linalg_vector_norm(%[[B]], ord = 0x7FF0000000000000 : f64, dtype = f32)
// CHECK:         aten.mul.Tensor(%[[B]], %{{.+}}) : (tensor<32x16xbf16>, tensor<1xf32>) -> tensor<32x16xf32>
// CHECK:         aten._scaled_mm({{.*}}, out_dtype = bf16) : {{.*}} -> tensor<8x32xbf16>
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<32x16xf32>
  func.func @"infer/whole"(%w: tensor<32x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xbf16> {fsdp.input = "x"}) -> (tensor<8x32xbf16> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %c = aten._to_copy(%w, dtype = bf16) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %t = aten.t(%c) : (tensor<32x16xbf16>) -> tensor<16x32xbf16, #aten.strides<1, 16>>
    %y = aten.mm(%x, %t) : (tensor<8x16xbf16>, tensor<16x32xbf16, #aten.strides<1, 16>>) -> tensor<8x32xbf16> loc(#fc)
    return %y : tensor<8x32xbf16>
  }
}
#fc = loc("fc")

// -----

// CHECK:      module attributes
// CHECK-LABEL: @"infer/shards"
// CHECK-SAME:    (%[[W:[^:]+]]: tensor<32x16xf32>
// CHECK:         aten.linalg_vector_norm(%[[W]], ord = 0x7FF0000000000000 : f64) : (tensor<32x16xf32>)
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], all_gather = true>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<32x16xf32>
  func.func @"infer/shards"(%w: tensor<32x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xbf16> {fsdp.input = "x"}) -> (tensor<8x32xbf16> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %c = aten._to_copy(%w, dtype = bf16) : (tensor<32x16xf32>) -> tensor<32x16xbf16>
    %t = aten.t(%c) : (tensor<32x16xbf16>) -> tensor<16x32xbf16, #aten.strides<1, 16>>
    %y = aten.mm(%x, %t) : (tensor<8x16xbf16>, tensor<16x32xbf16, #aten.strides<1, 16>>) -> tensor<8x32xbf16> loc(#fc)
    return %y : tensor<8x32xbf16>
  }
}
#fc = loc("fc")

// -----

// By rows each number of the result has scales of its own, powers of two. Sizes
// are what they are with `pad`.

// CHECK:      module attributes
// CHECK-LABEL: @"infer/rows"
// CHECK-SAME:    (%[[W:[^:]+]]: tensor<5x3xf32> {{.*}}, %[[X:[^:]+]]: tensor<8x3xf32>
// CHECK:         %[[M:.+]] = aten.linalg_vector_norm(%[[X]], ord = 0x7FF0000000000000 : f64, dim = [1], keepdim = true) : (tensor<8x3xf32>) -> tensor<8x1xf32>
// CHECK:         aten.log2
// CHECK-NEXT:    aten.floor
// CHECK-NEXT:    aten.exp2
// CHECK-NEXT:    %[[XI:.+]] = aten.reciprocal
// CHECK:         aten.linalg_vector_norm(%[[W]], ord = 0x7FF0000000000000 : f64, dim = [1], keepdim = true) : (tensor<5x3xf32>) -> tensor<5x1xf32>
// CHECK:         %[[WI:.+]] = aten.t(%{{.+}}) : (tensor<5x1xf32>) -> tensor<1x5xf32
// CHECK:         %[[P:.+]] = aten.mm({{.*}}) : {{.*}} -> tensor<8x5xf32>
// CHECK-NEXT:    %[[Q:.+]] = aten.mul.Tensor(%[[P]], %[[XI]])
// CHECK-NEXT:    %[[Y:.+]] = aten.mul.Tensor(%[[Q]], %[[WI]])
// CHECK-NEXT:    return %[[Y]]
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], recipe = rowwise, pad = true>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<5x3xf32>
  func.func @"infer/rows"(%w: tensor<5x3xf32> {fsdp.state = @fc.weight}, %x: tensor<8x3xf32> {fsdp.input = "x"}) -> (tensor<8x5xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %t = aten.t(%w) : (tensor<5x3xf32>) -> tensor<3x5xf32, #aten.strides<1, 3>>
    %y = aten.mm(%x, %t) : (tensor<8x3xf32>, tensor<3x5xf32, #aten.strides<1, 3>>) -> tensor<8x5xf32> loc(#fc)
    return %y : tensor<8x5xf32>
  }
}
#fc = loc("fc")

// -----

// Blocks of 32 of what is summed have a scale each; the product is one of what they
// stand for.

// CHECK:      module attributes
// CHECK-LABEL: @"infer/blocks"
// CHECK-SAME:    (%[[W:[^:]+]]: tensor<32x96xf32> {{.*}}, %[[X:[^:]+]]: tensor<8x96xf32>
// CHECK:         %[[B:.+]] = aten.view(%[[X]], size = [8, 3, 32])
// CHECK-NEXT:    aten.linalg_vector_norm(%[[B]], ord = 0x7FF0000000000000 : f64, dim = [2], keepdim = true) : (tensor<8x3x32xf32>) -> tensor<8x3x1xf32>
// CHECK:         %[[XI:.+]] = aten.reciprocal
// CHECK:         %[[C:.+]] = aten.view(%{{.+}}, size = [8, 96]) : (tensor<8x3x32xf8E4M3FN>)
// CHECK-NEXT:    %[[F:.+]] = aten._to_copy(%[[C]], dtype = f32)
// CHECK-NEXT:    %[[V:.+]] = aten.view(%[[F]], size = [8, 3, 32])
// CHECK-NEXT:    %[[U:.+]] = aten.mul.Tensor(%[[V]], %[[XI]])
// CHECK-NEXT:    %[[XW:.+]] = aten.view(%[[U]], size = [8, 96])
// CHECK:         %[[WW:.+]] = aten.t(%{{.+}}) : (tensor<32x96xf32>)
// CHECK-NEXT:    %[[Y:.+]] = aten.mm(%[[XW]], %[[WW]])
// CHECK-NEXT:    return %[[Y]]
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], recipe = mxfp8>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<32x96xf32>
  func.func @"infer/blocks"(%w: tensor<32x96xf32> {fsdp.state = @fc.weight}, %x: tensor<8x96xf32> {fsdp.input = "x"}) -> (tensor<8x32xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %t = aten.t(%w) : (tensor<32x96xf32>) -> tensor<96x32xf32, #aten.strides<1, 96>>
    %y = aten.mm(%x, %t) : (tensor<8x96xf32>, tensor<96x32xf32, #aten.strides<1, 96>>) -> tensor<8x32xf32> loc(#fc)
    return %y : tensor<8x32xf32>
  }
}
#fc = loc("fc")

// -----

// CHECK-LABEL: module {
// CHECK:         aten.mm
module {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<16x16xf32>
  func.func @"infer/step"(%w: tensor<16x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"}) -> (tensor<8x16xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %t = aten.t(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<1, 16>>
    %y = aten.mm(%x, %t) : (tensor<8x16xf32>, tensor<16x16xf32, #aten.strides<1, 16>>) -> tensor<8x16xf32> loc("fc")
    return %y : tensor<8x16xf32>
  }
}

// -----

// A cast stands in front of reshapes.

// CHECK-LABEL: @"infer/reshaped"
// CHECK-SAME:    (%{{[^:]+}}: tensor<32x16xf32> {{[^)]*}}, %[[X:[^:]+]]: tensor<2x4x16xf32>
// CHECK:         %[[P:.+]] = aten.mul.Tensor(%[[X]], %{{.+}}) : (tensor<2x4x16xf32>, tensor<f32>)
// CHECK-NEXT:    %[[C:.+]] = aten._to_copy(%[[P]], dtype = f8E4M3FN)
// CHECK-NEXT:    %[[V:.+]] = aten.view(%[[C]], size = [8, 16])
// CHECK:         aten._scaled_mm(%[[V]],
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<32x16xf32>
  func.func @"infer/reshaped"(%w: tensor<32x16xf32> {fsdp.state = @fc.weight}, %x: tensor<2x4x16xf32> {fsdp.input = "x"}) -> (tensor<8x32xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %v = aten.view(%x, size = [8, 16]) : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
    %t = aten.t(%w) : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<1, 16>>
    %y = aten.mm(%v, %t) : (tensor<8x16xf32>, tensor<16x32xf32, #aten.strides<1, 16>>) -> tensor<8x32xf32> loc(#fc)
    return %y : tensor<8x32xf32>
  }
}
#fc = loc("fc")
