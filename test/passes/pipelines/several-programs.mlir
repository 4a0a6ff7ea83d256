// Programs of one entry share states, buckets and the optimizer's states; each
// keeps a reference, a schedule and transient addresses of its own.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>}' --fsdp-shard-pipeline -o %t.2
// RUN: FileCheck %s --check-prefix=SHARD < %t.2
// RUN: fsdp-opt %t.2 --fsdp-schedule-pipeline --fsdp-plan-pipeline -o %t.4
// RUN: FileCheck %s --check-prefix=PLAN < %t.4
// RUN: fsdp-opt %t.4 -o %t.fsdp
// RUN: fsdp-opt %t.fsdp -o - | FileCheck %s --check-prefix=ARTIFACT
//
// A program that computes something else is compared with its own reference.
//
// RUN: sed '/"train\/step\[x.0=5\]"/,/aten.sum/ s/aten.mul.Tensor/aten.sub.Tensor/' %t.2 > %t.changed
// RUN: not diff %t.2 %t.changed
// RUN: not fsdp-opt %t.changed --fsdp-verify-equivalent 2>&1 | FileCheck %s --check-prefix=CHANGED
// CHANGED: the output 'loss' differs from what was captured
//
// Names say nothing: the same programs called otherwise become the same.
//
// RUN: sed 's|train/step.x.0=2.|1/2|; s|train/step.x.0=5.|1/5|' %s | fsdp-opt --fsdp-annotate='with={shards<world = 2>}' --fsdp-pipeline -o %t.called
// RUN: sed 's|train/step.x.0=2.|1/2|; s|train/step.x.0=5.|1/5|' %t.4 | diff - %t.called

// SHARD: fsdp.state parameter @w :
// SHARD-COUNT-2: fsdp.state optimizer @"w/exp_avg{{(_sq)?}}"
// SHARD: fsdp.state step @"optimizer/step"
// SHARD: fsdp.state learning_rate @"optimizer/lr"
// SHARD-NOT: fsdp.state {{optimizer|step|learning_rate}}
// SHARD: func.func @"train/step[x.0=2]"
// SHARD-SAME: {fsdp.state = @"w/exp_avg"}
// SHARD: fsdp.update adamw
// SHARD: func.func @"train/step[x.0=5]"
// SHARD-SAME: {fsdp.state = @"w/exp_avg"}
// SHARD: fsdp.update adamw
// SHARD: func.func @"reference/train/step[x.0=2]"
// SHARD: func.func @"reference/train/step[x.0=5]"

// The states' addresses are the module's; both programs begin above them, and
// the arena ends with the larger one.
//
// PLAN: fsdp.memory = {{.*}}peak = [[PEAK:[0-9]+]]
// PLAN: fsdp.state parameter @w {{.*}} at 0
// PLAN: func.func @"train/step[x.0=2]"
// PLAN: func.func @"train/step[x.0=5]"
// PLAN-NOT: reference

// ARTIFACT: {{^}}inputs
// ARTIFACT-NEXT: "x" : f32[2, 4]
// ARTIFACT-NEXT: "x" : f32[5, 4]
// ARTIFACT: program "train/step[x.0=2]"
// ARTIFACT: program "train/step[x.0=5]"
module {
  fsdp.state parameter @w : tensor<4xf32>
  func.func @"train/step[x.0=2]"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<2x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<shapes = "x.0=2">, fsdp.captured} {
    %p = aten.mul.Tensor(%w, %x) : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %l = aten.sum(%p) : (tensor<2x4xf32>) -> tensor<f32>
    %g = aten.sum.dim_IntList(%x) {dim = [0]} : (tensor<2x4xf32>) -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
  func.func @"train/step[x.0=5]"(%w: tensor<4xf32> {fsdp.state = @w}, %x: tensor<5x4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @w}) attributes {fsdp.program = #fsdp.program<shapes = "x.0=5">, fsdp.captured} {
    %p = aten.mul.Tensor(%w, %x) : (tensor<4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
    %l = aten.sum(%p) : (tensor<5x4xf32>) -> tensor<f32>
    %g = aten.sum.dim_IntList(%x) {dim = [0]} : (tensor<5x4xf32>) -> tensor<4xf32>
    return %l, %g : tensor<f32>, tensor<4xf32>
  }
}
