//===- OpBase.td - What all fsdp ops share -----------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OP_BASE_TD
#define FSDP_OP_BASE_TD

include "Attributes.td"
include "Dialect.td"
include "Enums.td"
include "Interfaces.td"
include "Programs.td"
include "RunAttributes.td"
include "Settings.td"
include "Types.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Results are called after buckets and parameters.
def Fsdp_NamedResults
    : DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>;

class Fsdp_Op<string mnemonic, list<Trait> traits = []>
    : Op<Fsdp_Dialect, mnemonic, traits>;

// The order in which a rank enqueues transfers is part of the program's meaning.
def Fsdp_CommQueue : Resource<"::fsdp::CommQueue">;

// What only the order of ops expresses: second lives and waits.
def Fsdp_Schedule : Resource<"::fsdp::Schedule">;

// Read and write: CSE may not merge such ops, DCE may not drop them.
def Fsdp_Scheduled
    : MemoryEffects<[MemRead<Fsdp_Schedule>, MemWrite<Fsdp_Schedule>]>;
def Fsdp_Queued
    : MemoryEffects<[MemRead<Fsdp_CommQueue>, MemWrite<Fsdp_CommQueue>]>;

#endif // FSDP_OP_BASE_TD
