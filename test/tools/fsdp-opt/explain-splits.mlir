// The plan that was found, or told, is listed with the shapes of a rank's parts; parameters that are alike in all layers share a line. Remarks say why.
//
// RUN: echo '{mesh: {dp_shard: 2, tp: 2}}' > %t.yaml
// RUN: fsdp-opt %s --explain --config=%t.yaml | FileCheck %s
// RUN: echo '{mesh: {dp_shard: 2, tp: 2}, tp_plan: {"layers.0.up": colwise, "layers.0.down": rowwise}}' > %t.told.yaml
// RUN: fsdp-opt %s --explain --config=%t.told.yaml | FileCheck %s --check-prefix=TOLD
// RUN: echo '{mesh: {dp_shard: 4}}' > %t.one.yaml
// RUN: fsdp-opt %s --explain --config=%t.one.yaml | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %s --config=%t.yaml --remarks-filter=parallel -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK:      tensor-parallel plan, found in the program: 4 parameters split over 2 ranks, 0 whole on each
// CHECK-NEXT: parameter tensors split along from to a rank's
// CHECK-NEXT: layers.*.up.weight 2 dim 0 [12,6] [6,6]
// CHECK-NEXT: layers.*.down.weight 2 dim 1 [6,12] [6,6]

// TOLD:       tensor-parallel plan, as tp_plan says: 2 parameters split over 2 ranks, 2 whole on each
// TOLD-NEXT:  parameter
// TOLD-NEXT:  layers.0.up.weight 1 dim 0 [12,6] [6,6]
// TOLD-NEXT:  layers.0.down.weight 1 dim 1 [6,12] [6,6]

// ONE-NOT:    tensor-parallel plan

// REMARK-DAG: {{.*}}'layers.0.up.weight' is split along dim 0 over 2 ranks, since all that is computed of it can be computed in parts
// REMARK-DAG: {{.*}}'layers.1.down.weight' is split along dim 1 over 2 ranks
// REMARK-NOT: ComputedWhole
module {
  fsdp.module "" class "Model"
  fsdp.module "layers.0" class "Block"
  fsdp.module "layers.0.up" class "Linear"
  fsdp.module "layers.0.down" class "Linear"
  fsdp.module "layers.1" class "Block"
  fsdp.module "layers.1.up" class "Linear"
  fsdp.module "layers.1.down" class "Linear"
  fsdp.state frozen @layers.0.up.weight : tensor<12x6xf32>
  fsdp.state frozen @layers.0.down.weight : tensor<6x12xf32>
  fsdp.state frozen @layers.1.up.weight : tensor<12x6xf32>
  fsdp.state parameter @layers.1.down.weight : tensor<6x12xf32>
  func.func @"train/step"(%u0: tensor<12x6xf32> {fsdp.state = @layers.0.up.weight}, %d0: tensor<6x12xf32> {fsdp.state = @layers.0.down.weight},
                          %u1: tensor<12x6xf32> {fsdp.state = @layers.1.up.weight}, %d1: tensor<6x12xf32> {fsdp.state = @layers.1.down.weight},
                          %x: tensor<4x6xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<6x12xf32> {fsdp.gradient = @layers.1.down.weight}) attributes {fsdp.captured} {
    %tu0 = aten.t(%u0) : (tensor<12x6xf32>) -> tensor<6x12xf32, #aten.strides<1, 6>>
    %h0 = aten.mm(%x, %tu0) : (tensor<4x6xf32>, tensor<6x12xf32, #aten.strides<1, 6>>) -> tensor<4x12xf32>
    %r0 = aten.relu(%h0) : (tensor<4x12xf32>) -> tensor<4x12xf32>
    %td0 = aten.t(%d0) : (tensor<6x12xf32>) -> tensor<12x6xf32, #aten.strides<1, 12>>
    %y0 = aten.mm(%r0, %td0) : (tensor<4x12xf32>, tensor<12x6xf32, #aten.strides<1, 12>>) -> tensor<4x6xf32>
    %s0 = aten.add.Tensor(%x, %y0) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %tu1 = aten.t(%u1) : (tensor<12x6xf32>) -> tensor<6x12xf32, #aten.strides<1, 6>>
    %h1 = aten.mm(%s0, %tu1) : (tensor<4x6xf32>, tensor<6x12xf32, #aten.strides<1, 6>>) -> tensor<4x12xf32>
    %r1 = aten.relu(%h1) : (tensor<4x12xf32>) -> tensor<4x12xf32>
    %td1 = aten.t(%d1) : (tensor<6x12xf32>) -> tensor<12x6xf32, #aten.strides<1, 12>>
    %y1 = aten.mm(%r1, %td1) : (tensor<4x12xf32>, tensor<12x6xf32, #aten.strides<1, 12>>) -> tensor<4x6xf32>
    %s1 = aten.add.Tensor(%s0, %y1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %z = aten.mul.Tensor(%s1, %s1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
    %l = aten.sum(%z) : (tensor<4x6xf32>) -> tensor<f32>
    %g = aten.mul.Scalar(%s1, other = 2.0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
    %gt = aten.t(%g) : (tensor<4x6xf32>) -> tensor<6x4xf32, #aten.strides<1, 6>>
    %gd = aten.mm(%gt, %r1) : (tensor<6x4xf32, #aten.strides<1, 6>>, tensor<4x12xf32>) -> tensor<6x12xf32>
    return %l, %gd : tensor<f32>, tensor<6x12xf32>
  }
}
