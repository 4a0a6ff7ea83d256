//===- OpsModule.td - The module's table of states ---------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_MODULE_TD
#define FSDP_OPS_MODULE_TD

include "OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Fsdp_StateOp : Fsdp_Op<"state", [Symbol]> {
  let summary = "declare a tensor that lives across programs";
  let description = [{
    The one table that all programs of the module, checkpoints, export and
    reports read. `type` is the unsharded type; with `sharded` each rank holds
    `getLocalType()`, the sharded dim cut to ceil(d / size) rows, of which the
    rows beyond d are zero (invariant P). Function arguments and results are
    bound to a state by `{fsdp.state = @name}`; a result bound to the state of an
    argument is its update in place.

    `names` lists all names of a tied tensor, its own first. Its first value is one
    of these: `source`, bytes of the model file; `weight`, a tensor of weights
    files; `init`, one element that is repeated, or `#fsdp.init`, which computes
    every element. With none it starts as zeros. `bucket` names the
    tensors that are moved together. `at` is its byte offset in the arena, set
    by the planner. `volatile` buffers are not part of an export. A `local`
    parameter is trained by each rank on its own data alone: no rank sees
    another's gradient of it.
    `reduce` is the element type in which a parameter's gradient is reduced, if
    not in its own. `group` is the number of a parameter's group among those of
    `#fsdp.optimizer`, from 1; without it the optimizer's own settings hold.

    A state of `layout flat` holds others, one behind the other, and is cut into
    equal parts that respect no borders of rows or tensors. These others are its
    members: `part` says where each lies. They keep their names and first values,
    which checkpoints, exports and reports read, but have no memory of their own;
    programs bind the flat state alone. What lies between members is zero, as
    padding rows are.

    Example:

    ```mlir
    fsdp.state parameter @fc1.weight : tensor<13x17xf32>
        sharded <dim 0 over #shard> bucket "fc1"
        source <"data/weights/weight_0" at 1472 : 884>
    fsdp.state optimizer @"fc1.weight/exp_avg" of @fc1.weight
        : tensor<13x17xf32> sharded <dim 0 over #shard>
    fsdp.state learning_rate @"optimizer/lr" : tensor<f32> init 1.0e-3 : f32
    fsdp.state parameter @head.weight : tensor<31x18xf32>
        weight <"lm_head.weight" in 0 at 1472 : 1116 bf16>
    fsdp.state parameter @position : tensor<9x18xf32>
        init #fsdp.init<normal(0.000000e+00, 2.000000e-02)>
    fsdp.state parameter @fc2.weight : tensor<5x13xf32> reduce bf16
    fsdp.state parameter @"fc3/flat" : tensor<128xf32>
        sharded <dim 0 over #shard> bucket "fc3" layout flat
    fsdp.state parameter @fc3.weight : tensor<5x13xf32> bucket "fc3"
        part <@"fc3/flat" at 0>
    fsdp.state parameter @fc3.bias : tensor<5xf32> bucket "fc3"
        part <@"fc3/flat" at 96>
    ```

    Constraints:
    * ST-1: the type is a ranked tensor of static shape;
    * ST-2: the sharded dim exists;
    * ST-3: `of` names another state of the module;
    * ST-4: a state has one of `source`, `weight` and `init` at most;
    * ST-5: its own name stands first among `names`;
    * ST-6: `at` is not negative;
    * ST-7: the file of `weight` is one of the module's `fsdp.weights`, whose tensor
      has as many bytes as the state's shape asks for in the file's type;
    * ST-8: a state that is computed by `#fsdp.init` has a floating-point type;
    * ST-9: only an unsharded parameter is `local`;
    * ST-10: a parameter alone has `reduce`, a floating-point type other than its
      own;
    * ST-11: a flat state has one dim, which is cut evenly, and neither names nor
      a first value nor a `part` of its own;
    * ST-12: a `part` is not sharded itself and has no address;
    * ST-13: it names a flat state of its element type, role and group, inside of
      which it lies, behind the member before it;
    * ST-14: what has the layout `fsdp2` is a parameter with elements in a bucket,
      sharded along dim 0;
    * ST-15: a parameter alone has a `group`, which is at least 1.

    Bindings, checked in modules that carry `fsdp.mesh` or `fsdp.model`:
    * BI-1: `fsdp.state` and `fsdp.gradient` name a state of the module;
    * BI-2: in a program with `fsdp.captured` the argument or result has the
      state's type;
    * BI-3: in every other program it has the type of one rank's part;
    * BI-4: a program binds a state to one argument and one result at most;
    * BI-5: only a captured program binds the members of a flat state.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Fsdp_RoleAttr:$role,
                       TypeAttr:$type, OptionalAttr<Fsdp_Sharding>:$sharding,
                       OptionalAttr<FlatSymbolRefAttr>:$of,
                       OptionalAttr<StrArrayAttr>:$names,
                       OptionalAttr<StrAttr>:$bucket,
                       OptionalAttr<Fsdp_Record>:$source,
                       OptionalAttr<AnyAttr>:$init,
                       OptionalAttr<I64Attr>:$at,
                       UnitAttr:$volatile_,
                       OptionalAttr<Fsdp_Weight>:$weight, UnitAttr:$local,
                       OptionalAttr<TypeAttr>:$reduce,
                       OptionalAttr<Fsdp_LayoutAttr>:$layout,
                       OptionalAttr<Fsdp_Part>:$part,
                       OptionalAttr<I64Attr>:$group);
  let assemblyFormat = [{
    `` $role $sym_name (`of` $of^)? `:` $type (`sharded` $sharding^)?
    (`names` $names^)? (`bucket` $bucket^)? (`group` $group^)? (`source` $source^)?
    (`weight` $weight^)? (`init` $init^)? (`at` $at^)? (`volatile` $volatile_^)?
    (`local` $local^)? (`reduce` $reduce^)? (`layout` `` $layout^)?
    (`part` $part^)? attr-dict
  }];
  let builders = [
    // A state that no weights file holds.
    OpBuilder<(ins "::mlir::StringAttr":$sym_name, "::fsdp::RoleAttr":$role,
                   "::mlir::TypeAttr":$type, "::fsdp::ShardingAttr":$sharding,
                   "::mlir::FlatSymbolRefAttr":$of, "::mlir::ArrayAttr":$names,
                   "::mlir::StringAttr":$bucket, "::fsdp::RecordAttr":$source,
                   "::mlir::Attribute":$init, "::mlir::IntegerAttr":$at,
                   "::mlir::UnitAttr":$volatile_), [{
      build($_builder, $_state, sym_name, role, type, sharding, of, names,
            bucket, source, init, at, volatile_, ::fsdp::WeightAttr(),
            ::mlir::UnitAttr(), ::mlir::TypeAttr(), ::fsdp::LayoutAttr(),
            ::fsdp::PartAttr(), ::mlir::IntegerAttr());
    }]>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getGlobalType();
    /// What one rank holds: the sharded dim cut to ceil(d / size).
    ::mlir::RankedTensorType getLocalType();
    /// In which a parameter's gradient is reduced.
    ::mlir::Type getReduceType();
    /// Whether it holds other states.
    bool isFlat() {
      return getLayout() == ::fsdp::Layout::Flat;
    }
    /// All names of the tensor, its own first.
    ::llvm::SmallVector<::llvm::StringRef> getAllNames();
  }];
}

// Not ModuleOp, which is the builtin one.
def Fsdp_ModuleInfoOp : Fsdp_Op<"module"> {
  let summary = "name a module of the captured model and its class";
  let description = [{
    One row of the model's module tree, for modules that own states or contain
    such modules; wrap policies read it. The path of a state's module is its name
    without the last component.

    Example: `fsdp.module "model.layers.0" class "LlamaDecoderLayer"`
  }];
  let arguments = (ins StrAttr:$path, StrAttr:$class_name);
  let assemblyFormat = "$path `class` $class_name attr-dict";
}

#endif // FSDP_OPS_MODULE_TD
