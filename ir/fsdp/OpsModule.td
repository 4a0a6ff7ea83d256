//===- OpsModule.td - The module's table of states ---------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_OPS_MODULE_TD
#define FSDP_OPS_MODULE_TD

include "OpBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"

def Fsdp_FirstValue
    : AnyAttrOf<[Fsdp_Record, Fsdp_Weight, Fsdp_Init, TypedAttrInterface],
                "first value: a record, a weight, #fsdp.init or elements">;

def Fsdp_StateOp : Fsdp_Op<"state", [Symbol]> {
  let summary = "declare a tensor that lives across programs";
  let description = [{
    The one table that all programs of the module, checkpoints, export and
    reports read. `type` is the unsharded type; `placement` says what of it each
    rank holds, which is `getLocalType()`; without one, each holds all of it.
    Function arguments and results are bound to a state by `{fsdp.state = @name}`;
    a result bound to the state of an argument is its update in place.

    `names` lists all names of a tied tensor, its own first. `value` is what it
    holds at first: bytes of the model file (`source`), a tensor of weights files
    (`weight`), what `#fsdp.init` computes, or elements, of which one alone is
    repeated. Without one it starts as zeros. `bucket` names the tensors that are
    moved together; a parameter that is `copied` is copied next to the others of
    its bucket to be moved, as FSDP2 does. `at` is its byte offset in the arena,
    set by the planner: of that memory of a rank that `memory` says, by default its
    device's. `volatile` buffers are not part of an export. `gradient`
    says how a parameter's gradient is reduced. `group` is the number of a
    parameter's group among those of `#fsdp.optimizer`, from 1; without it the
    optimizer's own settings hold.

    A `flat` state holds others, which are its members: `part` says where each
    lies. They keep their names and first values, which checkpoints, exports and
    reports read, but have no memory of their own; programs bind the flat state
    alone. What lies between members is zero, as padding rows are.

    With `split` the tensor of the model is larger: the ranks of that group, an axis
    of the mesh beside those that `placement` cuts over, hold equal parts of it, or of
    each of its blocks, along a dim (tensor parallelism), and `type` is one such part. It is cut before the
    placement cuts what is left, so on one dim the placement's rows lie inside of the
    split's.

    A frozen parameter that is `quantized` holds bytes: `type` is that of its blocks of
    codes, and the model's tensor stands in the attribute.

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
    fsdp.state parameter @fc2.weight : tensor<5x13xf32> gradient <reduce bf16>
    fsdp.state parameter @"fc3/flat" : tensor<128xf32> flat <over #shard>
        bucket "fc3"
    fsdp.state parameter @fc3.weight : tensor<5x13xf32> part <@"fc3/flat" at 0>
        bucket "fc3"
    fsdp.state parameter @fc3.bias : tensor<5xf32> part <@"fc3/flat" at 96>
        bucket "fc3"
    fsdp.state optimizer @"fc2.weight/exp_avg" of @fc2.weight
        : tensor<5x13xf32> memory host
    fsdp.state frozen @base.weight : tensor<32x36xui8> quantized <nf4 of tensor<32x64xbf16>>
    fsdp.state parameter @fc4.weight : tensor<5x13xf32> model bf16
    fsdp.state parameter @up.weight : tensor<32x16xf32> split <dim 0 over #tp>
        sharded <dim 0 over #shard>
    ```

    Constraints:
    * ST-1: the type is a ranked tensor of static shape;
    * ST-2: the placement fits it: a sharded dim exists, a flat state has one dim,
      which its ranks cut evenly;
    * ST-3: `of` names another state of the module;
    * ST-4: elements are one of the state's element type, or have its type;
    * ST-5: its own name stands first among `names`;
    * ST-6: `at` is not negative;
    * ST-7: the file of `weight` is one of the module's `fsdp.weights`, whose tensor
      has as many bytes as the state's shape asks for in the file's type;
    * ST-8: a state that is computed by `#fsdp.init` has a floating-point type;
    * ST-9: a parameter alone has a `gradient` rule; only one that is whole on every
      rank is `local`;
    * ST-10: `reduce` is a floating-point type other than the parameter's own;
    * ST-11: a flat state has neither names nor a first value of its own;
    * ST-12: a part has no address of its own;
    * ST-13: it names a flat state of its element type, role and group, inside of
      which it lies, behind the member before it;
    * ST-14: what is `copied` is a parameter with elements in a bucket, sharded along
      dim 0;
    * ST-15: a parameter alone has a `group`, which is at least 1;
    * ST-16: a `split` dim exists, whose parts are whole blocks of one size, and a
      flat state has none;
    * ST-17: what is `quantized` is a frozen parameter that is not split, has the type of
      its blocks, and is cut along dim 0 alone;
    * ST-18: what has a `model` type is a parameter of f32 that is not quantized, or an
      average of one, and that type is f16 or bf16;
    * ST-19: what begins as its `owner` is of the optimizer, and belongs to a parameter
      (`of`).

    Bindings, checked in modules that carry `fsdp.mesh` or `fsdp.model`:
    * BI-1: `fsdp.state` and `fsdp.gradient` name a state of the module;
    * BI-2: in a program with `fsdp.captured` the argument or result has the
      state's type, in a reference that of the model's tensor;
    * BI-3: in every other program it has the type of one rank's part;
    * BI-4: a program binds a state to one argument and one result at most;
    * BI-5: only a captured program binds the members of a flat state.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Fsdp_RoleAttr:$role,
                       TypeAttr:$type,
                       OptionalAttr<Fsdp_Split>:$split,
                       OptionalAttr<PlacementAttrInterface>:$placement,
                       OptionalAttr<FlatSymbolRefAttr>:$of,
                       OptionalAttr<StrArrayAttr>:$names,
                       OptionalAttr<StrAttr>:$bucket, UnitAttr:$copied,
                       OptionalAttr<I64Attr>:$group,
                       OptionalAttr<Fsdp_FirstValue>:$value,
                       OptionalAttr<I64Attr>:$at, UnitAttr:$volatile_,
                       OptionalAttr<Fsdp_GradientRule>:$gradient,
                       OptionalAttr<Fsdp_MemorySpaceAttr>:$memory,
                       OptionalAttr<Fsdp_Quantized>:$quantized,
                       OptionalAttr<TypeAttr>:$model_element);
  let assemblyFormat = [{
    `` $role $sym_name (`of` $of^)? `:` $type (`split` $split^)?
    (custom<Placement>($placement)^)?
    (`names` $names^)? (`bucket` $bucket^)? (`copied` $copied^)? (`group` $group^)?
    (custom<FirstValue>($value)^)? (`at` $at^)? (`volatile` $volatile_^)?
    (`gradient` $gradient^)? (`memory` `` $memory^)?
    (`quantized` $quantized^)? (`model` $model_element^)? attr-dict
  }];
  // What else a state is, setters say by name.
  let skipDefaultBuilders = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::fsdp::Role":$role,
                                 "::mlir::RankedTensorType":$type)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The tensor of the model: `getGlobalType()`, unless it is split.
    ::mlir::RankedTensorType getWholeType();
    /// What files and exports hold of it: `getWholeType()`, unless it is quantized or
    /// held in a wider type than the model's, `model_element`.
    ::mlir::RankedTensorType getModelType();
    /// What the ranks over which it is cut hold together.
    ::mlir::RankedTensorType getGlobalType();
    /// What one rank holds.
    ::mlir::RankedTensorType getLocalType();
    /// The rows that each rank holds; null if it has none of its own.
    ::fsdp::ShardingAttr getSharding();
    /// Where it lies in a flat state; null if it lies in none.
    ::fsdp::PartAttr getPart();
    /// Whether it holds other states.
    bool isFlat();
    /// The tensor of weights files that it starts with; null if it does not.
    ::fsdp::WeightAttr getWeight();
    /// Whether it lies in the host's memory, beside the device's.
    bool isOnHost();
    void setOnHost(bool isOnHost);
    /// Whether each rank trains it on its own data alone.
    bool isLocal();
    void setLocal(bool isLocal);
    /// In which a parameter's gradient is reduced.
    ::mlir::Type getReduceType();
    /// Whether that is not its own element type.
    bool isReducedInOtherType();
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
