// Stage 1, captured: the joint graph of a two-layer perceptron (batch 8, fc1
// 17 -> 13 with a frozen bias, relu, fc2 13 -> 5, mean squared error) as the model
// computes it in bf16.
//
// RUN: fsdp-opt %s --verify-roundtrip | grep -v "^$" > %t
// RUN: grep -vE "^(//|$)" %s | diff - %t
// RUN: fsdp-opt %s --emit-bytecode | fsdp-opt | grep -v "^$" | diff %t -

module @mlp attributes {fsdp.model = #fsdp.model<"mlp.pt2", 51234, "9f86d081884c7d65", torch "2.11.0">} {
  fsdp.module "fc1" class "Linear"
  fsdp.module "fc2" class "Linear"
  fsdp.state parameter @fc1.weight : tensor<13x17xf32> source <"data/weights/weight_0" at 1472 : 884 crc 6188>
  fsdp.state frozen @fc1.bias : tensor<13xf32> source <"data/weights/weight_1" at 2432 : 52 crc 364>
  fsdp.state parameter @fc2.weight : tensor<5x13xf32> source <"data/weights/weight_2" at 2560 : 260 crc 1820>
  fsdp.state parameter @fc2.bias : tensor<5xf32> source <"data/weights/weight_3" at 2880 : 20 crc 140>
  func.func @"train/step"(%arg0: tensor<13x17xf32> {fsdp.state = @fc1.weight}, %arg1: tensor<13xf32> {fsdp.state = @fc1.bias}, %arg2: tensor<5x13xf32> {fsdp.state = @fc2.weight}, %arg3: tensor<5xf32> {fsdp.state = @fc2.bias}, %arg4: tensor<8x17xf32> {fsdp.input = "x", fsdp.sample = #fsdp.record<"data/sample_inputs/0" at 4096 : 544>}, %arg5: tensor<8x5xf32> {fsdp.input = "y", fsdp.sample = #fsdp.record<"data/sample_inputs/1" at 4736 : 160>}) -> (tensor<f32> {fsdp.output = "loss"}, tensor<13x17xf32> {fsdp.gradient = @fc1.weight}, tensor<5x13xf32> {fsdp.gradient = @fc2.weight}, tensor<5xf32> {fsdp.gradient = @fc2.bias}) attributes {fsdp.captured} {
    %0 = aten._to_copy(%arg4, dtype = bf16) : (tensor<8x17xf32>) -> tensor<8x17xbf16>
    %1 = aten._to_copy(%arg0, dtype = bf16) : (tensor<13x17xf32>) -> tensor<13x17xbf16>
    %2 = aten._to_copy(%arg1, dtype = bf16) : (tensor<13xf32>) -> tensor<13xbf16>
    %3 = aten.t(%1) : (tensor<13x17xbf16>) -> tensor<17x13xbf16, #aten.strides<1, 17>>
    %4 = aten.addmm(%2, %0, %3) : (tensor<13xbf16>, tensor<8x17xbf16>, tensor<17x13xbf16, #aten.strides<1, 17>>) -> tensor<8x13xbf16>
    %5 = aten.relu(%4) : (tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %6 = aten._to_copy(%arg2, dtype = bf16) : (tensor<5x13xf32>) -> tensor<5x13xbf16>
    %7 = aten._to_copy(%arg3, dtype = bf16) : (tensor<5xf32>) -> tensor<5xbf16>
    %8 = aten.t(%6) : (tensor<5x13xbf16>) -> tensor<13x5xbf16, #aten.strides<1, 13>>
    %9 = aten.addmm(%7, %5, %8) : (tensor<5xbf16>, tensor<8x13xbf16>, tensor<13x5xbf16, #aten.strides<1, 13>>) -> tensor<8x5xbf16>
    %10 = aten._to_copy(%9, dtype = f32) : (tensor<8x5xbf16>) -> tensor<8x5xf32>
    %11 = aten.mse_loss(%10, %arg5) : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<f32>
    %12 = aten.ones_like(%11) : (tensor<f32>) -> tensor<f32>
    %13 = aten.mse_loss_backward(%12, %10, %arg5, reduction = 1) : (tensor<f32>, tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    %14 = aten._to_copy(%13, dtype = bf16) : (tensor<8x5xf32>) -> tensor<8x5xbf16>
    %15 = aten.mm(%14, %6) : (tensor<8x5xbf16>, tensor<5x13xbf16>) -> tensor<8x13xbf16>
    %16 = aten.t(%14) : (tensor<8x5xbf16>) -> tensor<5x8xbf16, #aten.strides<1, 5>>
    %17 = aten.mm(%16, %5) : (tensor<5x8xbf16, #aten.strides<1, 5>>, tensor<8x13xbf16>) -> tensor<5x13xbf16>
    %18 = aten.sum.dim_IntList(%14, dim = [0]) : (tensor<8x5xbf16>) -> tensor<5xbf16>
    %19 = aten._to_copy(%17, dtype = f32) : (tensor<5x13xbf16>) -> tensor<5x13xf32>
    %20 = aten._to_copy(%18, dtype = f32) : (tensor<5xbf16>) -> tensor<5xf32>
    %21 = aten.threshold_backward(%15, %5, threshold = 0) : (tensor<8x13xbf16>, tensor<8x13xbf16>) -> tensor<8x13xbf16>
    %22 = aten.t(%21) : (tensor<8x13xbf16>) -> tensor<13x8xbf16, #aten.strides<1, 13>>
    %23 = aten.mm(%22, %0) : (tensor<13x8xbf16, #aten.strides<1, 13>>, tensor<8x17xbf16>) -> tensor<13x17xbf16>
    %24 = aten._to_copy(%23, dtype = f32) : (tensor<13x17xbf16>) -> tensor<13x17xf32>
    return %11, %24, %19, %20 : tensor<f32>, tensor<13x17xf32>, tensor<5x13xf32>, tensor<5xf32>
  }
}
