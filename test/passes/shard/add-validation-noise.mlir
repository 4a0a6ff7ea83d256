// RUN: fsdp-opt %s --fsdp-annotate='with={validation<files = ["held"]>}' --fsdp-add-validation --split-input-file --verify-diagnostics | FileCheck %s

// Validation reads the embedding without the noise that is drawn at site 1; another
// draw stays.

module attributes {fsdp.noise = #fsdp.noise<alpha = 5.0, sites = [1]>} {
  fsdp.state random @"random/state" : tensor<2xi64>
  // CHECK-LABEL: func.func @"train/step"
  // CHECK:       fsdp.draw uniform
  // CHECK-LABEL: func.func @"eval/step"
  // CHECK-SAME:  (%[[R:.+]]: tensor<2xi64> {fsdp.state = @"random/state"}, %[[X:.+]]: tensor<4xf32>
  // CHECK-NEXT:  %[[MASK:.+]] = fsdp.draw bernoulli
  // CHECK-NEXT:  %[[M:.+]] = aten.mul.Tensor(%[[X]], %[[MASK]])
  // CHECK-NEXT:  aten.sum(%[[M]])
  func.func @"train/step"(%random: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xi64> {fsdp.state = @"random/state"}) attributes {fsdp.captured} {
    %mask = fsdp.draw bernoulli with [0.5] site 0 from %random : (tensor<2xi64>) -> tensor<4xf32>
    %noise = fsdp.draw uniform with [-0.5, 0.5] site 1 from %random : (tensor<2xi64>) -> tensor<4xf32>
    %disturbed = aten.add.Tensor(%x, %noise) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %masked = aten.mul.Tensor(%disturbed, %mask) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = aten.sum(%masked) : (tensor<4xf32>) -> tensor<f32>
    return %loss, %random : tensor<f32>, tensor<2xi64>
  }
}

// -----

module attributes {fsdp.noise = #fsdp.noise<alpha = 5.0, sites = [0]>} {
  fsdp.state random @"random/state" : tensor<2xi64>
  func.func @"train/step"(%random: tensor<2xi64> {fsdp.state = @"random/state"}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %noise = fsdp.draw uniform with [-0.5, 0.5] site 0 from %random : (tensor<2xi64>) -> tensor<4xf32>
    // expected-error @+1 {{expected noise to be added to an embedding}}
    %disturbed = aten.mul.Tensor(%x, %noise) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %loss = aten.sum(%disturbed) : (tensor<4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
