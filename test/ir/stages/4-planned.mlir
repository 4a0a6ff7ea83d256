// Stage 4, planned: every tensor has an address, and padding rows are zeroed
// before a reduction.
//
// RUN: fsdp-opt %s --verify-roundtrip | grep -v "^$" > %t
// RUN: grep -vE "^(//|$)" %s | diff - %t
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | grep -v "^$" | diff %t -

#mesh = #fsdp.mesh<shard = 2>
#shard = #fsdp.group<"shard", 2>
module @mlp attributes {fsdp.buckets = #fsdp.buckets<policy = classes, classes = ["Linear"], reshard = all>, fsdp.memory = {activations = 4 : i64, buffers = 0 : i64, gathered = 0 : i64, grads = 1932 : i64, inputs = 704 : i64, optimizer = 1296 : i64, params = 672 : i64, peak = 4736 : i64, scratch_bound = 2408 : i64, states = 2048 : i64}, fsdp.mesh = #mesh, fsdp.model = #fsdp.model<"mlp.pt2", 51234, "9f86d081884c7d65", torch "2.11.0">, fsdp.optimizer = #fsdp.optimizer<numbers = {beta2 = 0.94999999999999996, weight_decay = 1.000000e-01}, max_grad_norm = 1.000000e+00>, fsdp.shards = #fsdp.shards<world = 2>} {
  fsdp.module "fc1" class "Linear"
  fsdp.module "fc2" class "Linear"
  fsdp.state parameter @fc1.weight : tensor<13x17xf32> sharded <dim 0 over #shard> bucket "fc1" source <"data/weights/weight_0" at 1472 : 884 crc 6188> at 0
  fsdp.state frozen @fc1.bias : tensor<13xf32> sharded <dim 0 over #shard> bucket "fc1" source <"data/weights/weight_1" at 2432 : 52 crc 364> at 480
  fsdp.state parameter @fc2.weight : tensor<5x13xf32> sharded <dim 0 over #shard> bucket "fc2" source <"data/weights/weight_2" at 2560 : 260 crc 1820> at 512
  fsdp.state parameter @fc2.bias : tensor<5xf32> sharded <dim 0 over #shard> bucket "fc2" source <"data/weights/weight_3" at 2880 : 20 crc 140> at 672
  fsdp.state optimizer @"fc1.weight/exp_avg" of @fc1.weight : tensor<13x17xf32> sharded <dim 0 over #shard> at 688
  fsdp.state optimizer @"fc1.weight/exp_avg_sq" of @fc1.weight : tensor<13x17xf32> sharded <dim 0 over #shard> at 1168
  fsdp.state optimizer @"fc2.weight/exp_avg" of @fc2.weight : tensor<5x13xf32> sharded <dim 0 over #shard> at 1648
  fsdp.state optimizer @"fc2.weight/exp_avg_sq" of @fc2.weight : tensor<5x13xf32> sharded <dim 0 over #shard> at 1808
  fsdp.state optimizer @"fc2.bias/exp_avg" of @fc2.bias : tensor<5xf32> sharded <dim 0 over #shard> at 1968
  fsdp.state optimizer @"fc2.bias/exp_avg_sq" of @fc2.bias : tensor<5xf32> sharded <dim 0 over #shard> at 1984
  fsdp.state step @"optimizer/step" : tensor<f32> init 0.000000e+00 : f32 at 2000
  fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.000000e-03 : f32 at 2016
  func.func @"train/step"(%arg0: tensor<7x17xf32> {fsdp.state = @fc1.weight}, %arg1: tensor<7xf32> {fsdp.state = @fc1.bias}, %arg2: tensor<3x13xf32> {fsdp.state = @fc2.weight}, %arg3: tensor<3xf32> {fsdp.state = @fc2.bias}, %arg4: tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg"}, %arg5: tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg_sq"}, %arg6: tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg"}, %arg7: tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg_sq"}, %arg8: tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg"}, %arg9: tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg_sq"}, %arg10: tensor<f32> {fsdp.state = @"optimizer/step"}, %arg11: tensor<f32> {fsdp.state = @"optimizer/lr"}, %arg12: tensor<8x17xf32> {fsdp.at = array<i64: 3008>, fsdp.input = "x", fsdp.sample = #fsdp.record<"data/sample_inputs/0" at 4096 : 544>}, %arg13: tensor<8x5xf32> {fsdp.at = array<i64: 4352>, fsdp.input = "y", fsdp.sample = #fsdp.record<"data/sample_inputs/1" at 4736 : 160>}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<7x17xf32> {fsdp.state = @fc1.weight}, tensor<3x13xf32> {fsdp.state = @fc2.weight}, tensor<3xf32> {fsdp.state = @fc2.bias}, tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg"}, tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg"}, tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg"}, tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg_sq"}, tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg_sq"}, tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg_sq"}, tensor<f32> {fsdp.state = @"optimizer/step"}) attributes {fsdp.reuse} {
    %0 = aten._to_copy(%arg0, dtype = bf16) {fsdp.at = array<i64: 3552>} : (tensor<7x17xf32>) -> tensor<7x17xbf16>
    %1 = aten._to_copy(%arg1, dtype = bf16) {fsdp.at = array<i64: 2800>} : (tensor<7xf32>) -> tensor<7xbf16>
    %gather.fc1 = fsdp.start all_gather "fc1"(%0, %1) dims [0, 0] over #shard on gather {fsdp.at = array<i64: 2048, 4032>} : tensor<7x17xbf16>, tensor<7xbf16> -> !fsdp.future<tensor<13x17xbf16>, tensor<13xbf16>>
    %2 = aten._to_copy(%arg12, dtype = bf16) {fsdp.at = array<i64: 2528>} : (tensor<8x17xf32>) -> tensor<8x17xbf16>
    %3 = aten._to_copy(%arg2, dtype = bf16) {fsdp.at = array<i64: 3952>} : (tensor<3x13xf32>) -> tensor<3x13xbf16>
    %4 = aten._to_copy(%arg3, dtype = bf16) {fsdp.at = array<i64: 4080>} : (tensor<3xf32>) -> tensor<3xbf16>
    %gather.fc2 = fsdp.start all_gather "fc2"(%3, %4) dims [0, 0] over #shard on gather {fsdp.at = array<i64: 3792, 4064>} : tensor<3x13xbf16>, tensor<3xbf16> -> !fsdp.future<tensor<5x13xbf16>, tensor<5xbf16>>
    %fc1.weight.full, %fc1.bias.full = fsdp.wait %gather.fc1 : !fsdp.future<tensor<13x17xbf16>, tensor<13xbf16>> -> tensor<13x17xbf16>, tensor<13xbf16>
    %5 = aten.t(%fc1.weight.full) : (tensor<13x17xbf16>) -> tensor<17x13xbf16, #aten.strides<1, 17>>
    %6 = aten.addmm(%fc1.bias.full, %2, %5) {fsdp.at = array<i64: 2800>} : (tensor<13xbf16>, tensor<8x17xbf16>, tensor<17x13xbf16, #aten.strides<1, 17>>) -> tensor<8x13xbf16>
    fsdp.free %fc1.weight.full, %fc1.bias.full : tensor<13x17xbf16>, tensor<13xbf16>
    %7 = aten.relu(%6) {fsdp.at = array<i64: 2800>} : (tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %fc2.weight.full, %fc2.bias.full = fsdp.wait %gather.fc2 : !fsdp.future<tensor<5x13xbf16>, tensor<5xbf16>> -> tensor<5x13xbf16>, tensor<5xbf16>
    %8 = aten.t(%fc2.weight.full) : (tensor<5x13xbf16>) -> tensor<13x5xbf16, #aten.strides<1, 13>>
    %9 = aten.addmm(%fc2.bias.full, %7, %8) {fsdp.at = array<i64: 2208>} : (tensor<5xbf16>, tensor<8x13xbf16>, tensor<13x5xbf16, #aten.strides<1, 13>>) -> tensor<8x5xbf16>
    fsdp.free %fc2.weight.full, %fc2.bias.full : tensor<5x13xbf16>, tensor<5xbf16>
    %10 = fsdp.replay %3 : tensor<3x13xbf16>
    %regather.fc2 = fsdp.start all_gather "fc2"(%10) dims [0] over #shard on gather {fsdp.at = array<i64: 2368>} : tensor<3x13xbf16> -> !fsdp.future<tensor<5x13xbf16>>
    %11 = aten._to_copy(%9, dtype = f32) {fsdp.at = array<i64: 2048>} : (tensor<8x5xbf16>) -> tensor<8x5xf32>
    %12 = aten.mse_loss(%11, %arg13) {fsdp.at = array<i64: 4720>} : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<f32>
    %13 = aten.ones_like(%12) {fsdp.at = array<i64: 4512>} : (tensor<f32>) -> tensor<f32>
    %14 = aten.mse_loss_backward(%13, %11, %arg13, reduction = 1) {fsdp.at = array<i64: 2208>} : (tensor<f32>, tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    %15 = aten._to_copy(%14, dtype = bf16) {fsdp.at = array<i64: 3552>} : (tensor<8x5xf32>) -> tensor<8x5xbf16>
    %fc2.weight.full_0 = fsdp.wait %regather.fc2 : !fsdp.future<tensor<5x13xbf16>> -> tensor<5x13xbf16>
    %16 = aten.mm(%15, %fc2.weight.full_0) {fsdp.at = array<i64: 2048>} : (tensor<8x5xbf16>, tensor<5x13xbf16>) -> tensor<8x13xbf16>
    fsdp.free %fc2.weight.full_0 : tensor<5x13xbf16>
    %17 = aten.t(%15) : (tensor<8x5xbf16>) -> tensor<5x8xbf16, #aten.strides<1, 5>>
    %18 = aten.mm(%17, %7) {fsdp.at = array<i64: 2256>} : (tensor<5x8xbf16, #aten.strides<1, 5>>, tensor<8x13xbf16>) -> tensor<5x13xbf16>
    %19 = aten.sum.dim_IntList(%15, dim = [0]) {fsdp.at = array<i64: 2400>} : (tensor<8x5xbf16>) -> tensor<5xbf16>
    %20 = aten._to_copy(%18, dtype = f32) {fsdp.at = array<i64: 4032>} : (tensor<5x13xbf16>) -> tensor<5x13xf32>
    %21 = aten._to_copy(%19, dtype = f32) {fsdp.at = array<i64: 4672>} : (tensor<5xbf16>) -> tensor<5xf32>
    fsdp.zero_padding %20 dim 0 over #shard : tensor<5x13xf32>
    fsdp.zero_padding %21 dim 0 over #shard : tensor<5xf32>
    %reduce.fc2 = fsdp.start reduce_scatter avg "fc2"(%20, %21) dims [0, 0] over #shard on reduce of [@fc2.weight, @fc2.bias] {fsdp.at = array<i64: 4512, 4704>} : tensor<5x13xf32>, tensor<5xf32> -> !fsdp.future<tensor<3x13xf32>, tensor<3xf32>>
    %22 = aten.threshold_backward(%16, %7, threshold = 0) {fsdp.at = array<i64: 2048>} : (tensor<8x13xbf16>, tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %23 = aten.t(%22) : (tensor<8x13xbf16>) -> tensor<13x8xbf16, #aten.strides<1, 13>>
    %24 = aten.mm(%23, %2) {fsdp.at = array<i64: 3552>} : (tensor<13x8xbf16, #aten.strides<1, 13>>, tensor<8x17xbf16>) -> tensor<13x17xbf16>
    %25 = aten._to_copy(%24, dtype = f32) {fsdp.at = array<i64: 2048>} : (tensor<13x17xbf16>) -> tensor<13x17xf32>
    fsdp.zero_padding %25 dim 0 over #shard : tensor<13x17xf32>
    %reduce.fc1 = fsdp.start reduce_scatter avg "fc1"(%25) dims [0] over #shard on reduce of [@fc1.weight] {fsdp.at = array<i64: 3552>} : tensor<13x17xf32> -> !fsdp.future<tensor<7x17xf32>>
    %fc2.weight.grad, %fc2.bias.grad = fsdp.wait %reduce.fc2 : !fsdp.future<tensor<3x13xf32>, tensor<3xf32>> -> tensor<3x13xf32>, tensor<3xf32>
    %fc1.weight.grad = fsdp.wait %reduce.fc1 : !fsdp.future<tensor<7x17xf32>> -> tensor<7x17xf32>
    %26:3 = aten._foreach_norm.Scalar([%fc1.weight.grad, %fc2.weight.grad, %fc2.bias.grad]) {fsdp.at = array<i64: 4688, 4032, 4048>} : (tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    %27 = aten.stack([%26#0, %26#1, %26#2]) {fsdp.at = array<i64: 4672>} : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<3xf32>
    %28 = aten.mul.Tensor(%27, %27) {fsdp.at = array<i64: 4672>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %29 = aten.sum(%28) {fsdp.at = array<i64: 4688>} : (tensor<3xf32>) -> tensor<f32>
    %all_reduce.metrics = fsdp.start all_reduce avg "metrics"(%12, %29) over #shard for metric on reduce {fsdp.at = array<i64: 4720, 4688>} : tensor<f32>, tensor<f32> -> !fsdp.future<tensor<f32>, tensor<f32>>
    %metrics, %metrics_1 = fsdp.wait %all_reduce.metrics : !fsdp.future<tensor<f32>, tensor<f32>> -> tensor<f32>, tensor<f32>
    %30 = aten.mul.Scalar(%metrics_1, other = 2.000000e+00) {fsdp.at = array<i64: 4672>} : (tensor<f32>) -> tensor<f32>
    %31 = aten.sqrt(%30) {fsdp.at = array<i64: 4672>} : (tensor<f32>) -> tensor<f32>
    %32 = aten.add.Scalar(%31, other = 9.9999999999999995E-7) {fsdp.at = array<i64: 4688>} : (tensor<f32>) -> tensor<f32>
    %33 = aten.div.Scalar(%32, other = 1.000000e+00) {fsdp.at = array<i64: 4688>} : (tensor<f32>) -> tensor<f32>
    %34 = aten.clamp_min(%33, min = 1.000000e+00) {fsdp.at = array<i64: 4688>} : (tensor<f32>) -> tensor<f32>
    %35 = aten.add.Scalar(%arg10, other = 1.000000e+00) {fsdp.at = array<i64: 2000>} : (tensor<f32>) -> tensor<f32>
    %fc1.weight.new, %fc2.weight.new, %fc2.bias.new, %fc1.weight.exp_avg.new, %fc2.weight.exp_avg.new, %fc2.bias.exp_avg.new, %fc1.weight.exp_avg_sq.new, %fc2.weight.exp_avg_sq.new, %fc2.bias.exp_avg_sq.new = fsdp.update adamw params(%arg0, %arg2, %arg3) grads(%fc1.weight.grad, %fc2.weight.grad, %fc2.bias.grad) exp_avgs(%arg4, %arg6, %arg8) exp_avg_sqs(%arg5, %arg7, %arg9) step %35 lr %arg11 grad_scale %34 betas(9.000000e-01, 0.94999999999999996) eps 1.000000e-08 weight_decay 1.000000e-01 {fsdp.at = array<i64: 0, 512, 672, 688, 1648, 1968, 1168, 1808, 1984>} : tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>
    return %metrics, %31, %fc1.weight.new, %fc2.weight.new, %fc2.bias.new, %fc1.weight.exp_avg.new, %fc2.weight.exp_avg.new, %fc2.bias.exp_avg.new, %fc1.weight.exp_avg_sq.new, %fc2.weight.exp_avg_sq.new, %fc2.bias.exp_avg_sq.new, %35 : tensor<f32>, tensor<f32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<f32>
  }
}
