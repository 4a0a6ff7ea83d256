// Stage 3, scheduled: one bucket a layer, one gather ahead; fc2.weight alone is
// gathered again.
//
// RUN: fsdp-opt %s --verify-roundtrip | grep -v "^$" > %t
// RUN: grep -vE "^(//|$)" %s | diff - %t
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | grep -v "^$" | diff %t -

#mesh = #fsdp.mesh<shard = 2>
#shard = #fsdp.group<"shard", 2>
module @mlp attributes {fsdp.mesh = #mesh, fsdp.model = #fsdp.model<"mlp.pt2", 51234, "9f86d081884c7d65", torch "2.11.0">} {
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
  fsdp.state scalar @"optimizer/step" : tensor<f32> init 0.000000e+00 : f32
  fsdp.state scalar @"optimizer/lr" : tensor<f32> init 1.000000e-03 : f32
  func.func @"train/step"(%arg0: tensor<7x17xf32> {fsdp.state = @fc1.weight}, %arg1: tensor<7xf32> {fsdp.state = @fc1.bias}, %arg2: tensor<3x13xf32> {fsdp.state = @fc2.weight}, %arg3: tensor<3xf32> {fsdp.state = @fc2.bias}, %arg4: tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg"}, %arg5: tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg_sq"}, %arg6: tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg"}, %arg7: tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg_sq"}, %arg8: tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg"}, %arg9: tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg_sq"}, %arg10: tensor<f32> {fsdp.state = @"optimizer/step"}, %arg11: tensor<f32> {fsdp.state = @"optimizer/lr"}, %arg12: tensor<8x17xf32> {fsdp.input = "x", fsdp.sample = #fsdp.record<"data/sample_inputs/0" at 4096 : 544>}, %arg13: tensor<8x5xf32> {fsdp.input = "y", fsdp.sample = #fsdp.record<"data/sample_inputs/1" at 4736 : 160>}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"}, tensor<7x17xf32> {fsdp.state = @fc1.weight}, tensor<3x13xf32> {fsdp.state = @fc2.weight}, tensor<3xf32> {fsdp.state = @fc2.bias}, tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg"}, tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg"}, tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg"}, tensor<7x17xf32> {fsdp.state = @"fc1.weight/exp_avg_sq"}, tensor<3x13xf32> {fsdp.state = @"fc2.weight/exp_avg_sq"}, tensor<3xf32> {fsdp.state = @"fc2.bias/exp_avg_sq"}, tensor<f32> {fsdp.state = @"optimizer/step"}) {
    %0 = aten._to_copy(%arg0, dtype = bf16) : (tensor<7x17xf32>) -> tensor<7x17xbf16>
    %1 = aten._to_copy(%arg1, dtype = bf16) : (tensor<7xf32>) -> tensor<7xbf16>
    %2 = fsdp.all_gather.start "fc1"(%0, %1) dims [0, 0] over #shard on gather : tensor<7x17xbf16>, tensor<7xbf16> -> !fsdp.future<tensor<13x17xbf16>, tensor<13xbf16>>
    %3 = aten._to_copy(%arg12, dtype = bf16) : (tensor<8x17xf32>) -> tensor<8x17xbf16>
    %4 = aten._to_copy(%arg2, dtype = bf16) : (tensor<3x13xf32>) -> tensor<3x13xbf16>
    %5 = aten._to_copy(%arg3, dtype = bf16) : (tensor<3xf32>) -> tensor<3xbf16>
    %6 = fsdp.all_gather.start "fc2"(%4, %5) dims [0, 0] over #shard on gather : tensor<3x13xbf16>, tensor<3xbf16> -> !fsdp.future<tensor<5x13xbf16>, tensor<5xbf16>>
    %7:2 = fsdp.wait %2 : !fsdp.future<tensor<13x17xbf16>, tensor<13xbf16>> -> tensor<13x17xbf16>, tensor<13xbf16>
    %8 = aten.t(%7#0) : (tensor<13x17xbf16>) -> tensor<17x13xbf16, #aten.strides<1, 17>>
    %9 = aten.addmm(%7#1, %3, %8) : (tensor<13xbf16>, tensor<8x17xbf16>, tensor<17x13xbf16, #aten.strides<1, 17>>) -> tensor<8x13xbf16>
    fsdp.free %7#0, %7#1 : tensor<13x17xbf16>, tensor<13xbf16>
    %10 = aten.relu(%9) : (tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %11:2 = fsdp.wait %6 : !fsdp.future<tensor<5x13xbf16>, tensor<5xbf16>> -> tensor<5x13xbf16>, tensor<5xbf16>
    %12 = aten.t(%11#0) : (tensor<5x13xbf16>) -> tensor<13x5xbf16, #aten.strides<1, 13>>
    %13 = aten.addmm(%11#1, %10, %12) : (tensor<5xbf16>, tensor<8x13xbf16>, tensor<13x5xbf16, #aten.strides<1, 13>>) -> tensor<8x5xbf16>
    fsdp.free %11#0, %11#1 : tensor<5x13xbf16>, tensor<5xbf16>
    %14 = fsdp.replay %4 : tensor<3x13xbf16>
    %15 = fsdp.all_gather.start "fc2"(%14) dims [0] over #shard on gather : tensor<3x13xbf16> -> !fsdp.future<tensor<5x13xbf16>>
    %16 = aten._to_copy(%13, dtype = f32) : (tensor<8x5xbf16>) -> tensor<8x5xf32>
    %17 = aten.mse_loss(%16, %arg13) : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<f32>
    %18 = aten.ones_like(%17) : (tensor<f32>) -> tensor<f32>
    %19 = aten.mse_loss_backward(%18, %16, %arg13, reduction = 1) : (tensor<f32>, tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    %20 = aten._to_copy(%19, dtype = bf16) : (tensor<8x5xf32>) -> tensor<8x5xbf16>
    %21 = fsdp.wait %15 : !fsdp.future<tensor<5x13xbf16>> -> tensor<5x13xbf16>
    %22 = aten.mm(%20, %21) : (tensor<8x5xbf16>, tensor<5x13xbf16>) -> tensor<8x13xbf16>
    fsdp.free %21 : tensor<5x13xbf16>
    %23 = aten.t(%20) : (tensor<8x5xbf16>) -> tensor<5x8xbf16, #aten.strides<1, 5>>
    %24 = aten.mm(%23, %10) : (tensor<5x8xbf16, #aten.strides<1, 5>>, tensor<8x13xbf16>) -> tensor<5x13xbf16>
    %25 = aten.sum.dim_IntList(%20, dim = [0]) : (tensor<8x5xbf16>) -> tensor<5xbf16>
    %26 = aten._to_copy(%24, dtype = f32) : (tensor<5x13xbf16>) -> tensor<5x13xf32>
    %27 = aten._to_copy(%25, dtype = f32) : (tensor<5xbf16>) -> tensor<5xf32>
    %28 = fsdp.reduce_scatter.start avg "fc2"(%26, %27) dims [0, 0] over #shard on reduce of [@fc2.weight, @fc2.bias] : tensor<5x13xf32>, tensor<5xf32> -> !fsdp.future<tensor<3x13xf32>, tensor<3xf32>>
    %29 = aten.threshold_backward(%22, %10, threshold = 0) : (tensor<8x13xbf16>, tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %30 = aten.t(%29) : (tensor<8x13xbf16>) -> tensor<13x8xbf16, #aten.strides<1, 13>>
    %31 = aten.mm(%30, %3) : (tensor<13x8xbf16, #aten.strides<1, 13>>, tensor<8x17xbf16>) -> tensor<13x17xbf16>
    %32 = aten._to_copy(%31, dtype = f32) : (tensor<13x17xbf16>) -> tensor<13x17xf32>
    %33 = fsdp.reduce_scatter.start avg "fc1"(%32) dims [0] over #shard on reduce of [@fc1.weight] : tensor<13x17xf32> -> !fsdp.future<tensor<7x17xf32>>
    %34:2 = fsdp.wait %28 : !fsdp.future<tensor<3x13xf32>, tensor<3xf32>> -> tensor<3x13xf32>, tensor<3xf32>
    %35 = fsdp.wait %33 : !fsdp.future<tensor<7x17xf32>> -> tensor<7x17xf32>
    %36:3 = aten._foreach_norm.Scalar([%35, %34#0, %34#1]) : (tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
    %37 = aten.stack([%36#0, %36#1, %36#2]) : (tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<3xf32>
    %38 = aten.mul.Tensor(%37, %37) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %39 = aten.sum(%38) : (tensor<3xf32>) -> tensor<f32>
    %40 = fsdp.all_reduce.start avg "metrics"(%17, %39) over #shard on reduce : tensor<f32>, tensor<f32> -> !fsdp.future<tensor<f32>, tensor<f32>>
    %41:2 = fsdp.wait %40 : !fsdp.future<tensor<f32>, tensor<f32>> -> tensor<f32>, tensor<f32>
    %42 = aten.mul.Scalar(%41#1, other = 2.000000e+00) : (tensor<f32>) -> tensor<f32>
    %43 = aten.sqrt(%42) : (tensor<f32>) -> tensor<f32>
    %44 = aten.add.Scalar(%43, other = 9.9999999999999995E-7) : (tensor<f32>) -> tensor<f32>
    %45 = aten.div.Scalar(%44, other = 1.000000e+00) : (tensor<f32>) -> tensor<f32>
    %46 = aten.clamp_min(%45, min = 1.000000e+00) : (tensor<f32>) -> tensor<f32>
    %47 = aten.add.Scalar(%arg10, other = 1.000000e+00) : (tensor<f32>) -> tensor<f32>
    %new_params:3, %new_exp_avgs:3, %new_exp_avg_sqs:3 = fsdp.adamw params(%arg0, %arg2, %arg3) grads(%35, %34#0, %34#1) exp_avgs(%arg4, %arg6, %arg8) exp_avg_sqs(%arg5, %arg7, %arg9) step %47 lr %arg11 grad_scale %46 betas(9.000000e-01, 0.94999999999999996) eps 1.000000e-08 weight_decay 1.000000e-01 : tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>
    return %41#0, %43, %new_params#0, %new_params#1, %new_params#2, %new_exp_avgs#0, %new_exp_avgs#1, %new_exp_avgs#2, %new_exp_avg_sqs#0, %new_exp_avg_sqs#1, %new_exp_avg_sqs#2, %47 : tensor<f32>, tensor<f32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<7x17xf32>, tensor<3x13xf32>, tensor<3xf32>, tensor<f32>
  }
}

