// RUN: fsdp-opt %s --fsdp-bucket-copies --split-input-file --verify-diagnostics | FileCheck %s

// What was given is copied at the first of its bucket, in each of its lives anew;
// what was computed at the last, with sums behind it. Copies of no parameter stay
// alone.

// CHECK-LABEL: func.func @"train/step"
// CHECK-SAME:    %[[A:[^:]+]]: tensor<2xf32> {fsdp.state = @a}, %[[B:[^:]+]]: tensor<2xf32> {fsdp.state = @b}
// CHECK-NEXT:    %[[U:.+]] = fsdp.copy.start "one"(%[[A]], %[[B]]) to device on upload
// CHECK-NEXT:    %[[UA:[^ ,]+]], %[[UB:[^ ,]+]] = fsdp.wait %[[U]]
// CHECK-NEXT:    fsdp.start all_gather "one"(%[[UA]], %[[UB]])
// CHECK-NEXT:    fsdp.wait
// CHECK-NEXT:    %[[R:.+]] = fsdp.replay %[[B]]
// CHECK-NEXT:    %[[U2:.+]] = fsdp.copy.start "one"(%[[R]]) to device on upload
// CHECK-NEXT:    %[[U2W:.+]] = fsdp.wait %[[U2]]
// CHECK-NEXT:    %[[GB:.+]] = aten.neg(%[[U2W]])
// CHECK-NEXT:    %[[GA:.+]] = aten.neg(%[[GB]])
// CHECK-NEXT:    %[[D:.+]] = fsdp.copy.start "one"(%[[GA]], %[[GB]]) to host on download
// CHECK-NEXT:    %[[DA:[^ ,]+]], %[[DB:[^ ,]+]] = fsdp.wait %[[D]]
// CHECK-NEXT:    %[[SB:.+]] = fsdp.accumulate %[[DB]] into
// CHECK-NEXT:    %[[SA:.+]] = fsdp.accumulate %[[DA]] into
// CHECK-NEXT:    %[[N:.+]] = fsdp.copy.start(%[[GB]]) to host on download
// CHECK-NEXT:    fsdp.wait %[[N]]
#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "one" memory host
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "one" memory host
  fsdp.state gradient @ga of @a : tensor<4xf32> sharded <dim 0 over #shard> memory host
  fsdp.state gradient @gb of @b : tensor<4xf32> sharded <dim 0 over #shard> memory host
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xf32> {fsdp.state = @b}, %ga: tensor<2xf32> {fsdp.state = @ga}, %gb: tensor<2xf32> {fsdp.state = @gb})
      -> (tensor<2xf32> {fsdp.state = @ga}, tensor<2xf32> {fsdp.state = @gb}) {
    %bd = fsdp.copy %b to device of @b : tensor<2xf32>
    %ad = fsdp.copy %a to device of @a : tensor<2xf32>
    %f = fsdp.start all_gather "one"(%ad, %bd) dims [0, 0] over #shard on gather : tensor<2xf32>, tensor<2xf32> -> !fsdp.future<tensor<4xf32>, tensor<4xf32>>
    %full:2 = fsdp.wait %f : !fsdp.future<tensor<4xf32>, tensor<4xf32>> -> tensor<4xf32>, tensor<4xf32>
    %r = fsdp.replay %b : tensor<2xf32>
    %bu = fsdp.copy %r to device of @b : tensor<2xf32>
    %gradb = aten.neg(%bu) : (tensor<2xf32>) -> tensor<2xf32>
    %hb = fsdp.copy %gradb to host of @b : tensor<2xf32>
    %sb = fsdp.accumulate %hb into %gb of @b : tensor<2xf32>, tensor<2xf32>
    %grada = aten.neg(%gradb) : (tensor<2xf32>) -> tensor<2xf32>
    %ha = fsdp.copy %grada to host of @a : tensor<2xf32>
    %sa = fsdp.accumulate %ha into %ga of @a : tensor<2xf32>, tensor<2xf32>
    %n = fsdp.copy %gradb to host : tensor<2xf32>
    return %sa, %sb : tensor<2xf32>, tensor<2xf32>
  }
}

// -----

// What is read before the bucket's last member is there cannot wait for it.
module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @a : tensor<2xf32> bucket "one" memory host
  fsdp.state parameter @b : tensor<2xf32> bucket "one" memory host
  func.func @"train/step"(%x: tensor<2xf32> {fsdp.input = "x"}) -> (tensor<2xf32> {fsdp.state = @a}, tensor<2xf32> {fsdp.state = @b}) {
    %m = aten.neg(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %h = fsdp.copy %m to host of @a : tensor<2xf32>
    // expected-error @+1 {{reads what is copied before all members of the bucket 'one' are computed}}
    %r = aten.relu(%h) : (tensor<2xf32>) -> tensor<2xf32>
    %n = aten.neg(%x) : (tensor<2xf32>) -> tensor<2xf32>
    // expected-note @+1 {{the last member}}
    %i = fsdp.copy %n to host of @b : tensor<2xf32>
    return %r, %i : tensor<2xf32>, tensor<2xf32>
  }
}

// -----

module attributes {fsdp.mesh = #fsdp.mesh<shard = 1>} {
  fsdp.state parameter @a : tensor<2xf32> memory host
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}) -> (tensor<2xf32> {fsdp.output = "o"}) {
    // expected-error @+1 {{expects to copy a parameter that has a bucket}}
    %d = fsdp.copy %a to device of @a : tensor<2xf32>
    return %d : tensor<2xf32>
  }
}
