// What CSE and canonicalization may and may not do: a replay keeps what lies
// behind it, an unread wait stays, and a gather of a shard is the tensor.
// RUN: fsdp-opt %s --cse --canonicalize | FileCheck %s
// RUN: fsdp-opt %stages/2-sharded.mlir --cse --canonicalize | grep -c "fsdp.all_gather " | FileCheck %s --check-prefix=GATHERS
// RUN: sed -E ":a;N;\$!ba;s/(%[0-9]+) = fsdp.replay (%[0-9]+) : [^\n]*\n([^\n]*all_gather )\1 /\3\2 /" %stages/2-sharded.mlir > %t
// RUN: not grep fsdp.replay %t
// RUN: fsdp-opt %t --cse --canonicalize | grep -c "fsdp.all_gather " | FileCheck %s --check-prefix=MERGED
// RUN: fsdp-opt %stages/2b-recompute.mlir --cse --canonicalize | grep -c "aten.addmm" | FileCheck %s --check-prefix=ADDMM

// Four before backward and one behind the replay.
// GATHERS: {{^}}5{{$}}
// Without the replay the last is merged into the first.
// MERGED: {{^}}4{{$}}
// Forward's two and the recomputed one.
// ADDMM: {{^}}3{{$}}

// CHECK-LABEL: func.func @replay
func.func @replay(%w: tensor<7xf32>) -> (tensor<13xf32>, tensor<13xf32>) {
  // CHECK: fsdp.all_gather
  // CHECK: fsdp.replay
  // CHECK: fsdp.all_gather
  %0 = fsdp.all_gather %w dim 0 over <"shard", 2> : tensor<7xf32> -> tensor<13xf32>
  %1 = fsdp.replay %w : tensor<7xf32>
  %2 = fsdp.all_gather %1 dim 0 over <"shard", 2> : tensor<7xf32> -> tensor<13xf32>
  return %0, %2 : tensor<13xf32>, tensor<13xf32>
}

// CHECK-LABEL: func.func @without_replay
func.func @without_replay(%w: tensor<7xf32>) -> (tensor<13xf32>, tensor<13xf32>) {
  // CHECK: %[[F:.*]] = fsdp.all_gather
  // CHECK-NOT: fsdp.all_gather
  // CHECK: return %[[F]], %[[F]]
  %0 = fsdp.all_gather %w dim 0 over <"shard", 2> : tensor<7xf32> -> tensor<13xf32>
  %2 = fsdp.all_gather %w dim 0 over <"shard", 2> : tensor<7xf32> -> tensor<13xf32>
  return %0, %2 : tensor<13xf32>, tensor<13xf32>
}

// CHECK-LABEL: func.func @unread_wait
func.func @unread_wait(%w: tensor<7xf32>) {
  // CHECK: fsdp.start all_gather
  // CHECK: fsdp.wait
  %0 = fsdp.start all_gather (%w) dims [0] over <"shard", 2> on gather : tensor<7xf32> -> !fsdp.future<tensor<13xf32>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<13xf32>> -> tensor<13xf32>
  return
}

// Two transfers of one tensor are two transfers.
// CHECK-LABEL: func.func @starts
func.func @starts(%w: tensor<7xf32>) {
  // CHECK-COUNT-2: fsdp.start all_gather
  %0 = fsdp.start all_gather (%w) dims [0] over <"shard", 2> on gather : tensor<7xf32> -> !fsdp.future<tensor<13xf32>>
  %1 = fsdp.start all_gather (%w) dims [0] over <"shard", 2> on gather : tensor<7xf32> -> !fsdp.future<tensor<13xf32>>
  return
}

// CHECK-LABEL: func.func @gather_of_shard
// CHECK-SAME: %[[X:.*]]: tensor<13xf32>
func.func @gather_of_shard(%x: tensor<13xf32>) -> tensor<13xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = fsdp.shard %x dim 0 over <"shard", 2> : tensor<13xf32> -> tensor<7xf32>
  %1 = fsdp.all_gather %0 dim 0 over <"shard", 2> : tensor<7xf32> -> tensor<13xf32>
  return %1 : tensor<13xf32>
}

// Another cut of the same size is not the same.
// CHECK-LABEL: func.func @gather_of_other_shard
func.func @gather_of_other_shard(%x: tensor<13xf32>) -> tensor<13xf32> {
  // CHECK: fsdp.shard
  // CHECK: fsdp.all_gather
  %0 = fsdp.shard %x dim 0 over <"shard", 2> : tensor<13xf32> -> tensor<7xf32>
  %1 = fsdp.all_gather %0 dim 0 over <"replicate", 2 : 2> : tensor<7xf32> -> tensor<13xf32>
  return %1 : tensor<13xf32>
}
