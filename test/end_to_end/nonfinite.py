# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a loss or gradient that is NaN or infinite does: the run stops before anything of it is
saved, or leaves the update out as if the step had not been, and --debug-nan names what made it.
"""
import copy
import json
import math
import re

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import warm
import zoo
from harness import ADAMW, DEFAULTS, batch_of, call, compile_step, make_config, make_data, make_optimizer, must, parse_arguments, run_cases

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
BAD_STEP, STEPS = 2, 5


class Logs(nn.Module):
    """Takes logarithms of what may be negative, behind a mask whose infinities do no harm."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, x, y):
        hidden = self.first(x)
        mask = torch.arange(6) < 4
        weights = torch.softmax(hidden.masked_fill(~mask, -math.inf), -1)
        return F.mse_loss(self.last(weights * torch.log(x.sum(-1, keepdim=True))), y)


class Doubles(nn.Module):
    """Powers of its input, which leave float32 soon."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(7))

    def forward(self, x):
        return (torch.exp(x) * self.gain).square().mean()


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm1d(5), nn.Linear(5, 3)

    def forward(self, x, y):
        return F.mse_loss(self.last(self.norm(x)), y)


def logs():
    return Logs(), {"x": torch.rand(4, 5), "y": torch.randn(4, 3)}


def doubles():
    return Doubles(), {"x": torch.rand(4, 7)}


def normed():
    return Normed(), {"x": torch.rand(4, 5), "y": torch.randn(4, 3)}


def prepare(bin, folder, factory, world, spoil, steps=STEPS, **config):
    """`spoil` changes the rows that each rank and micro-batch reads in BAD_STEP: a list of dicts."""
    torch.manual_seed(7)
    model, inputs = factory()
    model.train()
    settings = make_config(world, **config)
    parts = world * settings.get("gradient_accumulation_steps", 1)
    rows = {name: value.abs() if value.is_floating_point() else value for name, value in make_data(inputs, parts * steps + 1).items()}
    size = next(iter(inputs.values())).shape[0]
    first = BAD_STEP * parts * size
    spoil([{name: value[first + i * size:first + (i + 1) * size] for name, value in rows.items()} for i in range(parts)])
    save_file(rows, folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, settings)
    return model, inputs, rows, settings


def run(bin, folder, *options, backend="local", world=2, steps=STEPS):
    launcher, program, env = [], bin / "fsdp-run", {}
    if backend == "gloo":
        launcher = [*warm.python(), "-m", "torch.distributed.run", "--no-python", f"--nproc-per-node={world}", "--standalone"]
        program, env = warm.for_launchers(program, {"OMP_NUM_THREADS": "1"})
    return call(*launcher, program, "step.fsdp", f"--steps={steps}", "--data=data.safetensors", "--metrics=m.jsonl", *options, cwd=folder, env=env)


def metrics(folder):
    return [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()]


def put(part, name, value):
    def spoil(parts):
        parts[part][name][1, 1] = value
    return spoil


# Stopping

def stops(bin, world=2, backend="local", **config):
    def case(folder):
        prepare(bin, folder, zoo.mlp, world, put(world - 1, "x", math.nan), **config)
        done = run(bin, folder, "--save=ck", "--save-every=1", "--export=final.safetensors", backend=backend, world=world)
        assert done.returncode == 1, (done.returncode, done.stderr[-800:])
        assert f"error[fsdp-E078]: step {BAD_STEP}: the loss is NaN and the norm of the gradients is NaN" in done.stderr, done.stderr[-800:]
        assert "--debug-nan" in done.stderr and "rank" not in done.stderr.split("E078")[1].split("\n")[0], done.stderr[-800:]
        assert sorted(p.name for p in (folder / "ck").iterdir()) == ["step_1", "step_2"], "something of the step was saved"
        assert not (folder / "final.safetensors").exists()
        again = run(bin, folder, "--load=latest", "--save=ck", "--export=final.safetensors", steps=BAD_STEP)
        assert all(torch.isfinite(v).all() for v in load_file(folder / "final.safetensors").values()), again.stderr
    return case


def ignores(bin):
    def case(folder):
        prepare(bin, folder, zoo.mlp, 2, put(0, "x", math.nan))
        done = run(bin, folder, "--on-nonfinite=ignore")
        assert done.returncode == 0, done.stderr[-800:]
        assert [row["loss"] is None for row in metrics(folder)] == [i >= BAD_STEP for i in range(STEPS)]
    return case


# Leaving updates out

def skips(bin, factory, world=2, dtype=torch.float32, backend="local", **config):
    """As a training of PyTorch that does not call optimizer.step() then; bit by bit what it was before."""
    def case(folder):
        def make():
            model, inputs = factory()
            return model.to(dtype), {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
        model, inputs, rows, settings = prepare(bin, folder, make, world, put(world - 1, "x", math.inf), on_nonfinite="skip", **config)
        done = run(bin, folder, "--export=final.safetensors", backend=backend, world=world)
        assert done.returncode == 0, done.stderr[-800:]
        assert f"step {BAD_STEP}: the norm of the gradients is NaN" in done.stderr and "left out" in done.stderr, done.stderr[-800:]
        assert [row.get("skipped", False) for row in metrics(folder)] == [i == BAD_STEP for i in range(STEPS)]
        for steps, name in ((BAD_STEP, "before"), (BAD_STEP + 1, "after")):
            must(bin / "fsdp-run", "step.fsdp", f"--steps={steps}", "--data=data.safetensors", f"--export={name}.safetensors", f"--save={name}", cwd=folder)
        before, after = (load_file(folder / f"{name}.safetensors") for name in ("before", "after"))
        assert before and all(torch.equal(before[k].view(-1).view(torch.uint8), after[k].view(-1).view(torch.uint8)) for k in before), "the step changed parameters"
        # What the optimizer keeps is what it was, too.
        states = [sorted((folder / f"{name}/step_{n}").glob("*.safetensors")) for n, name in ((BAD_STEP, "before"), (BAD_STEP + 1, "after"))]
        for old, new in zip(*states, strict=True):
            old, new = load_file(old), load_file(new)
            for name in old:
                if not name.startswith("random"):
                    assert torch.equal(old[name].view(-1).view(torch.uint8), new[name].view(-1).view(torch.uint8)), f"the step changed {name}"

        trained, micro_batches = copy.deepcopy(model), settings.get("gradient_accumulation_steps", 1)
        optimizer = make_optimizer(trained, settings["optimizer"])
        parts = world * micro_batches
        for step in range(STEPS):
            for number in range(parts):
                (trained(**batch_of(rows, inputs, step * parts + number)) / parts).backward()
            norm = torch.nn.utils.clip_grad_norm_(trained.parameters(), settings.get("max_grad_norm", math.inf))
            if torch.isfinite(norm):
                optimizer.step()
            optimizer.zero_grad()
        final, start = load_file(folder / "final.safetensors"), dict(model.named_parameters(remove_duplicate=False))
        for name, want in trained.named_parameters(remove_duplicate=False):
            moved = (want - start[name]).abs().mean().item()
            error = (final[name] - want).abs().mean().item()
            assert error <= (1e-3 if dtype == torch.float32 else 1e-1) * moved + 1e-7, (name, error, moved)
    return case


def skips_two(bin):
    """The first step of all, where there is no number of updates yet, and two in a row."""
    def case(folder):
        model, inputs, rows, settings = prepare(bin, folder, zoo.mlp, 2, lambda parts: None, on_nonfinite="skip")
        for first in (0, 6 * 2):
            rows["x"][first + 1, 2] = math.nan
        save_file(rows, folder / "data.safetensors")
        done = run(bin, folder, "--export=final.safetensors", steps=4)
        assert done.returncode == 0, done.stderr[-800:]
        assert [row.get("skipped", False) for row in metrics(folder)] == [True, True, False, False]
        said = [line for line in done.stderr.splitlines() if line.startswith("step ")]
        assert re.match(r"step 1/4  loss -?nan  not finite: update skipped  lr 0.\d+  [\d.]+ samples/s  \d+ s, \d+ s left$", said[0]), said
        assert re.match(r"step 4/4  loss \S+  grad norm \S+  lr 0.\d+  [\d.]+ samples/s  \d+ s, 0 s left$", said[-1]), said
        final = load_file(folder / "final.safetensors")
        trained = copy.deepcopy(model)
        optimizer = make_optimizer(trained, ADAMW)
        for step in (2, 3):
            for rank in range(2):
                (trained(**batch_of(rows, inputs, step * 2 + rank)) / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
        for name, want in trained.named_parameters():
            assert torch.allclose(final[name], want, rtol=1e-4, atol=1e-5), name
    return case


def cannot_skip_buffers(bin):
    def case(folder):
        prepare(bin, folder, normed, 2, put(1, "x", math.nan), on_nonfinite="skip")
        done = run(bin, folder)
        assert done.returncode == 1 and "E078" in done.stderr, done.stderr[-800:]
        assert "buffer 'norm.running_" in done.stderr and "cannot mend it" in done.stderr, done.stderr[-800:]
    return case


def refusals(bin):
    def case(folder):
        prepare(bin, folder, zoo.mlp, 2, lambda parts: None)
        done = run(bin, folder, "--on-nonfinite=skip")
        assert done.returncode != 0 and "compile the model with on_nonfinite: skip" in done.stderr, done.stderr[-400:]
        done = run(bin, folder, "--on-nonfinite=halt")
        assert done.returncode == 2 and "expected stop, skip or ignore, found 'halt'" in done.stderr, done.stderr[-400:]
        done = run(bin, folder, "--debug-nan", "--profile=p.json")
        assert done.returncode == 2 and "--debug-nan" in done.stderr, done.stderr[-400:]
        compile_step(bin, folder, *zoo.mlp(), make_config(2, on_nonfinite="skip"))
        done = run(bin, folder, "--on-nonfinite=ignore")
        assert done.returncode != 0 and "another on_nonfinite than skip" in done.stderr, done.stderr[-400:]
        compile_step(bin, folder, *zoo.mlp(), {**make_config(2), "mode": "inference"})
        done = run(bin, folder, "--debug-nan")
        assert done.returncode != 0 and "is for inference" in done.stderr, done.stderr[-400:]
    return case


# Finding what made it

def finds(bin, factory, spoil, expected, world=2, backend="local", unexpected=(), change=None, **config):
    def case(folder):
        def make():
            model, inputs = factory()
            if change:
                change(model)
            return model, inputs
        prepare(bin, folder, make, world, spoil, **config)
        done = run(bin, folder, "--debug-nan", "--deadline=60", backend=backend, world=world)
        lines = [line for line in done.stderr.splitlines() if "E078" in line]
        assert done.returncode == 1 and lines, done.stderr[-800:]
        for line in lines:
            for text in expected:
                assert text in line, f"expected '{text}', found: {line}"
            for text in unexpected:
                assert text not in line, f"did not expect '{text}', found: {line}"
    return case


def continues_and_finds(bin):
    """With updates left out the run goes on, and tells of each."""
    def case(folder):
        prepare(bin, folder, logs, 2, put(1, "x", -100.0), on_nonfinite="skip")
        done = run(bin, folder, "--debug-nan")
        assert done.returncode == 0, done.stderr[-800:]
        assert "aten::log of" in done.stderr or "aten.log" in done.stderr or "log" in done.stderr, done.stderr[-800:]
        assert done.stderr.count("on rank 1, ") == 1, done.stderr[-800:]
    return case


def changes_nothing(bin):
    """The same bits with and without looking."""
    def case(folder):
        prepare(bin, folder, zoo.gpt, 2, lambda parts: None)
        for name, options in (("plain", []), ("debug", ["--debug-nan"])):
            must(bin / "fsdp-run", "step.fsdp", "--steps=3", "--data=data.safetensors", f"--export={name}.safetensors", *options, cwd=folder)
        plain, debug = (load_file(folder / f"{name}.safetensors") for name in ("plain", "debug"))
        assert plain and all(torch.equal(plain[k], debug[k]) for k in plain)
    return case


def spoil_parameter(model):
    with torch.no_grad():
        model.last.weight[2, 1] = math.nan


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    first = f"step {BAD_STEP}: the loss is"
    # A kernel of our own is named after what it stands for.
    kernels = DEFAULTS.get("kernels") == "on"
    log = "log" if kernels else "log of "
    cases = {
        "stop": stops(bin), "stop/gloo": stops(bin, backend="gloo"), "stop/accumulation": stops(bin, gradient_accumulation_steps=3), "ignore": ignores(bin),
        "skip/adamw": skips(bin, zoo.mlp), "skip/adamw/3": skips(bin, zoo.mlp, world=3, max_grad_norm=0.1),
        "skip/1": skips(bin, zoo.mlp, world=1), "skip/gloo": skips(bin, zoo.mlp, backend="gloo"),
        "skip/sgd": skips(bin, zoo.mlp, optimizer=SGD, max_grad_norm=0.5), "skip/flat": skips(bin, zoo.mlp, bucket_layout="flat"),
        "skip/fsdp2": skips(bin, zoo.mlp, bucket_layout="fsdp2"), "skip/accumulation": skips(bin, zoo.mlp, gradient_accumulation_steps=2),
        "skip/f64": skips(bin, zoo.mlp, dtype=torch.float64, max_grad_norm=0.5), "skip/sgd/bf16": skips(bin, zoo.mlp, dtype=torch.bfloat16, optimizer=SGD),
        "skip/twice": skips_two(bin), "skip/buffers": cannot_skip_buffers(bin), "refusals": refusals(bin),
        "find/log": finds(bin, logs, put(1, "x", -100.0), [first, "first, on rank 1, ", log, "made a NaN of finite numbers", "nonfinite.py:"],
                          unexpected=["likewise"] if kernels else ["softmax", "likewise"]),
        "find/kernel": finds(bin, logs, put(1, "x", -100.0), ["first, on rank 1, kernel '", "log", "made a NaN of finite numbers", "nonfinite.py:"], unexpected=["likewise"],
                             kernels="on"),
        "find/all ranks": finds(bin, logs, lambda parts: [part["x"].neg_() for part in parts], ["first, on rank 0, ", log, "(likewise on rank 1)"]),
        "find/gloo": finds(bin, logs, put(1, "x", -100.0), ["first, on rank 1, ", log], backend="gloo"),
        "find/accumulation": finds(bin, logs, put(1, "x", -100.0), ["first, on rank 1, ", log], gradient_accumulation_steps=3),
        "find/overflow": finds(bin, doubles, put(0, "x", 60.0), [first + " infinite", "first, on rank 0, ", "made an infinity"]),
        "find/input": finds(bin, logs, put(1, "x", math.nan), ["first, on rank 1, input 'x' held a NaN before the step"]),
        "find/state": finds(bin, logs, lambda parts: None, ["step 0: ", "state 'last.weight' held a NaN before the step"], change=spoil_parameter),
        "find/flat": finds(bin, logs, put(1, "x", -100.0), ["first, on rank 1, ", log], bucket_layout="flat"),
        "find/skip": continues_and_finds(bin), "find/changes nothing": changes_nothing(bin),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
