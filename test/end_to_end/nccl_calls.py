# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What steps ask of NCCL, for 2 to 512 ranks, equals what the plan's report says.

One rank is played on the host, with a library that has NCCL's functions and
records the calls; the numbers must be those of the back end `fake`, bit for bit.
"""
import json
import re

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

from harness import call, export, make_config, must, parse_arguments, run_cases

WORLDS = (2, 3, 4, 8, 48, 64, 256, 512)
# Of the plan's streams, which are those of the communicators.
STREAMS = {"all_gather": "gather", "reduce_scatter": "reduce", "all_reduce": "replicate"}
FUNCTIONS = {"all_gather": "ncclAllGather", "reduce_scatter": "ncclReduceScatter", "all_reduce": "ncclAllReduce"}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Model(nn.Module):
    """Rows that divide by few world sizes: most have padding."""

    def __init__(self, width=24):
        super().__init__()
        self.first, self.last = nn.Linear(5, width), nn.Linear(width, 3)
        self.blocks = nn.ModuleList([Block(width), Block(width)])

    def forward(self, x, y):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return F.mse_loss(self.last(x), y)


INPUTS = {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}


def stream(kind, group):
    """The stream of a collective of the report, whose groups are called as the config's mesh."""
    return f"{group.removeprefix('dp_')}/{STREAMS[kind]}"


def calls_case(bin, world, layout, replicate=1, ranks=None, mixed=None, **config):
    """Bytes and numbers of calls by (kind, group), how they are grouped, and on which communicators."""
    def case(folder):
        extra = {"mixed_precision": mixed} if mixed else {}
        settings = make_config(world, replicate=replicate, bucket_layout=layout, **extra, **config)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(settings))
        export(Model(), INPUTS, folder / "model.pt2")
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", "step.fsdp", cwd=folder)
        report = json.loads((folder / "report.json").read_text())
        for rank in ranks or (0, world - 1):
            check(json.loads(must(bin.parent / "test" / "bin" / "fsdp-nccl-calls", "step.fsdp", rank, cwd=folder).stdout), report, world, replicate, layout)
    return case


def check(found, report, world, replicate, layout):
    assert found["same"], f"loss {found['loss']} is not the one of the back end fake"
    assert found["aborted"] == 0
    rows = {}
    for row in report["collectives"]:
        key = row["kind"], row["group"]
        count, size = rows.get(key, (0, 0))
        rows[key] = count + row["count"], size + row["count"] * row["bytes"]
    assert rows, "the report lists no collective"

    used = {}
    for call in found["calls"]:
        used.setdefault(call["on"], []).append(call)
    for (kind, group), (count, size) in rows.items():
        calls = [c for c in used.get(stream(kind, group), []) if c["name"] == FUNCTIONS[kind]]
        assert calls, f"nothing was asked for {kind} of {group}; found {sorted(used)}"
        # Two steps were run.
        moved = sum(call["bytes"] for call in calls)
        assert moved == 2 * size, f"{kind} of {group} moved {moved} bytes in two steps, the report says {size} each"
        launches = len({c["group"] for c in calls if c["group"]}) + sum(not c["group"] for c in calls)
        assert launches == 2 * count, f"{kind} of {group}: {launches} launches in two steps, the report says {count} each"
        assert {c["ranks"] for c in calls} == {world // replicate if group.startswith("dp_shard") else replicate}
        if layout == "flat":
            assert not any(c["group"] for c in calls), f"{kind} of a flat bucket is grouped"
            # Of fewer ranks rows have no padding here, and flat buckets none to align with.
            assert world // replicate < 48 or all(c["aligned"] for c in calls), f"{kind} of a flat bucket is not aligned"
    # Each stream has a communicator of its own.
    comms = {name: {c["comm"] for c in calls} for name, calls in used.items()}
    assert all(len(each) == 1 for each in comms.values()) and len(set.union(*comms.values())) == len(comms), comms
    assert found["destroyed"] >= len(comms), "communicators were left"
    # Nothing beside but the metrics.
    other = [c for name, calls in used.items() for c in calls if not any(name == stream(k, g) and c["name"] == FUNCTIONS[k] for k, g in rows)]
    assert all(c["name"] == "ncclAllReduce" and c["bytes"] <= 64 for c in other), f"{other} beside the report's"
    counted = sum(each["bytes"] for each in found["collectives"] if each["kind"] == "metrics")
    assert sum(c["bytes"] for c in other) == 2 * counted > 0, f"metrics of {counted} bytes a step, found {other}"
    if layout == "rows":
        assert any(c["group"] for c in found["calls"]), "no bucket of several members was grouped"


def hang_case(bin, world, **config):
    """A step runs as a graph, and a transfer in it never ends: each of them in turn."""
    def case(folder):
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(world, bucket_layout="flat", **config)))
        export(Model(), INPUTS, folder / "model.pt2")
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", "step.fsdp", cwd=folder)
        found = json.loads(must(bin.parent / "test" / "bin" / "fsdp-nccl-hangs", "step.fsdp", world - 1, cwd=folder).stdout)
        transfers = sum(row["count"] for row in json.loads((folder / "report.json").read_text())["collectives"])
        assert len(found) >= transfers > 0, f"{len(found)} transfers were tried, the report has {transfers}"
        for each in found:
            assert each["hangs"].startswith(f"rank {world - 1}: ") and each["hangs"].endswith(" in step 1"), each
            # Of the transfer's own group.
            expected = re.escape(each["hangs"]) + ": expected ranks? [0-9, ]+ to take part within 0.2 s, but did not"
            assert re.fullmatch(expected, each["found"]), f"found: {each['found']}\nexpected: {expected}"
        assert len({each["hangs"] for each in found}) > 1
    return case


def announced_case(bin):
    """What a plan for GPUs says of memory names what NCCL takes beside it."""
    def case(folder):
        for world in (1, 2):
            (folder / "fsdp.yaml").write_text(yaml.safe_dump({**make_config(world), "device": "cuda"}))
            export(Model(), INPUTS, folder / "model.pt2")
            must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
            said = call(bin / "fsdp-run", "step.fsdp", "--dry-run", cwd=folder).stdout
            assert "peak of all tensors" in said and ("NCCL's own buffers come beside that" in said) == (world > 1), said
    return case


def main():
    arguments = parse_arguments()
    torch.manual_seed(0)
    bin = arguments.bin
    cases = {}
    for world in WORLDS:
        for layout in ("flat", "rows"):
            cases[f"{layout} world={world}"] = calls_case(bin, world, layout)
        cases[f"HSDP 2 of {world} rows"] = calls_case(bin, 2 * world, "rows", replicate=2, ranks=(1, world + world // 2))
    cases["HSDP 4 of 8 flat"] = calls_case(bin, 32, "flat", replicate=4)
    cases["fsdp2 world=8"] = calls_case(bin, 8, "fsdp2")
    cases["bf16 world=8"] = calls_case(bin, 8, "flat", mixed={"param_dtype": "bfloat16", "reduce_dtype": "float32"})
    cases["f16 sums are divided world=4"] = calls_case(bin, 4, "rows", mixed={"param_dtype": "float16", "reduce_dtype": "float16"})
    cases["micro-batches world=4"] = calls_case(bin, 4, "flat", gradient_accumulation_steps=3)
    cases["a captured transfer hangs world=2"] = hang_case(bin, 2)
    cases["a captured transfer hangs HSDP 2 of 4"] = hang_case(bin, 4, replicate=2)
    cases["memory beside the plan is announced"] = announced_case(bin)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
