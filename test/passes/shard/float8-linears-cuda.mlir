// RUN: fsdp-opt %s --fsdp-float8-linears --split-input-file --verify-diagnostics | FileCheck %s

// GPUs' products read along what they sum: backward's have the weight, the
// gradient and the input turned round, each once. Forward's sums are the fast
// ones.

// CHECK-LABEL: module attributes {fsdp.casts
module attributes {fsdp.device = "cuda:sm_90", fsdp.float8 = #fsdp.float8<modules = ["fc"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state parameter @fc.weight : tensor<32x16xf32>
  // CHECK-LABEL: func.func @"train/step"
  func.func @"train/step"(%w: tensor<32x16xf32> {fsdp.state = @fc.weight}, %x: tensor<48x16xf32> {fsdp.input = "x"}, %g: tensor<48x32xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<32x16xf32> {fsdp.gradient = @fc.weight}) attributes {fsdp.captured} {
    %h = aten.relu(%x) : (tensor<48x16xf32>) -> tensor<48x16xf32>
    %wt = aten.t(%w) : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<1, 16>>
    // CHECK:      %[[X:.+]] = fsdp.encode %{{.+}} : tensor<48x16xf32>, tensor<f32> -> tensor<48x16xf8E4M3FN>
    // CHECK:      %[[W:.+]] = fsdp.encode %{{.+}} : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
    // CHECK-NEXT: %[[WT:.+]] = aten.t(%[[W]]) : (tensor<32x16xf8E4M3FN>) -> tensor<16x32xf8E4M3FN, #aten.strides<1, 16>>
    // CHECK-NEXT: aten._scaled_mm(%[[X]], %[[WT]], %{{.+}}, %{{.+}}, out_dtype = f32, use_fast_accum = true)
    %y = aten.mm(%h, %wt) : (tensor<48x16xf32>, tensor<16x32xf32, #aten.strides<1, 16>>) -> tensor<48x32xf32> loc(#fc)
    %loss = aten.sum(%y) : (tensor<48x32xf32>) -> tensor<f32>
    // CHECK:      %[[G:.+]] = fsdp.encode %{{.+}} : tensor<48x32xf32>, tensor<f32> -> tensor<48x32xf8E5M2>
    // CHECK-NEXT: %[[T:.+]] = aten.t(%[[W]])
    // CHECK-NEXT: %[[C:.+]] = aten.clone(%[[T]], memory_format = "contiguous") : {{.+}} -> tensor<16x32xf8E4M3FN>
    // CHECK-NEXT: %[[R:.+]] = aten.t(%[[C]]) : (tensor<16x32xf8E4M3FN>) -> tensor<32x16xf8E4M3FN, #aten.strides<1, 32>>
    // CHECK-NEXT: aten._scaled_mm(%[[G]], %[[R]], %{{.+}}, %{{.+}}, out_dtype = f32) :
    %gh = aten.mm(%g, %w) : (tensor<48x32xf32>, tensor<32x16xf32>) -> tensor<48x16xf32> loc(#fc)
    %gt = aten.t(%g) : (tensor<48x32xf32>) -> tensor<32x48xf32, #aten.strides<1, 32>>
    // CHECK-NEXT: %[[GT:.+]] = aten.t(%[[G]])
    // CHECK-NEXT: %[[GC:.+]] = aten.clone(%[[GT]], memory_format = "contiguous") : {{.+}} -> tensor<32x48xf8E5M2>
    // CHECK-NEXT: %[[XT:.+]] = aten.t(%[[X]])
    // CHECK-NEXT: %[[XC:.+]] = aten.clone(%[[XT]], memory_format = "contiguous") : {{.+}} -> tensor<16x48xf8E4M3FN>
    // CHECK-NEXT: %[[XR:.+]] = aten.t(%[[XC]])
    // CHECK-NEXT: aten._scaled_mm(%[[GC]], %[[XR]], %{{.+}}, %{{.+}}, out_dtype = f32) :
    %gw = aten.mm(%gt, %h) : (tensor<32x48xf32, #aten.strides<1, 32>>, tensor<48x16xf32>) -> tensor<32x16xf32> loc(#fc)
    return %loss, %gw : tensor<f32>, tensor<32x16xf32>
  }
}
#fc = loc("fc"("model.py":1:1))

// -----

// By row the kernels have both scales, and results in bfloat16.

// CHECK-LABEL: module attributes {fsdp.casts
module attributes {fsdp.device = "cuda:sm_90", fsdp.float8 = #fsdp.float8<modules = ["fc"], recipe = rowwise>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<32x16xbf16>
  func.func @"infer/rows"(%w: tensor<32x16xbf16> {fsdp.state = @fc.weight}, %x: tensor<8x16xbf16> {fsdp.input = "x"})
      -> (tensor<8x32xbf16> {fsdp.output = "y"}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<32x16xbf16>) -> tensor<16x32xbf16, #aten.strides<1, 16>>
    // CHECK: aten._scaled_mm(%{{.+}}, out_dtype = bf16, use_fast_accum = true) : (tensor<8x16xf8E4M3FN>, tensor<16x32xf8E4M3FN, #aten.strides<1, 16>>, tensor<8x1xf32>, tensor<1x32xf32{{.*}}>) -> tensor<8x32xbf16>
    %y = aten.mm(%x, %wt) : (tensor<8x16xbf16>, tensor<16x32xbf16, #aten.strides<1, 16>>) -> tensor<8x32xbf16> loc(#fc)
    return %y : tensor<8x32xbf16>
  }
}
#fc = loc("fc"("model.py":1:1))

// -----

// Scales of blocks lie as cuBLAS reads them: tiles of 128 rows and four blocks, filled
// up.

// CHECK-LABEL: module attributes {fsdp.casts
module attributes {fsdp.device = "cuda:sm_100", fsdp.float8 = #fsdp.float8<modules = ["fc"], recipe = mxfp8>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<160x64xbf16>
  func.func @"infer/blocks"(%w: tensor<160x64xbf16> {fsdp.state = @fc.weight}, %x: tensor<8x64xbf16> {fsdp.input = "x"})
      -> (tensor<8x160xbf16> {fsdp.output = "y"}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<160x64xbf16>) -> tensor<64x160xbf16, #aten.strides<1, 64>>
    // CHECK: aten.view(%{{.+}}, size = [8, 2, 32])
    // CHECK: %[[XI:.+]] = aten.reciprocal(%{{.+}}) : (tensor<8x2x1xf32>)
    // CHECK: %[[XS:.+]] = aten.view(%[[XI]], size = [8, 2])
    // CHECK-NEXT: %[[XP:.+]] = aten.constant_pad_nd(%[[XS]], pad = [0, 2, 0, 120]) : {{.+}} -> tensor<128x4xf32>
    // CHECK-NEXT: %[[XV:.+]] = aten.view(%[[XP]], size = [1, 4, 32, 1, 4])
    // CHECK-NEXT: %[[XO:.+]] = aten.permute(%[[XV]], dims = [0, 3, 2, 1, 4])
    // CHECK-NEXT: %[[XC:.+]] = aten.clone(%[[XO]]
    // CHECK-NEXT: %[[XF:.+]] = aten.view(%[[XC]], size = [512])
    // CHECK-NEXT: %[[XE:.+]] = aten._to_copy(%[[XF]], dtype = f8E8M0FNU)
    // CHECK: aten.constant_pad_nd(%{{.+}}, pad = [0, 2, 0, 96]) : {{.+}} -> tensor<256x4xf32>
    // CHECK: %[[WE:.+]] = aten._to_copy(%{{.+}}, dtype = f8E8M0FNU) : {{.+}} -> tensor<1024xf8E8M0FNU>
    // CHECK: aten._scaled_mm(%{{.+}}, %{{.+}}, %[[XE]], %[[WE]], out_dtype = bf16) :
    %y = aten.mm(%x, %wt) : (tensor<8x64xbf16>, tensor<64x160xbf16, #aten.strides<1, 64>>) -> tensor<8x160xbf16> loc(#fc)
    return %y : tensor<8x160xbf16>
  }
}
#fc = loc("fc"("model.py":1:1))

// -----

// Results of eight rows are summed for the gradient of the weight.

// expected-error @+1 {{expected a linear layer that can multiply numbers of eight bits among those of float8's modules, found none; of 'fc', one of its products sums 8 numbers, and GPUs' sum a multiple of 16}}
module attributes {fsdp.device = "cuda:sm_90", fsdp.float8 = #fsdp.float8<modules = ["fc"]>} {
  fsdp.module "fc" class "Linear"
  fsdp.state parameter @fc.weight : tensor<32x16xf32>
  func.func @"train/step"(%w: tensor<32x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"}, %g: tensor<8x32xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<32x16xf32> {fsdp.gradient = @fc.weight}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<1, 16>>
    %y = aten.mm(%x, %wt) : (tensor<8x16xf32>, tensor<16x32xf32, #aten.strides<1, 16>>) -> tensor<8x32xf32> loc(#fc)
    %loss = aten.sum(%y) : (tensor<8x32xf32>) -> tensor<f32>
    %gt = aten.t(%g) : (tensor<8x32xf32>) -> tensor<32x8xf32, #aten.strides<1, 32>>
    %gw = aten.mm(%gt, %x) : (tensor<32x8xf32, #aten.strides<1, 32>>, tensor<8x16xf32>) -> tensor<32x16xf32> loc(#fc)
    return %loss, %gw : tensor<f32>, tensor<32x16xf32>
  }
}
#fc = loc("fc"("model.py":1:1))

// -----

// expected-error @+1 {{of 'fc', its products are no bfloat16, which GPUs' products of rows and blocks are}}
module attributes {fsdp.device = "cuda:sm_90", fsdp.float8 = #fsdp.float8<modules = ["fc"], recipe = rowwise>} {
  fsdp.module "fc" class "Linear"
  fsdp.state frozen @fc.weight : tensor<32x16xf32>
  func.func @"infer/rows"(%w: tensor<32x16xf32> {fsdp.state = @fc.weight}, %x: tensor<8x16xf32> {fsdp.input = "x"})
      -> (tensor<8x32xf32> {fsdp.output = "y"}) attributes {fsdp.captured} {
    %wt = aten.t(%w) : (tensor<32x16xf32>) -> tensor<16x32xf32, #aten.strides<1, 16>>
    %y = aten.mm(%x, %wt) : (tensor<8x16xf32>, tensor<16x32xf32, #aten.strides<1, 16>>) -> tensor<8x32xf32> loc(#fc)
    return %y : tensor<8x32xf32>
  }
}
#fc = loc("fc"("model.py":1:1))
