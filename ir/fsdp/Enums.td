//===- Enums.td - Enumerations of the fsdp dialect ---------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_ENUMS_TD
#define FSDP_ENUMS_TD

include "Dialect.td"
include "mlir/IR/EnumAttr.td"

class Fsdp_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def Fsdp_Role : Fsdp_Enum<"Role", "what a state is", [
  I32EnumAttrCase<"Parameter", 0, "parameter">, // trained; has a gradient
  I32EnumAttrCase<"Frozen", 1, "frozen">,       // a parameter without gradient
  I32EnumAttrCase<"Buffer", 2, "buffer">,       // each rank's own, may be updated
  I32EnumAttrCase<"Constant", 3, "constant">,   // never written, never exported
  I32EnumAttrCase<"Optimizer", 4, "optimizer">, // moments, momentum
  I32EnumAttrCase<"Gradient", 5, "gradient">,   // running sum over micro-batches
  I32EnumAttrCase<"Gathered", 6, "gathered">,   // kept across micro-batches
  I32EnumAttrCase<"Scalar", 7, "scalar">,       // running sum of a number
  I32EnumAttrCase<"Random", 8, "random">,       // seed and offset
  I32EnumAttrCase<"Step", 9, "step">,           // updates so far
  I32EnumAttrCase<"LearningRate", 10, "learning_rate">, // set by the run
  I32EnumAttrCase<"LossScale", 11, "loss_scale">, // the loss is multiplied by it
  I32EnumAttrCase<"LossGrowth", 12, "loss_growth"> // updates since it changed
]>;
def Fsdp_RoleAttr : EnumAttr<Fsdp_Dialect, Fsdp_Role, "role">;

def Fsdp_ProgramKind : Fsdp_Enum<"ProgramKind", "what a program is for", [
  I32EnumAttrCase<"Train", 0, "train">, // gradients, and updates by them
  I32EnumAttrCase<"Infer", 1, "infer">, // outputs alone
  I32EnumAttrCase<"Eval", 2, "eval">    // the loss of what trains, alone
]>;

def Fsdp_StepPart : Fsdp_Enum<"StepPart", "a program's part of a step", [
  I32EnumAttrCase<"Whole", 0, "whole">,
  I32EnumAttrCase<"First", 1, "first">,   // micro-batch
  I32EnumAttrCase<"Middle", 2, "middle">, // once for each in between
  I32EnumAttrCase<"Last", 3, "last">
]>;

def Fsdp_Reduction : Fsdp_Enum<"Reduction", "how ranks are combined", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Avg", 1, "avg">,
  I32EnumAttrCase<"Max", 2, "max">,
  I32EnumAttrCase<"Tree", 3, "tree"> // a sum in the order of a step's grains
]>;
def Fsdp_ReductionAttr : EnumAttr<Fsdp_Dialect, Fsdp_Reduction, "reduction">;

def Fsdp_Collective : Fsdp_Enum<"Collective", "what ranks do together", [
  I32EnumAttrCase<"AllGather", 0, "all_gather">,
  I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
  I32EnumAttrCase<"AllReduce", 2, "all_reduce">,
  I32EnumAttrCase<"Rotate", 3, "rotate">,
  I32EnumAttrCase<"AllToAll", 4, "all_to_all">
]>;
def Fsdp_CollectiveAttr
    : EnumAttr<Fsdp_Dialect, Fsdp_Collective, "collective">;

def Fsdp_Purpose : Fsdp_Enum<"Purpose", "what a collective is for", [
  I32EnumAttrCase<"Parameter", 0, "parameter">, // or what a bucket has of it
  I32EnumAttrCase<"Gradient", 1, "gradient">,
  I32EnumAttrCase<"Step", 2, "step">,   // what ranks compute one step with
  I32EnumAttrCase<"Scale", 3, "scale">, // of narrow types, or their maxima
  I32EnumAttrCase<"Metric", 4, "metric"> // what a run reports, and clips by
]>;
def Fsdp_PurposeAttr : EnumAttr<Fsdp_Dialect, Fsdp_Purpose, "purpose">;

def Fsdp_Distribution : Fsdp_Enum<"Distribution", "what a draw draws", [
  I32EnumAttrCase<"Bernoulli", 0, "bernoulli">,
  I32EnumAttrCase<"Uniform", 1, "uniform">,
  I32EnumAttrCase<"Normal", 2, "normal">,
  I32EnumAttrCase<"Exponential", 3, "exponential">,
  I32EnumAttrCase<"Cauchy", 4, "cauchy">,
  I32EnumAttrCase<"LogNormal", 5, "log_normal">,
  I32EnumAttrCase<"Geometric", 6, "geometric">,
  I32EnumAttrCase<"Integer", 7, "integer">,
  I32EnumAttrCase<"Poisson", 8, "poisson">,
  I32EnumAttrCase<"Binomial", 9, "binomial">,
  I32EnumAttrCase<"Gamma", 10, "gamma">
]>;
def Fsdp_DistributionAttr
    : EnumAttr<Fsdp_Dialect, Fsdp_Distribution, "distribution">;

def Fsdp_Stream : Fsdp_Enum<"Stream", "a queue of work on the device", [
  I32EnumAttrCase<"Compute", 0, "compute">,
  I32EnumAttrCase<"Gather", 1, "gather">,
  I32EnumAttrCase<"Reduce", 2, "reduce">,
  I32EnumAttrCase<"Replicate", 3, "replicate">,
  I32EnumAttrCase<"Upload", 4, "upload">,    // copies from the host's memory
  I32EnumAttrCase<"Download", 5, "download"> // copies to the host's memory
]>;
def Fsdp_StreamAttr : EnumAttr<Fsdp_Dialect, Fsdp_Stream, "stream">;

def Fsdp_MemorySpace : Fsdp_Enum<"MemorySpace", "where tensors lie", [
  I32EnumAttrCase<"Device", 0, "device">,
  I32EnumAttrCase<"Host", 1, "host">
]>;
def Fsdp_MemorySpaceAttr
    : EnumAttr<Fsdp_Dialect, Fsdp_MemorySpace, "memory_space">;

def Fsdp_AdapterBias
    : Fsdp_Enum<"AdapterBias", "which biases are trained beside adapters", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"All", 1, "all">,
  I32EnumAttrCase<"LoraOnly", 2, "lora_only">
]>;

def Fsdp_InitKind : Fsdp_Enum<"InitKind", "how first values are computed", [
  I32EnumAttrCase<"Normal", 0, "normal">,           // mean, std
  I32EnumAttrCase<"TruncNormal", 1, "trunc_normal">, // mean, std, a, b
  I32EnumAttrCase<"Uniform", 2, "uniform">,         // a, b
  I32EnumAttrCase<"Eye", 3, "eye">,
  I32EnumAttrCase<"Rope", 4, "rope">,               // theta
  // Of adapters, out of their bases:
  I32EnumAttrCase<"Pissa", 5, "pissa">,             // iterations
  I32EnumAttrCase<"Loftq", 6, "loftq">,
  I32EnumAttrCase<"Norms", 7, "norms">,
  I32EnumAttrCase<"Owner", 8, "owner"> // as what it is an average of
]>;

def Fsdp_EmaWarmup
    : Fsdp_Enum<"EmaWarmup", "how the decay of averages begins", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Ratio", 1, "ratio">, // (1 + t) / (10 + t)
  I32EnumAttrCase<"Power", 2, "power">  // 1 - (1 + t / gamma) ^ -power
]>;

def Fsdp_OnNonFinite
    : Fsdp_Enum<"OnNonFinite", "what a loss or norm that is no number does", [
  I32EnumAttrCase<"Stop", 0, "stop">,
  I32EnumAttrCase<"Skip", 1, "skip">,
  I32EnumAttrCase<"Ignore", 2, "ignore">
]>;
def Fsdp_OnNonFiniteAttr
    : EnumAttr<Fsdp_Dialect, Fsdp_OnNonFinite, "on_nonfinite"> {
  let assemblyFormat = "`<` $value `>`";
}

def Fsdp_TokenFormat
    : Fsdp_Enum<"TokenFormat", "how token files are laid out", [
  I32EnumAttrCase<"Recognized", 0, "recognized">, // as their first bytes say
  I32EnumAttrCase<"Raw", 1, "raw">,
  I32EnumAttrCase<"LlmC", 2, "llm_c">,
  I32EnumAttrCase<"Megatron", 3, "megatron">
]>;

def Fsdp_BucketPolicy
    : Fsdp_Enum<"BucketPolicy", "which modules form buckets", [
  I32EnumAttrCase<"Blocks", 0, "blocks">,   // outermost repeated blocks
  I32EnumAttrCase<"Classes", 1, "classes">, // those whose class is listed
  I32EnumAttrCase<"Size", 2, "size">,       // those with enough parameters
  I32EnumAttrCase<"None", 3, "none">        // none: one bucket
]>;

def Fsdp_ReshardMode
    : Fsdp_Enum<"ReshardMode", "which buckets are gathered again for backward", [
  I32EnumAttrCase<"All", 0, "all">,
  I32EnumAttrCase<"AllButRoot", 1, "all_but_root">,
  I32EnumAttrCase<"None", 2, "none">
]>;

// What is asked for: what became of it, states say.
def Fsdp_BucketLayout
    : Fsdp_Enum<"BucketLayout", "how the shards of a bucket shall lie", [
  I32EnumAttrCase<"Auto", 0, "auto">,  // flat what can be, the rest in rows
  I32EnumAttrCase<"Rows", 1, "rows">,  // each parameter's own rows
  I32EnumAttrCase<"Flat", 2, "flat">,  // equal parts of all, or an error
  I32EnumAttrCase<"Fsdp2", 3, "fsdp2"> // rows, copied together to be moved
]>;

// PyTorch's (torch.distributed.tensor.parallel) and transformers' names. What a
// style says is which parts of its parameters ranks hold; who reads what whole is
// found by propagation.
def Fsdp_ParallelStyle
    : Fsdp_Enum<"ParallelStyle", "how a module's parameters are split", [
  I32EnumAttrCase<"Colwise", 0, "colwise">,    // by what it computes
  I32EnumAttrCase<"Rowwise", 1, "rowwise">,    // by what it reads
  I32EnumAttrCase<"Replicate", 2, "replicate"> // not
]>;

def Fsdp_PlacedKind
    : Fsdp_Enum<"PlacedKind", "what a rank has of a tensor", [
  I32EnumAttrCase<"Whole", 0, "whole">,      // all of it
  I32EnumAttrCase<"Shard", 1, "shard">,      // an equal part of a dim
  I32EnumAttrCase<"Partial", 2, "partial">,  // a summand of its size
  I32EnumAttrCase<"Greatest", 3, "greatest"> // of which the greatest are it
]>;

def Fsdp_RecomputePolicy
    : Fsdp_Enum<"RecomputePolicy", "what a block keeps for its backward", [
  I32EnumAttrCase<"Full", 0, "full">,          // its inputs
  I32EnumAttrCase<"Selective", 1, "selective"> // and what some operators return
]>;

def Fsdp_Float8Recipe : Fsdp_Enum<"Float8Recipe", "what numbers of eight bits "
                                  "share a scale", [
  I32EnumAttrCase<"Tensorwise", 0, "tensorwise">, // all of a tensor
  I32EnumAttrCase<"Rowwise", 1, "rowwise">,       // those that are summed up
  I32EnumAttrCase<"Mxfp8", 2, "mxfp8">            // 32 neighbours of these
]>;

def Fsdp_GradientSync
    : Fsdp_Enum<"GradientSync", "which reductions wait for the last micro-batch", [
  I32EnumAttrCase<"Each", 0, "each">, // none
  I32EnumAttrCase<"Last", 1, "last">, // all
  I32EnumAttrCase<"AllReduceLast", 2, "all_reduce_last"> // all-reduces
]>;

def Fsdp_StateDType : Fsdp_Enum<"StateDType", "what moments are stored as", [
  I32EnumAttrCase<"Parameter", 0, "parameter">, // in its element type
  I32EnumAttrCase<"BFloat16", 1, "bfloat16">,
  I32EnumAttrCase<"Int8", 2, "int8">,           // codes in blocks
  I32EnumAttrCase<"Float8", 3, "float8">,       // codes in blocks
  I32EnumAttrCase<"Float32", 4, "float32">
]>;

def Fsdp_QuantizedKind : Fsdp_Enum<"QuantizedKind", "how elements of a frozen "
                                   "parameter are stored in blocks", [
  I32EnumAttrCase<"Nf4", 0, "nf4">,   // the 16 numbers of QLoRA
  I32EnumAttrCase<"Int8", 1, "int8">, // from -127 to 127
  I32EnumAttrCase<"Fp4", 2, "fp4">    // a sign and 8 magnitudes
]>;
def Fsdp_QuantizedKindAttr
    : EnumAttr<Fsdp_Dialect, Fsdp_QuantizedKind, "quantized_kind">;

#endif // FSDP_ENUMS_TD
