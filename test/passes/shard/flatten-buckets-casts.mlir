// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = auto>}' --fsdp-flatten-buckets | FileCheck %s

// @w and @v are gathered in bf16, twice, and reduced in bf16 over the shards and
// over two replicas; @n is gathered as it is, and stays in rows alone. A member
// begins at a multiple of 128 bytes in the narrowest type, 64 elements of bf16. The
// cast of the flat state is one, which both of its gathers read.

// CHECK:       fsdp.state parameter @"a/flat" : tensor<4352xf32> flat <over #shard> bucket "a" gradient <reduce bf16>
// CHECK-NEXT:  fsdp.state parameter @w : tensor<65x63xf32> part <@"a/flat" at 0> bucket "a" gradient <reduce bf16>
// CHECK-NEXT:  fsdp.state parameter @v : tensor<65xf32> part <@"a/flat" at 4096> bucket "a" gradient <reduce bf16>
// CHECK-NEXT:  fsdp.state parameter @n : tensor<65xf32> sharded
// CHECK:       func.func @"train/step"
// CHECK-SAME:    %[[A:[^: ]+]]: tensor<1088xf32> {fsdp.state = @"a/flat"}
// CHECK-SAME:    tensor<1088xf32> {fsdp.gradient = @"a/flat"}
// CHECK:         %[[C:.+]] = aten._to_copy(%[[A]], dtype = bf16) : (tensor<1088xf32>) -> tensor<1088xbf16>
// CHECK-NEXT:    fsdp.all_gather %[[C]] dim 0 over #shard : tensor<1088xbf16> -> tensor<4352xbf16>
// CHECK-NEXT:    fsdp.unpack %{{.+}} at 0 : tensor<4352xbf16> -> tensor<65x63xbf16>
// CHECK-NOT:     aten._to_copy
// CHECK:         %[[R:.+]] = fsdp.replay %[[C]] : tensor<1088xbf16>
// CHECK-NEXT:    fsdp.all_gather %[[R]]
// CHECK:         %[[P:.+]] = fsdp.pack(%{{.+}}, %{{.+}}) at [0, 4096] of @"a/flat" : tensor<65x63xbf16>, tensor<65xbf16> -> tensor<4352xbf16>
// CHECK-NEXT:    %[[S:.+]] = fsdp.reduce_scatter avg %[[P]] dim 0 over #shard of @"a/flat" : tensor<4352xbf16> -> tensor<1088xbf16>
// CHECK-NEXT:    %[[D:.+]] = fsdp.all_reduce avg %[[S]] over #replicate of @"a/flat" : tensor<1088xbf16>
// CHECK-NEXT:    aten._to_copy(%[[D]], dtype = f32) : (tensor<1088xbf16>) -> tensor<1088xf32>
#shard = #fsdp.group<"shard", 4>
#replicate = #fsdp.group<"replicate", 2 : 4>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 4>} {
  fsdp.state parameter @w : tensor<65x63xf32> sharded <dim 0 over #shard> bucket "a" gradient <reduce bf16>
  fsdp.state parameter @v : tensor<65xf32> sharded <dim 0 over #shard> bucket "a" gradient <reduce bf16>
  fsdp.state parameter @n : tensor<65xf32> sharded <dim 0 over #shard> bucket "a" gradient <reduce bf16>
  func.func @"train/step"(%w: tensor<17x63xf32> {fsdp.state = @w}, %v: tensor<17xf32> {fsdp.state = @v}, %n: tensor<17xf32> {fsdp.state = @n}, %x: tensor<65x63xbf16> {fsdp.input = "x"})
      -> (tensor<65x63xbf16> {fsdp.output = "loss"}, tensor<17x63xf32> {fsdp.gradient = @w}, tensor<17xf32> {fsdp.gradient = @v}, tensor<17xf32> {fsdp.gradient = @n}) {
    %wc = aten._to_copy(%w, dtype = bf16) : (tensor<17x63xf32>) -> tensor<17x63xbf16>
    %wf = fsdp.all_gather %wc dim 0 over #shard : tensor<17x63xbf16> -> tensor<65x63xbf16>
    %vc = aten._to_copy(%v, dtype = bf16) : (tensor<17xf32>) -> tensor<17xbf16>
    %vf = fsdp.all_gather %vc dim 0 over #shard : tensor<17xbf16> -> tensor<65xbf16>
    %nf = fsdp.all_gather %n dim 0 over #shard : tensor<17xf32> -> tensor<65xf32>
    %y = aten.mul.Tensor(%wf, %x) : (tensor<65x63xbf16>, tensor<65x63xbf16>) -> tensor<65x63xbf16>
    %u = aten.exp(%nf) : (tensor<65xf32>) -> tensor<65xf32>
    %vr = fsdp.replay %vc : tensor<17xbf16>
    %va = fsdp.all_gather %vr dim 0 over #shard : tensor<17xbf16> -> tensor<65xbf16>
    %gv = aten.neg(%va) : (tensor<65xbf16>) -> tensor<65xbf16>
    %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : tensor<65xbf16> -> tensor<17xbf16>
    %rv = fsdp.all_reduce avg %sv over #replicate of @v : tensor<17xbf16>
    %dv = aten._to_copy(%rv, dtype = f32) : (tensor<17xbf16>) -> tensor<17xf32>
    %wr = fsdp.replay %wc : tensor<17x63xbf16>
    %wa = fsdp.all_gather %wr dim 0 over #shard : tensor<17x63xbf16> -> tensor<65x63xbf16>
    %gw = aten.mul.Tensor(%wa, %y) : (tensor<65x63xbf16>, tensor<65x63xbf16>) -> tensor<65x63xbf16>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<65x63xbf16> -> tensor<17x63xbf16>
    %rw = fsdp.all_reduce avg %sw over #replicate of @w : tensor<17x63xbf16>
    %dw = aten._to_copy(%rw, dtype = f32) : (tensor<17x63xbf16>) -> tensor<17x63xf32>
    %un = aten._to_copy(%u, dtype = bf16) : (tensor<65xf32>) -> tensor<65xbf16>
    %sn = fsdp.reduce_scatter avg %un dim 0 over #shard of @n : tensor<65xbf16> -> tensor<17xbf16>
    %rn = fsdp.all_reduce avg %sn over #replicate of @n : tensor<17xbf16>
    %dn = aten._to_copy(%rn, dtype = f32) : (tensor<17xbf16>) -> tensor<17xf32>
    return %y, %dw, %dv, %dn : tensor<65x63xbf16>, tensor<17x63xf32>, tensor<17xf32>, tensor<17xf32>
  }
}
