// RUN: echo '{mesh: {dp_replicate: 2, dp_shard: 2, tp: 2}}' > %t.yaml
// RUN: fsdp-opt %s --explain --config=%t.yaml | FileCheck %s
// RUN: echo '{mesh: {tp: 16}}' > %t.many.yaml
// RUN: fsdp-opt %s --explain --config=%t.many.yaml --world=256 | FileCheck %s --check-prefix=MANY
// RUN: echo '{mesh: {dp_shard: 4}}' > %t.one.yaml
// RUN: fsdp-opt %s --explain --config=%t.one.yaml | FileCheck %s --check-prefix=ONE
// RUN: echo '{mesh: {tp: 2}}' > %t.open.yaml
// RUN: not fsdp-opt %s --explain --config=%t.open.yaml 2>&1 | FileCheck %s --check-prefix=OPEN

// A mesh of several axes is drawn: a row is what one rank is without 'tp'.

// CHECK:      8 ranks, each 2 of a row read one batch
// CHECK-NEXT: replica shard tp 0 tp 1
// CHECK-NEXT: 0 0 0 1
// CHECK-NEXT: 0 1 2 3
// CHECK-NEXT: 1 0 4 5
// CHECK-NEXT: 1 1 6 7
// CHECK-NEXT: ranks of exchange groups
// CHECK-NEXT: tp what they compute of one batch together 0 1 | 2 3 | 4 5 | 6 7
// CHECK-NEXT: dp_shard parameters and gradients 0 2 | 1 3 | 4 6 | 5 7
// CHECK-NEXT: dp_replicate gradients of their shards 0 4 | 1 5 | 2 6 | 3 7

// MANY:      256 ranks, each 16 of a row read one batch
// MANY-NEXT: replica shard tp 0 tp 1 tp 2 … tp 15
// MANY-NEXT: 0 0 0 1 2 … 15
// MANY-NEXT: 0 1 16 17 18 … 31
// MANY-NEXT: 0 2 32 33 34 … 47
// MANY-NEXT: … … … … … … …
// MANY-NEXT: 0 15 240 241 242 … 255
// MANY:      dp_shard parameters and gradients 0 16 32 … 240 | 1 17 33 … 241 | 2 18 34 … 242 | … | 15 31 47 … 255

// ONE-NOT:   read one batch
// ONE-NOT:   exchange

// OPEN:      E046]: {{.*}}the number of ranks is missing; add mesh: {dp_shard: N}
module {
  fsdp.state parameter @w : tensor<32x4xf32>
  func.func @"train/step"(%w: tensor<32x4xf32> {fsdp.state = @w}, %x: tensor<4x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<32x4xf32> {fsdp.gradient = @w}) attributes {fsdp.captured} {
    %h = aten.mm(%w, %x) : (tensor<32x4xf32>, tensor<4x4xf32>) -> tensor<32x4xf32>
    %l = aten.sum(%h) : (tensor<32x4xf32>) -> tensor<f32>
    return %l, %h : tensor<f32>, tensor<32x4xf32>
  }
}
