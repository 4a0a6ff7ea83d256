// What linear layers multiply in eight bits is cut as it would be in others: a part is cast by the scale of the whole, which ranks find together, and
// eight bits are what travels.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2, plan = [#fsdp.parallel_rule<modules = ["up"], style = colwise>, #fsdp.parallel_rule<modules = ["down"], style = rowwise>]>, float8<modules = ["*"], pad = true>}' --fsdp-float8-linears --fsdp-snapshot-reference --fsdp-partition --fsdp-verify-placed -o %t
// RUN: FileCheck %s < %t
// RUN: fsdp-opt %t --fsdp-verify-equivalent -o /dev/null
//
// A greatest value of a part is no scale of the whole, and no sum either.
//
// RUN: sed -E 's/fsdp.all_reduce max/fsdp.all_reduce sum/' %t | not fsdp-opt - --fsdp-verify-placed 2>&1 | FileCheck %s --check-prefix=SUM
// SUM: 'fsdp.all_reduce' op expects ranks of 'tp' to have a summand of its operand, found the greatest values of its part

// CHECK-LABEL: func.func @"infer/step"
// CHECK-SAME:  (%[[U:[^:]+]]: tensor<6x6xf32> {{[^)]*}}, %[[D:[^:]+]]: tensor<6x6xf32> {{[^)]*}}, %[[X:[^:]+]]: tensor<4x6xf32>
// The input is whole.
// CHECK:       fsdp.amax %[[X]] : tensor<4x6xf32> -> tensor<f32>
// CHECK:       %[[X8:.+]] = fsdp.encode %[[X]]
// Of the first weight ranks have rows.
// CHECK:       %[[M:.+]] = fsdp.amax %[[U]] {{.*}}fsdp.placed = {{\[\[}}#fsdp.placed<greatest over #tp>]]{{.*}} : tensor<6x6xf32> -> tensor<f32>
// CHECK-NEXT:  %[[G:.+]] = fsdp.all_reduce max %[[M]] over #tp for step : tensor<f32>
// CHECK-NEXT:  %[[S:.+]] = fsdp.scale %[[G]]
// CHECK:       %[[U8:.+]] = fsdp.encode %[[U]] by %[[S]] {{.*}}#fsdp.placed<shard over #tp>
// CHECK:       %[[UT:.+]] = aten.t(%[[U8]])
// CHECK:       %[[H:.+]] = aten._scaled_mm(%[[X8]], %[[UT]], {{.*}}#fsdp.placed<shard dim 1 over #tp>{{.*}} -> tensor<4x6xf32>
// CHECK:       %[[R:.+]] = aten.relu(%[[H]])
// CHECK:       fsdp.amax %[[R]]
// CHECK-NEXT:  fsdp.all_reduce max
// The second sums over parts.
// CHECK:       %[[P:.+]] = aten._scaled_mm({{.*}}#fsdp.placed<partial over #tp>{{.*}} -> tensor<4x6xf32>
// CHECK-NEXT:  %[[Y:.+]] = fsdp.all_reduce sum %[[P]] over #tp for step
// CHECK-NEXT:  return %[[Y]]
module {
  fsdp.module "up" class "Linear"
  fsdp.module "down" class "Linear"
  fsdp.state parameter @up.weight : tensor<12x6xf32>
  fsdp.state parameter @down.weight : tensor<6x12xf32>
  func.func @"infer/step"(%wu: tensor<12x6xf32> {fsdp.state = @up.weight}, %wd: tensor<6x12xf32> {fsdp.state = @down.weight}, %x: tensor<4x6xf32> {fsdp.input = "x"})
      -> (tensor<4x6xf32> {fsdp.output = "y"}) attributes {fsdp.captured, fsdp.program = #fsdp.program<kind = infer>} {
    %tu = aten.t(%wu) : (tensor<12x6xf32>) -> tensor<6x12xf32, #aten.strides<1, 6>>
    %h = aten.mm(%x, %tu) : (tensor<4x6xf32>, tensor<6x12xf32, #aten.strides<1, 6>>) -> tensor<4x12xf32> loc("up")
    %r = aten.relu(%h) : (tensor<4x12xf32>) -> tensor<4x12xf32>
    %td = aten.t(%wd) : (tensor<6x12xf32>) -> tensor<12x6xf32, #aten.strides<1, 12>>
    %y = aten.mm(%r, %td) : (tensor<4x12xf32>, tensor<12x6xf32, #aten.strides<1, 12>>) -> tensor<4x6xf32> loc("down")
    return %y : tensor<4x6xf32>
  }
}
