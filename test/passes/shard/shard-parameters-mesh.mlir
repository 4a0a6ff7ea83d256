// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 6, replicate = 2>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,HSDP
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 3, replicate = 3>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,DDP
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 3, ignore = ["w", "b*"]>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,IGNORE
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 3, ignore = ["w", "b*"], keep_ignored_local = true>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,LOCAL
// RUN: fsdp-opt %s --fsdp-annotate='with={shards<world = 1, ignore = ["w"], keep_ignored_local = true>}' --fsdp-shard-parameters | FileCheck %s --check-prefixes=CHECK,ONE

// Replicas add up the shards; a scalar, which has no rows, is averaged whole over
// all ranks. With replicas alone nothing is cut. Ignored parameters, by any of
// their names, are treated as scalars; on request each rank trains its own.

// HSDP-DAG:   #[[MESH:.+]] = #fsdp.mesh<replicate = 2, shard = 3>
// HSDP-DAG:   #[[SHARD:.+]] = #fsdp.group<"shard", 3>
// HSDP-DAG:   #[[REPLICATE:.+]] = #fsdp.group<"replicate", 2 : 3>
// HSDP-DAG:   #[[WORLD:.+]] = #fsdp.group<"world", 6>
// HSDP:       fsdp.state parameter @w : tensor<5x3xf32> sharded <dim 0 over #[[SHARD]]>
// HSDP-NEXT:  fsdp.state parameter @s : tensor<f32>{{$}}
// HSDP-NEXT:  fsdp.state frozen @f : tensor<3xf32> sharded <dim 0 over #[[SHARD]]> names ["f", "bias"]

// DDP-DAG:    #[[MESH:.+]] = #fsdp.mesh<replicate = 3, shard = 1>
// DDP-DAG:    #[[REPLICATE:.+]] = #fsdp.group<"replicate", 3>
// DDP:        fsdp.state parameter @w : tensor<5x3xf32>{{$}}

// IGNORE-DAG: #[[SHARD:.+]] = #fsdp.group<"shard", 3>
// IGNORE:     fsdp.state parameter @w : tensor<5x3xf32>{{$}}
// IGNORE:     fsdp.state frozen @f : tensor<3xf32> names

// LOCAL-DAG:  #[[SHARD:.+]] = #fsdp.group<"shard", 3>
// LOCAL:      fsdp.state parameter @w : tensor<5x3xf32> gradient <local>
// LOCAL:      fsdp.state frozen @f : tensor<3xf32> names ["f", "bias"]{{$}}

// ONE-NOT:    {{ }}local

// CHECK-LABEL: func.func @"train/step"
// HSDP-SAME:   %[[W:[^:]+]]: tensor<2x3xf32> {fsdp.state = @w}, %[[S:[^:]+]]: tensor<f32> {fsdp.state = @s}
// HSDP:        %[[F:.+]] = fsdp.all_gather %[[W]] dim 0 over #[[SHARD]]
// HSDP-NEXT:   %[[P:.+]] = aten.mul.Tensor(%[[F]], %[[S]])
// HSDP-NEXT:   %[[R:.+]] = fsdp.reduce_scatter avg %[[P]] dim 0 over #[[SHARD]] of @w : tensor<5x3xf32> -> tensor<2x3xf32>
// HSDP-NEXT:   %[[A:.+]] = fsdp.all_reduce avg %[[R]] over #[[REPLICATE]] of @w : tensor<2x3xf32>
// HSDP-NEXT:   %[[L:.+]] = aten.sum(%[[P]])
// HSDP-NEXT:   %[[G:.+]] = fsdp.all_reduce avg %[[L]] over #[[WORLD]] of @s : tensor<f32>
// HSDP-NEXT:   aten.neg
// HSDP-NEXT:   return %{{.+}}, %[[A]], %[[G]]

// DDP-NOT:     fsdp.all_gather
// DDP:         %[[P:.+]] = aten.mul.Tensor
// DDP-NEXT:    %[[A:.+]] = fsdp.all_reduce avg %[[P]] over #[[REPLICATE]] of @w : tensor<5x3xf32>
// DDP:         fsdp.all_reduce avg %{{.+}} over #[[REPLICATE]] of @s : tensor<f32>

// IGNORE-NOT:  fsdp.all_gather
// IGNORE:      fsdp.all_reduce avg %{{.+}} over #[[SHARD]] of @w : tensor<5x3xf32>
// IGNORE:      fsdp.all_reduce avg %{{.+}} over #[[SHARD]] of @s : tensor<f32>

// LOCAL-NOT:   of @w
// LOCAL:       fsdp.all_reduce avg %{{.+}} over #[[SHARD]] of @s : tensor<f32>
// LOCAL-NOT:   of @w

// ONE-NOT:     fsdp.all_reduce
module {
  fsdp.state parameter @w : tensor<5x3xf32>
  fsdp.state parameter @s : tensor<f32>
  fsdp.state frozen @f : tensor<3xf32> names ["f", "bias"]
  func.func @"train/step"(%w: tensor<5x3xf32> {fsdp.state = @w}, %s: tensor<f32> {fsdp.state = @s}, %f: tensor<3xf32> {fsdp.state = @f})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<5x3xf32> {fsdp.gradient = @w}, tensor<f32> {fsdp.gradient = @s}) attributes {fsdp.captured} {
    %p = aten.mul.Tensor(%w, %s) : (tensor<5x3xf32>, tensor<f32>) -> tensor<5x3xf32>
    %l = aten.sum(%p) : (tensor<5x3xf32>) -> tensor<f32>
    %k = aten.neg(%l) : (tensor<f32>) -> tensor<f32>
    return %k, %p, %l : tensor<f32>, tensor<5x3xf32>, tensor<f32>
  }
}
