//===- Help.cpp - What --help prints ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/input/Help.h"

const char *fsdp::getHelp() {
  return R"(fsdp-opt: compiles an exported PyTorch model into a fully sharded training step

usage: fsdp-opt MODEL.{pt2,pt,mlir,mlirbc} [options] [passes] -o OUT.{fsdp,mlir,mlirbc}
       fsdp-opt MODEL --explain
       fsdp-opt STEP.fsdp -o -
       fsdp-opt STEP.fsdp --print-plan --cluster=NAME

  A model is exported in one line of Python; its first output is the loss
  (or what --loss names):
      torch.export.save(torch.export.export(model, args), "model.pt2")

options
  --config=FILE.yaml      how to shard and train: runs the whole compiler
                          (docs/Config.md lists the keys)
  --world=N[,N...]        number of ranks; completes the config's mesh. Several:
                          one artifact that runs on any of them (docs/SameBits.md);
                          of such an artifact, the plan that is meant
  -o OUT                  .fsdp: the artifact for fsdp-run
                          .mlir, .mlirbc: the program after the last stage
                          -: the program as text on stdout (the default)
  --weights=PATH          safetensors file, model.safetensors.index.json, or folder
                          with either, to start from (docs/Weights.md)
  --input=NAME:f32[4,64]  shape of one input, for a .pt, which states none
  --dim=NAME=SIZE         size of a dynamic dimension of a .pt2: a symbol of the
                          archive (s17) or INPUT.DIM (x.0); --explain lists them.
                          x.0=4,8: two programs in one artifact
  --output=NAME           keep an output of the model beside the loss, by its key,
                          field or position; once for each
  --loss=NAME             the output that is the loss, if it is not the first
  --explain               parameters, dynamic dimensions, outputs, blocks,
                          everything that is not supported, and the memory of a
                          rank for several world sizes; with a cluster, what
                          makes it fit at what price
  --report=FILE.json      collectives and memory of the compiled step
  --memory-map=FILE.html  a picture of the memory of a rank over the step: which
                          tensor lies where, when, and what makes the peak
  --print-plan[=FILE]     how the step will run on a cluster: its time, what hides
                          each transfer, memory. FILE.html: a picture; FILE.txt or
                          the terminal: tables; .json; .trace: for
                          ui.perfetto.dev; once for each
  --profile=FILE.json     with --print-plan: what fsdp-run --profile measured of the
                          same artifact, beside the prediction
  --remarks-filter=REGEX  what was decided of each bucket and block, and why, at the
                          line of the model; .* for all
  --cluster=NAME|FILE     which one: a100-40gb, a100x8, a6000, b200x8, cpu,
                          h100-500w, h100x8, h200x8, or a file
                          (docs/Simulate.md); else the config's `cluster`
  --measured=PROFILE      times of a trace of fsdp-run --profile, which go before
                          those of the cluster
  --compare A.yaml B.yaml predicts the model with two configs side by side: time,
                          exposed transfers, memory, bytes on the wire
  --simulate[=N,N,...]    predicts the config for several numbers of ranks, and the
                          step over the bandwidth between nodes
  --save-stages=DIR       the program after each stage, as 1-captured.mlir,
                          2-sharded.mlir, 3-scheduled.mlir, 4-planned.mlir
  --verbose               every note on the config's keys, not their number alone
  --help, --version
  --help-list             also every pass and every option of MLIR

  Without --config a model is only captured. With passes (--cse,
  --fsdp-shard-pipeline, …) fsdp-opt behaves like mlir-opt, whose options it has:
  --mlir-print-ir-after-all, --verify-roundtrip, --mlir-timing, …

examples
  fsdp-opt model.pt2 --explain
  fsdp-opt model.pt2 --config=fsdp.yaml --world=8 -o step.fsdp
  fsdp-opt model.pt2 --config=fsdp.yaml --world=1,2,4,8 -o step.fsdp
  fsdp-opt model.pt2 --config=fsdp.yaml --save-stages=stages --report=step.json -o step.fsdp
  fsdp-opt traced.pt --input=x:f32[4,64] --config=fsdp.yaml -o step.fsdp
  fsdp-opt model.pt2 --output=logits --config=fsdp.yaml -o step.fsdp
  fsdp-opt model.pt2 -o captured.mlir
  fsdp-opt captured.mlir --config=fsdp.yaml --world=4 -o planned.mlir
  fsdp-opt captured.mlir --canonicalize --cse -o -
  fsdp-opt planned.mlir --memory-map=step.html -o step.fsdp
  fsdp-opt step.fsdp -o -
  fsdp-opt step.fsdp --print-plan=step.html --cluster=h100x8

exit status
  0 done, 1 the input is refused, 2 usage or config. Errors start with
  error[fsdp-E…]; docs/Errors.md lists them.
)";
}
