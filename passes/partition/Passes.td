//===- Passes.td - One step on several ranks ---------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_PARTITION_PASSES_TD
#define FSDP_PASSES_PARTITION_PASSES_TD

include "passes/PassBase.td"

def SpellLosses : Fsdp_ModulePass<"fsdp-spell-losses"> {
  let summary = "write cross-entropy out where ranks have parts of its classes";
  let description = [{
    The output layer of a decoder is its largest matrix, and its scores the largest
    tensor. Where `tp` splits the layer's rows (a style of the plan does, or
    `automatic` with rows that the ranks divide, of a matrix that nothing else
    but an embedding reads), ranks have scores of parts of the classes, and all that has to be exchanged
    are numbers a token: the largest score, the sum of exponentials, the score of the
    label. `aten._log_softmax` and `aten.nll_loss_forward`, and their gradients,
    are one kernel each of all classes; written out, in f32, they have rules.

    Input:

    ```mlir
    %p = aten._log_softmax(%scores, dim = 1, half_to_float = false) : (tensor<8x32xf32>) -> tensor<8x32xf32>
    %l, %n = aten.nll_loss_forward(%p, %labels, reduction = 1, ignore_index = -100) : …
    ```

    Output, for 2 ranks:

    ```mlir
    %v = aten.view(%scores, size = [8, 2, 16]) : (tensor<8x32xf32>) -> tensor<8x2x16xf32>
    %a = aten.amax(%v, dim = [2]) : (tensor<8x2x16xf32>) -> tensor<8x2xf32>
    %m = aten.amax(%a, dim = [1], keepdim = true) {fsdp.classes} : (tensor<8x2xf32>) -> tensor<8x1xf32>
    %c = aten.sub.Tensor(%scores, %m) : …
    %e = aten.exp(%c) : …
    %z = aten.sum.dim_IntList(%e, dim = [1], keepdim = true) {fsdp.classes} : …
    …
    ```

    Needs: captured programs. Leaves: captured programs.
  }];
}

def SumLosses : Fsdp_ModulePass<"fsdp-sum-losses"> {
  let summary = "make mean losses quotients of sums, which ranks can add up";
  let description = [{
    The mean over tokens that count is no mean of means where ranks have parts of the
    tokens, since some of these may be left out (`ignore_index`). Only with more than
    one rank along `cp`.

    Input:

    ```mlir
    %loss, %weight = aten.nll_loss_forward(%scores, %labels, reduction = 1, ignore_index = -100) : …
    ```

    Output:

    ```mlir
    %sum, %weight = aten.nll_loss_forward(%scores, %labels, reduction = 2, ignore_index = -100) : …
    %loss = aten.div.Tensor(%sum, %weight) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```

    Needs: captured programs. Leaves: captured programs.
  }];
}

def Partition : Fsdp_ModulePass<"fsdp-partition"> {
  let summary = "let the ranks of an axis compute a step together";
  let description = [{
    With `axis=tp`, first it splits parameters over the group `#tp` of `#fsdp.parallel`. What a style
    of its `plan` means for a parameter the class of its module says:

    | style     | `Linear`           | `Embedding`   | `Conv1D` (transformers) |
    |-----------|--------------------|---------------|-------------------------|
    | `colwise` | weight 0, bias 0   | weight 1      | weight 1, bias 0        |
    | `rowwise` | weight 1           | weight 0      | weight 0                |

    With `automatic` it looks for pairs in the program. A dim of a matrix is split if
    whatever is computed of the product can be computed in parts, without an exchange,
    up to products with other matrices, along whose other dim the parts are then added
    up: heads of attention, grouped ones included, and the inner features of an MLP.
    Rows of an embedding are split if there are more of them than tokens, or if they
    are those of an output layer that is split.

    Then it goes through each captured program in order and decides for every operator in
    which parts the ranks of `#tp` compute it, by what they have of its operands: of
    the ways in which the operator can be computed in parts (`passes/partition`) the
    one that exchanges the fewest bytes. Where operands are placed otherwise, a
    collective stands in front of it: `all_reduce sum` for summands, `all_gather` for
    parts, `fsdp.shard` for a part of what is whole. Each tensor is exchanged once,
    for all its readers. Sums stay partial until something reads them that is not a
    sum itself. What has no rule is computed by all ranks alike.

    With `sequence` activations between the parts are cut along the sequence: the dim
    in front of the features. What forward gathers of these, backward gathers again.

    With `axis=cp` ranks have whole parameters, or those that `tp` has left them, and
    begin with parts of the tokens' sequences: with the embedding of a batch. All that
    works token by token follows; attention gathers keys and values, and their
    gradients are scattered. Under a causal mask each rank has two pieces of the
    sequence, so that all compute as much (`#fsdp.parts`). Where batch and sequence are
    one dim, a part has a block for each row of the batch.

    Gradients of split parameters come out as parts, all others, and outputs, whole;
    along `cp` gradients come out as summands. Operators have static arguments and types of their parts; what they were stands
    in `fsdp.whole`, and what ranks have of their results in `fsdp.placed`.

    Input:

    ```mlir
    fsdp.state parameter @down.weight : tensor<16x32xf32>
    func.func @"train/step"(%w: tensor<16x32xf32> {fsdp.state = @down.weight}, …)
      %t = aten.t(%w) : (tensor<16x32xf32>) -> tensor<32x16xf32, #aten.strides<1, 32>>
      %y = aten.mm(%h, %t) : … -> tensor<8x16xf32>
    ```

    Output, where ranks have halves of %h:

    ```mlir
    fsdp.state parameter @down.weight : tensor<16x16xf32> split <dim 1 over #tp>
      %t = aten.t(%w) : (tensor<16x16xf32>) -> tensor<16x16xf32, #aten.strides<1, 16>>
      %p = aten.mm(%h, %t) {fsdp.placed = [[#fsdp.placed<partial over #tp>]]} : … -> tensor<8x16xf32>
      %y = fsdp.all_reduce sum %p over #tp for step : tensor<8x16xf32>
    ```

    Needs: captured programs and their references. Leaves: captured programs on parts.
  }];
  let options = [
    Option<"axisName", "axis", "std::string", "\"tp\"",
           "the axis whose ranks do: tp or, behind it, cp">
  ];
}

def VerifyPlaced : Fsdp_ModulePass<"fsdp-verify-placed"> {
  let summary = "check that parts are what rules make of parts";
  let description = [{
    Follows what ranks of an axis have of every tensor through each captured program.
    Exchanges take and leave what they should, every operator on parts has a rule that
    gives what it is marked with from what its operands are, with the static arguments
    and shapes that follow from those captured, gradients leave as their parameters
    are split, and all else is whole. That the operators are those captured,
    `fsdp-verify-equivalent` shows, which compares them with the arguments that
    `fsdp.whole` keeps.

    Needs: `fsdp-partition` with the same `axis`, and no other since. Leaves the
    program alone.
  }];
  let options = [
    Option<"axisName", "axis", "std::string", "\"tp\"",
           "the axis whose ranks do: tp or cp">
  ];
}

#endif // FSDP_PASSES_PARTITION_PASSES_TD
