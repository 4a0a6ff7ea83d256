//===- Placements.td - Where the elements of a state lie ---------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLACEMENTS_TD
#define FSDP_PLACEMENTS_TD

include "AttributeBase.td"
include "mlir/IR/Interfaces.td"

def PlacementAttrInterface : AttrInterface<"PlacementAttrInterface"> {
  let cppNamespace = "::fsdp";
  let description = [{
    Which elements of a state each rank holds, and how they lie there. A state
    without a placement is whole on every rank.
  }];
  let methods = [
    InterfaceMethod<[{
        What one rank holds of a tensor of type `type`.
      }], "::mlir::RankedTensorType", "getLocalType",
      (ins "::mlir::RankedTensorType":$type)>,
    InterfaceMethod<[{
        The rows that each rank holds, a `#fsdp.shard`; null if it has no rows
        of its own.
      }], "::mlir::Attribute", "getSharding", (ins), [{}],
      [{ return {}; }]>,
    InterfaceMethod<[{
        Checks that a tensor of type `type` can be placed so.
      }], "::llvm::LogicalResult", "verifyType",
      (ins "::mlir::RankedTensorType":$type,
           "::llvm::function_ref<::mlir::InFlightDiagnostic()>":$emitError),
      [{}], [{ return ::mlir::success(); }]>,
  ];
}

class Fsdp_Placement<string name, string attrMnemonic, list<string> declared>
    : Fsdp_Attr<name, attrMnemonic,
                [DeclareAttrInterfaceMethods<PlacementAttrInterface,
                                             declared>]>;

def Fsdp_Sharding
    : Fsdp_Placement<"Sharding", "shard", ["getSharding", "verifyType"]> {
  let summary = "a dim cut into ceil(d / size) rows per rank of a group";
  let description = [{
    The rows beyond the dim's size are zero (invariant P).

    Example: `#fsdp.shard<dim 0 over #shard>`
  }];
  let parameters = (ins "int64_t":$dim, "::fsdp::GroupAttr":$group);
  let assemblyFormat = "`<` `dim` $dim `over` $group `>`";
}

def Fsdp_Split : Fsdp_Attr<"Split", "split"> {
  let summary = "a dim cut into equal parts by ranks that compute together";
  let description = [{
    The dim is blocks of one size behind each other, by default one, and a rank has a
    part of each: of the rows of a matrix that gives queries, keys and values, its
    heads of all three. Tensor parallelism.

    Examples: `#fsdp.split<dim 0 over #tp>`, `#fsdp.split<dim 0 in 3 over #tp>`
  }];
  let parameters = (ins "int64_t":$dim, DefaultValuedParameter<"int64_t", "1">:$blocks,
                        "::fsdp::GroupAttr":$group);
  let assemblyFormat = "`<` `dim` $dim (`in` $blocks^)? `over` $group `>`";
  let genVerifyDecl = 1;
}

def Fsdp_Flat
    : Fsdp_Placement<"Flat", "flat", ["getSharding", "verifyType"]> {
  let summary = "a row of tensors cut into equal parts";
  let description = [{
    Of a state that holds others, one behind the other (`#fsdp.part`): each rank
    of `group` holds an equal part, whose borders respect neither rows nor
    tensors.

    Example: `#fsdp.flat<over #shard>`
  }];
  let parameters = (ins "::fsdp::GroupAttr":$group);
  let assemblyFormat = "`<` `over` $group `>`";
}

def Fsdp_Part : Fsdp_Placement<"Part", "part", []> {
  let summary = "where a tensor lies in a flat state";
  let description = [{
    The tensor's elements, row-major, from element `offset` of the unsharded flat
    state on.

    Example: `#fsdp.part<@"layers.0/flat" at 256>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$flat, "int64_t":$offset);
  let assemblyFormat = "`<` $flat `at` $offset `>`";
}

#endif // FSDP_PLACEMENTS_TD
