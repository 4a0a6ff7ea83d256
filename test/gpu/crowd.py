#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same bits while the GPU is full of other processes: what a step leaves unordered comes in another order there.

    crowd.py DEVICE      one of the crowd: products and copies both ways, without an end

A case is trained alone first. Then it is trained again and again among a crowd, several
at once, and every loss, norm and weight has to have the bits of the first time. Where
one has not, it is trained alone once more: operators that add with atomics have other
bits each time, crowd or not.
"""
import collections
import concurrent.futures
import hashlib
import pathlib
import sys
import tempfile
import threading
import time

import kit

# The most telling first: copies between memories, then streams.
CASES = ("optoffload", "everything", "offload", "actoffload", "accumulate", "zero3", "bf16", "tp2", "cp2", "flat")
STEPS = 6
AT_ONCE = 4
ROUNDS, PROCESSES = {"cuda": 3, "cpu": 1}, {"cuda": 6, "cpu": 1}
START = 60  # seconds that the crowd may take to gather


def chosen(manifest):
    """By name of a check: model, case and ranks; of each case that with the most ranks up to two."""
    found = {}
    for case in CASES:
        for model, made in manifest["cases"].items():
            worlds = [world for other, world, _ in made if other == case and world <= 2]
            if worlds and model not in manifest["families"]:
                found[f"{model} {case} world {max(worlds)} in a crowd"] = (model, case, max(worlds))
    return found


def names(manifest):
    return list(chosen(manifest))


def graphs_of(manifest):
    return ("auto", "off") if manifest["device"] == "cuda" else (None,)


def train(out, bin, model, case, world, graph, timeout):
    """What a run computed: losses and norms, and a digest of all weights."""
    with tempfile.TemporaryDirectory() as scratch:
        final = pathlib.Path(scratch) / "final.safetensors"
        options = [f"--steps={STEPS}", "--data=data.safetensors", f"--export={final}", *([f"--cuda-graph={graph}"] if graph else [])]
        rows, _ = kit.Training(bin, out / "cases" / model, f"{case}-{world}.fsdp", *options).rows(timeout)
        return [(row["loss"], row["grad_norm"]) for row in rows], hashlib.sha256(final.read_bytes()).hexdigest()


def difference(have, want):
    """In words; nothing if all bits are the same."""
    for step, (one, other) in enumerate(zip(have[0], want[0])):
        if one != other:
            return f"loss and norm {one} instead of {other} in step {step}"
    return "" if have == want else "other weights, with the same losses"


class Crowd:
    """Busy processes, all of them at work when it is entered."""

    def __init__(self, device, folder):
        self.device, self.folder, self.processes = device, folder, []

    def __enter__(self):
        self.processes = [kit.start([sys.executable, pathlib.Path(__file__), self.device], self.folder) for _ in range(PROCESSES[self.device])]
        watch = threading.Timer(START, self.__exit__)
        watch.start()
        try:
            for process in self.processes:
                if process.stdout.readline().strip() != "busy":
                    kit.stop(process)
                    raise kit.Failure(f"a process of the crowd ended or was not busy after {START} s: {process.communicate()[1].strip()[-800:]}")
        except kit.Failure:
            self.__exit__()
            raise
        finally:
            watch.cancel()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            kit.stop(process)


def run(out, bin, manifest, results, clock):
    """Verdicts of all that there is time for."""
    cases, quiet, odd, begin = chosen(manifest), {}, {}, {}
    rounds = ROUNDS[manifest["device"]]
    jobs = [(name, graph) for name in cases for graph in graphs_of(manifest)]

    def one(job):
        name, graph = job
        return train(out, bin, *cases[name], graph, max(clock.left(), 1))

    def fails(name, failure):
        if clock.left() > 0:
            results.check("crowd", name, "fail", str(failure))
            odd[name] = None

    alone = clock.part(0.4)
    for job in jobs:
        if alone.left() < 5:
            break
        begin.setdefault(job[0], time.monotonic())
        try:
            quiet[job] = one(job)
        except kit.Failure as failure:
            fails(job[0], f"alone: {failure}")
    whole = [name for name in cases if all((name, graph) in quiet for graph in graphs_of(manifest))]
    if not whole:
        return
    with Crowd(manifest["device"], out), concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        def among(job):
            name, graph = job
            if clock.left() < 10 or name in odd:
                return None
            try:
                found = difference(one(job), quiet[job])
            except kit.Failure as failure:
                return fails(name, f"in the crowd: {failure}")
            if found:
                odd[name] = (graph, found)
            return name
        done = collections.Counter(pool.map(among, [job for _ in range(rounds) for job in jobs if job[0] in whole]))
    for name in whole:
        took = time.monotonic() - begin[name]
        if odd.get(name):
            graph, found = odd[name]
            results.check("crowd", name, *judge(lambda: one((name, graph)), quiet[name, graph], f"--cuda-graph={graph}: {found}"), took)
        elif name not in odd and done[name]:
            results.check("crowd", name, "ok", "" if done[name] == rounds * len(graphs_of(manifest)) else f"{done[name]} runs", took)


def judge(again, want, found):
    """A state and its text: other bits are wrong unless they are other ones without a crowd, too."""
    try:
        alone = difference(again(), want) or difference(again(), want)
    except kit.Failure as failure:
        return "fail", f"{found}; and alone: {failure}"
    return ("skipped", f"has no bits to compare, alone neither: {alone}") if alone else ("fail", found)


def work(device):
    """One of the crowd."""
    import torch
    torch.set_num_threads(1)
    size = 4096 if device == "cuda" else 256
    a, b = (torch.randn(size, size, device=device) for _ in range(2))
    host = torch.empty(size, size, pin_memory=device == "cuda")
    is_said = False
    while True:
        for _ in range(8):
            c = a @ b
            host.copy_(c, non_blocking=True)
            a.copy_(host, non_blocking=True)
            a /= a.abs().max() + 1
        if device == "cuda":
            torch.cuda.synchronize()
        else:
            time.sleep(0.01)  # the others are to get somewhere
        if not is_said:
            print("busy", flush=True)
            is_said = True


if __name__ == "__main__":
    work(sys.argv[1])
