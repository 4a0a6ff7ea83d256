// How far single buckets are gathered ahead, and how long reductions are not
// waited for.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["b"], prefetch = 0>]>}' --fsdp-schedule-collectives | FileCheck %s --check-prefix=LATE
// RUN: fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["*"], prefetch = 0>, #fsdp.rule<buckets = ["c"], prefetch = 2>]>}' --fsdp-schedule-collectives | FileCheck %s --check-prefix=EARLY
// RUN: fsdp-opt %s --fsdp-schedule-collectives | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %s --fsdp-annotate='with={step<reductions_in_flight = 2>}' --fsdp-schedule-collectives | FileCheck %s --check-prefix=TWO
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["d"], prefetch = 0>]>}' --fsdp-schedule-collectives 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fsdp-opt %s --fsdp-annotate='with={buckets<rules = [#fsdp.rule<buckets = ["a"], prefetch = -1>]>}' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not fsdp-opt %s --fsdp-annotate='with={step<reductions_in_flight = 0>}' 2>&1 | FileCheck %s --check-prefix=NONE

// NAME:     expected buckets to gather ahead whose names match 'd', found none
// NEGATIVE: expected 'prefetch' to be a number from 0, found -1
// NONE:     expected 'reductions_in_flight' to be a number from 1, found 0

// LATE:      fsdp.start all_gather "a"
// LATE-NEXT: fsdp.wait
// LATE-NEXT: aten.mul.Tensor
// LATE-NEXT: fsdp.start all_gather "b"
// LATE-NEXT: fsdp.start all_gather "c"
// LATE-NEXT: fsdp.wait

// What is needed in front of "c" starts no later.
// EARLY:      fsdp.start all_gather "a"
// EARLY-NEXT: %[[B:.+]] = fsdp.start all_gather "b"
// EARLY-NEXT: fsdp.start all_gather "c"
// EARLY-NEXT: fsdp.wait
// EARLY-NEXT: aten.mul.Tensor
// EARLY-NEXT: fsdp.wait %[[B]]

// The gather of "a" for backward starts behind the wait for the reduction of "c",
// or does not wait for it.
// ONE:       %[[C:.+]] = fsdp.start reduce_scatter avg "c"
// ONE:       fsdp.start reduce_scatter avg "b"
// ONE-NEXT:  fsdp.wait %[[C]]
// ONE-NEXT:  aten.neg
// ONE-NEXT:  fsdp.replay
// ONE-NEXT:  fsdp.start all_gather "a"

// TWO:       %[[C:.+]] = fsdp.start reduce_scatter avg "c"
// TWO:       %[[B:.+]] = fsdp.start reduce_scatter avg "b"
// TWO-NEXT:  aten.neg
// TWO-NEXT:  fsdp.replay
// TWO-NEXT:  fsdp.start all_gather "a"
// TWO-NOT:   fsdp.wait %[[C]]
// TWO:       fsdp.start reduce_scatter avg "a"
// TWO-NEXT:  fsdp.wait %[[C]]
// TWO:       fsdp.wait %[[B]]

#shard = #fsdp.group<"shard", 2>
module attributes {fsdp.mesh = #fsdp.mesh<shard = 2>} {
  fsdp.state parameter @a : tensor<4xf32> sharded <dim 0 over #shard> bucket "a"
  fsdp.state parameter @b : tensor<4xf32> sharded <dim 0 over #shard> bucket "b"
  fsdp.state parameter @c : tensor<4xf32> sharded <dim 0 over #shard> bucket "c"
  func.func @"train/step"(%a: tensor<2xf32> {fsdp.state = @a}, %b: tensor<2xf32> {fsdp.state = @b}, %c: tensor<2xf32> {fsdp.state = @c}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<2xf32> {fsdp.gradient = @a}, tensor<2xf32> {fsdp.gradient = @b}, tensor<2xf32> {fsdp.gradient = @c}) {
    %0 = fsdp.start all_gather "a"(%a) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %af = fsdp.wait %0 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %y = aten.mul.Tensor(%x, %af) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = fsdp.start all_gather "b"(%b) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %bf = fsdp.wait %1 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %z = aten.mul.Tensor(%y, %bf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = fsdp.start all_gather "c"(%c) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %cf = fsdp.wait %2 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %w = aten.mul.Tensor(%z, %cf) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %l = aten.sum(%w) : (tensor<4xf32>) -> tensor<f32>
    %gc = aten.ones_like(%w) : (tensor<4xf32>) -> tensor<4xf32>
    %gb = aten.relu(%gc) : (tensor<4xf32>) -> tensor<4xf32>
    %5 = fsdp.start reduce_scatter avg "c"(%gc) dims [0] over #shard on reduce of [@c] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %sc = fsdp.wait %5 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %6 = fsdp.start reduce_scatter avg "b"(%gb) dims [0] over #shard on reduce of [@b] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %sb = fsdp.wait %6 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    %n = aten.neg(%gb) : (tensor<4xf32>) -> tensor<4xf32>
    %br = fsdp.replay %b : tensor<2xf32>
    %3 = fsdp.start all_gather "b"(%br) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %bg = fsdp.wait %3 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %m = aten.mul.Tensor(%n, %bg) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %ar = fsdp.replay %a : tensor<2xf32>
    %4 = fsdp.start all_gather "a"(%ar) dims [0] over #shard on gather : tensor<2xf32> -> !fsdp.future<tensor<4xf32>>
    %ag = fsdp.wait %4 : !fsdp.future<tensor<4xf32>> -> tensor<4xf32>
    %ga = aten.mul.Tensor(%m, %ag) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %7 = fsdp.start reduce_scatter avg "a"(%ga) dims [0] over #shard on reduce of [@a] : tensor<4xf32> -> !fsdp.future<tensor<2xf32>>
    %sa = fsdp.wait %7 : !fsdp.future<tensor<2xf32>> -> tensor<2xf32>
    return %l, %sa, %sb, %sc : tensor<f32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  }
}
