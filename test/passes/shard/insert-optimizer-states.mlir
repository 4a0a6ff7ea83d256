// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw, state_dtype = int8>}' --fsdp-insert-optimizer --verify-roundtrip | FileCheck %s --check-prefixes=CHECK,INT8
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = sgd, numbers = {momentum = 0.5}, state_dtype = float8, stochastic_rounding = true>}' --fsdp-insert-optimizer --verify-roundtrip | FileCheck %s --check-prefix=SGD
// RUN: fsdp-opt %s --fsdp-annotate='with={optimizer<kind = adamw, state_dtype = bfloat16>}' --fsdp-insert-optimizer | FileCheck %s --check-prefix=BF16
// RUN: not fsdp-opt %s --fsdp-annotate='with={optimizer<state_dtype = int4>}' --fsdp-insert-optimizer 2>&1 | FileCheck %s --check-prefix=NAME

// NAME: expected one of [parameter, bfloat16, int8, float8, float32] for what moments are stored as, got: int4

// @rows: a row is a block. @even: two rows are, and each rank has whole pairs of
// them. @odd: blocks lie on two ranks, or three. @column: parts of rows are whole
// blocks. @small is too small, and @half is updated apart from what is f32.

// INT8-DAG:  fsdp.state optimizer @"rows/exp_avg_int8" of @rows : tensor<19x256xui8> sharded <dim 0 over #[[SHARD:.+]]>
// INT8-DAG:  fsdp.state optimizer @"rows/exp_avg_int8_scale" of @rows : tensor<19x1xf32> sharded <dim 0 over #[[SHARD]]>
// INT8-DAG:  fsdp.state optimizer @"rows/exp_avg_sq_int8_scale" of @rows : tensor<19x1xf32> sharded <dim 0 over #[[SHARD]]>
// INT8-DAG:  fsdp.state optimizer @"even/exp_avg_int8_scale" of @even : tensor<32xf32> sharded <dim 0 over #[[SHARD]]>
// INT8-DAG:  fsdp.state optimizer @"odd/exp_avg_int8" of @odd : tensor<35x150xui8> sharded <dim 0 over #[[SHARD]]>
// INT8-DAG:  fsdp.state optimizer @"odd/exp_avg_int8_scale" of @odd : tensor<21xf32>{{$}}
// INT8-DAG:  fsdp.state optimizer @"column/exp_avg_int8_scale" of @column : tensor<9x4xf32> sharded <dim 1 over #[[SHARD]]>
// INT8-DAG:  fsdp.state optimizer @"small/exp_avg" of @small : tensor<15x256xf32> sharded
// INT8-NOT:  @"small/exp_avg_scale"

// SGD-DAG:   fsdp.state optimizer @"half/momentum_buffer_float8" of @half : tensor<16x256xf8E4M3FN> sharded
// SGD-DAG:   fsdp.state step @"optimizer/step"
// BF16-DAG:  fsdp.state optimizer @"small/exp_avg" of @small : tensor<15x256xbf16> sharded
// BF16-NOT:  scale

// CHECK-LABEL: func.func @"train/step"
// INT8:        %[[OWN:.+]] = fsdp.block_maxima adamw params(%[[ODD:.+]]) grads({{.+}}) exp_avgs({{.+}}) exp_avg_sqs({{.+}}) scales(%[[S1:.+]], %[[S2:.+]]) betas(9.000000e-01, 0.99899999999999999) eps 1.000000e-08 weight_decay 1.000000e-02 {{.*}} -> tensor<42xf32>
// INT8-NEXT:   %[[ALL:.+]] = fsdp.all_reduce max %[[OWN]] over #[[SHARD]] for scale : tensor<42xf32>
// INT8-NEXT:   fsdp.update adamw params(%{{.+}}, %{{.+}}, %{{.+}}) {{.*}} scales(%{{.+}}) step {{.*}} : tensor<5x256xf32>, tensor<16x128xf32>, tensor<9x256xf32> moments ui8 scales tensor<5x1xf32>, tensor<8xf32>, tensor<9x1xf32>, tensor<5x1xf32>,
// INT8:        fsdp.update adamw params(%[[ODD]]) {{.*}} scales(%[[S1]], %[[S2]]) maxima %[[ALL]] {{.*}} moments ui8 scales tensor<21xf32>, tensor<21xf32> maxima tensor<42xf32>
// INT8-NEXT:   fsdp.update adamw {{.*}} : tensor<4x256xf32>{{$}}
// INT8-NEXT:   fsdp.update adamw {{.*}} : tensor<4x256xbf16> moments ui8

// SGD-LABEL:   func.func @"train/step"
// SGD:         fsdp.block_maxima sgd {{.*}} momentum 5.000000e-01
// SGD:         fsdp.update sgd {{.*}} step %{{.+}} lr {{.*}} rounding 0 : tensor<4x256xbf16> moments f8E4M3FN scales
#shard = #fsdp.group<"shard", 4>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 4>} {
  fsdp.state parameter @rows : tensor<19x256xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @even : tensor<64x128xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @odd : tensor<35x150xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @column : tensor<9x1024xf32> sharded <dim 1 over #shard>
  fsdp.state parameter @small : tensor<15x256xf32> sharded <dim 0 over #shard>
  fsdp.state parameter @half : tensor<16x256xbf16> sharded <dim 0 over #shard>
  func.func @"train/step"(%a: tensor<5x256xf32> {fsdp.state = @rows}, %b: tensor<16x128xf32> {fsdp.state = @even}, %c: tensor<9x150xf32> {fsdp.state = @odd}, %d: tensor<9x256xf32> {fsdp.state = @column}, %e: tensor<4x256xf32> {fsdp.state = @small}, %f: tensor<4x256xbf16> {fsdp.state = @half}, %x: tensor<f32> {fsdp.input = "x"}, %ga: tensor<5x256xf32> {fsdp.input = "ga"}, %gb: tensor<16x128xf32> {fsdp.input = "gb"}, %gc: tensor<9x150xf32> {fsdp.input = "gc"}, %gd: tensor<9x256xf32> {fsdp.input = "gd"}, %ge: tensor<4x256xf32> {fsdp.input = "ge"}, %gf: tensor<4x256xbf16> {fsdp.input = "gf"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<5x256xf32> {fsdp.gradient = @rows}, tensor<16x128xf32> {fsdp.gradient = @even}, tensor<9x150xf32> {fsdp.gradient = @odd}, tensor<9x256xf32> {fsdp.gradient = @column}, tensor<4x256xf32> {fsdp.gradient = @small}, tensor<4x256xbf16> {fsdp.gradient = @half}) {
    %l = aten.neg(%x) : (tensor<f32>) -> tensor<f32>
    return %l, %ga, %gb, %gc, %gd, %ge, %gf : tensor<f32>, tensor<5x256xf32>, tensor<16x128xf32>, tensor<9x150xf32>, tensor<9x256xf32>, tensor<4x256xf32>, tensor<4x256xbf16>
  }
}
