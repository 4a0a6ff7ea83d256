// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = auto>}' --fsdp-flatten-buckets --split-input-file | FileCheck %s --check-prefix=AUTO
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat>}' --fsdp-flatten-buckets --split-input-file | FileCheck %s --check-prefix=FLAT

// The gradients of @a are computed between those of @e and @h: packed, @h's would
// take memory for @e's from the beginning. @g belongs to @h in time. By name they
// are one state.

// AUTO:      fsdp.state frozen @f : {{.*}} sharded
// AUTO-NEXT: fsdp.state parameter @e : {{.*}} sharded
// AUTO-NEXT: fsdp.state parameter @"root/flat" : {{.*}} flat <{{.*}}
// AUTO-NEXT: fsdp.state parameter @g : {{.*}} part <@"root/flat" at 0>
// AUTO-NEXT: fsdp.state parameter @h : {{.*}} part <@"root/flat" at 16>
// AUTO-NEXT: fsdp.state parameter @a : {{.*}} sharded
// FLAT:      fsdp.state frozen @"root/flat{{(/1)?}}" : tensor<{{.*}} flat <{{.*}}
// FLAT-NEXT: fsdp.state frozen @f : {{.*}} part
// FLAT-NEXT: fsdp.state parameter @"root/flat{{(/1)?}}" : {{.*}} flat <{{.*}}
// FLAT-NEXT: fsdp.state parameter @e : {{.*}} part
// FLAT-NEXT: fsdp.state parameter @g : {{.*}} part
// FLAT-NEXT: fsdp.state parameter @h : {{.*}} part
// FLAT-NEXT: fsdp.state parameter @"a/flat" : {{.*}} flat <{{.*}}
// FLAT-NEXT: fsdp.state parameter @a : {{.*}} part
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @f : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @e : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @g : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @h : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "root"
  fsdp.state parameter @a : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"train/step"(%f: tensor<2x4xf32> {fsdp.state = @f}, %e: tensor<2x4xf32> {fsdp.state = @e}, %g: tensor<2x4xf32> {fsdp.state = @g}, %h: tensor<2x4xf32> {fsdp.state = @h}, %a: tensor<2x4xf32> {fsdp.state = @a}, %x: tensor<4x4xf32> {fsdp.input = "x"})
      -> (tensor<4x4xf32> {fsdp.output = "loss"}, tensor<2x4xf32> {fsdp.gradient = @e}, tensor<2x4xf32> {fsdp.gradient = @g}, tensor<2x4xf32> {fsdp.gradient = @h}, tensor<2x4xf32> {fsdp.gradient = @a}) {
    %ff = fsdp.all_gather %f dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %fe = fsdp.all_gather %e dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %fg = fsdp.all_gather %g dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %fh = fsdp.all_gather %h dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %fa = fsdp.all_gather %a dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %0 = aten.mm(%x, %fe) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = aten.mm(%0, %fa) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = aten.mm(%1, %fg) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = aten.mm(%2, %fh) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = aten.mm(%3, %ff) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %gh = aten.neg(%4) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %sh = fsdp.reduce_scatter avg %gh dim 0 over #shard of @h : tensor<4x4xf32> -> tensor<2x4xf32>
    %gg = aten.neg(%gh) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %sg = fsdp.reduce_scatter avg %gg dim 0 over #shard of @g : tensor<4x4xf32> -> tensor<2x4xf32>
    %ga = aten.neg(%gg) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %sa = fsdp.reduce_scatter avg %ga dim 0 over #shard of @a : tensor<4x4xf32> -> tensor<2x4xf32>
    %ge = aten.neg(%ga) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %se = fsdp.reduce_scatter avg %ge dim 0 over #shard of @e : tensor<4x4xf32> -> tensor<2x4xf32>
    return %4, %se, %sg, %sh, %sa : tensor<4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  }
}

// -----

// @t is a half that only forward reads: it would be gathered in vain. @b, which is
// as often gathered, goes with it.

// AUTO:      fsdp.state frozen @"a/flat" : {{.*}} flat <{{.*}}
// AUTO-NEXT: fsdp.state frozen @t : {{.*}} part <@"a/flat" at 0>
// AUTO-NEXT: fsdp.state frozen @w : {{.*}} sharded
// AUTO-NEXT: fsdp.state frozen @b : {{.*}} part <@"a/flat" at 16>
// FLAT:      fsdp.state frozen @"a/flat" : {{.*}} flat <{{.*}}
// FLAT-NEXT: fsdp.state frozen @t : {{.*}} part
// FLAT-NEXT: fsdp.state frozen @w : {{.*}} part
// FLAT-NEXT: fsdp.state frozen @b : {{.*}} part
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state frozen @t : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state frozen @w : tensor<4x4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state frozen @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"infer/step"(%t: tensor<2x4xf32> {fsdp.state = @t}, %w: tensor<2x4xf32> {fsdp.state = @w}, %b: tensor<2xf32> {fsdp.state = @b}) -> (tensor<4x4xf32> {fsdp.output = "y"}) attributes {fsdp.program = #fsdp.program<kind = infer>} {
    %ft = fsdp.all_gather %t dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %fw = fsdp.all_gather %w dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %fb = fsdp.all_gather %b dim 0 over #shard : tensor<2xf32> -> tensor<4xf32>
    %0 = aten.addmm(%fb, %ft, %fw) : (tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %r = fsdp.replay %w : tensor<2x4xf32>
    %again = fsdp.all_gather %r dim 0 over #shard : tensor<2x4xf32> -> tensor<4x4xf32>
    %1 = aten.mm(%0, %again) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>
  }
}
