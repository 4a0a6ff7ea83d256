# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What fsdp-opt predicts of the decoder's step, taken along, and beside it what was measured."""
import json

import kit

# GPUs by architecture: the cluster that has one, and what stands in its name.
CLUSTERS = {
    "sm_80": {"a100-40gb": ("A100", "40GB"), "a100x8": ("A100",)},
    "sm_90": {"h200x8": ("H200",), "h100x8": ("H100",)},
    "sm_100": {"b200x8": ("B200",)},
}


def prepare(folder, bin, artifact, device, arch):
    """By cluster: seconds, bytes, and seconds of each kind of kernel in a step of one rank."""
    predicted = {}
    for cluster in CLUSTERS.get(arch, ()) if device == "cuda" else ("cpu",):
        kit.call([bin / "fsdp-opt", artifact, f"--cluster={cluster}", "--print-plan=plan.json"], folder, kit.environment(bin), 120)
        plan = json.loads((folder / "plan.json").read_text())
        (folder / "plan.json").unlink()
        kinds = {}
        for program in plan["programs"]:
            for kind, seconds in program["kernel_seconds"].items():
                kinds[kind] = kinds.get(kind, 0) + program["runs"] * seconds
        predicted[cluster] = {"seconds": plan["seconds"], "kinds": kinds, "tensor_bytes": plan["memory"]["planned"] + plan["memory"]["scratch"],
                              "process_bytes": plan["memory"]["held"]}
    return predicted


def cluster_of(gpu, predicted):
    """The cluster whose GPU this is by its name, or none; artifacts for a CPU have one for it."""
    if "cpu" in predicted:
        return "cpu"
    named = {cluster: words for own in CLUSTERS.values() for cluster, words in own.items()}
    return next((cluster for cluster in predicted if all(word in gpu for word in named[cluster])), None)


def beside(predicted, row):
    """(what, predicted, measured) of what both have, in seconds or bytes."""
    both = [(key, predicted[key], row[key]) for key in ("seconds", "tensor_bytes", "process_bytes") if row.get(key)]
    measured = row.get("gaps", {}).get("kinds", {})
    for kind in sorted({*predicted["kinds"], *measured} if measured else (), key=lambda k: -predicted["kinds"].get(k, 0)):
        have, want = predicted["kinds"].get(kind, 0), measured.get(kind, 0) / 1000
        if have or want:
            both.append((f"{kind} kernels", have, want))
    return both


def markdown(predicted, rows, name):
    """A table of one row of the decoder's; nothing where it was not measured."""
    row = rows.get(name, {})
    if not predicted or not row.get("seconds"):
        return []
    lines = [f"## {name}: predicted for {predicted['cluster']} and measured", "", "| | predicted | measured | predicted / measured |", "|---|---|---|---|"]
    words = {"seconds": "step", "tensor_bytes": "tensors and scratch", "process_bytes": "process"}
    for what, have, want in beside(predicted, row):
        scale, unit = (2**30, "GiB") if what.endswith("bytes") else (1e-3, "ms")
        ratio = f"{have / want:.2f}" if want else "-"
        lines.append(f"| {words.get(what, what)} | {have / scale:.2f} {unit} | {want / scale:.2f} {unit} | {ratio} |")
    if not row.get("gaps"):
        lines += ["", "Kinds of kernels: no activities were listed."]
    return lines + [""]
