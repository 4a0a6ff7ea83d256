// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 12, replicate = 2>, parallel<tp = 2>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,THREE
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 6>, parallel<tp = 2>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2>, parallel<tp = 2>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,ALONE
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 6, ignore = ["*"], keep_ignored_local = true>, parallel<tp = 2>}' --fsdp-shard-parameters | FileCheck %s --check-prefix=LOCAL
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 2, ignore = ["*"], keep_ignored_local = true>, parallel<tp = 2>}' --fsdp-shard-parameters | FileCheck %s --check-prefix=NONE
// RUN: not fsdp-opt %s --fsdp-annotate='with={shards<world = 6, replicate = 2>, parallel<tp = 2>}' --fsdp-shard-parameters 2>&1 | FileCheck %s --check-prefix=BAD

// Ranks along 'tp' are adjacent: shards lie that far apart. What is split is cut
// again, on whichever dim; gradients are complete along 'tp' and averaged over the
// ranks that read different data.

// BAD: expected numbers of replicas, of tensor and of context parallel ranks whose product divides the 6 ranks, found 2, 2 and 1

// THREE-DAG:   #[[MESH:.+]] = #fsdp.mesh<replicate = 2, shard = 3, tp = 2>
// THREE-DAG:   #[[SHARD:.+]] = #fsdp.group<"shard", 3 : 2>
// THREE-DAG:   #[[REPLICATE:.+]] = #fsdp.group<"replicate", 2 : 6>
// THREE-DAG:   #[[DATA:.+]] = #fsdp.group<"data", 6 : 2>
// THREE-DAG:   #[[TP:.+]] = #fsdp.group<"tp", 2>
// THREE:       fsdp.state parameter @w : tensor<6x4xf32> split <dim 0 over #[[TP]]> sharded <dim 0 over #[[SHARD]]>
// THREE-NEXT:  fsdp.state parameter @s : tensor<f32>{{$}}

// TWO-DAG:     #[[MESH:.+]] = #fsdp.mesh<shard = 3, tp = 2>
// TWO-DAG:     #[[SHARD:.+]] = #fsdp.group<"shard", 3 : 2>
// TWO-NOT:     "data"

// ALONE-DAG:   #[[MESH:.+]] = #fsdp.mesh<shard = 1, tp = 2>
// ALONE:       fsdp.state parameter @w : tensor<6x4xf32> split <dim 0 over #{{.+}}>{{$}}

// LOCAL:       fsdp.state parameter @w : tensor<6x4xf32> split <dim 0 over #{{.+}}> gradient <local>
// NONE:        fsdp.state parameter @w
// NONE-NOT:    gradient <local>

// CHECK-LABEL: func.func @"train/step"
// THREE:       %[[F:.+]] = fsdp.all_gather %{{.+}} dim 0 over #[[SHARD]] : tensor<2x4xf32> -> tensor<6x4xf32>
// THREE-NEXT:  fsdp.all_gather %[[F]] dim 0 over #[[TP]] for step
// THREE:       fsdp.all_reduce avg %{{.+}} over #[[DATA]] of @s : tensor<f32>
// THREE:       %[[R:.+]] = fsdp.reduce_scatter avg %{{.+}} dim 0 over #[[SHARD]] of @w
// THREE-NEXT:  fsdp.all_reduce avg %[[R]] over #[[REPLICATE]] of @w
// TWO:         fsdp.all_reduce avg %{{.+}} over #[[SHARD]] of @s : tensor<f32>
// ALONE:       fsdp.all_gather %{{.+}} dim 0 over #{{.+}} : tensor<6x4xf32> -> tensor<12x4xf32>
// ALONE-NOT:   fsdp.all_reduce
// ALONE-NOT:   fsdp.reduce_scatter
#tp = #fsdp.group<"tp", 2>
module {
  fsdp.state parameter @w : tensor<6x4xf32> split <dim 0 over #tp>
  fsdp.state parameter @s : tensor<f32>
  func.func @"train/step"(%w: tensor<6x4xf32> {fsdp.state = @w}, %s: tensor<f32> {fsdp.state = @s}, %g: tensor<6x4xf32> {fsdp.input = "g"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<6x4xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.gradient = @s}) attributes {fsdp.captured} {
    %a = fsdp.all_gather %w dim 0 over #tp for step : tensor<6x4xf32> -> tensor<12x4xf32>
    %l = aten.sum(%a) : (tensor<12x4xf32>) -> tensor<f32>
    %k = aten.mul.Tensor(%l, %s) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    %m = aten.neg(%g) : (tensor<6x4xf32>) -> tensor<6x4xf32>
    return %k, %m, %l : tensor<f32>, tensor<6x4xf32>, tensor<f32>
  }
}
