// RUN: fsdp-opt %s --fsdp-verify-features --split-input-file --verify-diagnostics
// RUN: not fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with={parallel<cp = 2, sequence = true>}' --fsdp-pipeline 2>&1 | FileCheck %s --check-prefix=FIRST
// RUN: fsdp-opt %stages/1-captured.mlir --fsdp-annotate='with={shards<world = 2>}' --fsdp-pipeline -o %t.planned
// RUN: sed 's/fsdp.mesh =/fsdp.float8 = #fsdp.float8<modules = ["*"]>, fsdp.quantize = #fsdp.quantize<modules = ["*"]>, fsdp.mesh =/' %t.planned > %t.changed
// RUN: not fsdp-opt %t.changed -o %t.fsdp 2>&1 | FileCheck %s --check-prefix=PLANNED

// In front of all passes, and of an artifact that is made of a planned program.

// FIRST: sequence_parallel: expected false with mesh: {cp: 2}, which cuts the sequence already
// PLANNED: error[fsdp-E052]: the plan is not valid
// PLANNED: 'quantize' is not supported with 'float8', which casts the parameter itself; leave one of them out

// What goes together.

module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>, fsdp.offload = #fsdp.offload<params = true>, fsdp.step = #fsdp.step<grains = 0, reduce_wire = "float8">} {
}

// -----

module attributes {fsdp.device = "cuda:sm_90", fsdp.offload = #fsdp.offload<optimizer = true>, fsdp.optimizer = #fsdp.optimizer<state_dtype = int8>} {
}

// -----

module attributes {fsdp.device = "cuda", fsdp.buckets = #fsdp.buckets<rules = [#fsdp.rule<buckets = ["root"], reduce_wire = "bfloat16">]>} {
}

// -----

// One micro-batch is exchanged in one way.
module attributes {fsdp.offload = #fsdp.offload<params = true>, fsdp.step = #fsdp.step<sync = all_reduce_last>} {
}

// -----

// expected-error @+1 {{recipe: mxfp8 is not supported with a GPU before sm_100, whose products know no scales of blocks}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"], recipe = mxfp8>, fsdp.device = "cuda:sm_90"} {
}

// -----

// expected-error @+1 {{'float8' is not supported with a GPU before sm_89, which multiplies no numbers of eight bits}}
module attributes {fsdp.float8 = #fsdp.float8<modules = ["*"]>, fsdp.device = "cuda:sm_80"} {
}

// -----

module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*"]>, fsdp.parallel = #fsdp.parallel<tp = 2>} {
}

// -----

module attributes {fsdp.quantize = #fsdp.quantize<modules = ["*"]>, fsdp.device = "cuda:sm_90"} {
}

// -----

// Of a device that nobody knows, nothing is known.
// expected-error @+1 {{'device: of another kind' is not supported with}}
module attributes {fsdp.step = #fsdp.step<grains = 4>, fsdp.device = "abacus"} {
}

// -----

// expected-error @+1 {{'device: cuda' is not supported with 'grains': nothing says in which order its kernels sum}}
module attributes {fsdp.device = "cuda", fsdp.step = #fsdp.step<grains = 1>} {
}

// -----

// expected-error @+1 {{'tp' and 'cp' are not supported with 'grains'}}
module attributes {fsdp.parallel = #fsdp.parallel<cp = 2>, fsdp.step = #fsdp.step<grains = 4>} {
}

// -----

// expected-error @+1 {{'reduce_ignored_params: false' is not supported with mesh: {cp: 2}}}
module attributes {fsdp.parallel = #fsdp.parallel<cp = 2>, fsdp.shards = #fsdp.shards<world = 2, keep_ignored_local = true>} {
}

// -----

// expected-error @+1 {{keeps running sums on the device until replicas add them up, and with 'offload_params' they lie on the host}}
module attributes {fsdp.offload = #fsdp.offload<params = true>, fsdp.step = #fsdp.step<micro_batches = 2, sync = all_reduce_last>} {
}

// -----

// expected-error @+1 {{'reshard_after_backward: false' keeps parameters gathered from micro-batch to micro-batch, which needs reshard_after_forward: false}}
module attributes {fsdp.step = #fsdp.step<micro_batches = 2, keep_gathered = true>} {
}

// -----

// expected-error @+1 {{does not go with a loss scale that changes, whose overflows leave out their update}}
module attributes {fsdp.loss_scale = #fsdp.loss_scale<interval = 100>} {
  fsdp.state loss_scale @"loss/scale" : tensor<f32> init 65536.0 : f32
}
