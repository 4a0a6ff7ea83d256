// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat>, optimizer<kind = adamw, state_dtype = int8>}' --fsdp-flatten-buckets --fsdp-insert-optimizer | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<layout = flat>, optimizer<kind = adamw>}' --fsdp-flatten-buckets --fsdp-annotate='with={optimizer<kind = adamw, state_dtype = int8>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=LATE

// LATE: cannot have its optimizer states as int8: of its members only some have fewer than 4096 elements; flatten buckets with the same settings

// What is coded lies in a flat state apart, whose members and parts begin with
// blocks; the scales are a flat state of one element for each 256.

// CHECK:      fsdp.state parameter @"a/flat" : tensor<9728xf32> flat <over #[[SHARD:.+]]> bucket "a"
// CHECK-NEXT: fsdp.state parameter @w : tensor<17x256xf32> part <@"a/flat" at 0> bucket "a"
// CHECK-NEXT: fsdp.state parameter @v : tensor<33x150xf32> part <@"a/flat" at 4352> bucket "a"
// CHECK-NEXT: fsdp.state parameter @"a/flat/1" : tensor<20xf32> flat
// CHECK-NEXT: fsdp.state parameter @b : tensor<19xf32> part <@"a/flat/1" at 0>
// CHECK-NEXT: fsdp.state optimizer @"a/flat/exp_avg_int8" of @"a/flat" : tensor<9728xui8> flat <over #[[SHARD]]>
// CHECK-NEXT: fsdp.state optimizer @"w/exp_avg_int8" of @w : tensor<17x256xui8> part <@"a/flat/exp_avg_int8" at 0>
// CHECK-NEXT: fsdp.state optimizer @"v/exp_avg_int8" of @v : tensor<33x150xui8> part <@"a/flat/exp_avg_int8" at 4352>
// CHECK-NEXT: fsdp.state optimizer @"a/flat/exp_avg_int8_scale" of @"a/flat" : tensor<38xf32> flat <over #[[SHARD]]>
// CHECK-NEXT: fsdp.state optimizer @"w/exp_avg_int8_scale" of @w : tensor<17x1xf32> part <@"a/flat/exp_avg_int8_scale" at 0>
// CHECK-NEXT: fsdp.state optimizer @"v/exp_avg_int8_scale" of @v : tensor<20xf32> part <@"a/flat/exp_avg_int8_scale" at 17>
// CHECK:      fsdp.state optimizer @"b/exp_avg" of @b : tensor<19xf32>
// CHECK-NOT:  block_maxima
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @w : tensor<17x256xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @v : tensor<33x150xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @b : tensor<19xf32> sharded <dim 0 over #shard> bucket "a"
  func.func @"train/step"(%w: tensor<9x256xf32> {fsdp.state = @w}, %v: tensor<17x150xf32> {fsdp.state = @v}, %b: tensor<10xf32> {fsdp.state = @b}, %x: tensor<f32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<9x256xf32> {fsdp.gradient = @w}, tensor<17x150xf32> {fsdp.gradient = @v}, tensor<10xf32> {fsdp.gradient = @b}) {
    %fw = fsdp.all_gather %w dim 0 over #shard : tensor<9x256xf32> -> tensor<17x256xf32>
    %fv = fsdp.all_gather %v dim 0 over #shard : tensor<17x150xf32> -> tensor<33x150xf32>
    %fb = fsdp.all_gather %b dim 0 over #shard : tensor<10xf32> -> tensor<19xf32>
    %gw = aten.neg(%fw) : (tensor<17x256xf32>) -> tensor<17x256xf32>
    %gv = aten.neg(%fv) : (tensor<33x150xf32>) -> tensor<33x150xf32>
    %gb = aten.neg(%fb) : (tensor<19xf32>) -> tensor<19xf32>
    %sw = fsdp.reduce_scatter avg %gw dim 0 over #shard of @w : tensor<17x256xf32> -> tensor<9x256xf32>
    %sv = fsdp.reduce_scatter avg %gv dim 0 over #shard of @v : tensor<33x150xf32> -> tensor<17x150xf32>
    %sb = fsdp.reduce_scatter avg %gb dim 0 over #shard of @b : tensor<19xf32> -> tensor<10xf32>
    return %x, %sw, %sv, %sb : tensor<f32>, tensor<9x256xf32>, tensor<17x150xf32>, tensor<10xf32>
  }
}
