//===- Settings.td - What a compile is told, on the module -------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What passes read instead of options, so that a program and what is to become of
// it are one text. An attribute that is absent has the defaults of all of its
// parameters.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_SETTINGS_TD
#define FSDP_SETTINGS_TD

include "SettingsBase.td"

//===----------------------------------------------------------------------===//
// Capture
//===----------------------------------------------------------------------===//

def Fsdp_PrecisionRule : Fsdp_Struct<"PrecisionRule", "precision_rule"> {
  let summary = "a precision policy of some modules";
  let description = [{
    `modules` are patterns of their paths; a module that matches is meant with all
    beneath it. Of the policy only what is no rule counts.

    Example: `#fsdp.precision_rule<modules = ["*norm*"], policy = <>>`
  }];
  let parameters = (ins "::mlir::ArrayAttr":$modules,
                        "::fsdp::PrecisionAttr":$policy);
}

def Fsdp_Precision : Fsdp_Setting<"Precision", "precision"> {
  let summary = "the mixed-precision policies that a program was captured with";
  let description = [{
    As FSDP2's MixedPrecisionPolicy, with torch's names of dtypes; an absent one
    leaves the original dtype. Of `rules` (`#fsdp.precision_rule`) the last that
    matches a module counts. Capture writes it and has applied it.

    Example: `#fsdp.precision<param_dtype = "bfloat16", reduce_dtype = "float32">`
  }];
  let parameters = (ins OptionalParameter<"::mlir::StringAttr">:$param_dtype,
                        OptionalParameter<"::mlir::StringAttr">:$reduce_dtype,
                        OptionalParameter<"::mlir::StringAttr">:$output_dtype,
                        Fsdp_Flag<"true">:$cast_forward_inputs,
                        Fsdp_List:$rules);
}

//===----------------------------------------------------------------------===//
// Shards and buckets
//===----------------------------------------------------------------------===//

def Fsdp_DimRule : Fsdp_Struct<"DimRule", "dim_rule"> {
  let summary = "which dim parameters of some names are cut along";
  let description = [{
    `params` are patterns of names; without `dim` it is the largest dim.

    Example: `#fsdp.dim_rule<params = ["*.weight"], dim = 1>`
  }];
  let parameters = (ins "::mlir::ArrayAttr":$params,
                        OptionalParameter<"std::optional<int64_t>">:$dim);
}

def Fsdp_Shards : Fsdp_Setting<"Shards", "shards"> {
  let summary = "over how many ranks parameters are cut, and how";
  let description = [{
    `world` ranks, of which each part of `replicate` holds all shards. Parameters
    that a pattern of `ignore` matches stay whole, and with `keep_ignored_local`
    their gradients stay each rank's own. Of `dims` (`#fsdp.dim_rule`) the last that
    matches counts; others are cut along dim 0. Read by `fsdp-shard-parameters`.

    Example: `#fsdp.shards<world = 8, replicate = 2, ignore = ["*.bias"]>`
  }];
  let parameters = (ins Fsdp_Count<"1">:$world, Fsdp_Count<"1">:$replicate,
                        Fsdp_Texts:$ignore,
                        Fsdp_Flag<"false">:$keep_ignored_local,
                        Fsdp_List:$dims);
}

def Fsdp_ParallelRule : Fsdp_Struct<"ParallelRule", "parallel_rule"> {
  let summary = "how modules of some paths are computed by the ranks of an axis";
  let description = [{
    `modules` are shell patterns of their paths (`*` stands for any characters).

    Example: `#fsdp.parallel_rule<modules = ["*.q_proj"], style = colwise>`
  }];
  let parameters = (ins "::mlir::ArrayAttr":$modules,
                        Fsdp_Choice<"ParallelStyle", "Colwise">:$style);
}

def Fsdp_Parallel : Fsdp_Setting<"Parallel", "parallel"> {
  let summary = "over how many ranks the step of one batch is computed";
  let description = [{
    Of the `world` of `#fsdp.shards` each `tp` adjacent ranks compute one step
    together (tensor parallelism), each `cp * tp` read one batch, of which each `cp`
    computes a part of the sequence (context parallelism). Of `plan`
    (`#fsdp.parallel_rule`) the last rule that matches a module counts; with
    `automatic` modules that none matches are planned by what they compute. With
    `sequence` what is not computed by parts of its features is by parts of its
    sequence. With `ring` attention passes keys and values from rank to rank of `cp`
    where it can, instead of gathering them. Read by `fsdp-partition` and
    `fsdp-shard-parameters`.

    Example: `#fsdp.parallel<tp = 2, automatic = true>`
  }];
  let parameters = (ins Fsdp_Count<"1">:$tp, Fsdp_Count<"1">:$cp,
                        Fsdp_List:$plan, Fsdp_Flag<"false">:$automatic,
                        Fsdp_Flag<"false">:$sequence,
                        Fsdp_Flag<"false">:$ring);
}

def Fsdp_Bucket : Fsdp_Struct<"Bucket", "bucket"> {
  let summary = "a bucket of parameters that are listed";
  let description = [{
    Patterns are of names of parameters, or of modules that hold them.

    Example: `#fsdp.bucket<"heads", ["*head*", "embed"]>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        "::mlir::ArrayAttr":$patterns);
  let assemblyFormat = "`<` $name `,` $patterns `>`";
}

def Fsdp_Rule : Fsdp_Struct<"Rule", "rule"> {
  let summary = "what holds for some buckets instead of what holds for all";
  let description = [{
    `buckets` are patterns of their names. `reshard` is the number of ranks that
    they are gathered from again for backward: 0 are all, 1 keeps what was gathered.
    They are gathered `prefetch` buckets ahead. Their gradients travel in
    `reduce_wire`, as those of `#fsdp.step`, or "float32".

    Example: `#fsdp.rule<buckets = ["layers.*"], reshard = 4, layout = flat>`
  }];
  let parameters = (ins "::mlir::ArrayAttr":$buckets,
      OptionalParameter<"std::optional<int64_t>">:$reshard,
      OptionalParameter<"std::optional<::fsdp::BucketLayout>">:$layout,
      OptionalParameter<"std::optional<int64_t>">:$prefetch,
      OptionalParameter<"::mlir::StringAttr">:$reduce_wire);
}

def Fsdp_Buckets : Fsdp_Setting<"Buckets", "buckets"> {
  let summary = "which parameters are moved together, and how";
  let description = [{
    First come those that are `named` (`#fsdp.bucket`), of which the first that
    matches counts; `policy` makes buckets of the rest, by `classes` of modules or by
    at least `min_params` parameters. `reshard` and `layout` hold for all buckets
    that no rule of `rules` (`#fsdp.rule`) is for; of several the last counts. With
    `reshard_ranks` a part over so many adjacent ranks is kept for backward; 0: what
    is gathered again comes from all of them. Read by `fsdp-assign-buckets`,
    `fsdp-reshard-after-forward`, `fsdp-flatten-buckets`, `fsdp-narrow-wires` and
    `fsdp-schedule-collectives`.

    Example: `#fsdp.buckets<policy = classes, classes = ["Block"], reshard = all>`
  }];
  let parameters = (ins Fsdp_Choice<"BucketPolicy", "Blocks">:$policy,
                        Fsdp_Texts:$classes, Fsdp_Count<"100000000">:$min_params,
                        Fsdp_List:$named,
                        Fsdp_Choice<"ReshardMode", "AllButRoot">:$reshard,
                        Fsdp_Count<"0">:$reshard_ranks,
                        Fsdp_Choice<"BucketLayout", "Rows">:$layout,
                        Fsdp_List:$rules);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

def Fsdp_Step : Fsdp_Setting<"Step", "step"> {
  let summary = "what a step consists of, and how ranks exchange in it";
  let description = [{
    `micro_batches` of a step, whose gradients are exchanged as `sync` says;
    `keep_gathered` gathers parameters once for all of them. Sums of gradients over
    ranks are divided by `divide_factor`, by default the number of ranks; with
    `force_sum` reductions are sums, with `divide_in_optimizer` it is the optimizer
    that divides, where it can. `prefetch` buckets are gathered ahead of the one in
    use. A reduction is waited for when `reductions_in_flight` others have started
    behind it. A linear layer and its loss are computed in `loss_chunks` parts of their
    rows; 0 chooses a number. With `grains` a step is so many batches whatever the
    number of ranks, of which the rank with most computes `micro_batches`, and all that
    is summed over them is so in the order of one tree (plan/Grains.h). Gradients that are reduced in f32 travel in
    `reduce_wire`, "bfloat16" or "float8", where they are scattered. With `kernels`
    operators that follow each other become kernels of our own (`fsdp-fuse-kernels`).

    Example: `#fsdp.step<micro_batches = 4, sync = last>`
  }];
  let parameters = (ins Fsdp_Count<"1">:$micro_batches,
                        Fsdp_Choice<"GradientSync", "Each">:$sync,
                        Fsdp_Flag<"false">:$keep_gathered,
                        Fsdp_Number:$divide_factor,
                        Fsdp_Flag<"false">:$force_sum,
                        Fsdp_Flag<"false">:$divide_in_optimizer,
                        Fsdp_Count<"1">:$prefetch,
                        Fsdp_Count<"1">:$loss_chunks,
                        Fsdp_Count<"1">:$reductions_in_flight,
                        OptionalParameter<"::mlir::StringAttr">:$reduce_wire,
                        Fsdp_Count<"0">:$grains, Fsdp_Flag<"false">:$kernels);
}

def Fsdp_Float8 : Fsdp_Setting<"Float8", "float8"> {
  let summary = "which linear layers multiply numbers of eight bits";
  let description = [{
    Those whose paths, or those of modules around them, match `modules`; absent: none.
    `recipe` says what shares a scale, a tensor, a row of it or a block of a row. With `all_gather`
    parameters are cast on their shards, and their bytes are gathered. Sizes of a layer's
    weight are multiples of 16, unless it is to `pad` them. Read by
    `fsdp-float8-linears` and `fsdp-float8-gathers`.

    Example: `#fsdp.float8<modules = ["layers.*"], all_gather = true>`
  }];
  let parameters = (ins Fsdp_Texts:$modules,
                        Fsdp_Choice<"Float8Recipe", "Tensorwise">:$recipe,
                        Fsdp_Flag<"false">:$all_gather, Fsdp_Flag<"false">:$pad);
}

def Fsdp_Quantize : Fsdp_Setting<"Quantize", "quantize"> {
  let summary = "which frozen parameters are held in blocks of codes";
  let description = [{
    The matrices whose names, or the paths of modules around them, match `modules` and
    not `skip`; absent: none. Blocks are of `block_size` elements; with `double_quant`
    their scales are coded as well. Read by `fsdp-quantize-bases`.

    Example: `#fsdp.quantize<modules = ["layers.*"], kind = int8>`
  }];
  let parameters = (ins Fsdp_Texts:$modules,
                        Fsdp_Choice<"QuantizedKind", "Nf4">:$kind,
                        Fsdp_Texts:$skip, Fsdp_Count<"64">:$block_size,
                        Fsdp_Flag<"false">:$double_quant);
  let extraClassDeclaration = [{
    ::fsdp::BlockForm getForm() const;
  }];
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Fsdp_Recompute : Fsdp_Setting<"Recompute", "recompute"> {
  let summary = "which activations are computed again for backward";
  let description = [{
    Those of the modules that match `modules`, by default of each that the policy
    of `#fsdp.buckets` makes a bucket of; with `every` of each so many-th of them.
    `selective` keeps what operators return that match `save`, by default products
    of matrices and attention. `also` (`#fsdp.recompute`, without `also` of their own)
    holds for further modules; of several that choose one, the last counts. Modules
    that the model itself checkpoints and nothing here chooses are treated as the last
    says. Absent, all that backward reads is kept. Read by `fsdp-recompute`.

    Example: `#fsdp.recompute<policy = selective, save = ["aten.mm"]>`
  }];
  let parameters = (ins Fsdp_Choice<"RecomputePolicy", "Full">:$policy,
                        Fsdp_Count<"1">:$every, Fsdp_Texts:$modules,
                        Fsdp_Texts:$save, Fsdp_List:$also);
}

def Fsdp_Offload : Fsdp_Setting<"Offload", "offload"> {
  let summary = "what lies in the host's memory while the device does not use it";
  let description = [{
    `params`: shards of parameters, their gradients and the optimizer's states,
    which the host updates; `optimizer`: the optimizer's states alone.
    `activations` are patterns of modules whose activations leave until backward
    wants them. `pin_memory` lets the device copy from the host's memory on its
    own.

    Example: `#fsdp.offload<params = true, activations = ["layers.*"]>`
  }];
  let parameters = (ins Fsdp_Flag<"false">:$params, Fsdp_Flag<"false">:$optimizer,
                        Fsdp_Texts:$activations,
                        Fsdp_Flag<"true">:$pin_memory);
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def Fsdp_OptimizerKind : Fsdp_DefaultRow<"OptimizerKind", "adamw">;

def Fsdp_OptimizerKindAttr : AttrDef<Fsdp_Dialect, "OptimizerKind"> {
  let summary = "an optimizer, by its name in support/Optimizers.def";
  let mnemonic = "optimizer_kind";
  let parameters = (ins Fsdp_Row<"OptimizerKind">:$value);
  let assemblyFormat = "$value";
  let returnType = "::fsdp::OptimizerKind";
  let convertFromStorage = "$_self.getValue()";
  let constBuilderCall = "::fsdp::OptimizerKindAttr::get($_builder.getContext(), $0)";
}

def Fsdp_ParamGroup : Fsdp_Struct<"ParamGroup", "param_group"> {
  let summary = "parameters with settings of their own in the optimizer";
  let description = [{
    `params` are patterns of names; numbers that are absent are the optimizer's.

    Example: `#fsdp.param_group<params = ["*.bias", "*norm*"], numbers = {weight_decay = 0.0}>`
  }];
  let parameters = (ins "::mlir::ArrayAttr":$params, Fsdp_Number:$lr,
                        Fsdp_Numbers:$numbers);
}

def Fsdp_Optimizer : Fsdp_Setting<"Optimizer", "optimizer"> {
  let summary = "how parameters follow their gradients";
  let description = [{
    `kind` is a row of support/Optimizers.def, `numbers` those of its own, by default
    torch.optim's; `lr` is the first learning rate. Gradients are clipped to a global norm of `max_grad_norm` (absent:
    they are not); `norm_order` is that norm's order: 1, 2 or inf. Of `groups`
    (`#fsdp.param_group`), which are numbered from 1, the last that matches counts.
    With `in_backward` a bucket is updated as soon as its gradients are there, where
    no update waits for a number that needs all of them.
    Moments are stored as `state_dtype`: int8 and float8 are codes in blocks of 256
    elements of the model's tensor, and tensors of less than 4096 elements have
    moments in f32 then. With `stochastic_rounding` parameters in bf16 are rounded up
    or down at random.
    Read by `fsdp-flatten-buckets`, `fsdp-assign-groups` and `fsdp-insert-optimizer`;
    the artifact shows it.

    Example: `#fsdp.optimizer<kind = sgd, lr = 1.000000e-01, numbers = {momentum = 0.9}>`
  }];
  let parameters = (ins Fsdp_OptimizerKind:$kind, Fsdp_Real<"1e-3">:$lr,
                        Fsdp_Numbers:$numbers, Fsdp_Number:$max_grad_norm,
                        Fsdp_Real<"2">:$norm_order, Fsdp_List:$groups,
                        Fsdp_Flag<"false">:$in_backward,
                        Fsdp_Choice<"StateDType", "Parameter">:$state_dtype,
                        Fsdp_Flag<"false">:$stochastic_rounding);
}

def Fsdp_Noise : Fsdp_Setting<"Noise", "noise"> {
  let summary = "noise that capture added to the model's embeddings";
  let description = [{
    Uniform from -m to m with m = `alpha` / sqrt(tokens * width), drawn at `sites`
    (`fsdp.draw`) in steps of training. Stands on the module as `fsdp.noise`.
    Read by `fsdp-add-validation`, whose programs have none.

    Example: `#fsdp.noise<alpha = 5.0, sites = [0]>`
  }];
  let parameters = (ins Fsdp_Real<"0">:$alpha,
                        "::mlir::DenseI64ArrayAttr":$sites);
}

def Fsdp_LossScale : Fsdp_Setting<"LossScale", "loss_scale"> {
  let summary = "how the loss scale changes";
  let description = [{
    As torch.amp.GradScaler: `backoff` multiplies it where an update is left out,
    `growth` after `interval` updates in a row. Absent, or with an interval of 0, it
    stays. Read by `fsdp-insert-optimizer`.

    Example: `#fsdp.loss_scale<interval = 2000>`
  }];
  let parameters = (ins Fsdp_Count<"0">:$interval, Fsdp_Real<"2">:$growth,
                        Fsdp_Real<"0.5">:$backoff);
}

def Fsdp_Ema : Fsdp_Setting<"Ema", "ema"> {
  let summary = "averages of what is trained";
  let description = [{
    Of each trained parameter an exponential moving average. Behind an update whose
    number s is a multiple of `every` it becomes the parameter, if
    t = (s - `after`) / `every` - 1 is not above 0, else
    d * average + (1 - d) * parameter, where d is `decay`, or with a warm-up the less
    of it and `ratio` (1 + t) / (10 + t), `power` 1 - (1 + t / `gamma`) ^ -`power`.
    In f32 of parameters of fewer bits, unless it `keeps_type`. Absent, nothing is
    averaged. Read by `fsdp-insert-optimizer`.

    Example: `#fsdp.ema<decay = 9.990000e-01, warmup = ratio>`
  }];
  let parameters = (ins Fsdp_Real<"0.999">:$decay, Fsdp_Count<"0">:$after,
                        Fsdp_Count<"1">:$every,
                        Fsdp_Choice<"EmaWarmup", "None">:$warmup,
                        Fsdp_Real<"1">:$gamma, Fsdp_Real<"2.0/3">:$power,
                        Fsdp_Flag<"false">:$keeps_type);
}

def Fsdp_ReportedNorms : Fsdp_Setting<"ReportedNorms", "reported_norms"> {
  let summary = "norms that a step reports beside that of all gradients";
  let description = [{
    Of gradients (as the optimizer gets them, before they are clipped), of weights (as
    the step found them) and of updates (what the step adds to them), for each trained
    parameter or, `by_module`, each module: of a stack of layers each layer, else the
    module that has the parameter. Read by `fsdp-insert-optimizer`.

    Example: `#fsdp.reported_norms<gradients = true, by_module = true>`
  }];
  let parameters = (ins Fsdp_Flag<"false">:$gradients,
                        Fsdp_Flag<"false">:$weights, Fsdp_Flag<"false">:$updates,
                        Fsdp_Flag<"false">:$by_module);
}

#endif // FSDP_SETTINGS_TD
