//===- Programs.td - What a function is a program for ------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PROGRAMS_TD
#define FSDP_PROGRAMS_TD

include "Dialect.td"
include "SettingsBase.td"

def Fsdp_Program : Fsdp_Struct<"Program", "program"> {
  let summary = "what a function is a program for";
  let description = [{
    Stands on functions as `fsdp.program`; absent: a whole step of training.
    Their names are for people.

    A step of several micro-batches is a `first` program, a `middle` one that runs
    for each but the first and the last, and a `last` one, which updates the
    parameters. Programs of one kind and part do the same at different `shapes` of
    the inputs, which say what they were captured for. A `reference` is what the
    others are compared with: no pass changes it.

    Example: `#fsdp.program<part = last, shapes = "x.0=4">`
  }];
  let parameters = (ins
      DefaultValuedParameter<"::fsdp::ProgramKind",
                             "::fsdp::ProgramKind::Train">:$kind,
      DefaultValuedParameter<"::fsdp::StepPart",
                             "::fsdp::StepPart::Whole">:$part,
      OptionalParameter<"::mlir::StringAttr">:$shapes,
      Fsdp_Flag<"false">:$reference);
  let extraClassDeclaration = [{
    /// What functions are called: "train/step", "train/last[x.0=4]".
    std::string getSymbol() const;
    /// The same program as another part of its step.
    ::fsdp::ProgramAttr withPart(::fsdp::StepPart part) const;
    ::fsdp::ProgramAttr withKind(::fsdp::ProgramKind kind) const;
    ::fsdp::ProgramAttr asReference() const;
  }];
}

#endif // FSDP_PROGRAMS_TD
