#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""schedule: auto. Within each budget, no slower for a larger one, deterministic, never slower than the default and peers' rules; a budget that cannot be met
is refused with one that can; what is chosen trains with the bits of the default."""
import json
import os
import pty
import re
import subprocess

import torch
import yaml

import warm
from harness import call, compile_step, make_config, make_data, must, parse_arguments, run_cases, save_file, train, train_case
from recompute import decoder

LAYERS = 6
# Of a host whose links are slow, so that what is gathered again costs something.
CLUSTER = """
name: slow
ranks_per_node: 8
device: {kind: cpu, name: test, memory: 1.0e9, reserved: 1.0e6, bandwidth: 10.0e9, vector_rate: 5.0e9, kernel: 1.0e-6, cores: 8}
matmul: {rates: {f32: 20.0e9}, ramp: 8, tiles: [[4, 4, 1.0]]}
network: {kind: linear, link: 1.0e9, latency: 5.0e-6, launch: 5.0e-6}
"""


class Compiler:
    """One model and config, compiled for many budgets."""

    def __init__(self, bin, folder, world=2, layers=LAYERS, **config):
        self.bin, self.folder, self.world = bin, folder, world
        torch.manual_seed(3)
        self.module, self.inputs = decoder(layers=layers)
        (folder / "slow.yaml").write_text(CLUSTER)
        self.config = config
        self.exported = False

    def compile(self, name="step", **config):
        """The prediction, and what was said."""
        options = [f"--print-plan={name}.json"]
        everything = make_config(self.world, cluster="slow.yaml", **self.config, **config)
        if not self.exported:
            done = compile_step(self.bin, self.folder, self.module, self.inputs, everything, options=options)
            self.exported = True
        else:
            (self.folder / "again.yaml").write_text(yaml.safe_dump(everything))
            done = must(self.bin / "fsdp-opt", "model.pt2", "--config=again.yaml", *options, "-o", "step.fsdp", cwd=self.folder)
        return json.loads((self.folder / f"{name}.json").read_text()), done.stderr

    def refused(self, **config):
        (self.folder / "again.yaml").write_text(yaml.safe_dump(make_config(self.world, cluster="slow.yaml", **self.config, **config)))
        done = call(self.bin / "fsdp-opt", "model.pt2", "--config=again.yaml", "-o", "none.fsdp", cwd=self.folder)
        assert done.returncode == 1 and "error[fsdp-E053]" in done.stderr, done.stderr
        return done.stderr


ranges = {}  # by what they depend on, as cases have found them


def find_range(compiler):
    """Bytes that zero-2 holds, and the least that is refused with its advice."""
    key = compiler.world, json.dumps(compiler.config, sort_keys=True)
    if key not in ranges:
        ranges[key] = measure_range(compiler)
    return ranges[key]


def measure_range(compiler):
    largest, _ = compiler.compile(reshard_after_forward=False)
    message = compiler.refused(schedule="auto", memory_budget="1.1MiB")
    least = int(re.search(r"a memory_budget of (\d+)B works", message)[1])
    assert least < largest["memory"]["held"], "the budgets are one"
    return largest["memory"]["held"], least


def budgets(bin, world, count=8, **config):
    def case(folder):
        compiler = Compiler(bin, folder, world, **config)
        largest, least = find_range(compiler)
        default, _ = compiler.compile()
        seconds, chosen = [], set()
        for i in range(count):
            budget = largest - (largest - least) * i // (count - 1)
            prediction, said = compiler.compile(schedule="auto", memory_budget=f"{budget}B")
            held = prediction["memory"]["held"]
            assert held <= budget, f"{held} bytes are held of {budget}: {said}"
            if default["memory"]["held"] <= budget:
                assert prediction["seconds"] <= default["seconds"], f"auto is slower than the default: {said}"
            seconds.append(prediction["seconds"])
            chosen.add(re.sub(r"within.*", "", said))
            assert f"predicted within" in said, said
        for fast, slow in zip(seconds, seconds[1:]):
            assert fast <= 1.01 * slow, f"a smaller budget has a faster answer: {seconds}"
        assert len(chosen) >= 4, f"one answer for all budgets: {chosen}"
        assert seconds[0] < seconds[-1], "memory costs no time: the test tests nothing"
        compiler.refused(schedule="auto", memory_budget=f"{least - 1}B")
    return case


def deterministic(bin):
    def case(folder):
        compiler = Compiler(bin, folder)
        _, least = find_range(compiler)
        artifacts = []
        with warm.off():  # nothing may depend on addresses
            for _ in range(2):
                compiler.compile(schedule="auto", memory_budget=f"{int(1.1 * least)}B")
                artifacts.append((folder / "step.fsdp").read_bytes())
        assert artifacts[0] == artifacts[1]
    return case


def same_bits(bin, world):
    def case(folder):
        compiler = Compiler(bin, folder, world)
        largest, least = find_range(compiler)
        torch.manual_seed(5)
        save_file(make_data(compiler.inputs, 3 * world), folder / "data.safetensors")
        runs = []
        for config in ({}, {"schedule": "auto", "memory_budget": f"{least}B"}, {"schedule": "auto", "memory_budget": f"{largest}B"}):
            compiler.compile(loss_chunks=1, **config)
            runs.append(train(bin, folder, world, 3))
        for rows, weights in runs[1:]:
            assert [row["loss"] for row in rows] == [row["loss"] for row in runs[0][0]]
            assert all(torch.equal(weights[name], value) for name, value in runs[0][1].items())
    return case


def peers(bin, world):
    """Rules of others train with the same bits, and are never predicted faster within the same budget."""
    def case(folder):
        compiler = Compiler(bin, folder, world)
        largest, _ = find_range(compiler)
        torch.manual_seed(5)
        save_file(make_data(compiler.inputs, 3 * world), folder / "data.safetensors")
        compiler.compile(loss_chunks=1)
        rows, weights = train(bin, folder, world, 3)
        predicted = {}
        for rule in ("fsdp2", "deepcompile", "inductor"):
            budget = {"memory_budget": f"{2 * largest}B"}
            predicted[rule], said = compiler.compile(schedule=rule, loss_chunks=1, **budget)
            assert f"schedule: {rule}: " in said, said
            others, same = train(bin, folder, world, 3)
            assert [row["loss"] for row in others] == [row["loss"] for row in rows], rule
            assert all(torch.equal(same[name], value) for name, value in weights.items()), rule
        assert len({each["seconds"] for each in predicted.values()}) > 1, "the rules do the same"
        held = predicted["inductor"]["memory"]["held"]
        for budget in (held, 2 * largest):
            auto, said = compiler.compile(schedule="auto", memory_budget=f"{budget}B", loss_chunks=1)
            for rule, each in predicted.items():
                assert each["memory"]["held"] > budget or auto["seconds"] <= each["seconds"], f"auto is slower than {rule}: {said}"
        (folder / "said.yaml").write_text(yaml.safe_dump(make_config(world, cluster="slow.yaml", schedule="deepcompile", prefetch=2)))
        done = call(bin / "fsdp-opt", "model.pt2", "--config=said.yaml", "-o", "none.fsdp", cwd=folder)
        assert done.returncode == 2 and "leave one of them out" in done.stderr, done.stderr
    return case


def each_block(bin, world):
    """What auto may write, a person can: the same bits, and no more memory than it is meant to take."""
    def case(folder):
        compiler = Compiler(bin, folder, world)
        plain, _ = compiler.compile()
        torch.manual_seed(5)
        save_file(make_data(compiler.inputs, 3 * world), folder / "data.safetensors")
        runs = [train(bin, folder, world, 3)]
        mixed = [{"policy": "selective"}, {"modules": ["layers.0", "layers.1"]}]
        held = []
        for recomputed in (mixed, {"policy": "selective"}, True):
            prediction, _ = compiler.compile(activation_checkpointing=recomputed, prefetch=0, reductions_in_flight=2,
                                             overrides=[{"modules": "layers.3", "prefetch": 3}, {"modules": "root", "prefetch": 1}],
                                             buckets={"pair": ["layers.4", "layers.5"]})
            held.append(prediction["memory"]["planned"])
            runs.append(train(bin, folder, world, 3))
        assert held[1] > held[0] > held[2], held
        assert held[1] < plain["memory"]["planned"]
        for rows, weights in runs[1:]:
            assert [row["loss"] for row in rows] == [row["loss"] for row in runs[0][0]]
            assert all(torch.equal(weights[name], value) for name, value in runs[0][1].items())
    return case


def merged(bin):
    """Neighbours move as one where ranks wait for each other at every call, though the link is as fast for small ones as for large ones."""
    def case(folder):
        compiler = Compiler(bin, folder)
        fast = CLUSTER.replace("latency: 5.0e-6, launch: 5.0e-6", "latency: 0, launch: 0")
        apart = fast.replace("launch: 0", "launch: 0, skew: [{ranks: 2, seconds: [[0, 2.0e-4]]}]")
        seconds = []
        for cluster, is_merged in ((fast, False), (apart, True)):
            (folder / "slow.yaml").write_text(cluster)
            prediction, said = compiler.compile(schedule="auto")
            assert ("neighbouring buckets merged" in said) == is_merged, said
            seconds.append(prediction["seconds"])
        alone, _ = compiler.compile(schedule="auto", buckets={f"part{i}": [f"layers.{i}"] for i in range(LAYERS)})
        assert seconds[0] < seconds[1] < alone["seconds"], (seconds, alone["seconds"])
    return case


def said_stays(bin):
    """What the config says is not decided."""
    def case(folder):
        compiler = Compiler(bin, folder, reshard_after_forward=True, activation_checkpointing=False, loss_chunks=1, prefetch=2)
        _, said = compiler.compile(schedule="auto")
        for what in ("stay gathered", "computed again", "the loss in chunks", "gathered ahead"):
            assert what not in said, said
        compiler.refused(memory_budget="1100000B")
    return case


def shown(bin):
    """On a terminal a line says what is done meanwhile, and is gone at the end."""
    def case(folder):
        _, said = Compiler(bin, folder, layers=4 * LAYERS).compile(schedule="auto")
        assert "\r" not in said, said
        (folder / "again.yaml").write_text(yaml.safe_dump(make_config(2, cluster="slow.yaml", schedule="auto")))
        master, slave = pty.openpty()
        process = subprocess.Popen([bin / "fsdp-opt", "model.pt2", "--config=again.yaml", "-o", "again.fsdp"], cwd=folder, stderr=slave)
        os.close(slave)
        pieces = []
        while True:
            try:
                pieces.append(os.read(master, 1 << 16))
            except OSError:  # the other end is closed
                break
        os.close(master)
        assert process.wait() == 0
        line = "\r\x1b[K"
        before, _, after = b"".join(pieces).decode().rpartition(line)
        assert re.search(re.escape(line) + r" *[1-9][0-9]* s  plan [0-9]+: (shard|schedule|plan), fsdp-", before), before
        assert "schedule: auto takes" in after and after.replace("\r\n", "\n") == said, after
        assert (folder / "again.fsdp").read_bytes() == (folder / "step.fsdp").read_bytes()
    return case


def narrow(bin):
    """Types of few bits are taken where they are asked for and pay, and then they are what a person would have written."""
    def case(folder):
        slow = CLUSTER.replace("link: 1.0e9", "link: 1.0e7")
        compiler = Compiler(bin, folder)
        for cluster, taken in ((CLUSTER.replace("link: 1.0e9", "link: 1.0e12"), False), (slow, True)):
            (folder / "slow.yaml").write_text(cluster)
            without, said = compiler.compile()
            assert "precision" not in said, said
            chosen, said = compiler.compile(precision="auto")
            for what in ("float8: {recipe: tensorwise", "fsdp_config.reduce_wire_dtype: bfloat16"):
                assert f"precision: auto {'takes' if taken else 'leaves out'} {what}" in said, said
            assert chosen["seconds"] < 0.9 * without["seconds"] if taken else chosen["seconds"] == without["seconds"]
        artifact = (folder / "step.fsdp").read_bytes()
        written = {"float8": {"enable_fsdp_float8_all_gather": True}, "reduce_wire_dtype": "bfloat16"}
        assert compiler.compile(**written)[0]["seconds"] == chosen["seconds"]
        assert (folder / "step.fsdp").read_bytes() == artifact
        stays, said = compiler.compile(precision="auto", float8={"recipe": "rowwise"})
        assert "float8: {recipe: tensorwise" not in said and "takes fsdp_config.reduce_wire_dtype" in said, said
        within, said = compiler.compile(precision="auto", schedule="auto")
        assert "precision: auto takes float8" in said and "schedule: auto" in said and within["seconds"] <= chosen["seconds"], said
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {"budgets world=2": budgets(bin, 2), "budgets world=4, micro-batches": budgets(bin, 4, gradient_accumulation_steps=3),
             "deterministic": deterministic(bin), "what is said stays": said_stays(bin), "merged where calls cost": merged(bin), "peers' rules": peers(bin, 2),
             "each block": each_block(bin, 2), "shown on a terminal": shown(bin), "narrow types": narrow(bin)}
    for world in (1, 2, 3):
        cases[f"same bits world={world}"] = same_bits(bin, world)
    if arguments.all:
        cases["many budgets"] = budgets(bin, 2, count=60)
    cases["trains world=2"] = train_case(bin, lambda: decoder(layers=LAYERS), 2, schedule="auto")
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
