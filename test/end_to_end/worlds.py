# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A checkpoint of any world is loaded by any other: 1, 2, 3, 4 and 8 ranks and meshes with
replicas, in every direction, with and without resharding after the forward pass, in all
layouts. The exported weights are the same bits, and so is everything else that it holds.
"""
import concurrent.futures
import itertools
import shutil

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file

import zoo
from checkpoint import assert_same, read_checkpoint
from harness import export, make_config, make_data, must, parse_arguments, run_cases
from ranks import Ranks

# Ranks, and how many of them have the same shards.
MESHES = {"1": (1, 1), "2": (2, 1), "3": (3, 1), "4": (4, 1), "2x2": (4, 2), "8": (8, 1), "2x4": (8, 2), "4x2": (8, 4)}
LAYOUTS = ("rows", "flat", "fsdp2")
PATIENCE = 120
# Over processes: written where, loaded where.
PROCESSES = (("4 reshard", "3 keep"), ("2x2 keep", "2 reshard"), ("1 reshard", "4 keep"), ("3 keep", "2x2 reshard"))


class Model(nn.Module):
    """Rows that no world divides, fewer rows than ranks, none at all; tied, frozen; buffers."""

    def __init__(self):
        super().__init__()
        self.gpt = zoo.Gpt(length=7)
        self.gpt.blocks[1].norm1.requires_grad_(False)
        self.gpt.blocks[0].up.bias.requires_grad_(False)
        self.temperature = nn.Parameter(torch.tensor(0.3))
        self.gain = nn.Parameter(torch.ones(1, 31))
        self.short = nn.Linear(31, 2)
        self.register_buffer("scale", torch.rand(3))
        self.register_buffer("hidden", torch.rand(5), persistent=False)

    def forward(self, x, y):
        logits = self.gpt(x) * self.gain * self.temperature.exp()
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        return loss + self.short(F.dropout(logits, 0.2)).square().mean() * self.scale.mean() * self.hidden.mean()


def make_variants():
    """Name -> config. Each mesh with both settings; layouts in turn."""
    variants = {}
    for number, (mesh, keeps) in enumerate(itertools.product(MESHES, (False, True))):
        world, replicate = MESHES[mesh]
        # 16 variants and 3 layouts: both settings of a mesh get different ones.
        variants[f"{mesh} {'keep' if keeps else 'reshard'}"] = make_config(
            world, replicate=replicate, reshard_after_forward=not keeps, bucket_layout=LAYOUTS[number % len(LAYOUTS)], max_grad_norm=1.0)
    return variants


class Worlds:
    def __init__(self, bin, folder, names, backend="local"):
        self.bin, self.folder, self.backend, self.variants = bin, folder, backend, make_variants()
        torch.manual_seed(7)
        model, inputs = Model(), zoo.tokens(31, 7)
        export(model.train(), inputs, folder / "model.pt2")
        save_file(make_data(inputs, 8), folder / "data.safetensors")
        for name in names:
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(self.variants[name]))
            must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", f"{name}.fsdp", cwd=folder)

    def world(self, name):
        return MESHES[name.split()[0]][0]

    def run(self, name, *options):
        command = [self.bin / "fsdp-run", f"{name}.fsdp", "--data=data.safetensors", "--steps=1", *options]
        if self.backend == "local":
            return must(*command, cwd=self.folder)
        world = self.world(name)
        with Ranks(command, world, self.folder) as ranks:
            assert ranks.wait(PATIENCE) is not None, "it hangs"
            assert not any(ranks.status(rank) for rank in range(world)), [ranks.message(rank) for rank in range(world)]

    def save(self, name):
        """One step, written; its weights and all of its states."""
        self.run(name, f"--save=from {name}", f"--export={name}.safetensors")
        weights, states = load_file(self.folder / f"{name}.safetensors"), read_checkpoint(self.folder / f"from {name}/step_1")
        assert {"optimizer.step", "random.state", "hidden"} <= set(states) and "hidden" not in weights
        assert states["optimizer.exp_avg_sq.temperature"] > 0, "nothing is trained: the case tests nothing"
        return weights, states

    def check(self, source, target, weights, states):
        """What `target` loads of `source`'s checkpoint, exports and writes again is what was there."""
        to = self.folder / f"to {target}"
        self.run(target, f"--load=from {source}", f"--save={to}", f"--export={to}.safetensors")
        try:
            assert_same(load_file(f"{to}.safetensors"), weights)
            assert_same(read_checkpoint(to / "step_1"), states)
        except AssertionError as error:
            raise AssertionError(f"from {source} to {target}: {error}") from None
        shutil.rmtree(to)


def threads_case(bin, all):
    """Every ordered pair of meshes, from and into either setting in turn; with `all` twice, so that either setting meets either."""
    def case(folder):
        worlds = Worlds(bin, folder, make_variants())
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for number, source in enumerate(worlds.variants):
                weights, states = worlds.save(source)
                targets = [f"{mesh} {('reshard', 'keep')[(number // 2 + number + place) % 2]}" for place, mesh in enumerate(MESHES)
                           if all or (number + place) % 2 == 0]
                list(pool.map(lambda target: worlds.check(source, target, weights, states), targets))
    return case


def processes_case(bin):
    def case(folder):
        worlds = Worlds(bin, folder, sorted({name for pair in PROCESSES for name in pair}), "gloo")
        for source, target in PROCESSES:
            worlds.check(source, target, *worlds.save(source))
    return case


def main():
    arguments = parse_arguments()
    run_cases({"threads": threads_case(arguments.bin, arguments.all), "processes": processes_case(arguments.bin)}, arguments.only)


if __name__ == "__main__":
    main()
