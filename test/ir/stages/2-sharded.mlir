// Stage 2, sharded over two ranks: collectives without time. Casts stand on the
// shards; fc1.bias is frozen and reduces nothing; fc2.weight is needed in backward,
// and `replay` begins its second life.
//
// RUN: fsdp-opt %s --verify-roundtrip | grep -v "^$" > %t
// RUN: grep -vE "^(//|$)" %s | diff - %t
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | grep -v "^$" | diff %t -

#mesh = #fsdp.mesh<shard = 2>
#shard = #fsdp.group<"shard", 2>
module @mlp attributes {fsdp.buckets = #fsdp.buckets<policy = classes, classes = ["Linear"], reshard = all>, fsdp.mesh = #mesh, fsdp.model = #fsdp.model<"mlp.pt2", 51234, "9f86d081884c7d65", torch "2.11.0">, fsdp.optimizer = #fsdp.optimizer<numbers = {beta2 = 0.94999999999999996, weight_decay = 1.000000e-01}, max_grad_norm = 1.000000e+00>, fsdp.shards = #fsdp.shards<world = 2>} {
  fsdp.module "fc1" class "Linear"
  fsdp.module "fc2" class "Linear"
  fsdp.state parameter @fc1.weight : tensor<13x17xf32> sharded <dim 0 over #shard> bucket "fc1" source <"data/weights/weight_0" at 1472 : 884 crc 6188>
  fsdp.state frozen @fc1.bias : tensor<13xf32> sharded <dim 0 over #shard> bucket "fc1" source <"data/weights/weight_1" at 2432 : 52 crc 364>
  fsdp.state parameter @fc2.weight : tensor<5x13xf32> sharded <dim 0 over #shard> bucket "fc2" source <"data/weights/weight_2" at 2560 : 260 crc 1820>
  fsdp.state parameter @fc2.bias : tensor<5xf32> sharded <dim 0 over #shard> bucket "fc2" source <"data/weights/weight_3" at 2880 : 20 crc 140>
  fsdp.state optimizer @"fc1.weight/exp_avg" of @fc1.weight : tensor<13x17xf32> sharded <dim 0 over #shard>
  fsdp.state optimizer @"fc1.weight/exp_avg_sq" of @fc1.weight : tensor<13x17xf32> sharded <dim 0 over #shard>
  fsdp.state optimizer @"fc2.weight/exp_avg" of @fc2.weight : tensor<5x13xf32> sharded <dim 0 over #shard>
  fsdp.state optimizer @"fc2.weight/exp_avg_sq" of @fc2.weight : tensor<5x13xf32> sharded <dim 0 over #shard>
  fsdp.state optimizer @"fc2.bias/exp_avg" of @fc2.bias : tensor<5xf32> sharded <dim 0 over #shard>
  fsdp.state optimizer @"fc2.bias/exp_avg_sq" of @fc2.bias : tensor<5xf32> sharded <dim 0 over #shard>
  fsdp.state step @"optimizer/step" : tensor<f32> init 0.000000e+00 : f32
  fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.000000e-03 : f32
  func.func @"train/step"(%arg0: tensor<7x17xf32> {fsdp.state = @fc1.weight}, %arg1: tensor<7xf32> {fsdp.state = @fc1.bias}, %arg2: tensor<3x13xf32> {fsdp.state = @fc2.weight}, %arg3: tensor<3xf32> {fsdp.state = @fc2.bias}, %arg4: tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg"}, %arg5: tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg_sq"}, %arg6: tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg"}, %arg7: tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg_sq"}, %arg8: tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg"}, %arg9: tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg_sq"}, %arg10: tensor<f32> {fsdp.state = @"optimizer/step"}, %arg11: tensor<f32> {fsdp.state = @"optimizer/lr"}, %arg12: tensor<8x17xf32> {fsdp.input = "x", fsdp.sample = #fsdp.record<"data/sample_inputs/0" at 4096 : 544>}, %arg13: tensor<8x5xf32> {fsdp.input = "y", fsdp.sample = #fsdp.record<"data/sample_inputs/1" at 4736 : 160>}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<7x17xf32> {fsdp.state = @fc1.weight}, tensor<3x13xf32> {fsdp.state = @fc2.weight}, tensor<3xf32> {fsdp.state = @fc2.bias}, tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg"}, tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg"}, tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg"}, tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg_sq"}, tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg_sq"}, tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg_sq"}, tensor<f32> {fsdp.state = @"optimizer/step"}) {
    %0 = aten._to_copy(%arg12, dtype = bf16) : (tensor<8x17xf32>) -> tensor<8x17xbf16>
    %1 = aten._to_copy(%arg0, dtype = bf16) : (tensor<7x17xf32>) -> tensor<7x17xbf16>
    %2 = fsdp.all_gather %1 dim 0 over #shard : tensor<7x17xbf16> -> tensor<13x17xbf16>
    %3 = aten._to_copy(%arg1, dtype = bf16) : (tensor<7xf32>) -> tensor<7xbf16>
    %4 = fsdp.all_gather %3 dim 0 over #shard : tensor<7xbf16> -> tensor<13xbf16>
    %5 = aten.t(%2) : (tensor<13x17xbf16>) -> tensor<17x13xbf16, #aten.strides<1, 17>>
    %6 = aten.addmm(%4, %0, %5) : (tensor<13xbf16>, tensor<8x17xbf16>, tensor<17x13xbf16, #aten.strides<1, 17>>) -> tensor<8x13xbf16>
    %7 = aten.relu(%6) : (tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %8 = aten._to_copy(%arg2, dtype = bf16) : (tensor<3x13xf32>) -> tensor<3x13xbf16>
    %9 = fsdp.all_gather %8 dim 0 over #shard : tensor<3x13xbf16> -> tensor<5x13xbf16>
    %10 = aten._to_copy(%arg3, dtype = bf16) : (tensor<3xf32>) -> tensor<3xbf16>
    %11 = fsdp.all_gather %10 dim 0 over #shard : tensor<3xbf16> -> tensor<5xbf16>
    %12 = aten.t(%9) : (tensor<5x13xbf16>) -> tensor<13x5xbf16, #aten.strides<1, 13>>
    %13 = aten.addmm(%11, %7, %12) : (tensor<5xbf16>, tensor<8x13xbf16>, tensor<13x5xbf16, #aten.strides<1, 13>>) -> tensor<8x5xbf16>
    %14 = aten._to_copy(%13, dtype = f32) : (tensor<8x5xbf16>) -> tensor<8x5xf32>
    %15 = aten.mse_loss(%14, %arg13) : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<f32>
    %16 = aten.ones_like(%15) : (tensor<f32>) -> tensor<f32>
    %17 = aten.mse_loss_backward(%16, %14, %arg13, reduction = 1) : (tensor<f32>, tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    %18 = aten._to_copy(%17, dtype = bf16) : (tensor<8x5xf32>) -> tensor<8x5xbf16>
    %19 = fsdp.replay %8 : tensor<3x13xbf16>
    %20 = fsdp.all_gather %19 dim 0 over #shard : tensor<3x13xbf16> -> tensor<5x13xbf16>
    %21 = aten.mm(%18, %20) : (tensor<8x5xbf16>, tensor<5x13xbf16>) -> tensor<8x13xbf16>
    %22 = aten.t(%18) : (tensor<8x5xbf16>) -> tensor<5x8xbf16, #aten.strides<1, 5>>
    %23 = aten.mm(%22, %7) : (tensor<5x8xbf16, #aten.strides<1, 5>>, tensor<8x13xbf16>) -> tensor<5x13xbf16>
    %24 = aten.sum.dim_IntList(%18, dim = [0]) : (tensor<8x5xbf16>) -> tensor<5xbf16>
    %25 = aten._to_copy(%23, dtype = f32) : (tensor<5x13xbf16>) -> tensor<5x13xf32>
    %26 = fsdp.reduce_scatter avg %25 dim 0 over #shard of @fc2.weight : tensor<5x13xf32> -> tensor<3x13xf32>
    %27 = aten._to_copy(%24, dtype = f32) : (tensor<5xbf16>) -> tensor<5xf32>
    %28 = fsdp.reduce_scatter avg %27 dim 0 over #shard of @fc2.bias : tensor<5xf32> -> tensor<3xf32>
    %29 = aten.threshold_backward(%21, %7, threshold = 0) : (tensor<8x13xbf16>, tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %30 = aten.t(%29) : (tensor<8x13xbf16>) -> tensor<13x8xbf16, #aten.strides<1, 13>>
    %31 = aten.mm(%30, %0) : (tensor<13x8xbf16, #aten.strides<1, 13>>, tensor<8x17xbf16>) -> tensor<13x17xbf16>
    %32 = aten._to_copy(%31, dtype = f32) : (tensor<13x17xbf16>) -> tensor<13x17xf32>
    %33 = fsdp.reduce_scatter avg %32 dim 0 over #shard of @fc1.weight : tensor<13x17xf32> -> tensor<7x17xf32>
    %34:3 = aten._foreach_norm.Scalar([%33, %26, %28]) : (tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    %35 = aten.stack([%34#0, %34#1, %34#2]) : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<3xf32>
    %36 = aten.mul.Tensor(%35, %35) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %37 = aten.sum(%36) : (tensor<3xf32>) -> tensor<f32>
    %38 = fsdp.all_reduce avg %15 over #shard for metric : tensor<f32>
    %39 = fsdp.all_reduce avg %37 over #shard for metric : tensor<f32>
    %40 = aten.mul.Scalar(%39, other = 2.000000e+00) : (tensor<f32>) -> tensor<f32>
    %41 = aten.sqrt(%40) : (tensor<f32>) -> tensor<f32>
    %42 = aten.add.Scalar(%41, other = 9.9999999999999995E-7) : (tensor<f32>) -> tensor<f32>
    %43 = aten.div.Scalar(%42, other = 1.000000e+00) : (tensor<f32>) -> tensor<f32>
    %44 = aten.clamp_min(%43, min = 1.000000e+00) : (tensor<f32>) -> tensor<f32>
    %45 = aten.add.Scalar(%arg10, other = 1.000000e+00) : (tensor<f32>) -> tensor<f32>
    %fc1.weight.new, %fc2.weight.new, %fc2.bias.new, %fc1.weight.exp_avg.new, %fc2.weight.exp_avg.new, %fc2.bias.exp_avg.new, %fc1.weight.exp_avg_sq.new, %fc2.weight.exp_avg_sq.new, %fc2.bias.exp_avg_sq.new = fsdp.update adamw params(%arg0, %arg2, %arg3) grads(%33, %26, %28) exp_avgs(%arg4, %arg6, %arg8) exp_avg_sqs(%arg5, %arg7, %arg9) step %45 lr %arg11 grad_scale %44 betas(9.000000e-01, 0.94999999999999996) eps 1.000000e-08 weight_decay 1.000000e-01 : tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>
    return %38, %41, %fc1.weight.new, %fc2.weight.new, %fc2.bias.new, %fc1.weight.exp_avg.new, %fc2.weight.exp_avg.new, %fc2.bias.exp_avg.new, %fc1.weight.exp_avg_sq.new, %fc2.weight.exp_avg_sq.new, %fc2.bias.exp_avg_sq.new, %45 : tensor<f32>, tensor<f32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<f32>
  }
}
