// RUN: fsdp-opt %s --fsdp-schedule-collectives --split-input-file --verify-diagnostics | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: fsdp-opt %s --fsdp-annotate='with={step<prefetch = 0>}' --fsdp-schedule-collectives --split-input-file --verify-diagnostics | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: fsdp-opt %s --fsdp-annotate='with={step<prefetch = 2>}' --fsdp-schedule-collectives --split-input-file --verify-diagnostics | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: not fsdp-opt %s --fsdp-annotate='with={step<prefetch = -1>}' --fsdp-schedule-collectives --split-input-file 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// NEGATIVE: expected 'prefetch' to be a number from 0, found -1

// Three gathers in forward, two in backward, three reductions. With one bucket
// ahead the first gather starts at the beginning, each other one before the wait
// of its predecessor, backward's first after forward's last use of a gathered
// tensor (through a view). A replay stays beside its start. A reduction starts
// behind its gradient and is waited for behind the next start, the last one
// before its first use. Everything else keeps its order.

// CHECK-LABEL: func.func @"train/step"

// ONE:       %[[A:.+]] = fsdp.start all_gather "a"
// ONE-NEXT:  aten.relu
// ONE-NEXT:  %[[B:.+]] = fsdp.start all_gather "b"
// ONE-NEXT:  %[[AW:.+]] = fsdp.wait %[[A]]
// ONE-NEXT:  aten.mul.Tensor(%{{.+}}, %[[AW]])
// ONE-NEXT:  %[[C:.+]] = fsdp.start all_gather "c"
// ONE-NEXT:  fsdp.wait %[[B]]
// ONE-NEXT:  aten.mul.Tensor
// ONE-NEXT:  %[[CW:.+]] = fsdp.wait %[[C]]
// ONE-NEXT:  aten.view(%[[CW]]
// ONE-NEXT:  aten.mul.Tensor
// ONE-NEXT:  fsdp.replay
// ONE-NEXT:  %[[C2:.+]] = fsdp.start all_gather "c"
// ONE-NEXT:  aten.sum
// ONE-NEXT:  aten.ones_like
// ONE-NEXT:  fsdp.replay
// ONE-NEXT:  %[[B2:.+]] = fsdp.start all_gather "b"
// ONE-NEXT:  %[[C2W:.+]] = fsdp.wait %[[C2]]
// ONE-NEXT:  %[[GC:.+]] = aten.mul.Tensor(%{{.+}}, %[[C2W]])
// ONE-NEXT:  %[[RC:.+]] = fsdp.start reduce_scatter avg "c"(%[[GC]])
// ONE-NEXT:  fsdp.wait %[[B2]]
// ONE-NEXT:  %[[GB:.+]] = aten.mul.Tensor
// ONE-NEXT:  %[[RB:.+]] = fsdp.start reduce_scatter avg "b"(%[[GB]])
// ONE-NEXT:  fsdp.wait %[[RC]]
// ONE-NEXT:  %[[GA:.+]] = aten.neg
// ONE-NEXT:  %[[RA:.+]] = fsdp.start reduce_scatter avg "a"(%[[GA]])
// ONE-NEXT:  fsdp.wait %[[RB]]
// ONE-NEXT:  aten.relu
// ONE-NEXT:  fsdp.wait %[[RA]]
// ONE-NEXT:  return

// NONE:      aten.relu
// NONE-NEXT: fsdp.start all_gather "a"
// NONE-NEXT: fsdp.wait
// NONE-NEXT: aten.mul.Tensor
// NONE-NEXT: fsdp.start all_gather "b"
// NONE-NEXT: fsdp.wait
// NONE:      aten.ones_like
// NONE-NEXT: fsdp.replay
// NONE-NEXT: fsdp.start all_gather "c"
// NONE-NEXT: fsdp.wait

// TWO:       fsdp.start all_gather "a"
// TWO-NEXT:  fsdp.start all_gather "b"
// TWO-NEXT:  aten.relu
// TWO-NEXT:  fsdp.start all_gather "c"
// TWO-NEXT:  fsdp.wait
// TWO:       aten.view
// TWO-NEXT:  aten.mul.Tensor
// TWO-NEXT:  fsdp.replay
// TWO-NEXT:  fsdp.start all_gather "c"
// TWO-NEXT:  fsdp.replay
// TWO-NEXT:  fsdp.start all_gather "b"
// TWO-NEXT:  aten.sum

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "b"
  fsdp.state parameter @c : tensor<4xf32> sharded <dim 0 over #shard> bucket "c"
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xf32> {fsdp.state = @b}, %c: tensor<2xf32> {fsdp.state = @c}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @a}, tensor<2xf32> {fsdp.gradient = @b}, tensor<2xf32> {fsdp.gradient = @c}) {
    %r = aten.relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %0 = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %af = fsdp.wait %0 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %y = aten.mul.Tensor(%r, %af) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = fsdp.start all_gather "b"(%b) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %bf = fsdp.wait %1 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %z = aten.mul.Tensor(%y, %bf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = fsdp.start all_gather "c"(%c) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %cf = fsdp.wait %2 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %v = aten.view(%cf, size = [4]) : (tensor<4xf32>) -> tensor<4xf32>
    %w = aten.mul.Tensor(%z, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%w) : (tensor<4xf32>) -> tensor<f32>
    %o = aten.ones_like(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %cr = fsdp.replay %c : tensor<2xf32>
    %3 = fsdp.start all_gather "c"(%cr) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %cg = fsdp.wait %3 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %gc = aten.mul.Tensor(%o, %cg) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %br = fsdp.replay %b : tensor<2xf32>
    %4 = fsdp.start all_gather "b"(%br) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %bg = fsdp.wait %4 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %gb = aten.mul.Tensor(%gc, %bg) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %ga = aten.neg(%gb) : (tensor<4xf32>) -> tensor<4xf32>
    %5 = fsdp.start reduce_scatter avg "a"(%ga) dims [0] over #shard on reduce of [@a] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %sa = fsdp.wait %5 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %6 = fsdp.start reduce_scatter avg "b"(%gb) dims [0] over #shard on reduce of [@b] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %sb = fsdp.wait %6 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %7 = fsdp.start reduce_scatter avg "c"(%gc) dims [0] over #shard on reduce of [@c] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %sc = fsdp.wait %7 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %u = aten.relu(%o) : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %sa, %sb, %sc : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}

// -----

#shard = #fsdp.group<"shard", 2>
func.func @not_waited_for(%a: tensor<2xf32>) {
  // expected-error @+1 {{expects one wait for its future, found 0 uses}}
  %0 = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
  return
}

// -----

// The shards' reduction is waited for when the next bucket's has started, as
// without replicas; the replicas' starts behind it and is waited for at the end,
// with the cast of what it yields. An unsharded parameter's starts at once.

// CHECK-LABEL: func.func @"train/replicas"
// CHECK-NEXT:    %[[N:.+]] = aten.neg
// CHECK-NEXT:    %[[B:.+]] = fsdp.start reduce_scatter avg "b"
// CHECK-NEXT:    %[[M:.+]] = aten.neg(%[[N]])
// CHECK-NEXT:    %[[A:.+]] = fsdp.start reduce_scatter avg "a"
// CHECK-NEXT:    %[[BW:.+]] = fsdp.wait %[[B]]
// CHECK-NEXT:    %[[BR:.+]] = fsdp.start all_reduce avg "b"(%[[BW]])
// CHECK-NEXT:    %[[S:.+]] = aten.sum
// CHECK-NEXT:    %[[SR:.+]] = fsdp.start all_reduce avg "s"(%[[S]])
// CHECK-NEXT:    aten.relu
// CHECK-NEXT:    %[[AW:.+]] = fsdp.wait %[[A]]
// CHECK-NEXT:    %[[AR:.+]] = fsdp.start all_reduce avg "a"(%[[AW]])
// CHECK-NEXT:    %[[BRW:.+]] = fsdp.wait %[[BR]]
// CHECK-NEXT:    aten._to_copy(%[[BRW]]
// CHECK-NEXT:    fsdp.wait %[[SR]]
// CHECK-NEXT:    %[[ARW:.+]] = fsdp.wait %[[AR]]
// CHECK-NEXT:    aten._to_copy(%[[ARW]]
// CHECK-NEXT:    return

#shard = #fsdp.group<"shard", 2>
#replicate = #fsdp.group<"replicate", 2 : 2>
#world = #fsdp.group<"world", 4>
module attributes {fsdp.mesh = #fsdp.mesh<replicate = 2, shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "b"
  fsdp.state parameter @s : tensor<bf16> bucket "s"
  func.func @"train/replicas"(%g: tensor<4xbf16> {fsdp.input = "g"}) -> (tensor<2xf32> {fsdp.gradient = @a}, tensor<2xf32> {fsdp.gradient = @b}, tensor<bf16> {fsdp.gradient = @s}) {
    %n = aten.neg(%g) : (tensor<4xbf16>) -> tensor<4xbf16>
    %0 = fsdp.start reduce_scatter avg "b"(%n) dims [0] over #shard on reduce of [@b] : tensor<4xbf16> -> !fsdp.future<tensor<2xbf16>>
    %b = fsdp.wait %0 : !fsdp.future<tensor<2xbf16>> -> tensor<2xbf16>
    %1 = fsdp.start all_reduce avg "b"(%b) over #replicate on replicate of [@b] : tensor<2xbf16> -> !fsdp.future<tensor<2xbf16>>
    %br = fsdp.wait %1 : !fsdp.future<tensor<2xbf16>> -> tensor<2xbf16>
    %bc = aten._to_copy(%br, dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
    %m = aten.neg(%n) : (tensor<4xbf16>) -> tensor<4xbf16>
    %2 = fsdp.start reduce_scatter avg "a"(%m) dims [0] over #shard on reduce of [@a] : tensor<4xbf16> -> !fsdp.future<tensor<2xbf16>>
    %a = fsdp.wait %2 : !fsdp.future<tensor<2xbf16>> -> tensor<2xbf16>
    %3 = fsdp.start all_reduce avg "a"(%a) over #replicate on replicate of [@a] : tensor<2xbf16> -> !fsdp.future<tensor<2xbf16>>
    %ar = fsdp.wait %3 : !fsdp.future<tensor<2xbf16>> -> tensor<2xbf16>
    %ac = aten._to_copy(%ar, dtype = f32) : (tensor<2xbf16>) -> tensor<2xf32>
    %t = aten.sum(%m) : (tensor<4xbf16>) -> tensor<bf16>
    %4 = fsdp.start all_reduce avg "s"(%t) over #world on replicate of [@s] : tensor<bf16> -> !fsdp.future<tensor<bf16>>
    %s = fsdp.wait %4 : !fsdp.future<tensor<bf16>> -> tensor<bf16>
    %u = aten.relu(%m) : (tensor<4xbf16>) -> tensor<4xbf16>
    return %ac, %bc, %s : tensor<2xf32>, tensor<2xf32>, tensor<bf16>
  }
}
