// Which modules are computed again: by the policy, every so many-th, by name, and
// what is wrong with a name.
//
// RUN: fsdp-opt %s --fsdp-annotate='with={recompute<>}' --fsdp-recompute | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: fsdp-opt %s --fsdp-annotate='with={recompute<every = 2>}' --fsdp-recompute | FileCheck %s --check-prefixes=CHECK,SECOND
// RUN: fsdp-opt %s --fsdp-annotate='with={recompute<modules = ["layers.0", "layers.0.act"]>}' --fsdp-recompute | FileCheck %s --check-prefixes=CHECK,FIRST
// RUN: fsdp-opt %s --fsdp-annotate='with={recompute<policy = selective, save = ["aten.ex?"]>}' --fsdp-recompute | FileCheck %s --check-prefixes=CHECK,SAVED
// RUN: fsdp-opt %s --fsdp-annotate='with={recompute<policy = selective, save = ["aten.ex?"], also = [#fsdp.recompute<modules = ["layers.0"]>]>}' --fsdp-recompute | FileCheck %s --check-prefixes=CHECK,FIRST
// RUN: fsdp-opt %s --fsdp-annotate='with={recompute<also = [#fsdp.recompute<policy = selective, modules = ["layers.1"], save = ["aten.ex?"]>]>}' --fsdp-recompute | FileCheck %s --check-prefixes=CHECK,FIRST
// RUN: not fsdp-opt %s --fsdp-annotate='with={recompute<also = [#fsdp.recompute<also = [#fsdp.recompute<>]>]>}' 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: not fsdp-opt %s --fsdp-annotate='with={recompute<modules = ["layer.0"]>}' --fsdp-recompute 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fsdp-opt %s --fsdp-annotate='with={recompute<policy = selective, save = ["aten.nm"]>}' --fsdp-recompute 2>&1 | FileCheck %s --check-prefix=OPERATOR
// RUN: not fsdp-opt %s --fsdp-annotate='with={recompute<save = ["aten.mm"]>}' 2>&1 | FileCheck %s --check-prefix=FULL
// RUN: not fsdp-opt %s --fsdp-annotate='with={recompute<every = 0>}' 2>&1 | FileCheck %s --check-prefix=EVERY
// RUN: fsdp-opt %s --fsdp-annotate='with={recompute<>, buckets<policy = none>}' --fsdp-recompute 2>&1 | FileCheck %s --check-prefix=NONE

// NAME:     expected modules to compute again whose paths match 'layer.0', found none; did you mean 'layers.0'?
// OPERATOR: expected operators of the blocks to save that match 'aten.nm', found none
// FULL:     expected the policy 'selective' with operators to save, found 'full'
// NESTED:   expected 'also' without another one in it
// EVERY:    expected to recompute every n-th module for an n of at least 1, found 0
// NONE:     warning: there are no blocks to compute again for backward
// NONE-NOT: fsdp.replay

// CHECK:       func.func
// CHECK:       aten.sum
// ALL:         %[[R1:.+]] = fsdp.replay
// ALL-NEXT:    aten.exp(%[[R1]])
// ALL:         %[[R0:.+]] = fsdp.replay
// ALL-NEXT:    aten.exp(%[[R0]])
// SECOND:      fsdp.replay
// SECOND-NEXT: aten.exp
// SECOND-NOT:  fsdp.replay
// FIRST:       aten.mul.Tensor
// FIRST-NEXT:  fsdp.replay
// FIRST-NEXT:  aten.exp
// FIRST-NOT:   fsdp.replay
// SAVED-NOT:   fsdp.replay
// CHECK:       return

module {
  fsdp.module "layers.0" class "Block"
  fsdp.module "layers.0.act" class "Exp"
  fsdp.module "layers.1" class "Block"
  fsdp.state parameter @layers.0.w : tensor<4xf32>
  fsdp.state parameter @layers.1.w : tensor<4xf32>
  func.func @"train/step"(%v: tensor<4xf32> {fsdp.state = @layers.0.w}, %w: tensor<4xf32> {fsdp.state = @layers.1.w}, %x: tensor<4xf32> {fsdp.input = "x"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<4xf32> {fsdp.gradient = @layers.0.w}, tensor<4xf32> {fsdp.gradient = @layers.1.w}) {
    %e = aten.exp(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("layers.0.act")
    %o = aten.mul.Tensor(%e, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("layers.0")
    %f = aten.exp(%o) : (tensor<4xf32>) -> tensor<4xf32> loc("layers.1")
    %p = aten.mul.Tensor(%f, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("layers.1")
    %l = aten.sum(%p) : (tensor<4xf32>) -> tensor<f32>
    %h = aten.mul.Tensor(%f, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %g = aten.mul.Tensor(%e, %h) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %q = aten.neg(%f) : (tensor<4xf32>) -> tensor<4xf32>
    return %l, %g, %q : tensor<f32>, tensor<4xf32>, tensor<4xf32>
  }
}
