// RUN: fsdp-opt %s --fsdp-bucket-collectives --fsdp-insert-frees --fsdp-copy-buckets --split-input-file --verify-roundtrip | FileCheck %s
// RUN: fsdp-opt %s --fsdp-bucket-collectives --fsdp-insert-frees --fsdp-copy-buckets --fsdp-verify-scheduled --split-input-file -o /dev/null
//
// Members are copied together where a transfer starts and apart where it is waited
// for: 119 + 7 elements are a rank's piece of both. Pieces of padded rows are whole,
// the parameters are not. Only what backward reads is gathered again. The bucket
// "rows" stays as it is, and so do metrics.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[W:[^:]+]]: tensor<7x17xf32> {fsdp.state = @w}, %[[V:[^:]+]]: tensor<7xf32> {fsdp.state = @v}, %[[U:[^:]+]]: tensor<2xf32> {fsdp.state = @u}
// CHECK-NEXT:    %[[P:.+]] = fsdp.pack(%[[W]], %[[V]]) at [0, 119] : tensor<7x17xf32>, tensor<7xf32> -> tensor<126xf32>
// CHECK-NEXT:    %[[F:.+]] = fsdp.start all_gather "b"(%[[P]]) dims [0] over #shard on gather {fsdp.copied = 2 : i64} : tensor<126xf32> -> !fsdp.future<tensor<252xf32>>
// CHECK-NEXT:    %[[FULL:.+]] = fsdp.wait %[[F]]
// CHECK-NEXT:    %[[WS:.+]] = aten.as_strided(%[[FULL]], size = [2, 119], stride = [126, 1], storage_offset = 0)
// CHECK-NEXT:    %[[WC:.+]] = aten.clone(%[[WS]], memory_format = "contiguous") : {{.*}} -> tensor<2x119xf32>
// CHECK-NEXT:    %[[FW:.+]] = aten.as_strided(%[[WC]], size = [13, 17], stride = [17, 1], storage_offset = 0)
// CHECK-NEXT:    %[[VS:.+]] = aten.as_strided(%[[FULL]], size = [2, 7], stride = [126, 1], storage_offset = 119)
// CHECK-NEXT:    %[[VC:.+]] = aten.clone(%[[VS]], memory_format = "contiguous")
// CHECK-NEXT:    %[[FV:.+]] = aten.as_strided(%[[VC]], size = [13], stride = [1], storage_offset = 0)
// CHECK-NEXT:    fsdp.free %[[FULL]]
// CHECK-NEXT:    fsdp.start all_gather "rows"(%[[U]])
// CHECK:         %[[GV:.+]] = aten.mul.Tensor(%[[FV]]
// CHECK-NEXT:    fsdp.free %[[FV]]
// CHECK:         %[[R:.+]] = fsdp.replay %[[W]]
// CHECK-NEXT:    %[[RP:.+]] = fsdp.pack(%[[R]]) at [0]
// CHECK-NEXT:    fsdp.start all_gather "b"(%[[RP]]) {{.*}}{fsdp.copied = 1 : i64}
// CHECK:         aten.clone
// CHECK:         %[[GW:.+]] = aten.neg
// CHECK:         %[[G:.+]] = aten._chunk_cat([%[[GW]], %[[GV]]], dim = 0, num_chunks = 2) : (tensor<13x17xf32>, tensor<13xf32>) -> tensor<2x126xf32>
// CHECK-NEXT:    %[[S:.+]] = fsdp.start reduce_scatter avg "b"(%[[G]]) dims [0] over #shard on reduce {fsdp.copied = 2 : i64} : tensor<2x126xf32> -> !fsdp.future<tensor<1x126xf32>>
// CHECK-NEXT:    %[[SW:.+]] = fsdp.wait %[[S]]
// CHECK-NEXT:    %[[GRADW:.+]] = aten.as_strided(%[[SW]], size = [7, 17], stride = [17, 1], storage_offset = 0)
// CHECK-NEXT:    %[[GRADV:.+]] = aten.as_strided(%[[SW]], size = [7], stride = [1], storage_offset = 119)
// CHECK:         fsdp.start reduce_scatter avg "rows"(%{{.+}}) dims [0] over #shard on reduce of [@u]
// CHECK:         fsdp.start all_reduce avg "metrics"(%{{.+}})
// CHECK:         return %{{.+}}, %[[GRADW]], %[[GRADV]], %{{.+}}
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<13x17xf32> sharded <dim 0 over #shard> bucket "b" copied
  fsdp.state parameter @v : tensor<13xf32> sharded <dim 0 over #shard> bucket "b" copied
  fsdp.state parameter @u : tensor<4xf32> sharded <dim 0 over #shard> bucket "rows"
  func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w}, %v: tensor<7xf32> {fsdp.state = @v}, %u: tensor<2xf32> {fsdp.state = @u})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<7x17xf32> {fsdp.gradient = @w}, tensor<7xf32> {fsdp.gradient = @v}, tensor<2xf32> {fsdp.gradient = @u}) {
    %fw = fsdp.all_gather %w dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
    %fv = fsdp.all_gather %v dim 0 over #shard : tensor<7xf32> -> tensor<13xf32>
    %fu = fsdp.all_gather %u dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %l = aten.sum(%fw) : (tensor<13x17xf32>) -> tensor<f32>
    %gv = aten.mul.Tensor(%fv, %l) : (tensor<13xf32>, tensor<f32>) -> tensor<13xf32>
    %r = fsdp.replay %w : tensor<7x17xf32>
    %again = fsdp.all_gather %r dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
    %gw = aten.neg(%again) : (tensor<13x17xf32>) -> tensor<13x17xf32>
    %gu = aten.neg(%fu) : (tensor<4xf32>) -> tensor<4xf32>
    %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : tensor<13xf32> -> tensor<7xf32>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<13x17xf32> -> tensor<7x17xf32>
    %su = fsdp.reduce_scatter avg %gu dim 0 over #shard of @u : tensor<4xf32> -> tensor<2xf32>
    %m = fsdp.all_reduce avg %l over #shard for metric : tensor<f32>
    return %m, %sw, %sv, %su : tensor<f32>, tensor<7x17xf32>, tensor<7xf32>, tensor<2xf32>
  }
}

// -----

// Replicas add up what the reduction left in one tensor, in place; divisors stay.
// Casts in front of a gather are made of shards, that behind a reduction of its
// members.

// CHECK-LABEL: func.func @"train/step"
// CHECK:         %[[P:.+]] = fsdp.pack(%{{.+}}, %{{.+}}) at [0, 2] : tensor<2xbf16>, tensor<1xbf16> -> tensor<3xbf16>
// CHECK:         fsdp.start all_gather "b"(%[[P]])
// CHECK:         %[[G:.+]] = aten._chunk_cat([%{{.+}}, %{{.+}}], dim = 0, num_chunks = 2) : (tensor<4xbf16>, tensor<1xbf16>) -> tensor<2x3xbf16>
// CHECK-NEXT:    %[[F:.+]] = fsdp.start reduce_scatter sum "b"(%[[G]]) pre 2.000000e+00 dims [0] over #shard
// CHECK-NEXT:    %[[S:.+]] = fsdp.wait %[[F]]
// CHECK-NEXT:    %[[A:.+]] = fsdp.start all_reduce sum "b"(%[[S]]) post 2.000000e+00 over #replicate on replicate {fsdp.copied = 2 : i64} : tensor<1x3xbf16>
// CHECK-NEXT:    %[[R:.+]] = fsdp.wait %[[A]]
// CHECK-NEXT:    %[[W:.+]] = aten.as_strided(%[[R]], size = [2], stride = [1], storage_offset = 0)
// CHECK-NEXT:    %[[V:.+]] = aten.as_strided(%[[R]], size = [1], stride = [1], storage_offset = 2)
// CHECK-NEXT:    aten._to_copy(%[[V]], dtype = f32)
// CHECK-NEXT:    aten._to_copy(%[[W]], dtype = f32)
#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "b" copied gradient <reduce bf16>
  fsdp.state parameter @v : tensor<1xf32> sharded <dim 0 over #shard> bucket "b" copied gradient <reduce bf16>
  func.func @"train/step"(%w: tensor<2xf32> {fsdp.state = @w}, %v: tensor<1xf32> {fsdp.state = @v})
      -> (tensor<4xbf16> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @w}, tensor<1xf32> {fsdp.gradient = @v}) {
    %cw = aten._to_copy(%w, dtype = bf16) : (tensor<2xf32>) -> tensor<2xbf16>
    %cv = aten._to_copy(%v, dtype = bf16) : (tensor<1xf32>) -> tensor<1xbf16>
    %fw = fsdp.all_gather %cw dim 0 over #shard : tensor<2xbf16> -> tensor<4xbf16>
    %fv = fsdp.all_gather %cv dim 0 over #shard : tensor<1xbf16> -> tensor<1xbf16>
    %l = aten.mul.Tensor(%fw, %fv) : (tensor<4xbf16>, tensor<1xbf16>) -> tensor<4xbf16>
    %gw = aten.neg(%fw) : (tensor<4xbf16>) -> tensor<4xbf16>
    %gv = aten.neg(%fv) : (tensor<1xbf16>) -> tensor<1xbf16>
    %sw = fsdp.reduce_scatter sum %gw pre 2.0 dim 0 over #shard of @w : tensor<4xbf16> -> tensor<2xbf16>
    %sv = fsdp.reduce_scatter sum %gv pre 2.0 dim 0 over #shard of @v : tensor<1xbf16> -> tensor<1xbf16>
    %aw = fsdp.all_reduce sum %sw post 2.0 over #replicate of @w : tensor<2xbf16>
    %av = fsdp.all_reduce sum %sv post 2.0 over #replicate of @v : tensor<1xbf16>
    %ov = aten._to_copy(%av, dtype = f32) : (tensor<1xbf16>) -> tensor<1xf32>
    %ow = aten._to_copy(%aw, dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
    return %l, %ow, %ov : tensor<4xbf16>, tensor<2xf32>, tensor<1xf32>
  }
}

// -----

// Sums of micro-batches lie each by itself: replicas exchange a copy of them.

// CHECK-LABEL: func.func @"train/last"
// CHECK:         %[[W:.+]] = fsdp.accumulate %{{.+}} into
// CHECK-NEXT:    %[[V:.+]] = fsdp.accumulate %{{.+}} into
// CHECK-NEXT:    %[[P:.+]] = fsdp.pack(%[[W]], %[[V]]) at [0, 2]
// CHECK-NEXT:    %[[A:.+]] = fsdp.start all_reduce avg "b"(%[[P]]) over #replicate on replicate {fsdp.copied = 2 : i64} : tensor<3xf32>
// CHECK-NEXT:    %[[R:.+]] = fsdp.wait %[[A]]
// CHECK-NEXT:    %[[GW:.+]] = aten.as_strided(%[[R]], size = [2], stride = [1], storage_offset = 0)
// CHECK-NEXT:    %[[GV:.+]] = aten.as_strided(%[[R]], size = [1], stride = [1], storage_offset = 2)
// CHECK-NEXT:    return %[[GW]], %[[GV]]
#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>, fsdp.micro_batches = 2 : i64} {
  fsdp.state parameter @w : tensor<4xf32> sharded <dim 0 over #shard> bucket "b" copied
  fsdp.state parameter @v : tensor<1xf32> sharded <dim 0 over #shard> bucket "b" copied
  fsdp.state gradient @"w/gradient" of @w : tensor<4xf32> sharded <dim 0 over #shard>
  fsdp.state gradient @"v/gradient" of @v : tensor<1xf32> sharded <dim 0 over #shard>
  func.func @"train/last"(%a: tensor<2xf32> {fsdp.state = @"w/gradient"}, %b: tensor<1xf32> {fsdp.state = @"v/gradient"}, %gw: tensor<4xf32> {fsdp.input = "x"}, %gv: tensor<1xf32> {fsdp.input = "y"})
      -> (tensor<2xf32> {fsdp.gradient = @w}, tensor<1xf32> {fsdp.gradient = @v}) attributes {fsdp.program = #fsdp.program<part = last>} {
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<4xf32> -> tensor<2xf32>
    %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : tensor<1xf32> -> tensor<1xf32>
    %mw = fsdp.accumulate %sw into %a of @w divide 2 : tensor<2xf32>, tensor<2xf32>
    %mv = fsdp.accumulate %sv into %b of @v divide 2 : tensor<1xf32>, tensor<1xf32>
    %aw = fsdp.all_reduce avg %mw over #replicate of @w : tensor<2xf32>
    %av = fsdp.all_reduce avg %mv over #replicate of @v : tensor<1xf32>
    return %aw, %av : tensor<2xf32>, tensor<1xf32>
  }
}
