# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Norms of gradients, weights and updates by parameter and module equal PyTorch's, however a step is cut over ranks."""
import math

import torch
from safetensors.torch import save_file

import zoo
from harness import ADAMW, batch_of, call, compile_step, make_config, make_data, make_optimizer, parse_arguments, run_cases, run_step

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
ALL = ["gradients", "weights", "updates"]


def frozen():
    """One parameter that does not train, one of a type of its own, one with fewer rows than ranks."""

    class Mixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(5, 5).double(), torch.nn.Linear(5, 5).double()])
            self.gain, self.last = torch.nn.Parameter(torch.ones(1, 5)), torch.nn.Linear(5, 3)
            self.last.bias.requires_grad_(False)

        def forward(self, x, y):
            hidden = x.double()
            for layer in self.layers:
                hidden = torch.tanh(layer(hidden))
            return torch.nn.functional.mse_loss(self.last(hidden.float() * self.gain), y)

    return Mixed(), {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}


def module_of(name):
    """Of a stack of layers the layer, else what has the parameter."""
    parts = name.split(".")[:-1]
    for i, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[:i + 1])
    return ".".join(parts) or "root"


def expected(model, inputs, data, batches, steps, config):
    """Of each step the norms, by name."""
    optimizer = make_optimizer(model, config["optimizer"])
    own = {name: value for name, value in model.named_parameters() if value.requires_grad}
    by = config["metrics"].get("by", "module")
    found = []
    for step in range(steps):
        for number in range(batches):
            out = model(**batch_of(data, inputs, step * batches + number))
            loss = out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out
            (loss / batches).backward()
        before = {name: value.detach().double().clone() for name, value in own.items()}
        gradients = {name: value.grad.double().clone() for name, value in own.items()}
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.get("max_grad_norm", float("inf")))
        optimizer.step()
        optimizer.zero_grad()
        kinds = {"grad": gradients, "weight": before, "update": {name: value.detach().double() - before[name] for name, value in own.items()}}
        sums = {}
        for kind, values in kinds.items():
            for name, value in values.items():
                key = f"{kind}/{name if by == 'parameter' else module_of(name)}"
                sums[key] = sums.get(key, 0.0) + value.square().sum().item()
        found.append({key: math.sqrt(value) for key, value in sums.items()})
    return found


def case_of(bin, factory, world, readers=None, steps=3, backend="local", tolerance=2e-5, **config):
    """`readers`: ranks that read different rows, if not all."""
    def case(folder):
        torch.manual_seed(11)
        model, inputs = factory()
        model.train()
        settings = make_config(world, **{"metrics": {"norms": ALL}, "optimizer": SGD, **config})
        batches = (readers or world) * settings.get("gradient_accumulation_steps", 1)
        data = make_data(inputs, batches * steps)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings)
        rows = run_step(bin, folder, world, f"--steps={steps}", backend=backend)
        for step, (row, want) in enumerate(zip(rows, expected(model, inputs, data, batches, steps, settings), strict=True)):
            asked = settings["metrics"]["norms"]
            want = {key: value for key, value in want.items() if key.split("/")[0] + {"grad": "ients"}.get(key.split("/")[0], "s") in asked}
            assert row["norms"].keys() == want.keys(), f"{row['norms'].keys() ^ want.keys()}"
            for key, value in want.items():
                assert abs(row["norms"][key] - value) <= tolerance * max(value, 1e-3), f"step {step}: {key} {row['norms'][key]} instead of {value}"
            if "gradients" in asked:
                whole = math.sqrt(sum(value ** 2 for key, value in row["norms"].items() if key.startswith("grad/")))
                assert abs(whole - row["grad_norm"]) <= 1e-5 * whole, f"{whole} instead of {row['grad_norm']}"
    return case


def refusals(bin):
    def case(folder):
        model, inputs = zoo.mlp()
        for config, words in (({"bucket_layout": "flat"}, "cannot be had with 'bucket_layout: flat'"), ({"grains": 2}, "their sums round as ranks are cut"),
                              ({"offload_params": True}, "whose updates are made on the host"), ({"offload_optimizer": True}, "whose updates are made on the host"),
                              ({"bucket_layout": "auto"}, "is a flat bucket")):
            try:
                compile_step(bin, folder, model, inputs, make_config(2, metrics={"norms": "gradients"}, **config))
            except AssertionError as error:
                assert words in str(error), error
            else:
                raise AssertionError(f"{config} was compiled")
        (folder / "fsdp.yaml").write_text("metrics: {norms: [gradient]}\n")
        done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--world=1", "-o", "other.fsdp", cwd=folder)
        assert done.returncode and "expected gradients, weights or updates, found 'gradient'" in done.stderr, done.stderr
    return case


def same_without(bin):
    """A step that is not asked is the one that it was."""
    def case(folder):
        model, inputs = zoo.mlp()
        sizes = []
        for metrics in ({}, {"metrics": {"by": "parameter"}}, {"metrics": {"norms": ["gradients"]}}):
            compile_step(bin, folder, model, inputs, make_config(2, max_grad_norm=1.0, **metrics))
            sizes.append((folder / "step.fsdp").read_bytes())
        assert sizes[0] == sizes[1] != sizes[2]
    return case


def main():
    bin = parse_arguments().bin
    parameter = {"metrics": {"norms": ALL, "by": "parameter"}}
    cases = {
        "by parameter": case_of(bin, zoo.mlp, 1, **parameter),
        "by module": case_of(bin, zoo.tiny, 3, max_grad_norm=0.5, optimizer=ADAMW),
        "gradients alone": case_of(bin, zoo.mlp, 2, metrics={"norms": "gradients"}),
        "updates alone": case_of(bin, zoo.mlp, 2, metrics={"norms": ["updates"], "by": "parameter"}, optimizer=ADAMW, tolerance=2e-4),
        "frozen, two types, few rows": case_of(bin, frozen, 3, **parameter),
        "as processes": case_of(bin, frozen, 2, backend="gloo"),
        "replicas": case_of(bin, zoo.tiny, 4, replicate=2, **parameter),
        "tp": case_of(bin, zoo.llama, 4, readers=2, mesh={"dp_shard": 2, "tp": 2}, **parameter),
        "micro-batches": case_of(bin, zoo.tiny, 2, gradient_accumulation_steps=3, max_grad_norm=0.5),
        "micro-batches, sums on shards": case_of(bin, zoo.tiny, 2, gradient_accumulation_steps=2, gradient_sync="each"),
        "a loss scale": case_of(bin, zoo.tiny, 2, loss_scale={"init": 1024}, max_grad_norm=0.5, **parameter),
        "norm of order 1": case_of(bin, zoo.mlp, 2, grad_norm_type=1, metrics={"norms": ["weights", "updates"]}),
        "optimizer in backward": case_of(bin, zoo.llama, 2, optimizer_in_backward="auto"),
        "divided by the optimizer": case_of(bin, zoo.tiny, 3, gradient_division="optimizer"),
        "recomputed": case_of(bin, zoo.llama, 2, activation_checkpointing=True),
        "kernels": case_of(bin, zoo.llama, 2, kernels="on", max_grad_norm=0.5),
        "refusals": refusals(bin),
        "nothing is asked": same_without(bin),
    }
    run_cases(cases, parse_arguments().only)


main()
