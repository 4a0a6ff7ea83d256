//===- Attributes.td - Attributes of the fsdp dialect ------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_ATTRIBUTES_TD
#define FSDP_ATTRIBUTES_TD

include "Enums.td"
include "Placements.td"
include "SettingsBase.td"

def Fsdp_Mesh : Fsdp_Attr<"Mesh", "mesh"> {
  let summary = "names and sizes of the mesh axes, slowest first";
  let description = [{
    Ranks are numbered row-major over the axes. Stands on the module as
    `fsdp.mesh`.

    Example: `#fsdp.mesh<replicate = 2, shard = 4>` has 8 ranks; ranks 0 to 3
    are one `shard` group, ranks 0 and 4 one `replicate` group.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes);
  let assemblyFormat = "`<` custom<Axes>($names, $sizes) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Product of the axes' sizes.
    int64_t getWorldSize() const;
    /// The group of the axis `name`, or null if there is none.
    ::fsdp::GroupAttr getGroup(::llvm::StringRef name) const;
    /// The group of all ranks: that of the only axis with more than one rank,
    /// else one called "world".
    ::fsdp::GroupAttr getWorldGroup() const;
  }];
}

def Fsdp_Group : Fsdp_Attr<"Group", "group"> {
  let summary = "a family of rank sets that communicate";
  let description = [{
    The sets `{base + i * stride | i < size}`. Every axis of a row-major mesh,
    every run of adjacent axes and every part of an axis (hpZ) is such a family.
    Prints as an alias named after it: `#shard`.

    Example: `#fsdp.group<"replicate", 2 : 4>` is two ranks, four apart.
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size,
                        DefaultValuedParameter<"int64_t", "1">:$stride);
  let assemblyFormat = "`<` $name `,` $size (`:` $stride^)? `>`";
  let genVerifyDecl = 1;
}

def Fsdp_Parts : Fsdp_Struct<"Parts", "parts"> {
  let summary = "which rows of a dim are a rank's part of it";
  let description = [{
    The dim is `blocks` blocks of one size behind each other, and a rank has its part
    of each: a batch and its sequence that are one dim are cut along the sequence.
    Rank `r` of `n` has of each block the `r`-th of `n` pieces, or, if `balanced`,
    pieces `r` and `2 n - 1 - r` of `2 n`: under a causal mask as much is computed
    for them as for every other rank's (the order is that of PyTorch's
    torch/distributed/tensor/experimental/_context_parallel). Absent: one block,
    not balanced.

    Example: `#fsdp.parts<blocks = 2, balanced = true>`
  }];
  let parameters = (ins Fsdp_Count<"1">:$blocks, Fsdp_Flag<"false">:$balanced);
}

def Fsdp_Placed : Fsdp_Attr<"Placed", "placed"> {
  let summary = "what each rank of a group has of a computed tensor";
  let description = [{
    All of it (`whole`), an equal part along a dim (`shard`), a summand of the
    tensor (`partial`), or numbers of which the greatest are it (`greatest`).
    `group` are the ranks that compute it together.

    Example: `#fsdp.placed<shard dim 1 over #tp>`,
    `#fsdp.placed<shard dim 0 in #fsdp.parts<blocks = 2> over #cp>`
  }];
  let parameters = (ins EnumParameter<Fsdp_PlacedKind>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$dim,
                        OptionalParameter<"::fsdp::PartsAttr">:$parts,
                        "::fsdp::GroupAttr":$group);
  let assemblyFormat = [{
    `<` $kind (`dim` $dim^)? (`in` $parts^)? `over` $group `>`
  }];
  let extraClassDeclaration = [{
    bool isWhole() const { return getKind() == ::fsdp::PlacedKind::Whole; }
    bool isPartial() const { return getKind() == ::fsdp::PlacedKind::Partial; }
    bool isShard() const { return getKind() == ::fsdp::PlacedKind::Shard; }
  }];
}

def Fsdp_Record : Fsdp_Attr<"Record", "record"> {
  let summary = "bytes of the model file that hold a tensor";
  let description = [{
    `name` is the record's name in the archive, `offset` the absolute position
    in the file of the tensor's first element, `bytes` the span from there to
    the end of its last element, and `crc` the CRC-32 that the archive's
    directory states for the whole record. `strides` (in elements) is present
    only if the stored tensor is not contiguous.

    Example: `#fsdp.record<"data/weights/weight_0" at 1472 : 884 crc 2774181210>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$offset,
                        "int64_t":$bytes,
                        DefaultValuedParameter<"int64_t", "0">:$crc,
                        OptionalArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = [{
    `<` $name `at` $offset `:` $bytes (`crc` $crc^)?
    (`strides` ` ` `[` $strides^ `]`)? `>`
  }];
}

def Fsdp_Model : Fsdp_Attr<"Model", "model"> {
  let summary = "the file that a program was captured from";
  let description = [{
    Stands on the module as `fsdp.model`. `bytes` is the file's size and
    `directory` a hash of its zip directory (names, sizes, CRC-32s): by both the
    runtime recognises the file again. `torch` is the LibTorch version that
    captured it.

    Example: `#fsdp.model<"model.pt2", 51234, "9f86d081884c7d65", torch "2.11.0">`
  }];
  let parameters = (ins "::mlir::StringAttr":$path, "int64_t":$bytes,
                        "::mlir::StringAttr":$directory,
                        "::mlir::StringAttr":$torch);
  let assemblyFormat = "`<` $path `,` $bytes `,` $directory `,` `torch` $torch `>`";
}

def Fsdp_Init : Fsdp_Attr<"Init", "init"> {
  let summary = "first values that are computed element by element";
  let description = [{
    An element is a function of the config's seed, the state's name and the
    element's number in the unsharded tensor, so that every sharding computes the
    same values:
    * `normal(mean, std)`, `trunc_normal(mean, std, a, b)`, `uniform(a, b)`:
      independent random numbers;
    * `eye`: ones on the diagonal of a matrix, else zeros;
    * `rope(theta)`: element i of n is theta^(-i/n), the frequencies of rotary
      position embeddings.

    The number of arguments is checked.

    Example: `#fsdp.init<normal(0.000000e+00, 2.000000e-02)>`
  }];
  let parameters = (ins EnumParameter<Fsdp_InitKind>:$kind,
                        "::mlir::DenseF64ArrayAttr":$arguments);
  let assemblyFormat = "`<` $kind `` custom<Numbers>($arguments) `>`";
  let genVerifyDecl = 1;
}

def Fsdp_Weight : Fsdp_Attr<"Weight", "weight"> {
  let summary = "a tensor of weights files that holds a first value";
  let description = [{
    `names` are the tensor's possible names in the files, of which the first that
    they have counts; a tied state has several. `file` is its file by index into
    the module's `fsdp.weights`, `offset` the absolute position there of the first
    byte, `bytes` the tensor's size, and `type` its element type, which is
    converted to the state's. With names alone (`file` is -1), the run says where
    the files are.

    Example: `#fsdp.weight<"head.weight", "embed.weight" in 0 at 1472 : 884 bf16>`
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        DefaultValuedParameter<"int64_t", "-1">:$file,
                        DefaultValuedParameter<"int64_t", "0">:$offset,
                        DefaultValuedParameter<"int64_t", "0">:$bytes,
                        OptionalParameter<"::mlir::Type">:$type);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fsdp_WeightsFile : Fsdp_Attr<"WeightsFile", "weights_file"> {
  let summary = "a safetensors file that first values are read from";
  let description = [{
    `bytes` is the file's size and `header` a hash of its header (names, types and
    shapes): by both the runtime recognises the file again. The array of them
    stands on the module as `fsdp.weights`.

    Example: `#fsdp.weights_file<"model.safetensors", 51234, "9f86d081884c7d65">`
  }];
  let parameters = (ins "::mlir::StringAttr":$path, "int64_t":$bytes,
                        "::mlir::StringAttr":$header);
  let assemblyFormat = "`<` $path `,` $bytes `,` $header `>`";
}

def Fsdp_GradientRule : Fsdp_Attr<"GradientRule", "gradient_rule"> {
  let summary = "how ranks combine a parameter's gradient, if not as usual";
  let description = [{
    A `local` parameter is trained by each rank on its own data alone: no rank
    sees another's gradient of it. `reduce` is the element type in which the
    gradient is reduced, if not in its own.

    Example: `#fsdp.gradient_rule<reduce bf16>`
  }];
  let parameters = (ins "bool":$local, OptionalParameter<"::mlir::Type">:$reduce);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Fsdp_Quantized : Fsdp_Attr<"Quantized", "quantized"> {
  let summary = "what a state of blocks of codes stands for";
  let description = [{
    The state holds blocks of `block_size` neighbouring elements of the model's tensor,
    which is of `type`, in row-major order: a row of bytes each, which is a scale in f32
    and the codes, or, with `double_quant`, a row for 256 of them, whose scales are codes
    as well (support/BlockForm.h). First values, names and exports are those of the
    model's tensor.

    Example: `#fsdp.quantized<nf4 of tensor<512x256xbf16>>`,
    `#fsdp.quantized<fp4 block_size = 128 double_quant = true of tensor<512x256xbf16>>`
  }];
  let parameters = (ins EnumParameter<Fsdp_QuantizedKind>:$kind,
                        DefaultValuedParameter<"int64_t", "64">:$block_size,
                        DefaultValuedParameter<"bool", "false">:$double_quant,
                        "::mlir::RankedTensorType":$type);
  let assemblyFormat = [{
    `<` $kind (`block_size` `=` $block_size^)? (`double_quant` `=` $double_quant^)?
    `of` $type `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::fsdp::BlockForm getForm() const;
    /// That of the bytes.
    ::mlir::RankedTensorType getBlocksType() const;
  }];
}

def Fsdp_Adapter : Fsdp_Struct<"Adapter", "adapter"> {
  let summary = "matrices that together add to a frozen one";
  let description = [{
    The program computes `base(x) + scale * up(down(x))`: it is the same as one product
    with `base + scale * up @ down`. The base is [out, in], or [in, out] where it is
    multiplied as it is; `down` is [rank, in] and `up` [out, rank]. The array of them
    stands on the module as `fsdp.adapters`; `fsdp-find-adapters` puts it there.

    With a `magnitude` each of the sum's outs is brought to the norm that it says (DoRA).
    `first_down` and `first_up` are where the two began if the base began without their
    product. Of several `experts` the base has a dim in front, `down` is [experts * rank,
    in] and `up` [out, rank * experts].

    Example: `#fsdp.adapter<base = @fc.weight, down = @a.weight, up = @b.weight, scale = 2.0>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$base,
                        "::mlir::FlatSymbolRefAttr":$down,
                        "::mlir::FlatSymbolRefAttr":$up, Fsdp_Real<"1">:$scale,
                        Fsdp_Flag<"false">:$base_is_in_by_out,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$magnitude,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$first_down,
                        OptionalParameter<"::mlir::FlatSymbolRefAttr">:$first_up,
                        Fsdp_Count<"0">:$experts);
}

#endif // FSDP_ATTRIBUTES_TD
