// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>}' --fsdp-shard-parameters --split-input-file --verify-diagnostics
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 6, replicate = 4>}' --fsdp-shard-parameters --split-input-file 2>&1 | FileCheck %s --check-prefix=REPLICAS
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 2, ignore = ["*.bias"]>}' --fsdp-shard-parameters --split-input-file 2>&1 | FileCheck %s --check-prefix=IGNORE

// REPLICAS: expected a number of replicas that divides the 6 ranks, found 4
// IGNORE:   expected parameters whose names match '*.bias', found none

// expected-error @+1 {{is sharded already: it carries 'fsdp.mesh'}}
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
}

// -----

module {
  // expected-error @+1 {{expects a parameter that is contiguous, found strides; call contiguous() on it before the export}}
  fsdp.state frozen @w : tensor<4x2xf32>
  func.func @"train/step"(%w: tensor<4x2xf32, #aten.strides<1, 4>> {fsdp.state = @w}, %x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    return %x : tensor<f32>
  }
}
