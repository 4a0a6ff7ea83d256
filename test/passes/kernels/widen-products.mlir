// RUN: fsdp-opt %s --fsdp-widen-products --split-input-file | FileCheck %s
// RUN: fsdp-opt %s --fsdp-widen-products --split-input-file --remarks-filter=kernels 2>&1 | FileCheck %s --check-prefix=REMARK

// What is reduced is written in f32: as it is, through views, behind a kernel that does
// nothing but cast, of batches, packed with others, added to a running sum, or
// its beginning.

// REMARK-COUNT-8: remark: [Passed] Widened | Category:kernels | Function=train/step | Reason="kernels: on", Remark="the product writes its gradient in float32, in which it is reduced: {{.+}} before the cast are in no memory"
// REMARK: Function=train/eights
// REMARK-NOT: Widened

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.device = "cuda:sm_90", fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<kernels = true>} {
  fsdp.state parameter @w : tensor<8x6xf32>
  fsdp.state gradient @"w/gradient" of @w : tensor<8x6xf32>
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT:  %[[PLAIN:.*]] = aten.mm.dtype(%arg0, %arg1, out_dtype = f32) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xf32>
  // CHECK-NEXT:  %[[WIDE:.*]] = aten.mm.dtype(%arg0, %arg1, out_dtype = f32)
  // CHECK-NEXT:  %[[T:.*]] = aten.t(%[[WIDE]]) : (tensor<8x6xf32>) -> tensor<6x8xf32, #aten.strides<1, 6>>
  // CHECK-NEXT:  %[[BACK:.*]] = aten.t(%[[T]])
  // CHECK-NEXT:  %[[OF:.*]] = aten.mm.dtype(%arg0, %arg1, out_dtype = f32)
  // CHECK-NEXT:  %[[KERNEL:.*]] = aten.view(%[[OF]], size = [48]) : (tensor<8x6xf32>) -> tensor<48xf32>
  // CHECK-NEXT:  fsdp.start reduce_scatter avg "a"(%[[PLAIN]], %[[BACK]], %[[KERNEL]])
  // CHECK:       %[[HALF:.*]] = aten.bmm.dtype(%arg2, %arg3, out_dtype = f32) : (tensor<2x8x4xf16>, tensor<2x4x6xf16>) -> tensor<2x8x6xf32>
  // CHECK-NEXT:  %[[LINE:.*]] = aten.view(%[[HALF]], size = [96]) : (tensor<2x8x6xf32>) -> tensor<96xf32>
  // CHECK-NEXT:  fsdp.pack(%[[LINE]]) at [0]
  // CHECK:       %[[GRAIN:.*]] = aten.mm.dtype
  // CHECK-NEXT:  fsdp.accumulate %[[GRAIN]] into
  // CHECK:       %[[CAT:.*]] = aten.mm.dtype
  // CHECK-NEXT:  aten._chunk_cat([%[[CAT]]]
  // CHECK:       %[[FIRST:.*]] = aten.mm.dtype
  // CHECK-NOT:   aten._to_copy
  // CHECK:       return {{.*}}, %[[FIRST]] :
  func.func @"train/step"(%y: tensor<8x4xbf16> {fsdp.input = "y"}, %x: tensor<4x6xbf16> {fsdp.input = "x"}, %b: tensor<2x8x4xf16> {fsdp.input = "b"}, %c: tensor<2x4x6xf16> {fsdp.input = "c"}, %s: tensor<8x6xf32> {fsdp.input = "s"}, %w: tensor<8x6xf32> {fsdp.state = @w}, %sum0: tensor<8x6xf32> {fsdp.state = @"w/gradient"}) -> (tensor<4x6xf32> {fsdp.output = "a"}, tensor<4x6xf32> {fsdp.output = "v"}, tensor<24xf32> {fsdp.output = "k"}, tensor<48xf32> {fsdp.output = "p"}, tensor<8x6xf32> {fsdp.output = "sum"}, tensor<1x24xf32> {fsdp.output = "cat"}, tensor<8x6xf32> {fsdp.state = @"w/gradient"}) {
    %g = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %a = aten._to_copy(%g, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %h = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %ht = aten.t(%h) : (tensor<8x6xbf16>) -> tensor<6x8xbf16, #aten.strides<1, 6>>
    %hw = aten._to_copy(%ht, dtype = f32) : (tensor<6x8xbf16, #aten.strides<1, 6>>) -> tensor<6x8xf32, #aten.strides<1, 6>>
    %v = aten.t(%hw) : (tensor<6x8xf32, #aten.strides<1, 6>>) -> tensor<8x6xf32>
    %i = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %k = fsdp.kernel(%i) in_place [true] : (tensor<8x6xbf16>) -> tensor<48xf32> {
    ^bb0(%0: tensor<8x6xbf16>):
      %1 = aten.view(%0, size = [48]) : (tensor<8x6xbf16>) -> tensor<48xbf16>
      %2 = aten._to_copy(%1, dtype = f32) : (tensor<48xbf16>) -> tensor<48xf32>
      fsdp.yield %2 : tensor<48xf32>
    }
    %f = fsdp.start reduce_scatter avg "a"(%a, %v, %k) dims [0, 0, 0] over #shard on reduce : tensor<8x6xf32>, tensor<8x6xf32>, tensor<48xf32> -> !fsdp.future<tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>>
    %ra, %rv, %rk = fsdp.wait %f : !fsdp.future<tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>> -> tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>
    %j = aten.bmm(%b, %c) : (tensor<2x8x4xf16>, tensor<2x4x6xf16>) -> tensor<2x8x6xf16>
    %jv = aten.view(%j, size = [96]) : (tensor<2x8x6xf16>) -> tensor<96xf16>
    %l = aten._to_copy(%jv, dtype = f32) : (tensor<96xf16>) -> tensor<96xf32>
    %p = fsdp.pack(%l) at [0] : tensor<96xf32> -> tensor<96xf32>
    %pf = fsdp.start reduce_scatter sum "p"(%p) dims [0] over #shard on reduce : tensor<96xf32> -> !fsdp.future<tensor<48xf32>>
    %rp = fsdp.wait %pf : !fsdp.future<tensor<48xf32>> -> tensor<48xf32>
    %m = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %n = aten._to_copy(%m, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %sum = fsdp.accumulate %n into %s of @w : tensor<8x6xf32>, tensor<8x6xf32>
    %o = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %q = aten._to_copy(%o, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %cat = aten._chunk_cat([%q], dim = 0, num_chunks = 2) : (tensor<8x6xf32>) -> tensor<2x24xf32>
    %cf = fsdp.start reduce_scatter avg "c"(%cat) dims [0] over #shard on reduce : tensor<2x24xf32> -> !fsdp.future<tensor<1x24xf32>>
    %rc = fsdp.wait %cf : !fsdp.future<tensor<1x24xf32>> -> tensor<1x24xf32>
    %r = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %first = aten._to_copy(%r, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    return %ra, %rv, %rk, %rp, %sum, %rc, %first : tensor<4x6xf32>, tensor<4x6xf32>, tensor<24xf32>, tensor<48xf32>, tensor<8x6xf32>, tensor<1x24xf32>, tensor<8x6xf32>
  }
}

// -----

// Not with another reader of the product or of a view of it; nor to f64, nor of f32; nor a
// cast that changes strides; nor what no gradient's reduction reads; nor what a kernel
// makes more of.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.device = "cuda:sm_90", fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: aten.mm.dtype
  func.func @"train/step"(%y: tensor<8x4xbf16> {fsdp.input = "y"}, %x: tensor<4x6xbf16> {fsdp.input = "x"}, %z: tensor<8x8xf32> {fsdp.input = "z"}) -> (tensor<4x6xf32> {fsdp.output = "a"}, tensor<3x8xf32> {fsdp.output = "b"}, tensor<4x6xf64> {fsdp.output = "c"}, tensor<4x8xf64> {fsdp.output = "d"}, tensor<3x8xf32> {fsdp.output = "e"}, tensor<4x6xf32> {fsdp.output = "f"}, tensor<8x6xf32> {fsdp.output = "g"}, tensor<8x6xbf16> {fsdp.output = "h"}, tensor<6x8xbf16> {fsdp.output = "i"}, tensor<8x8xf32> {fsdp.output = "j"}) {
    %g = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %other = aten.cumsum(%g, dim = 0) : (tensor<8x6xbf16>) -> tensor<8x6xbf16>
    %a = aten._to_copy(%g, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %h = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %hv = aten.view(%h, size = [6, 8]) : (tensor<8x6xbf16>) -> tensor<6x8xbf16>
    %another = aten.cumsum(%hv, dim = 0) : (tensor<6x8xbf16>) -> tensor<6x8xbf16>
    %b = aten._to_copy(%hv, dtype = f32) : (tensor<6x8xbf16>) -> tensor<6x8xf32>
    %i = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %c = aten._to_copy(%i, dtype = f64) : (tensor<8x6xbf16>) -> tensor<8x6xf64>
    %j = aten.mm(%z, %z) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %d = aten._to_copy(%j, dtype = f64) : (tensor<8x8xf32>) -> tensor<8x8xf64>
    %k = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %kt = aten.t(%k) : (tensor<8x6xbf16>) -> tensor<6x8xbf16, #aten.strides<1, 6>>
    %e = aten._to_copy(%kt, dtype = f32, memory_format = "contiguous") : (tensor<6x8xbf16, #aten.strides<1, 6>>) -> tensor<6x8xf32>
    %l = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %f = fsdp.kernel(%l) in_place [true] : (tensor<8x6xbf16>) -> tensor<8x6xf32> {
    ^bb0(%0: tensor<8x6xbf16>):
      %1 = aten._to_copy(%0, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
      %2 = aten.mul.Scalar(%1, other = 2.0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
      fsdp.yield %2 : tensor<8x6xf32>
    }
    %s = fsdp.start reduce_scatter avg "a"(%a, %b, %c, %d, %e, %f) dims [0, 0, 0, 0, 0, 0] over #shard on reduce : tensor<8x6xf32>, tensor<6x8xf32>, tensor<8x6xf64>, tensor<8x8xf64>, tensor<6x8xf32>, tensor<8x6xf32> -> !fsdp.future<tensor<4x6xf32>, tensor<3x8xf32>, tensor<4x6xf64>, tensor<4x8xf64>, tensor<3x8xf32>, tensor<4x6xf32>>
    %ra, %rb, %rc, %rd, %re, %rf = fsdp.wait %s : !fsdp.future<tensor<4x6xf32>, tensor<3x8xf32>, tensor<4x6xf64>, tensor<4x8xf64>, tensor<3x8xf32>, tensor<4x6xf32>> -> tensor<4x6xf32>, tensor<3x8xf32>, tensor<4x6xf64>, tensor<4x8xf64>, tensor<3x8xf32>, tensor<4x6xf32>
    %m = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %logits = aten._to_copy(%m, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %n = aten.mm(%z, %z) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %ra, %rb, %rc, %rd, %re, %rf, %logits, %other, %another, %n : tensor<4x6xf32>, tensor<3x8xf32>, tensor<4x6xf64>, tensor<4x8xf64>, tensor<3x8xf32>, tensor<4x6xf32>, tensor<8x6xf32>, tensor<8x6xbf16>, tensor<6x8xbf16>, tensor<8x8xf32>
  }
}

// -----

// Processors have no such product.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.device = "cpu", fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: aten.mm.dtype
  func.func @"train/step"(%y: tensor<8x4xbf16> {fsdp.input = "y"}, %x: tensor<4x6xbf16> {fsdp.input = "x"}) -> (tensor<4x6xf32> {fsdp.output = "a"}) {
    %g = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %a = aten._to_copy(%g, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %f = fsdp.start reduce_scatter avg "a"(%a) dims [0] over #shard on reduce : tensor<8x6xf32> -> !fsdp.future<tensor<4x6xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<4x6xf32>> -> tensor<4x6xf32>
    return %r : tensor<4x6xf32>
  }
}

// -----

// Nobody asked.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.device = "cuda:sm_90", fsdp.mesh = #fsdp.mesh<shard = 2>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NOT: aten.mm.dtype
  func.func @"train/step"(%y: tensor<8x4xbf16> {fsdp.input = "y"}, %x: tensor<4x6xbf16> {fsdp.input = "x"}) -> (tensor<4x6xf32> {fsdp.output = "a"}) {
    %g = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x6xbf16>) -> tensor<8x6xbf16>
    %a = aten._to_copy(%g, dtype = f32) : (tensor<8x6xbf16>) -> tensor<8x6xf32>
    %f = fsdp.start reduce_scatter avg "a"(%a) dims [0] over #shard on reduce : tensor<8x6xf32> -> !fsdp.future<tensor<4x6xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<4x6xf32>> -> tensor<4x6xf32>
    return %r : tensor<4x6xf32>
  }
}

// -----

// Where most is alive between product and cast, four bytes of each element are more than
// two; another one is widened.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.device = "cuda:sm_90", fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/step"
  // CHECK-NEXT: %[[G:.*]] = aten.mm(
  // CHECK-NEXT: aten.cumsum
  // CHECK-NEXT: aten.sum
  // CHECK-NEXT: aten._to_copy(%[[G]]
  // CHECK-NEXT: aten.mm.dtype
  // CHECK-NEXT: fsdp.start
  func.func @"train/step"(%y: tensor<8x4xbf16> {fsdp.input = "y"}, %x: tensor<4x64xbf16> {fsdp.input = "x"}, %z: tensor<64x64xf32> {fsdp.input = "z"}) -> (tensor<4x64xf32> {fsdp.output = "a"}, tensor<4x64xf32> {fsdp.output = "b"}, tensor<f32> {fsdp.output = "c"}) {
    %g = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x64xbf16>) -> tensor<8x64xbf16>
    %large = aten.cumsum(%z, dim = 0) : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %c = aten.sum(%large) : (tensor<64x64xf32>) -> tensor<f32>
    %a = aten._to_copy(%g, dtype = f32) : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %h = aten.mm(%y, %x) : (tensor<8x4xbf16>, tensor<4x64xbf16>) -> tensor<8x64xbf16>
    %b = aten._to_copy(%h, dtype = f32) : (tensor<8x64xbf16>) -> tensor<8x64xf32>
    %f = fsdp.start reduce_scatter avg "a"(%a, %b) dims [0, 0] over #shard on reduce : tensor<8x64xf32>, tensor<8x64xf32> -> !fsdp.future<tensor<4x64xf32>, tensor<4x64xf32>>
    %ra, %rb = fsdp.wait %f : !fsdp.future<tensor<4x64xf32>, tensor<4x64xf32>> -> tensor<4x64xf32>, tensor<4x64xf32>
    return %ra, %rb, %c : tensor<4x64xf32>, tensor<4x64xf32>, tensor<f32>
  }
}

// -----

// Products in eight bits whose scales are numbers; by rows they give bf16 alone.

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.device = "cuda:sm_90", fsdp.mesh = #fsdp.mesh<shard = 2>, fsdp.step = #fsdp.step<kernels = true>} {
  // CHECK-LABEL: @"train/eights"
  // CHECK-NEXT:  %[[WIDE:.*]] = aten._scaled_mm(%arg0, %arg1, %arg2, %arg2, out_dtype = f32) : {{.*}} -> tensor<16x16xf32>
  // CHECK-NEXT:  %[[ROWS:.*]] = aten._scaled_mm(%arg0, %arg1, %arg3, %arg4, out_dtype = bf16)
  // CHECK-NEXT:  %[[CAST:.*]] = aten._to_copy(%[[ROWS]], dtype = f32)
  // CHECK-NEXT:  fsdp.start reduce_scatter avg "a"(%[[WIDE]], %[[CAST]])
  func.func @"train/eights"(%y: tensor<16x16xf8E5M2> {fsdp.input = "y"}, %x: tensor<16x16xf8E4M3FN, #aten.strides<1, 16>> {fsdp.input = "x"}, %s: tensor<f32> {fsdp.input = "s"}, %r: tensor<16x1xf32> {fsdp.input = "r"}, %c: tensor<1x16xf32> {fsdp.input = "c"}) -> (tensor<8x16xf32> {fsdp.output = "a"}, tensor<8x16xf32> {fsdp.output = "b"}) {
    %g = aten._scaled_mm(%y, %x, %s, %s, out_dtype = bf16) : (tensor<16x16xf8E5M2>, tensor<16x16xf8E4M3FN, #aten.strides<1, 16>>, tensor<f32>, tensor<f32>) -> tensor<16x16xbf16>
    %a = aten._to_copy(%g, dtype = f32) : (tensor<16x16xbf16>) -> tensor<16x16xf32>
    %h = aten._scaled_mm(%y, %x, %r, %c, out_dtype = bf16) : (tensor<16x16xf8E5M2>, tensor<16x16xf8E4M3FN, #aten.strides<1, 16>>, tensor<16x1xf32>, tensor<1x16xf32>) -> tensor<16x16xbf16>
    %b = aten._to_copy(%h, dtype = f32) : (tensor<16x16xbf16>) -> tensor<16x16xf32>
    %f = fsdp.start reduce_scatter avg "a"(%a, %b) dims [0, 0] over #shard on reduce : tensor<16x16xf32>, tensor<16x16xf32> -> !fsdp.future<tensor<8x16xf32>, tensor<8x16xf32>>
    %ra, %rb = fsdp.wait %f : !fsdp.future<tensor<8x16xf32>, tensor<8x16xf32>> -> tensor<8x16xf32>, tensor<8x16xf32>
    return %ra, %rb : tensor<8x16xf32>, tensor<8x16xf32>
  }
}
