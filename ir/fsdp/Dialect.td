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
    | plan     | `record`, `await`, `zero_padding`, `at` attrs | ordered |

    Programs are `func.func`s whose names contain a slash (`@"train/step"`), so
    that they never clash with a parameter's name.
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
