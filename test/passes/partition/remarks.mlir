// Who asks is told which parameters are split, and which operators every rank computes whole at the price of an exchange, for want of a rule or of a
// dim that it keeps; not of the sums that a plan is made for.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, plan = [#fsdp.parallel_rule<modules = ["up"], style = colwise>]>}' --fsdp-snapshot-reference --fsdp-partition --fsdp-verify-placed --remarks-filter=parallel -o %t 2>&1 | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHOLE < %t

// CHECK-DAG: {{.*}}'up.weight' is split along dim 0 over 2 ranks, as the plan says
// CHECK-DAG: {{.*}}aten.roll is computed whole by every rank, since it has no rule for parts; 96 bytes are exchanged for it
// CHECK-DAG: {{.*}}aten._softmax is computed whole by every rank, since it has no rule for parts along the dims of its operands; 96 bytes are exchanged for it

// WHOLE:      %[[H:.+]] = aten.mm({{.*}} -> tensor<4x6xf32>
// WHOLE-NEXT: %[[G:.+]] = fsdp.all_gather %[[H]] dim 1 over #tp for step : tensor<4x6xf32> -> tensor<4x12xf32>
// WHOLE-NEXT: aten.roll(%[[G]]
// WHOLE:      %[[F:.+]] = fsdp.all_gather %{{.+}} dim 1 over #tp for step : tensor<4x6xf32> -> tensor<4x12xf32>
// WHOLE-NEXT: aten._softmax(%[[F]]
module {
  fsdp.module "" class "Model"
  fsdp.module "up" class "Linear"
  fsdp.state frozen @up.weight : tensor<12x6xf32>
  func.func @"train/step"(%wu: tensor<12x6xf32> {fsdp.state = @up.weight}, %x: tensor<4x6xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.captured} {
    %tu = aten.t(%wu) : (tensor<12x6xf32>) -> tensor<6x12xf32, #aten.strides<1, 6>>
    %h = aten.mm(%x, %tu) : (tensor<4x6xf32>, tensor<6x12xf32, #aten.strides<1, 6>>) -> tensor<4x12xf32>
    %r = aten.roll(%h, shifts = [1], dims = [1]) : (tensor<4x12xf32>) -> tensor<4x12xf32>
    %q = aten.relu(%h) : (tensor<4x12xf32>) -> tensor<4x12xf32>
    %s = aten._softmax(%q, dim = 1, half_to_float = false) : (tensor<4x12xf32>) -> tensor<4x12xf32>
    %a = aten.add.Tensor(%r, %s) : (tensor<4x12xf32>, tensor<4x12xf32>) -> tensor<4x12xf32>
    %l = aten.sum(%a) : (tensor<4x12xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}
