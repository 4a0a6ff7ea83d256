# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random configs that may hold no more memory than was predicted for them, and 2 % more; and budgets below the least, which are refused.

What counts is resident memory, libraries and mapped files included: the highest that Linux saw of a process (VmHWM). A process that is seen above its limit is
killed, and the peak after the last step must be below it, too. RLIMIT_DATA is no such limit: it counts what is mapped whether it is touched or not: stacks, and beside
the whole of the arena the memory from which kernels are rehearsed. What a process takes beside its tensors is the peak of the same ranks with a model of a few numbers. The
prediction is that and what the compiler says of its ranks, without what the cluster's file says of libraries. One config in ten is run again with a tenth less
than it took, and must be killed, or the limit would show nothing.
"""
import json
import os
import pathlib
import random
import re
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from . import models, runs

SEED, DEFAULT_COUNT, SLACK = 11, 100, 1.02
TOO_LITTLE, ONE_IN = 0.9, 10
AUTO_ONE_IN = 5
# Of what the default holds beside libraries: what `auto` gets.
AUTO_BUDGET = 0.85
STEPS, POLL_S, LIMIT_S = 2, 0.004, 120


class Net(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)) for _ in range(layers))
        self.head = nn.Linear(width, 16)

    def forward(self, x, y):
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.head(x), y)


class GateBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.fc, self.scale = nn.LayerNorm(width), nn.Linear(width, width), nn.Parameter(torch.ones(width))

    def forward(self, x):
        h = self.fc(self.norm(x))
        return x + torch.sigmoid(h) * torch.tanh(h * self.scale)


class Gates(Net):
    """Little but activations."""

    def __init__(self, width, layers):
        nn.Module.__init__(self)
        self.blocks = nn.ModuleList(GateBlock(width) for _ in range(layers))
        self.head = nn.Linear(width, 16)


def rows(kind, width, layers, batch):
    return lambda: (kind(width, layers), {"x": torch.randn(batch, width), "y": torch.randint(0, 16, (batch,))})


# Hundreds of MiB and more: 2 % of less are less than what libraries take one time or another.
SHAPES = {
    "deep": rows(Net, 1024, 8, 64), "wide": rows(Net, 1536, 5, 64), "both": rows(Net, 1024, 5, 512),
    "gates": rows(Gates, 256, 8, 6144), "decoder": models.decoder(12288, 768, 4, 64, 2),
}
SMALL, TINY = {"small": rows(Net, 512, 3, 64)}, {"tiny": rows(Net, 8, 1, 2)}


def random_case(dice, number):
    fsdp = {"prefetch": dice.choice((0, 1, 2, 4)), "bucket_layout": dice.choice(("rows", "flat"))}
    top = {}
    shape = dice.choice(list(SHAPES))
    if number % AUTO_ONE_IN == 0:
        fsdp, top = {}, {"schedule": "auto"}
    else:
        fsdp["reshard_after_forward"] = dice.choice((True, False))
        if dice.random() < 0.4:
            fsdp["activation_checkpointing"] = {"policy": dice.choice(("full", "selective")), "every": dice.choice((1, 2))}
        if dice.random() < 0.3:
            fsdp[dice.choice(("activation_offloading", "offload_optimizer", "offload_params"))] = True
        if shape == "decoder":
            fsdp["loss_chunks"] = dice.choice((1, 2, 4))
        if dice.random() < 0.25:
            top["gradient_accumulation_steps"] = dice.choice((2, 3))
    if dice.random() < 0.2:
        fsdp["mixed_precision"] = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    return {"world": dice.choice((1, 2, 3)), "backend": dice.choice(("local", "gloo")), "shape": shape, "fsdp": fsdp, "top": top}


def cases(arguments):
    dice = random.Random(SEED)
    return [random_case(dice, number) for number in range(arguments.count or DEFAULT_COUNT)][arguments.first:]


def model_of(arguments, shape):
    model = arguments.work / "models" / f"limits.{shape}.pt2"
    runs.export({**SHAPES, **SMALL, **TINY}[shape], model)
    return model


def compile_case(arguments, number, case):
    """The model, the artifact, and the prediction for this machine with ranks as the case has them."""
    model = model_of(arguments, case["shape"])
    artifact = arguments.work / "limits" / f"{number}.fsdp"
    config = runs.make_config(case["world"], **case["fsdp"], **case["top"])
    return model, artifact, runs.compile_model(arguments.bin, model, config, cluster_of(arguments, case), artifact)


def cluster_of(arguments, case):
    return arguments.work / f"{case['backend']}.yaml"


def give_budget(arguments, number, case):
    """For `auto`: a part of what the default holds, or the least that works if that is more."""
    plain = {**case, "top": {}}
    model, artifact, prediction = compile_case(arguments, f"{number}.plain", plain)
    memory = prediction["memory"]
    budget = int(memory["reserved"] + AUTO_BUDGET * (memory["held"] - memory["reserved"]))
    refused, said = is_refused(arguments, model, artifact, case, budget)
    if refused:
        advice = re.search(r"a memory_budget of (\d+)B works", said)
        if not advice:
            raise RuntimeError(f"no budget is named: {said.strip()[-500:]}")
        budget = int(advice[1])
    case["top"]["memory_budget"] = f"{budget}B"


def prepare(arguments):
    for number, case in enumerate(cases(arguments), arguments.first):
        if "schedule" in case["top"]:
            give_budget(arguments, number, case)
        compile_case(arguments, number, case)


def ranks_in_process(case):
    return case["world"] if case["backend"] == "local" else 1


def highest_resident(process):
    """Bytes; 0 of a process that has ended."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def watch(processes, limit):
    """Most resident bytes of each until all have ended, or None: one was seen above the limit, or all take too long."""
    most, begin = [0] * len(processes), time.monotonic()
    while any(process.poll() is None for process in processes):
        most = [max(old, highest_resident(process)) for old, process in zip(most, processes)]
        if max(most) > limit:
            return None
        if time.monotonic() - begin > LIMIT_S:
            raise RuntimeError(f"a run takes more than {LIMIT_S} s")
        time.sleep(POLL_S)
    return most


def run_within(arguments, artifact, case, limit):
    """Most resident bytes of a process of a run that ends well and stays within `limit`, else None."""
    metrics = artifact.with_suffix(".run.jsonl")
    metrics.unlink(missing_ok=True)
    command = [arguments.bin / "fsdp-run", artifact, "--data=sample", f"--steps={STEPS}", "--threads=1", f"--metrics={metrics}"]
    if ranks_in_process(case) == case["world"]:
        with open(artifact.with_suffix(".err"), "w") as errors:
            process = subprocess.Popen([str(c) for c in (*command, "--backend=local")], cwd=artifact.parent, stdout=subprocess.DEVNULL, stderr=errors,
                                       env={**os.environ, "OMP_NUM_THREADS": "1"})
            try:
                most = watch([process], limit)
            finally:
                process.kill()
                process.wait()
        statuses = [process.returncode]
    else:
        with runs.Ranks(command, case["world"], artifact.parent, tag=artifact.stem) as ranks:
            most = watch(ranks.processes, limit)
        statuses = [ranks.status(rank) for rank in range(case["world"])]
    if most is None:
        return None
    if any(statuses):
        raise RuntimeError(f"config {artifact.stem} fails on its own: statuses {statuses}, see {artifact.parent}/{artifact.stem}*.err")
    written = [json.loads(line) for line in metrics.read_text().splitlines()]
    if len(written) != STEPS:
        raise RuntimeError(f"{len(written)} steps were written, not {STEPS}")
    peak = max(*most, *written[-1]["rank_peak_rss_bytes"])
    return peak if peak <= limit else None


class Footprints:
    """Resident bytes beside the tensors, by back end and ranks."""

    def __init__(self, arguments):
        self.arguments, self.known = arguments, {}

    def find(self, case):
        key = case["backend"], case["world"]
        if key not in self.known:
            tiny = {**case, "shape": "tiny", "fsdp": {}, "top": {}}
            _, artifact, prediction = compile_case(self.arguments, f"tiny.{key[0]}.{key[1]}", tiny)
            self.known[key] = run_within(self.arguments, artifact, tiny, 1 << 40) - tensors_of(tiny, prediction)
        return self.known[key]


def tensors_of(case, prediction):
    """Predicted bytes of the tensors of a process, temporaries included, and what gloo stages; threads stage nothing."""
    memory = prediction["memory"]
    each = memory["held"] - memory["reserved"] - (memory["communicators"] if case["backend"] == "local" else 0)
    return ranks_in_process(case) * each


def is_refused(arguments, model, artifact, case, budget):
    """Whether the compiler says that no plan is within the budget, and what it says."""
    config = artifact.with_suffix(".budget.yaml")
    top = {**case["top"], "memory_budget": f"{budget}B"}
    config.write_text(runs.yaml.safe_dump(runs.make_config(case["world"], **case["fsdp"], **top)))
    done = runs.call(arguments.bin / "fsdp-opt", model, f"--config={config}", f"--cluster={cluster_of(arguments, case)}",
                     "-o", artifact.with_suffix(".budget.fsdp"), cwd=artifact.parent)
    if done.returncode and "fsdp-E053" not in done.stderr:
        raise RuntimeError(f"not refused for its budget but: {done.stderr.strip()[-500:]}")
    return bool(done.returncode), done.stderr


def check_budgets(arguments, model, artifact, case, held):
    """What is wrong with refusals below the least that works: what the config is predicted to hold, or what `auto` names."""
    least = held
    if case["top"].get("schedule") == "auto":
        refused, said = is_refused(arguments, model, artifact, case, 1 << 20)
        advice = re.search(r"a memory_budget of (\d+)B works", said)
        if not refused or not advice:
            return [f"auto within 1 MiB: {said.strip()[-300:]}"]
        least = int(advice[1])
    problems = []
    if is_refused(arguments, model, artifact, case, least)[0]:
        problems.append(f"refused within {least} bytes, which should work")
    if not is_refused(arguments, model, artifact, case, least - 1)[0]:
        problems.append(f"not refused within {least - 1} bytes, one less than the least")
    return problems


def measure_case(arguments, footprints, number, case):
    if "schedule" in case["top"]:
        give_budget(arguments, number, case)
    model, artifact, prediction = compile_case(arguments, number, case)
    footprint, tensors = footprints.find(case), tensors_of(case, prediction)
    limit = int(SLACK * (footprint + tensors))
    row = {"number": number, **case, "tensors": tensors, "footprint": footprint, "limit": limit, "peak": run_within(arguments, artifact, case, limit)}
    row["finished"] = row["peak"] is not None
    if not row["finished"]:
        row["peak_without_limit"] = run_within(arguments, artifact, case, 1 << 40)
    if number % ONE_IN == 1 and row["finished"]:
        row["finished_with_less"] = run_within(arguments, artifact, case, int(TOO_LITTLE * row["peak"])) is not None
    row["budgets"] = check_budgets(arguments, model, artifact, case, prediction["memory"]["held"])
    return row


def over_tensors(row):
    """What the tensors took over what was predicted for them."""
    return ((row["peak"] or row["peak_without_limit"]) - row["footprint"]) / row["tensors"]


def measure(arguments):
    begin, rows, footprints = time.monotonic(), [], Footprints(arguments)
    (arguments.work / "limits").mkdir(exist_ok=True)
    for number, case in enumerate(cases(arguments), arguments.first):
        if time.monotonic() - begin > arguments.seconds:
            break
        since = time.monotonic()
        row = measure_case(arguments, footprints, number, case)
        row["seconds"] = time.monotonic() - since
        rows.append(row)
        # What is known if it is interrupted.
        (arguments.work / "limits.rows.json").write_text(json.dumps(rows))
        print(f"{number:4d} {case['backend']:5s} {case['world']} ranks {case['shape']:8s} {row['tensors'] / 2**20:8.1f} MiB beside {row['footprint'] / 2**20:6.1f}, "
              f"{over_tensors(row):.3f} taken  {row['seconds']:.0f} s  {'finished' if row['finished'] else 'FAILED'}  {'; '.join(row['budgets']) or 'refused below'}", flush=True)
    return rows


def summarize(rows):
    failed = [row["number"] for row in rows if not row["finished"]]
    wrong = [row["number"] for row in rows if row["budgets"]]
    loose = [row["number"] for row in rows if row.get("finished_with_less")]
    ratios = sorted(map(over_tensors, rows))
    return {"configs": len(rows), "finished": len(rows) - len(failed), "failed_runs": failed, "wrong_refusals": wrong,
            "finished_with_a_tenth_less": loose, "tried_with_a_tenth_less": sum("finished_with_less" in row for row in rows),
            "median_taken": ratios[len(ratios) // 2] if rows else None, "most_taken": ratios[-1] if rows else None,
            "failed": bool(failed or wrong or loose or not rows)}
