// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2, dims = [#fsdp.dim_rule<params = ["*"]>, #fsdp.dim_rule<params = ["b"], dim = 0>]>}' --fsdp-shard-parameters | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 2, dims = [#fsdp.dim_rule<params = ["*"], dim = 1>]>}' --fsdp-shard-parameters 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 2, dims = [#fsdp.dim_rule<params = ["c"], dim = 1>]>}' --fsdp-shard-parameters 2>&1 | FileCheck %s --check-prefix=UNMATCHED
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 2, dims = [#fsdp.dim_rule<params = ["a"], dim = -1>]>}' --fsdp-shard-parameters 2>&1 | FileCheck %s --check-prefix=VALUE

// RANK:      expects a dim below its 1 to shard, found 1 by '*'
// UNMATCHED: expected parameters whose names match 'c', found none
// VALUE:     expected 'dim' to be a number from 0, found -1

// The last rule that matches counts. Seven columns are four a rank.

// CHECK:       fsdp.state parameter @a : tensor<3x7xf32> sharded <dim 1 over #[[SHARD:.+]]>
// CHECK-NEXT:  fsdp.state frozen @b : tensor<2x5xf32> sharded <dim 0 over #[[SHARD]]>
// CHECK-NEXT:  fsdp.state frozen @d : tensor<3xf32> sharded <dim 0 over #[[SHARD]]>
// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[A:[^:]+]]: tensor<3x4xf32> {fsdp.state = @a}
// CHECK:       %[[F:.+]] = fsdp.all_gather %[[A]] dim 1 over #[[SHARD]] : tensor<3x4xf32> -> tensor<3x7xf32>
// CHECK:       fsdp.reduce_scatter avg %[[F]] dim 1 over #[[SHARD]] of @a : tensor<3x7xf32> -> tensor<3x4xf32>
module {
  fsdp.state parameter @a : tensor<3x7xf32>
  fsdp.state frozen @b : tensor<2x5xf32>
  fsdp.state frozen @d : tensor<3xf32>
  func.func @"train/step"(%a: tensor<3x7xf32> {fsdp.state = @a}, %b: tensor<2x5xf32> {fsdp.state = @b}, %d: tensor<3xf32> {fsdp.state = @d})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<3x7xf32> {fsdp.gradient = @a}) attributes {fsdp.captured} {
    %l = aten.sum(%a) : (tensor<3x7xf32>) -> tensor<f32>
    return %l, %a : tensor<f32>, tensor<3x7xf32>
  }
}
