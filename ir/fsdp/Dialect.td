//===- Dialect.td - The fsdp dialect -----------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_DIALECT_TD
#define FSDP_DIALECT_TD

include "mlir/IR/OpBase.td"

def Fsdp_Dialect : Dialect {
  let name = "fsdp";
  let summary = "Fully sharded data parallel training as a program";
  let description = [{
    The `fsdp` dialect holds what a captured training step lacks: which tensors
    live across steps (`fsdp.state`), how ranks are arranged (`#fsdp.mesh`), what
    they exchange, when, and where every tensor lies. Mathematics stays in the
    `aten` dialect.

    Ops come in three groups, and a contract pass checks after each stage that
    only the right ones are left:

    | stage    | ops                                           | effects |
    |----------|-----------------------------------------------|---------|
    | logical  | `all_gather`, `reduce_scatter`, `adamw`, …    | none    |
    | schedule | `all_gather.start`, `wait`, `free`, …         | ordered |
    | plan     | `zero_padding`, `at` attributes               | ordered |

    Programs are `func.func`s. Their names contain a slash (`@"train/step"`,
    `@"infer/step"`), so that they never clash with a parameter's name, and say
    nothing that attributes do not say:

    | attribute            | on               | meaning                        |
    |----------------------|------------------|--------------------------------|
    | `fsdp.program`       | function         | what it is for: training, inference, a part of a step |
    | `fsdp.state = @w`    | argument, result | a state's value; its new value |
    | `fsdp.input = "x"`   | argument         | what a step is given           |
    | `fsdp.sample`        | argument         | an input's value in the model file |
    | `fsdp.output = "y"`  | result           | what the model returns, of one rank's batch |
    | `fsdp.metric = "y"`  | result           | the mean of that output over the ranks, a number |
    | `fsdp.norms_of = ["grad/w"]` | result   | a vector of norms of these names, equal on all ranks |
    | `fsdp.gradient = @w` | result           | a parameter's gradient         |

    A training program's outputs `loss`, its first result, and `grad_norm` are
    means over the ranks from `fsdp-insert-optimizer` on.
  }];
  let cppNamespace = "::fsdp";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
    void registerOps();
  }];
}

#endif // FSDP_DIALECT_TD
