// RUN: fsdp-opt %s --fsdp-insert-frees --split-input-file --verify-diagnostics | FileCheck %s

#shard = #fsdp.group<"shard", 2>

// %w is used last through a view of a view, %b before that, %u never, and %v until
// a transfer that reads it is over. A reduced shard is nobody's to free.

// CHECK-LABEL: func.func @members
// CHECK:         %[[W_0:[^ ,]+]], %[[W_1:[^ ,]+]], %[[W_2:[^ ,]+]] = fsdp.wait
// CHECK-NEXT:    fsdp.free %[[W_2]] : tensor<4xf32>
// CHECK-NEXT:    aten.view(%[[W_0]]
// CHECK-NEXT:    aten.add.Tensor(%[[W_1]]
// CHECK-NEXT:    fsdp.free %[[W_1]] : tensor<4xf32>
// CHECK-NEXT:    aten.t(
// CHECK-NEXT:    aten.neg
// CHECK-NEXT:    fsdp.free %[[W_0]] : tensor<4xf32>
// CHECK-NEXT:    fsdp.start all_gather
// CHECK-NEXT:    %[[V:.+]] = fsdp.wait
// CHECK-NEXT:    fsdp.start reduce_scatter
// CHECK-NEXT:    aten.relu
// CHECK-NEXT:    fsdp.wait
// CHECK-NEXT:    fsdp.free %[[V]] : tensor<4xf32>
// CHECK-NEXT:    return
func.func @members(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2x2xf32, #aten.strides<1, 2>>) {
  %f = fsdp.start all_gather "a"(%a, %a, %a) dims [0, 0, 0] over #shard on gather
      : tensor<2xf32>, tensor<2xf32>, tensor<2xf32> -> !fsdp.future<tensor<4xf32>, tensor<4xf32>, tensor<4xf32>>
  %w, %b, %u = fsdp.wait %f : !fsdp.future<tensor<4xf32>, tensor<4xf32>, tensor<4xf32>> -> tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  %m = aten.view(%w, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>
  %c = aten.add.Tensor(%b, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %t = aten.t(%m) : (tensor<2x2xf32>) -> tensor<2x2xf32, #aten.strides<1, 2>>
  %n = aten.neg(%t) : (tensor<2x2xf32, #aten.strides<1, 2>>) -> tensor<2x2xf32, #aten.strides<1, 2>>
  %g = fsdp.start all_gather "b"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  %v = fsdp.wait %g : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  %r = fsdp.start reduce_scatter avg "b"(%v) dims [0] over #shard on reduce : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
  %o = aten.relu(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %s = fsdp.wait %r : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
  return %s, %n : tensor<2xf32>, tensor<2x2xf32, #aten.strides<1, 2>>
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @returned(%a: tensor<2xf32>) -> tensor<4xf32> {
  %f = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  // expected-error @+1 {{returns a gathered tensor, which must be freed before; return its shard instead}}
  return %w : tensor<4xf32>
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @freed(%a: tensor<2xf32>) {
  %f = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  %w = fsdp.wait %f : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
  // expected-error @+1 {{stands in a program whose frees are still to be inserted}}
  fsdp.free %w : tensor<4xf32>
  return
}
