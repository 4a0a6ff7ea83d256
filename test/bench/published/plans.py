# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports, compiles and simulates the model of a published row; all three are kept by their content.

A plan is our own schedule of the same work. What the published system does otherwise is said to the cost model, through a copy of the cluster's
description: what a launch costs its host, what torch.compile fuses, how fast its attention is, and what 8 bits change.
"""
import dataclasses
import hashlib
import json
import os
import pathlib
import subprocess

import yaml

from .systems import ATTENTION

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOPPER, AMPERE = {"h100x8", "h100-500w", "h200x8"}, {"a100x8", "a100-40gb", "a6000"}
ARCHITECTURES = {"a100x8": "sm_80", "a100-40gb": "sm_80", "a6000": "sm_86", "b200x8": "sm_100"}

# Seconds of the host for an instruction. PyTorch's dispatcher, Python and autograd take 5 to 10 us for an operator; compiled code calls one kernel
# for several of ours.
EAGER_ISSUE, COMPILED_ISSUE = 7e-6, 2.5e-6
# Bytes that kernels between products move in compiled code, over those of our operators with fused norms: counted for a block of Llama
# (Simulate.md).
FUSED = 0.51
# Peak of 8 bits that the best shapes reach, over that of 16 (ml-engineering's MAMF: 1402.6 of 1979 and 794.5 of 989 TFLOP/s on H100).
FP8_GAIN = 1402.6 / 794.5
# Bytes for an element that is quantised, where its maximum is found on the way: read in 16 bits, twice, written in 8. Rows instead of tensors need
# the other direction as well.
QUANTISE = {"tensorwise": 5, "rowwise": 10}


class Failed(Exception):
    """The compiler's own words."""


def digest(*parts):
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:20]


def run(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise Failed((done.stderr.strip() or f"exit status {done.returncode}").splitlines()[0])


def make_config(case):
    system = case.system
    fsdp = {
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "Block", "reshard_after_forward": case.reshard,
        "bucket_layout": system.layout, "activation_checkpointing": case.checkpointing,
        "mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": system.reduce},
        "overrides": [{"modules": "root", "reshard_after_forward": False}],
    }
    if case.chunks_loss:
        fsdp["loss_chunks"] = "auto"
    mesh = {"dp_shard": case.ranks // (case.replicas * case.tensor * case.context), "dp_replicate": case.replicas}
    if case.context > 1:
        mesh["cp"] = case.context
    parallel = {}
    if case.tensor > 1:
        mesh["tp"] = case.tensor
        parallel = {"tp_plan": "auto", "sequence_parallel": case.context == 1}
    return {
        "fsdp_version": 2, "device": "cuda", "cuda_arch": ARCHITECTURES.get(case.cluster, "sm_90"), "mesh": mesh, **parallel,
        "gradient_accumulation_steps": case.accumulation, "max_grad_norm": 1.0,
        "optimizer": {"name": "adamw", "lr": 3e-4}, "fsdp_config": fsdp,
    }


def products(shape):
    """(elements of the weights in blocks, sums of their inputs' and outputs' widths), of one layer."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    pairs = [(shape.hidden, q + 2 * kv), (q, shape.hidden), (shape.ffn, shape.hidden)]
    pairs += [(shape.hidden, shape.ffn)] * (1 if shape.is_gpt else 2)
    return sum(i * o for i, o in pairs), sum(i + o for i, o in pairs)


def quantise(cluster, case):
    """Changes the rate of bfloat16 so that a step takes as long as with products in blocks in 8 bits, and all others not."""
    device, matmul, shape = cluster["device"], cluster["matmul"], case.shape
    tokens = shape.seq * shape.batch
    weights, widths = products(shape)
    flops = 6 * shape.layers * weights * tokens
    head = 6 * shape.hidden * shape.vocab * tokens
    reached = matmul["rates"]["bf16"] * matmul["efficiency"] * device["sustained"]
    moved = QUANTISE[case.fp8] * shape.layers * (2 * widths * tokens + weights)
    seconds = flops / (reached * FP8_GAIN) + moved / device["bandwidth"] + head / reached
    gain = (flops + head) / reached / seconds
    matmul["rates"]["bf16"] *= gain
    for key in ("attention_forward", "attention_backward"):
        device[key] = device[key] / gain


def numbers(node):
    """PyYAML takes 1.0e9, without a sign, for a text."""
    if isinstance(node, dict):
        return {key: numbers(value) for key, value in node.items()}
    if isinstance(node, list):
        return [numbers(value) for value in node]
    try:
        return float(node) if isinstance(node, str) else node
    except ValueError:
        return node


def make_cluster(case):
    name = case.cluster
    cluster = numbers(yaml.safe_load((ROOT / "simulate" / "clusters" / f"{name}.yaml").read_text()))
    device = cluster["device"]
    device["issue"] = COMPILED_ISSUE if case.compiled else EAGER_ISSUE
    fuses = case.compiled and (case.system.fuses_adapters or not case.shape.lora)
    device["elementwise"] = FUSED if fuses else case.system.elementwise
    if case.system.ranks_per_node:
        cluster["ranks_per_node"] = case.system.ranks_per_node
    if case.system.network:
        cluster["network"]["network"] = case.system.network / cluster["ranks_per_node"]
    cluster["network"]["gather"] /= case.system.gathers
    generation = "hopper" if name in HOPPER else "ampere" if name in AMPERE else ""
    shares = ATTENTION.get(case.system.attention, {}).get(generation)
    if shares:
        device["attention_forward"], device["attention_backward"] = shares
    if case.fp8:
        quantise(cluster, case)
    return cluster


def write_cluster(case, change=None):
    """As YAML; `change` sets one number of one cluster: ("h100x8", "device", "sustained", 0.8)."""
    cluster = make_cluster(case)
    if change and change[0] == case.cluster:
        cluster[change[1]][change[2]] = change[3]
    return yaml.safe_dump(cluster, sort_keys=False)


class Compiler:
    """`bin` holds fsdp-opt; plans in `cache` are taken as they are, whatever compiler made them, unless `fresh`."""

    def __init__(self, bin, cache, fresh=False, change=None):
        self.tool, self.cache, self.fresh, self.change = pathlib.Path(bin).resolve() / "fsdp-opt", pathlib.Path(cache), fresh, change
        self.cache.mkdir(parents=True, exist_ok=True)
        self.models = hashlib.sha256((pathlib.Path(__file__).parent / "models.py").read_bytes()).hexdigest()
        self.build = hashlib.sha256(self.tool.read_bytes()).hexdigest()

    def make(self, path, write):
        """A file that is whole, or not there."""
        if not path.exists():
            part = path.with_name(f"{path.stem}-{os.getpid()}{path.suffix}")
            try:
                write(part)
                part.rename(path)
            finally:
                part.unlink(missing_ok=True)
        return path

    def export(self, shape):
        from . import models
        return self.make(self.cache / f"{digest(self.models, shape)}.pt2", lambda part: models.export(shape, part))

    def plan(self, case, report=False):
        """The plan, or the report of its compilation."""
        config = yaml.safe_dump(make_config(case))
        name = digest(self.models, case.shape, config, self.build if self.fresh else "")

        def write(part):
            written = part.with_suffix(".yaml")
            written.write_text(config)
            plan = part.with_suffix(".fsdp")
            try:
                run([self.tool, self.export(case.shape), f"--config={written}", "-o", plan, *([f"--report={part}"] if report else [])])
            finally:
                written.unlink()
                if report:
                    plan.unlink(missing_ok=True)
        return self.make(self.cache / f"{name}{'.report' if report else '.fsdp'}", write)

    def predict(self, case):
        """What --print-plan=….json says, and where memory is published the phases of the report."""
        plan, cluster = self.plan(case), write_cluster(case, self.change)
        path = self.cache / f"{digest(plan.name, cluster, self.build)}.json"

        def write(part):
            written = part.with_suffix(".cluster.yaml")
            written.write_text(cluster)
            try:
                run([self.tool, plan, f"--print-plan={part}", f"--cluster={written}"])
            finally:
                written.unlink()
        found = summarise(json.loads(self.make(path, write).read_text()))
        if case.gib:
            report = json.loads(self.plan(case, report=True).read_text())
            found["phases"] = {name: {"activations": phase["activations"], "op": phase["at"]["op"]} for name, phase in report["phases"].items()}
            found["states"] = report["memory"]["states"]
        return found


def summarise(prediction):
    kinds = {}
    for program in prediction["programs"]:
        for kind, seconds in program["kernel_seconds"].items():
            kinds[kind] = kinds.get(kind, 0) + program["runs"] * seconds
    keys = ("seconds", "compute_seconds", "exposed_seconds", "issue_seconds", "flops", "wire_bytes")
    return {**{key: prediction[key] for key in keys}, "memory": prediction["memory"], "kernel_seconds": kinds}


def scaled(compiler, case, layers):
    """The prediction from two models with few layers: all that a step has is a line in their number."""
    few = [compiler.predict(dataclasses.replace(case, shape=dataclasses.replace(case.shape, layers=each))) for each in layers]

    def extend(a, b):
        if isinstance(a, dict):
            return {key: extend(a[key], b[key]) for key in a}
        if isinstance(a, (bool, str)):
            return b
        return a + (b - a) * (case.shape.layers - layers[0]) / (layers[1] - layers[0])
    return extend(*few)
