// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat>}' --fsdp-flatten-buckets | FileCheck %s
//
// Of a flat tensor that is kept in parts one part is cut, behind the last of the
// members' parts (@v's), over the same ranks; the part is gathered once for both.
// @u, which backward does not read, has no part of its own.

// CHECK-DAG:   #[[INNER:.+]] = #fsdp.group<"inner_2", 2>
// CHECK:       fsdp.state parameter @"a/flat" : tensor<48xf32> flat <over #[[SHARD:[a-z]+]]> bucket "a" gradient <reduce bf16>
// CHECK:       fsdp.state parameter @u : {{.*}} part <@"a/flat" at 36>
// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[A:[^:]+]]: tensor<12xf32> {fsdp.state = @"a/flat"}
// CHECK:         %[[C:.+]] = aten._to_copy(%[[A]], dtype = bf16) : (tensor<12xf32>) -> tensor<12xbf16>
// CHECK-NEXT:    %[[F:.+]] = fsdp.all_gather %[[C]] dim 0 over #[[SHARD]] : tensor<12xbf16> -> tensor<48xbf16>
// CHECK-NEXT:    %[[W:.+]] = fsdp.unpack %[[F]] at 0 : {{.*}} -> tensor<5x4x
// CHECK:         aten.mm(%{{.+}}, %[[W]])
// CHECK-NOT:     fsdp.shard
// CHECK:         aten.mul.Tensor
// CHECK-NEXT:    %[[P:.+]] = fsdp.shard %[[F]] dim 0 over #[[INNER]] : tensor<48xbf16> -> tensor<24xbf16>
// CHECK-NOT:     fsdp.shard
// CHECK:         %[[R:.+]] = fsdp.replay %[[P]] : tensor<24xbf16>
// CHECK-NEXT:    %[[G:.+]] = fsdp.all_gather %[[R]] dim 0 over #[[INNER]] : tensor<24xbf16> -> tensor<48xbf16>
// CHECK-NEXT:    fsdp.unpack %[[G]] at 0 : {{.*}} -> tensor<5x4x
// CHECK-NEXT:    fsdp.unpack %[[G]] at 20 : {{.*}} -> tensor<4x4x
// CHECK-NOT:     fsdp.all_gather
// CHECK:         fsdp.pack(%{{.+}}, %{{.+}}, %{{.+}}) at [0, 20, 36] of @"a/flat"
// CHECK-NEXT:    %[[S:.+]] = fsdp.reduce_scatter avg %{{.+}} dim 0 over #[[SHARD]] of @"a/flat" : tensor<48xbf16> -> tensor<12xbf16>
// CHECK-NEXT:    aten._to_copy(%[[S]], dtype = f32) : (tensor<12xbf16>) -> tensor<12xf32>
#shard = #fsdp.group<"shard", 4>
#inner = #fsdp.group<"inner_2", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>} {
  fsdp.state parameter @w : tensor<5x4xf32> sharded <dim 0 over #shard> bucket "a" gradient <reduce bf16>
  fsdp.state parameter @v : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a" gradient <reduce bf16>
  fsdp.state parameter @u : tensor<4xf32> sharded <dim 0 over #shard> bucket "a" gradient <reduce bf16>
  func.func @"train/step"(%w: tensor<2x4xf32> {fsdp.state = @w}, %v: tensor<1x4xf32> {fsdp.state = @v}, %u: tensor<1xf32> {fsdp.state = @u}, %x: tensor<4x5xbf16> {fsdp.input = "x"})
      -> (tensor<4x4xbf16> {fsdp.output = "loss"}, tensor<2x4xf32> {fsdp.gradient = @w}, tensor<1x4xf32> {fsdp.gradient = @v}, tensor<1xf32> {fsdp.gradient = @u}) {
    %cw = aten._to_copy(%w, dtype = bf16) : (tensor<2x4xf32>) -> tensor<2x4xbf16>
    %fw = fsdp.all_gather %cw dim 0 over #shard : tensor<2x4xbf16> -> tensor<5x4xbf16>
    %cv = aten._to_copy(%v, dtype = bf16) : (tensor<1x4xf32>) -> tensor<1x4xbf16>
    %fv = fsdp.all_gather %cv dim 0 over #shard : tensor<1x4xbf16> -> tensor<4x4xbf16>
    %cu = aten._to_copy(%u, dtype = bf16) : (tensor<1xf32>) -> tensor<1xbf16>
    %fu = fsdp.all_gather %cu dim 0 over #shard : tensor<1xbf16> -> tensor<4xbf16>
    %h = aten.mm(%x, %fw) : (tensor<4x5xbf16>, tensor<5x4xbf16>) -> tensor<4x4xbf16>
    %pw = fsdp.shard %fw dim 0 over #inner : tensor<5x4xbf16> -> tensor<3x4xbf16>
    %k = aten.mul.Tensor(%h, %fv) : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %pv = fsdp.shard %fv dim 0 over #inner : tensor<4x4xbf16> -> tensor<2x4xbf16>
    %l = aten.add.Tensor(%k, %fu) : (tensor<4x4xbf16>, tensor<4xbf16>) -> tensor<4x4xbf16>
    %rv = fsdp.replay %pv : tensor<2x4xbf16>
    %av = fsdp.all_gather %rv dim 0 over #inner : tensor<2x4xbf16> -> tensor<4x4xbf16>
    %gv = aten.neg(%av) : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %gu = aten.sum.dim_IntList(%gv, dim = [0]) : (tensor<4x4xbf16>) -> tensor<4xbf16>
    %rw = fsdp.replay %pw : tensor<3x4xbf16>
    %aw = fsdp.all_gather %rw dim 0 over #inner : tensor<3x4xbf16> -> tensor<5x4xbf16>
    %gw = aten.neg(%aw) : (tensor<5x4xbf16>) -> tensor<5x4xbf16>
    %su = fsdp.reduce_scatter avg %gu dim 0 over #shard of @u : tensor<4xbf16> -> tensor<1xbf16>
    %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : tensor<4x4xbf16> -> tensor<1x4xbf16>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<5x4xbf16> -> tensor<2x4xbf16>
    %ou = aten._to_copy(%su, dtype = f32) : (tensor<1xbf16>) -> tensor<1xf32>
    %ov = aten._to_copy(%sv, dtype = f32) : (tensor<1x4xbf16>) -> tensor<1x4xf32>
    %ow = aten._to_copy(%sw, dtype = f32) : (tensor<2x4xbf16>) -> tensor<2x4xf32>
    return %l, %ow, %ov, %ou : tensor<4x4xbf16>, tensor<2x4xf32>, tensor<1x4xf32>, tensor<1xf32>
  }
}
