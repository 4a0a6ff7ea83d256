# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the systems behind published rows do that the rows do not say, as their sources state it; docs/Rationale/Simulate.md gives the places.

Fitted, each on half of a source's rows, are `elementwise`, `overhead`, NETWORKS and the attention called triton.
"""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class System:
    layout: str = "fsdp2"          # fsdp2: copies into and out of buckets; flat: FSDP1's flat parameters
    gathers: float = 1             # bytes that are gathered, over those of the plan
    reduce: str = "float32"
    weights: str = "float32"       # master weights and what the optimizer keeps
    attention: str = "flash2"      # of ATTENTION
    compiles: bool = False         # where a row does not say
    fuses_adapters: bool = True    # torch.compile's graphs go on across products with adapters
    elementwise: float = 1         # bytes that its eager kernels between products move, over those of our operators
    ranks_per_node: int = 0        # 0: the cluster's
    network: float = 0             # bytes a second of a node; 0: the cluster's
    overhead: float = 0            # seconds of a step that no kernel and no transfer explains
    memory: str = "reserved"       # what the row's memory is: of the allocator's segments, or of the tensors
    holds_logits: bool = False     # its loop keeps what the loss reads until after backward
    gathers_root_whole: bool = True  # embedding and head in one bucket
    cuts_segments: bool = True     # of PyTorch's allocator; not with expandable_segments
    selects: str = "operators"     # what "selective" checkpointing means: every second product; attention; or every n-th block (share)
    loss: str = "wide"             # in float32; narrow: a fused or compiled loss, which reads 16 bits


# Of one source alone, by the begin of the row's system; the first that matches.
#
# DeepSpeedExamples, benchmarks/deepcompile: texts are padded to the sequence's length and the model is given the mask, which neither flash nor causal
# kernels take. Transformers checkpoints around FSDP1's units, which gathers for a third time in backward (transformers issue 30404). torch.compile
# finds whole graphs under DeepCompile alone: "FSDP+compile" and "ZeRO3+compile" are published as no faster than without.
OF_SOURCES = {
    "DeepCompile": [
        (name, System(layout="flat", reduce="bfloat16", attention="masked", **more))
        for name, more in (("DeepCompile", {"compiles": True}), ("FSDP", {"gathers": 1.5}), ("", {}))
    ],
}

# By the begin of the row's source, or of its system; the first that matches. A system's own entries count before the source's.
SYSTEMS = [
    ("YaFSDP", System(layout="flat", reduce="bfloat16")),
    ("SimpleFSDP", System(layout="rows")),
    ("FSDP1", System(layout="flat")),
    ("llm-foundry", System(layout="flat", attention="triton", loss="narrow", elementwise=1.8)),
    ("IBM fms-fsdp", System(layout="flat", reduce="bfloat16", selects="share", loss="narrow")),
    ("KempnerForge", System(weights="bfloat16", ranks_per_node=4, memory="allocated", compiles=True, holds_logits=True, selects="attention")),
    ("DeepSpeed", System(layout="flat", reduce="bfloat16")),
    ("torchtitan", System()),
    ("torchao", System()),
    # MultiLoRALinear repeats its scales by a tensor of counts: a size that depends on data ends the graph.
    ("prime-rl RL", System(overhead=1.0, fuses_adapters=False)),
    ("prime-rl", System(fuses_adapters=False)),
    ("NeMo Automodel", System(compiles=True, attention="flash3", loss="narrow")),
]

# Kernels' shares of the products' rate, forward and backward, where they are not the cluster's own (FlashAttention 2). FlashAttention 3 reaches
# up to 640 TFLOP/s forward alone on a cool GPU (arXiv 2407.08608, causal, head dim 128); here it has 505. Triton's kernel of 2022 was fitted on
# half of llm-foundry's rows: two thirds of FlashAttention 2 on A100. With a mask that is a tensor, PyTorch takes the memory-efficient kernel: half as
# fast as FlashAttention 2 (its paper, 4.1), and it computes what a causal kernel leaves out, so that it has a quarter.
ATTENTION = {
    "flash3": {"hopper": (0.70, 0.59)},
    "triton": {"ampere": (0.40, 0.315), "hopper": (0.29, 0.22)},
    "masked": {"hopper": (0.115, 0.095)},
}

# Bytes a second between nodes, each, where a source does not state its network: one number a source, fitted on half of its rows.
NETWORKS = {"YaFSDP": 72e9, "DeepCompile": 200e9}


def find_system(row):
    source, name = row["source"], row.get("system") or ""
    of_source = [system for begin, system in OF_SOURCES.get(source.split()[0], []) if name.startswith(begin)]
    others = [system for text in (name, source) for begin, system in SYSTEMS if text.startswith(begin)]
    system = (of_source + others + [System()])[0]
    changes = {"network": speed for name, speed in NETWORKS.items() if row["source"].startswith(name)}
    precision = row.get("precision") or ""
    if "pure" in precision:
        changes["reduce"] = "bfloat16"
    if "fp32 reduce" in precision or row.get("reduce_dtype") == "fp32":
        changes["reduce"] = "float32"
    if row.get("weights_dtype") == "bf16":
        changes["weights"] = "bfloat16"
    if row.get("attention") == "FA3":
        changes["attention"] = "flash3"
    if row.get("peak_mem_kind"):
        changes["memory"] = row["peak_mem_kind"]
    # torchtitan of 2025 and later: run_train.sh asks for expandable segments, embedding and head are buckets of their own, and what is compiled has
    # a compiled loss.
    if re.match("torchtitan|torchao", row["source"]) and re.search("202[5-9]|torchao", row["source"]):
        changes.update(cuts_segments=False, gathers_root_whole=False)
        if row.get("compile") is True:
            changes["loss"] = "narrow"
    if row.get("logits") == "whole":
        changes["holds_logits"] = True
    notes = row.get("notes") or ""
    if "max_memory_allocated" in notes:
        changes["memory"] = "allocated"
    if match := re.search(r"(\d+)x[A-Z]+\d+ per node", notes):
        changes["ranks_per_node"] = int(match[1])
    if match := re.match(r"(\d+)Gbps", notes):
        changes["network"] = int(match[1]) / 8 * 1e9
    return dataclasses.replace(system, **changes)
