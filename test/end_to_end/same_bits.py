# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With `grains` the weights, losses and norms of a run have the same bits on any number of ranks, however parameters are
sharded, moved and exchanged, and through checkpoints that go from one world to another. They are PyTorch's, too.
"""
import hashlib
import itertools
import json
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file

import zoo
from harness import ADAMW, call, compare, export, make_config, make_data, must, parse_arguments, reference, run_cases, run_step
from ranks import Ranks

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
STEPS = 3
# Ranks (3x2: replicas of shards), back end, and fsdp_config. Among them each number of ranks, each way to reshard, each layout.
WAYS = [
    ("1", "local", {}),
    ("2", "local", {"reshard_after_forward": True, "prefetch": 0}),
    ("3", "local", {"reshard_after_forward": False, "bucket_layout": "flat", "prefetch": 3}),
    ("4", "local", {"reshard_after_forward": 2, "bucket_layout": "flat"}),
    ("2x2", "local", {"reshard_after_forward": True}),
    ("8", "local", {"reshard_after_forward": False, "prefetch": 0}),
    ("3", "gloo", {"reshard_after_forward": True}),
]
# Of each of these any two values meet in some way, where they can.
CHOICES = {
    "world": (1, 2, 3, 4, 6, 8),
    "sharding": ("zero-3", "zero-2", "hpz", "hsdp"),
    "layout": ("rows", "flat"),
    "backend": ("local", "gloo"),
    "prefetch": (0, 1, 3),
}


def cover(choices):
    """Ways in which all pairs of values meet, found greedily; the same ones always."""
    def is_possible(way):
        world, sharding = way[:2]
        return not (sharding == "hpz" and (world < 4 or world % 2)) and not (sharding == "hsdp" and world % 2)

    def pairs(way):
        return set(itertools.combinations(enumerate(way), 2))
    ways = [way for way in itertools.product(*choices.values()) if is_possible(way)]
    left, chosen = set().union(*map(pairs, ways)), []
    while left:
        best = max(ways, key=lambda way: len(pairs(way) & left))
        left -= pairs(best)
        chosen.append(best)
    for world, sharding, layout, backend, prefetch in chosen:
        reshard = {"zero-3": True, "zero-2": False, "hpz": 2, "hsdp": True}[sharding]
        yield f"2x{world // 2}" if sharding == "hsdp" else str(world), backend, {"reshard_after_forward": reshard, "bucket_layout": layout, "prefetch": prefetch}


ALL_WAYS = WAYS[:1] + list(cover(CHOICES)) + [
    ("2x3", "local", {"reshard_after_forward": False}),
    ("6", "local", {"reshard_after_forward": True, "bucket_layout": "auto", "prefetch": 3}),
    ("4x1", "local", {}),
    ("4", "local", {"bucket_layout": "fsdp2"}),
    ("2", "local", {"optimizer_in_backward": "never", "reductions_in_flight": 2}),
    ("4", "local", {"reshard_after_forward": False, "reshard_after_backward": False}),
    ("3", "local", {"shard_dims": {"*.weight": "largest"}}),
    ("2", "local", {"activation_checkpointing": True}),
]


class Dropped(nn.Module):
    """Odd sizes, tensors with fewer rows than ranks, a parameter that is a number."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(7, 65), nn.Linear(65, 33), nn.Linear(33, 3)
        self.gain = nn.Parameter(torch.tensor(1.3))

    def forward(self, x, y):
        hidden = F.dropout(torch.tanh(self.first(x)), 0.3)
        return F.mse_loss(self.last(F.dropout(torch.relu(self.middle(hidden)), 0.2)) * self.gain, y)


def dropped():
    return Dropped(), {"x": torch.randn(4, 7), "y": torch.randn(4, 3)}


class Eights(nn.Module):
    """Layers whose sizes are multiples of 16, one of them called twice, and one that is not."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(16, 48), nn.Linear(48, 48, bias=False), nn.Linear(48, 5)

    def forward(self, x, y):
        hidden = torch.tanh(self.middle(torch.tanh(self.middle(torch.tanh(self.first(x))))))
        return F.mse_loss(self.last(hidden), y)


def eights():
    return Eights(), {"x": torch.randn(6, 16), "y": torch.randn(6, 5)}


def partly_flat(ways):
    """What is gathered in eight bits lies in rows, and those of more ranks than 4 grains cannot be."""
    for mesh, backend, fsdp in ways:
        layout = fsdp.get("bucket_layout", "rows")
        if math.prod(map(int, mesh.split("x"))) <= 4 and layout != "fsdp2":
            yield mesh, backend, {**fsdp, "bucket_layout": "rows" if layout == "rows" else "auto"}


def make_way(way, grains, extra):
    """World size and config."""
    mesh, _, fsdp = way
    sizes = [int(size) for size in mesh.split("x")]
    world = sizes[0] * (sizes[1] if len(sizes) > 1 else 1)
    config = make_config(world, replicate=sizes[0] if len(sizes) > 1 else 1, **{**fsdp, **extra})
    config["fsdp_config"]["grains"] = grains
    return world, config


def digest(folder, rows):
    """Of the exported weights, and of losses and norms."""
    weights, found = load_file(folder / "final.safetensors"), hashlib.sha256()
    for key in sorted(weights):
        found.update(key.encode() + weights[key].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    numbers = [(row["step"], row["loss"], row["grad_norm"]) for row in rows]
    return found.hexdigest()[:16], hashlib.sha256(repr(numbers).encode()).hexdigest()[:16]


def compile_way(bin, folder, config):
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
    must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)


def make_model(folder, factory, grains, steps):
    torch.manual_seed(7)
    model, inputs = factory()
    export(model.train(), inputs, folder / "model.pt2")
    data = make_data(inputs, grains * steps)
    save_file(data, folder / "data.safetensors")
    return model, inputs, data


def same(bin, factory, grains=8, ways=WAYS, draws=False, half=False, **extra):
    """One hash for all ways; what does not draw, and rounds as the reference does, is PyTorch's."""
    def case(folder):
        model, inputs, data = make_model(folder, factory, grains, STEPS)
        hashes = {}
        for way in ways:
            world, config = make_way(way, grains, extra)
            compile_way(bin, folder, config)
            rows = run_step(bin, folder, world, f"--steps={STEPS}", "--export=final.safetensors", backend=way[1])
            assert all(row["unplanned_bytes"] == 0 for row in rows), rows
            hashes[str(way)] = digest(folder, rows)
            if way is ways[0] and not draws and not half:
                start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
                want = reference(model, inputs, data, grains, STEPS, config)
                compare(rows, load_file(folder / "final.safetensors"), *want, start)
        assert len(set(hashes.values())) == 1, hashes
    return case


def resumed(bin, factory, grains=8, **extra):
    """Stopped on 4 ranks, on 2, and on 3: the hash of the undisturbed run on one."""
    def case(folder):
        make_model(folder, factory, grains, 4)
        hashes = []
        for ways in ([(("1", "local", {}), 4)],
                     [(("4", "local", {"bucket_layout": "flat"}), 1), (("2", "local", {}), 3), (("3", "local", {"reshard_after_forward": False}), 4)]):
            numbers = {}
            for way, steps in ways:
                world, config = make_way(way, grains, extra)
                compile_way(bin, folder, config)
                rows = run_step(bin, folder, world, f"--steps={steps}", "--export=final.safetensors", *(["--save=ck", "--load=latest"] if len(ways) > 1 else []))
                numbers.update({row["step"]: row for row in rows})
            hashes.append(digest(folder, [numbers[step] for step in sorted(numbers)]))
        assert hashes[0] == hashes[1], hashes
    return case


def killed(bin, factory, grains=8, **extra):
    """A process that is killed in the middle of a run on 4, and goes on on 2 from the newest checkpoint."""
    def case(folder):
        make_model(folder, factory, grains, 30)
        _, config = make_way(("1", "local", {}), grains, extra)
        compile_way(bin, folder, config)
        rows = run_step(bin, folder, 1, "--steps=30", "--export=final.safetensors")
        want = digest(folder, rows)[0]
        _, config = make_way(("4", "gloo", {}), grains, extra)
        compile_way(bin, folder, config)
        command = [bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=30", "--save=ck", "--save-every=1"]
        with Ranks(command, 4, folder) as ranks:
            while len(list((folder / "ck").glob("step_*"))) < 3 and ranks.alive():
                time.sleep(0.01)
            ranks.processes[2].kill()
        assert not (folder / "ck" / "step_30").exists(), "it was killed too late"
        _, config = make_way(("2", "local", {"bucket_layout": "flat"}), grains, extra)
        compile_way(bin, folder, config)
        rows = run_step(bin, folder, 2, "--steps=30", "--save=ck", "--load=latest", "--export=final.safetensors")
        assert digest(folder, rows)[0] == want
    return case


def reads_alike(bin):
    """Grain g of a step has the same rows everywhere: the loss is their mean, whatever the order of the data."""
    def case(folder):
        make_model(folder, zoo.mlp, 6, 4)
        losses = set()
        for way in [("1", "local", {}), ("4", "local", {}), ("6", "local", {}), ("3x2", "local", {})]:
            world, config = make_way(way, 6, {"optimizer": {"name": "sgd", "lr": 1e-3}})
            config["data"] = {"samples": "data.safetensors", "shuffle": True, "seed": 4}
            compile_way(bin, folder, config)
            rows = run_step(bin, folder, world, "--steps=4")
            assert all(row["samples_per_s"] > 0 for row in rows)
            losses.add(json.dumps([row["loss"] for row in rows]))
        assert len(losses) == 1, losses
    return case


def refused(bin):
    """What would have other bits is refused, by its name."""
    def case(folder):
        make_model(folder, zoo.mlp, 4, 1)
        for extra, fsdp, mesh, words in [
                ({}, {"grains": 3}, {"dp_shard": 4}, ["'grains: 3' are too few for 1 x 4 ranks", "1, 3"]),
                ({"gradient_accumulation_steps": 2}, {"grains": 4}, {"dp_shard": 2}, ["gradient_accumulation_steps: 2"]),
                ({}, {"grains": 4, "gradient_sync": "each"}, {"dp_shard": 2}, ["'gradient_sync' can only be last"]),
                ({}, {"grains": 4, "reduce_wire_dtype": "bfloat16"}, {"dp_shard": 2}, ["'reduce_wire_dtype' is not supported with 'grains'"]),
                ({"grad_norm_type": 1}, {"grains": 4}, {"dp_shard": 2}, ["'grad_norm_type: 1' is not supported with 'grains'"]),
                ({"tp_plan": "auto"}, {"grains": 4}, {"dp_shard": 1, "tp": 2}, ["'tp' and 'cp' are not supported with 'grains'"]),
                ({}, {"grains": 4, "offload_params": True}, {"dp_shard": 2}, ["not supported with 'grains'"])]:
            (folder / "fsdp.yaml").write_text(yaml.safe_dump({"mesh": mesh, "optimizer": SGD, "fsdp_config": fsdp, **extra}))
            done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
            assert done.returncode and all(word in done.stderr for word in words), done.stderr
        model, inputs = zoo.convnet()
        export(model.train(), inputs, folder / "model.pt2")
        (folder / "fsdp.yaml").write_text(yaml.safe_dump({"mesh": {"dp_shard": 2}, "optimizer": SGD, "fsdp_config": {"grains": 4}}))
        done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
        assert done.returncode and "changes the buffer" in done.stderr and "running_mean" in done.stderr, done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin, ways = arguments.bin, ALL_WAYS if arguments.all else WAYS
    clip, gathered = {"max_grad_norm": 0.05}, {"enable_fsdp_float8_all_gather": True}
    cases = {
        "dropout, clip": same(bin, dropped, ways=ways, draws=True, **clip),
        "gpt adamw": same(bin, zoo.gpt, ways=ways),
        "resumed": resumed(bin, dropped, **clip),
        "float8": same(bin, eights, grains=4, ways=list(partly_flat(ways if arguments.all else ways[1:4])), half=True, float8=gathered, **clip),
        "data order": reads_alike(bin),
        "refused": refused(bin),
    }
    if arguments.all:
        half = {"mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "bfloat16"}}
        cases.update({
            "tiny, 12 grains": same(bin, zoo.tiny, grains=12, ways=ways, optimizer=SGD, **clip),
            "llama sgd": same(bin, zoo.llama, ways=ways, optimizer={**SGD, "nesterov": True}),
            "llama bf16": same(bin, zoo.llama, ways=ways, half=True, **half, **clip),
            "gpt bf16, f32 sums": same(bin, zoo.gpt, ways=ways, half=True, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "float32"}),
            "mlp, norm inf": same(bin, zoo.mlp, ways=ways, grad_norm_type="inf", **clip),
            "mlp int8": same(bin, zoo.mlp, ways=[way for way in ways if way[2].get("bucket_layout") != "fsdp2"], half=True, optimizer={**ADAMW, "state_dtype": "int8"}),
            "tagger": same(bin, zoo.tagger, ways=ways, **clip),
            "lora": same(bin, zoo.lora, ways=ways),
            "float8, rows, bf16": same(bin, eights, ways=ways, half=True, float8={"recipe": "rowwise"}, **half, **clip),
            "looped, 12 grains": same(bin, zoo.looped, ways=ways, grains=12),
            "gpt2": same(bin, zoo.gpt2, ways=ways, draws=True, **clip),
            "killed": killed(bin, dropped, **clip),
            "scaled": same(bin, zoo.scaled, ways=ways, loss_scale="dynamic"),
        })
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
