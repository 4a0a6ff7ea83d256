# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the systems behind published rows do that the rows do not say, as their sources state it; docs/Rationale/Simulate.md gives the places.

Nothing here was fitted.
"""
import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class System:
    layout: str = "fsdp2"          # fsdp2: copies into and out of buckets; flat: FSDP1's flat parameters
    reduce: str = "float32"
    weights: str = "float32"       # master weights and what the optimizer keeps
    attention: str = "flash2"      # of ATTENTION
    compiles: bool = False         # where a row does not say
    ranks_per_node: int = 0        # 0: the cluster's
    memory: str = "reserved"       # what the row's memory is: of the allocator's segments, or of the tensors
    selects: str = "operators"     # what "selective" checkpointing means: every second product, or every second block


# By the begin of the row's source, or of its system; the first that matches. A system's own entries count before the source's.
SYSTEMS = [
    ("YaFSDP", System(layout="flat", reduce="bfloat16")),
    ("SimpleFSDP", System(layout="rows")),
    ("FSDP1", System(layout="flat")),
    ("llm-foundry", System(layout="flat", attention="triton")),
    ("IBM fms-fsdp", System(layout="flat", reduce="bfloat16", selects="share")),
    ("KempnerForge", System(weights="bfloat16", ranks_per_node=4, memory="allocated", compiles=True)),
    ("DeepCompile", System(layout="flat", reduce="bfloat16")),
    ("DeepSpeed", System(layout="flat", reduce="bfloat16")),
    ("torchtitan", System()),
    ("torchao", System()),
    ("prime-rl", System()),
]

# Kernels' shares of the tensor cores' rate, forward and backward, where they are not the cluster's own (FlashAttention 2). FlashAttention 3:
# arXiv 2407.08608, figures 5 and 6, causal, head dim 128, sequences of 8k and more. Triton's of 2022 (FlashAttention 1's algorithm): on A100 about
# two thirds of FlashAttention 2 (arXiv 2307.08691, figures 4 to 6), on H100 as fast as on A100.
ATTENTION = {
    "flash3": {"hopper": (0.60, 0.50)},
    "triton": {"ampere": (0.38, 0.30), "hopper": (0.17, 0.13)},
}


def find_system(row):
    for text in (row.get("system") or "", row.get("source") or ""):
        for name, system in SYSTEMS:
            if text.startswith(name):
                break
        else:
            continue
        break
    else:
        system = System()
    changes = {}
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
    notes = row.get("notes") or ""
    if "max_memory_allocated" in notes:
        changes["memory"] = "allocated"
    if match := re.search(r"(\d+)x[A-Z]+\d+ per node", notes):
        changes["ranks_per_node"] = int(match[1])
    return dataclasses.replace(system, **changes)
