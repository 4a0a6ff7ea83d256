//===- RunAttributes.td - What a run is told, on the module ------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the artifact hands to the run and no op holds, beside what the optimizer's
// settings say. The artifact is made from the module alone, so that it is the same
// from a program that was printed and read again.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUN_ATTRIBUTES_TD
#define FSDP_RUN_ATTRIBUTES_TD

include "Dialect.td"
include "SettingsBase.td"

def Fsdp_Schedule_ : Fsdp_Setting<"Schedule", "schedule"> {
  let summary = "learning rates as functions of the step";
  let description = [{
    Stands on the module as `fsdp.schedule`; absent: constant. A warm-up is a
    number of steps or a ratio of the total; `total_steps` of 0 are the steps of
    the run, and `min_lr` is the base's, or `min_lr_ratio` a part of its rate.
    `numbers` are those of the kind (support/Schedules.def) that are not its
    defaults; shapes are numbers from 0 there.

    Example: `#fsdp.schedule<kind = cosine, warmup_steps = 10, total_steps = 100>`
  }];
  let parameters = (ins Fsdp_Row<"ScheduleKind">:$kind,
                        Fsdp_Count<"0">:$warmup_steps,
                        Fsdp_Number:$warmup_ratio, Fsdp_Count<"0">:$total_steps,
                        Fsdp_Number:$min_lr, Fsdp_Number:$min_lr_ratio,
                        Fsdp_Numbers:$numbers);
}

def Fsdp_AdapterSettings
    : Fsdp_Setting<"AdapterSettings", "adapter_settings"> {
  let summary = "adapters that capture put in";
  let description = [{
    As PEFT's LoraConfig would have put them in. Stands on the module as
    `fsdp.adapter_settings`, beside `fsdp.adapters`, which then are those and no others;
    absent: adapters, if there are any, are the exported model's. With
    `rank_stabilized` what they compute is multiplied by `alpha / sqrt(rank)`, else by
    `alpha / rank`.

    Example: `#fsdp.adapter_settings<rank = 16, alpha = 32.0>`
  }];
  let parameters = (ins Fsdp_Count<"1">:$rank, Fsdp_Real<"1">:$alpha,
                        Fsdp_Real<"0">:$dropout, Fsdp_Flag<"false">:$rank_stabilized,
                        Fsdp_Choice<"AdapterBias", "None">:$bias);
}

def Fsdp_Padding : Fsdp_Struct<"Padding", "padding"> {
  let summary = "what an input has behind the tokens of a short row";
  let description = [{
    Of rows that have lengths of their own, in a program for longer ones.

    Example: `#fsdp.padding<input = "input_ids", value = 2.0>`
  }];
  let parameters = (ins "::mlir::StringAttr":$input, Fsdp_Real<"0">:$value);
}

def Fsdp_Data : Fsdp_Setting<"Data", "data"> {
  let summary = "which rows of which files the inputs read, and in which order";
  let description = [{
    Stands on the module as `fsdp.data`; absent: the run says it. `files` are
    patterns of paths, relative to the folder in which fsdp-opt runs, or absent where
    the run names them. `inputs` and
    `targets` are inputs that take tokens; without them files hold samples. `type`
    is that of raw token files. `epochs` of 0 are without end. Rows that have lengths
    of their own are padded with what `pad` says; `length_pool` of them are sorted by
    length, and `length_group` stay together. The input `label_count` takes how many
    of the input `labels`' elements count in a step, but for each row's first with
    `shifts_labels`.

    Example:
    `#fsdp.data<files = ["train.bin"], inputs = ["x"], targets = ["y"], shuffle = true>`
  }];
  let parameters = (ins Fsdp_Texts:$files,
      DefaultValuedParameter<"::fsdp::TokenFormat",
                             "::fsdp::TokenFormat::Recognized">:$format,
      OptionalParameter<"::mlir::Type">:$type, Fsdp_Texts:$inputs,
      Fsdp_Texts:$targets, Fsdp_Flag<"false">:$shuffle, Fsdp_Count<"0">:$seed,
      Fsdp_Count<"0">:$epochs, Fsdp_Flag<"true">:$drop_last, Fsdp_List:$pad,
      Fsdp_Count<"0">:$length_pool, Fsdp_Count<"64">:$length_group,
      OptionalParameter<"::mlir::StringAttr">:$labels,
      OptionalParameter<"::mlir::StringAttr">:$label_count,
      Fsdp_Flag<"false">:$shifts_labels);
}

def Fsdp_Validation : Fsdp_Setting<"Validation", "validation"> {
  let summary = "when the loss is computed over other files, and which";
  let description = [{
    Stands on the module as `fsdp.validation`, beside programs `eval/step`. `files`
    as in `#fsdp.data`, absent where the run names them; `every` so many steps (0:
    behind the last one alone), over so many `batches` of all ranks (0: all of the
    files'); `averaged`, of the averages that `#fsdp.ema` keeps of parameters.

    Example: `#fsdp.validation<files = ["held.bin"], every = 100>`
  }];
  let parameters = (ins Fsdp_Texts:$files, Fsdp_Count<"0">:$every,
                        Fsdp_Count<"0">:$batches,
                        Fsdp_Flag<"false">:$averaged);
}

def Fsdp_Arithmetic : Fsdp_Setting<"Arithmetic", "arithmetic"> {
  let summary = "how a GPU's libraries may compute less exactly, and whether alike";
  let description = [{
    Stands on the module as `fsdp.arithmetic`; absent: exactly. `tf32` for products
    of f32, `reduced_precision_reduction` for partial sums of products of f16 and
    bf16, `fp16_accumulation` for products of f16. `deterministic`: the same operands
    give the same bits in each run.

    Example: `#fsdp.arithmetic<tf32 = true>`
  }];
  let parameters = (ins Fsdp_Flag<"false">:$tf32,
                        Fsdp_Flag<"false">:$reduced_precision_reduction,
                        Fsdp_Flag<"false">:$fp16_accumulation,
                        Fsdp_Flag<"false">:$deterministic);
  let genVerifyDecl = 0;
}

#endif // FSDP_RUN_ATTRIBUTES_TD
