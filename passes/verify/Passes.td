//===- Passes.td - Contracts -------------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_VERIFY_PASSES_TD
#define FSDP_PASSES_VERIFY_PASSES_TD

include "passes/PassBase.td"

def VerifyFeatures : Fsdp_ModulePass<"fsdp-verify-features"> {
  let summary = "check that what the module asks for goes together";
  let description = [{
    What the settings ask for (`#fsdp.step`, `#fsdp.parallel`, …) breaks no row of
    the table of ir/features/Relations.cpp, by which configs are refused as well
    (docs/Combinations.md). What depends on the program is not its concern.

    Example: `#fsdp.float8<modules = ["*"]>` beside `#fsdp.parallel<tp = 2>`:
    "'float8' is not supported with mesh: {tp: 2}; leave one of them out".

    Needs: nothing. Leaves the program as it is.
  }];
}

def VerifyCaptured : Fsdp_ModulePass<"fsdp-verify-captured"> {
  let summary = "check the contract of a captured program";
  let description = [{
    A captured program is one function marked `fsdp.captured`: a straight line
    of functional `aten` ops, `fsdp.constant`s and `fsdp.draw`s, in which every
    state of the module is an argument, every other argument is an input, and
    the results are the loss (first, a floating-point scalar), further outputs,
    the new values of changed buffers, one gradient for each `parameter` and the
    new random state. Outputs are contiguous and have names of their own. Draws
    start from that state, each at a site of its own; no `aten` op draws.

    A program called `infer/…` has neither a loss of that kind nor gradients:
    its results are outputs and the new values of changed buffers and of the
    random state.

    Needs: nothing. Leaves the program as it is.
  }];
}

def VerifySharded : Fsdp_ModulePass<"fsdp-verify-sharded"> {
  let summary = "check the contract of a sharded program";
  let description = [{
    * Each parameter's gradient goes through one reduction, by `avg`, over
      groups whose sizes multiply to the number of ranks that read different
      data; frozen parameters have none.
    * What is split, and what ranks exchange of a step of theirs, is so over `tp`
      of the mesh; moments and sums are split as their parameter is.
    * The optimizer updates each parameter once, with that gradient, and
      divides by what reductions leave to it.
    * A program for inference reduces no gradient and updates no parameter.
    * Only ops that keep padding rows zero (invariant P) read shards: casts,
      replays, collectives, norms, the optimizer.
    * No schedule op is there yet.
  }];
}

def VerifyScheduled : Fsdp_ModulePass<"fsdp-verify-scheduled"> {
  let summary = "check the contract of a scheduled program";
  let description = [{
    * Each future is waited for exactly once.
    * No tensor is read after it was freed, also not through a view.
    * No tensor is freed while a transfer reads it.
    * Each gathered tensor is freed, once.
    * Collectives stand at the top level of a program, none is logical.
  }];
}

def VerifyEquivalent : Fsdp_ModulePass<"fsdp-verify-equivalent"> {
  let summary = "prove that a program computes what was captured";
  let description = [{
    Numbers the values of the reference and of the program in one table, with
    collectives, replays and waits transparent, and compares the numbers of the
    loss, of outputs and changed buffers, and of what each parameter's reduction
    and optimizer take as its gradient. The order of ops, copies of ops and dead
    ops do not matter; any other difference is an error that names the first
    result that differs and the op behind it.

    Needs: references (`#fsdp.program`) in the module, or a file with `to`.
  }];
  let options = [
    Option<"to", "to", "std::string", "\"\"",
           "file of the captured program; the module's reference if empty">
  ];
}

def VerifyGrains : Fsdp_ModulePass<"fsdp-verify-grains"> {
  let summary = "prove that a step has the same bits on any number of ranks";
  let description = [{
    Where a step consists of `grains` (`#fsdp.step`):

    * Each rank computes the leaves of one node of their tree, and has as many
      micro-batches as the rank with most.
    * What programs that train sum over micro-batches or ranks, they sum in the
      tree's order (`tree`), or it is a sum of integers or a maximum.
    * Nothing sums over a shard but `fsdp.square_sum`, which does not round.
    * No buffer, and no parameter of a rank's own, has a new value that depends on
      which grains the rank computed.
    * No grain is computed by several ranks.

    An error names the op that breaks it. That kernels give the same bits for the
    same operands is not proved here (docs/SameBits.md).
  }];
}

#endif // FSDP_PASSES_VERIFY_PASSES_TD
