# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published rows, as what is to be compiled for them; or why they cannot be."""
import dataclasses
import re

from .models import Shape
from .systems import System, find_system

# The first that the GPU's name begins with.
CLUSTERS = {
    "H100-SXM-96GB": "h100-500w", "H100-PCIE": None, "H100-NVL": None, "H100": "h100x8", "H200": "h200x8", "A100-SXM-40GB": "a100-40gb",
    "A100-40GB": "a100-40gb", "A100-PCIE": None, "A100": "a100x8", "B200": "b200x8", "RTX-A6000": "a6000", "A6000": "a6000",
}
DENSE = {"llama", "mpt", "gpt", "qwen2", "qwen3", "mistral", "gemma"}


class Unmodelled(Exception):
    """Of a row that states all that is needed."""


class NotEligible(Exception):
    """Of a row that is no dense decoder under FSDP or HSDP, or lacks a figure."""


@dataclasses.dataclass(frozen=True)
class Case:
    id: str
    shape: Shape
    cluster: str
    ranks: int
    replicas: int
    tensor: int            # ranks that compute one step together
    context: int           # ranks that compute parts of each sequence
    accumulation: int
    reshard: bool
    checkpointing: object  # fsdp_config.activation_checkpointing
    chunks_loss: bool
    compiled: bool
    fp8: str               # "": none; else the recipe
    system: System
    seconds: float | None  # published
    gib: float | None


def find_seconds(row):
    """A timer that stops before the device does is not a step's (SFT rows of prime-rl say so)."""
    names = ["step_time_s", "step_time_s_derived"]
    if "prefer step_time_s_derived" in (row.get("notes") or ""):
        names.reverse()
    return next((float(row[name]) for name in names if row.get(name)), None)


def check_eligible(row):
    model, parallelism = row.get("model") or {}, row.get("parallelism") or {}
    if model.get("arch") not in DENSE or model.get("experts"):
        raise NotEligible("no dense decoder")
    kind = parallelism.get("kind") or ""
    if "FSDP" not in kind and "HSDP" not in kind or "Megatron" in kind:
        raise NotEligible(f"neither FSDP nor HSDP: {kind or 'not stated'}")
    if (parallelism.get("pp") or 1) != 1:
        raise NotEligible(f"pp is {parallelism['pp']}")
    for key in ("gpu", "gpus", "seq_len", "local_batch", "activation_checkpointing"):
        if row.get(key) in (None, ""):
            raise NotEligible(f"{key} is not stated")
    if not isinstance(model.get("ffn"), int):
        raise NotEligible("the width of the MLP is not stated")
    if find_seconds(row) is None and not row.get("peak_mem_gib"):
        raise NotEligible("neither time nor memory is published")


def find_cluster(row):
    """Rows whose memory is told in parts of 95.0 GiB ran on the 96 GB part; those of torchao on the same machines, as torchtitan's."""
    cluster = next((cluster for name, cluster in CLUSTERS.items() if row["gpu"].upper().replace(" ", "-").startswith(name)), None)
    if cluster is None:
        raise Unmodelled(f"no description of {row['gpu']}")
    is_limited = "95.0" in (row.get("notes") or "") or row["source"].startswith("torchao")
    return "h100-500w" if cluster == "h100x8" and is_limited else cluster


def make_checkpointing(row, system, layers):
    """Of fsdp_config, and whether every second product is computed again."""
    text = row["activation_checkpointing"]
    if text in ("none", "off", False):
        return False, False
    if text is True:
        return True, False
    if text.startswith("full (self_attn and mlp"):
        return {"modules": ["layers.*.attention", "layers.*.mlp"]}, False
    if match := re.fullmatch(r"full on (\d+) layers", text):
        return {"modules": [f"layers.{i}" for i in range(int(match[1]))]}, False
    if text.startswith("full"):
        return True, False
    if text == "selective" and system.selects == "share":
        # The operations that are done again are a third of the model's for each block.
        hfu = re.search(r"HFU ([\d.]+)", row.get("notes") or "")
        if not hfu or not row.get("mfu"):
            raise Unmodelled("which blocks are checkpointed is not stated")
        share = 3 * (100 * float(hfu[1]) / row["mfu"] - 1)
        every = max(1, round(1 / max(share, 0.01)))
        return ({"every": every} if every <= layers else False), False
    if text == "selective" and system.selects == "attention":
        return {"modules": ["layers.*.attention"]}, False
    if text.startswith("selective-layer"):
        return {"every": 2}, False
    if text == "selective" or text.startswith("selective-op"):
        return {"policy": "selective", "save": ["aten.mm", "aten._scaled_*"]}, True
    raise Unmodelled(f"checkpointing: {text}")


def read(row):
    """Throws NotEligible and Unmodelled."""
    check_eligible(row)
    model, parallelism = row["model"], row["parallelism"]
    system = find_system(row)
    checkpointing, halves = make_checkpointing(row, system, model["layers"])
    micro = row.get("micro_batch") or row["local_batch"]
    is_gpt = model["arch"] in ("mpt", "gpt")
    lora = row.get("lora") or {}
    if row.get("adapter") and not lora:
        raise Unmodelled("the adapters' rank is not stated")
    tensor, context = parallelism.get("tp") or 1, parallelism.get("cp") or 1
    batches = row["gpus"] // (tensor * context)
    shards = parallelism.get("fsdp") or batches
    replicas = parallelism.get("hsdp_replicate") or (batches // shards if batches % shards == 0 else 1)
    precision = row.get("precision") or ""
    compiled = system.compiles if row.get("compile") is None else row["compile"] is True
    return Case(
        id=row["id"],
        shape=Shape(
            layers=model["layers"], hidden=model["hidden"], ffn=model["ffn"], heads=model["heads"], kv_heads=model.get("kv_heads") or model["heads"],
            head_dim=model.get("head_dim") or model["hidden"] // model["heads"], vocab=model["vocab"], seq=row["seq_len"], batch=micro,
            is_gpt=is_gpt, is_tied=model.get("tied_embeddings", is_gpt), has_bias=bool(model.get("qkv_bias")), norms_heads=bool(model.get("qk_norm")),
            halves_products=halves, lora=(lora.get("rank") or 0) * (lora.get("adapters_resident") or 1), weights=system.weights,
            narrow_loss=system.loss == "narrow", fused_norms=compiled and not is_gpt),
        cluster=find_cluster(row), ranks=row["gpus"], replicas=replicas, tensor=tensor, context=context, accumulation=row.get("grad_accum") or 1,
        reshard="SHARD_GRAD_OP" not in parallelism["kind"], checkpointing=checkpointing, chunks_loss=row.get("logits") == "chunked",
        compiled=compiled,
        fp8="rowwise" if "rowwise" in precision else "tensorwise" if re.search("f(loat|p)8", precision) else "",
        system=system, seconds=find_seconds(row), gib=row.get("peak_mem_gib"))
