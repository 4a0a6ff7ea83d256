// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = auto>}' --fsdp-flatten-buckets --verify-roundtrip | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat>}' --fsdp-flatten-buckets | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat, rules = [#fsdp.rule<buckets = ["a"], layout = rows>]>}' --fsdp-flatten-buckets | FileCheck %s --check-prefix=ROWS
// RUN: fsdp-opt %s --fsdp-flatten-buckets | FileCheck %s --check-prefix=ROWS
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = auto>, optimizer<groups = [#fsdp.param_group<params = ["v"], numbers = {weight_decay = 0.0}>]>}' --fsdp-assign-groups --fsdp-flatten-buckets | FileCheck %s --check-prefix=GROUPS

#shard = #fsdp.group<"shard", 2>

// @w and @v become members of one state and stay in the table. At multiples of 128
// bytes they would need 256 elements; their padded rows are 252, so they begin at
// multiples of 32 bytes, and need 240. Only @w is gathered again; that takes all of
// the flat state along. @s has no rows.

// FLAT:        fsdp.state parameter @"a/flat" : tensor<240xf32> flat <over #shard> bucket "a"
// FLAT-NEXT:   fsdp.state parameter @w : tensor<13x17xf32> part <@"a/flat" at 0> names ["w", "tied"] bucket "a"
// FLAT-NEXT:   fsdp.state parameter @v : tensor<13xf32> part <@"a/flat" at 224> bucket "a"
// FLAT-NEXT:   fsdp.state parameter @s : tensor<f32> bucket "a"{{$}}
// FLAT:        func.func @"train/step"
// FLAT-SAME:     (%[[S:[^:]+]]: tensor<f32> {fsdp.state = @s}, %[[A:[^:]+]]: tensor<120xf32> {fsdp.state = @"a/flat"}, %[[X:[^:]+]]: tensor<4x17xf32> {fsdp.input = "x"})
// FLAT-SAME:     -> (tensor<f32> {fsdp.output = "loss"}, tensor<120xf32> {fsdp.gradient = @"a/flat"}, tensor<f32> {fsdp.gradient = @s})
// FLAT-NEXT:     %[[F:.+]] = fsdp.all_gather %[[A]] dim 0 over #shard : tensor<120xf32> -> tensor<240xf32>
// FLAT-NEXT:     %[[W:.+]] = fsdp.unpack %[[F]] at 0 : {{.*}} -> tensor<13x17x
// FLAT-NEXT:     %[[V:.+]] = fsdp.unpack %[[F]] at 224 : {{.*}} -> tensor<13x
// FLAT-NEXT:     %[[T:.+]] = aten.t(%[[W]])
// FLAT-NEXT:     aten.addmm(%[[V]], %[[X]], %[[T]])
// FLAT:          %[[GV:.+]] = aten.sum.dim_IntList
// FLAT-NEXT:     %[[R:.+]] = fsdp.replay %[[A]]
// FLAT-NEXT:     %[[G:.+]] = fsdp.all_gather %[[R]]
// FLAT-NEXT:     %[[WR:.+]] = fsdp.unpack %[[G]] at 0 : {{.*}} -> tensor<13x17x
// FLAT-NEXT:     aten.mm(%{{.+}}, %[[WR]])
// FLAT-NOT:      fsdp.reduce_scatter
// FLAT:          %[[GW:.+]] = aten.mm
// FLAT-NEXT:     %[[P:.+]] = fsdp.pack(%[[GW]], %[[GV]]) at [0, 224] of @"a/flat" : tensor<13x17xf32>, tensor<13xf32> -> tensor<240xf32>
// FLAT-NEXT:     %[[SG:.+]] = fsdp.reduce_scatter avg %[[P]] dim 0 over #shard of @"a/flat" : tensor<240xf32> -> tensor<120xf32>
// FLAT:          %[[SS:.+]] = fsdp.all_reduce avg %{{.+}} over #shard of @s
// FLAT-NEXT:     return %{{.+}}, %[[SG]], %[[SS]]

// ROWS-NOT:    flat <
// ROWS-NOT:    fsdp.pack

// Settings of their own make @v a state of its own, which stays in rows.

// GROUPS-NOT:  fsdp.pack
// GROUPS:      fsdp.reduce_scatter avg %{{.+}} of @v
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<13x17xf32> sharded <dim 0 over #shard> names ["w", "tied"] bucket "a"
  fsdp.state parameter @v : tensor<13xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @s : tensor<f32> bucket "a"
  func.func @"train/step"(%w: tensor<7x17xf32> {fsdp.state = @w}, %v: tensor<7xf32> {fsdp.state = @v}, %s: tensor<f32> {fsdp.state = @s}, %x: tensor<4x17xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<7x17xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.gradient = @s}, tensor<7xf32> {fsdp.gradient = @v}) {
    %fw = fsdp.all_gather %w dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
    %fv = fsdp.all_gather %v dim 0 over #shard : tensor<7xf32> -> tensor<13xf32>
    %t = aten.t(%fw) : (tensor<13x17xf32>) -> tensor<17x13xf32, #aten.strides<1, 17>>
    %y = aten.addmm(%fv, %x, %t) : (tensor<13xf32>, tensor<4x17xf32>, tensor<17x13xf32, #aten.strides<1, 17>>) -> tensor<4x13xf32>
    %l = aten.sum(%y) : (tensor<4x13xf32>) -> tensor<f32>
    %m = aten.mul.Tensor(%l, %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %gy = aten.ones_like(%y) : (tensor<4x13xf32>) -> tensor<4x13xf32>
    %gv = aten.sum.dim_IntList(%gy, dim = [0]) : (tensor<4x13xf32>) -> tensor<13xf32>
    %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : tensor<13xf32> -> tensor<7xf32>
    %r = fsdp.replay %w : tensor<7x17xf32>
    %again = fsdp.all_gather %r dim 0 over #shard : tensor<7x17xf32> -> tensor<13x17xf32>
    %gx = aten.mm(%gy, %again) : (tensor<4x13xf32>, tensor<13x17xf32>) -> tensor<4x17xf32>
    %gyt = aten.t(%gy) : (tensor<4x13xf32>) -> tensor<13x4xf32, #aten.strides<1, 13>>
    %gw = aten.mm(%gyt, %gx) : (tensor<13x4xf32, #aten.strides<1, 13>>, tensor<4x17xf32>) -> tensor<13x17xf32>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<13x17xf32> -> tensor<7x17xf32>
    %gs = aten.neg(%l) : (tensor<f32>) -> tensor<f32>
    %ss = fsdp.all_reduce avg %gs over #shard of @s : tensor<f32>
    return %m, %sw, %ss, %sv : tensor<f32>, tensor<7x17xf32>, tensor<f32>, tensor<7xf32>
  }
}
