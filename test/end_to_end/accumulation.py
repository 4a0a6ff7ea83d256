# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of several micro-batches equal PyTorch's, in every mode of exchanging their gradients."""
import copy
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file
from torch.export import Dim

import zoo
from harness import (OPTIMIZERS, batch_of, call, compare, compile_step, export, flat, make_config, make_data, must, parse_arguments, reference,
                     run_cases, run_step, train, train_case)

# Adam forgets the scale of gradients.
SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
MODES = {"each": {}, "last": {"gradient_sync": "last"}, "all_reduce_last": {"gradient_sync": "all_reduce_last"},
         "kept": {"reshard_after_forward": False, "reshard_after_backward": False},
         "kept, last": {"reshard_after_forward": False, "reshard_after_backward": False, "gradient_sync": "last"}}


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(7, 64), nn.Linear(64, 3)

    def forward(self, x, y):
        return F.mse_loss(self.last(F.dropout(torch.tanh(self.first(x)), 0.5)), y)


def dropped():
    return Dropped(), {"x": torch.randn(4, 7), "y": torch.randn(4, 3)}


class Mask(nn.Module):
    """Its output is the mask alone, times a parameter that is 1 in the first step."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(40))

    def forward(self, x):
        mask = F.dropout(self.gain * x, 0.5)
        return {"loss": mask.square().mean(), "mask": mask}


def masks(bin):
    """Every micro-batch draws anew; one seed draws the same again."""
    def case(folder):
        model, inputs = Mask().train(), {"x": torch.ones(2, 40)}
        compile_step(bin, folder, model, inputs, make_config(2, optimizer=SGD, gradient_accumulation_steps=3), options=["--output=mask"])
        save_file({"x": torch.ones(6, 40)}, folder / "data.safetensors")
        runs = []
        for _ in range(2):
            run_step(bin, folder, 2, "--steps=1", "--outputs=outputs.safetensors")
            runs.append(load_file(folder / "outputs.safetensors")["mask"])
        assert torch.equal(*runs), "a run cannot be repeated"
        assert runs[0].shape == (12, 40) and set(runs[0].unique().tolist()) == {0.0, 2.0}, runs[0].unique()
        parts = runs[0].split(2)
        assert all(not torch.equal(a, b) for i, a in enumerate(parts) for b in parts[:i]), "two micro-batches or ranks share a mask"
    return case


def modes_agree(bin, factory, world, steps=3, micro_batches=3, **config):
    """All modes sum the same gradients: they agree to rounding. Each repeats itself bit by bit."""
    def case(folder):
        torch.manual_seed(5)
        model, inputs = factory()
        save_file(make_data(inputs, world * steps * micro_batches), folder / "data.safetensors")
        export(model.train(), inputs, folder / "model.pt2")
        runs = {}
        for name, mode in MODES.items():
            settings = make_config(world, optimizer=SGD, gradient_accumulation_steps=micro_batches, **config, **mode)
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(settings))
            must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
            runs[name], again = (train(bin, folder, world, steps, tag=tag) for tag in ("a", "b"))
            assert (folder / "finala.safetensors").read_bytes() == (folder / "finalb.safetensors").read_bytes(), f"{name} does not repeat itself"
        rows, final = runs.pop("each")
        for name, (other_rows, other) in runs.items():
            # The same operations in the same order.
            exact = name in ("kept", "all_reduce_last") or world == 1
            for a, b in zip(rows, other_rows):
                for key in ("loss", "grad_norm"):
                    assert a[key] == b[key] if exact else abs(a[key] - b[key]) <= 1e-5 * abs(a[key]), f"{name}: {key} {b[key]} instead of {a[key]}"
            for key in final:
                torch.testing.assert_close(other[key], final[key], rtol=0 if exact else 1e-4, atol=0 if exact else 1e-6, msg=lambda m: f"{name}, {key}: {m}")
    return case


class Outputs(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        logits = self.net(x)
        return {"loss": F.cross_entropy(logits, y), "logits": logits, "accuracy": (logits.argmax(-1) == y).float().mean()}


def outputs(bin, world, backend="local", **config):
    """Outputs of every micro-batch, in the data's order; numbers are means over all of a step."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = zoo.mlp()
        model, inputs = Outputs(model.net).train(), inputs
        settings = make_config(world, gradient_accumulation_steps=3, **config)
        save_file(data := make_data(inputs, world * 6), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings, options=["--output=logits", "--output=accuracy"])
        rows = run_step(bin, folder, world, "--steps=2", "--outputs=outputs.safetensors", backend=backend)
        records = []
        reference(model, inputs, data, world, 2, settings, record=records.append)
        found = load_file(folder / "outputs.safetensors")
        torch.testing.assert_close(found["logits"], torch.cat([r["logits"] for r in records]).detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(found["accuracy"], torch.stack([r["accuracy"] for r in records]).detach())
        count = 3 * world
        for i, row in enumerate(rows):
            want = sum(r["accuracy"].item() for r in records[i * count:(i + 1) * count]) / count
            assert abs(row["outputs"]["accuracy"] - want) < 1e-6, row
            assert row["samples_per_s"] > 0
    return case


def shapes(bin, world, **config):
    """Every micro-batch of a step may have another of the artifact's shapes."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = zoo.gpt()
        model.train()
        sizes, micro_batches = (4, 7), 3
        settings = make_config(world, optimizer=SGD, gradient_accumulation_steps=micro_batches, **config)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(settings))
        export(model, inputs, folder / "model.pt2", dims={name: {1: Dim.AUTO} for name in inputs})
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--dim=x.1=4,7", "--report=report.json", "-o", "step.fsdp", cwd=folder)
        names = [p["name"] for p in json.loads((folder / "report.json").read_text())["programs"]]
        assert names == [f"train/step[x.1={size}]" for size in sizes], names
        cut = {size: {k: v[:, :1].repeat(1, size) for k, v in inputs.items()} for size in sizes}
        data = {size: make_data(cut[size], world) for size in sizes}
        for size in sizes:
            data[size] = {k: torch.cat([v, v[:1]]) for k, v in data[size].items()}
            save_file(data[size], folder / f"{size}.safetensors")
        order = [4, 7, 7, 7, 4, 4]
        done = must(bin.parent / "test/bin/fsdp-alternate", "step.fsdp", *(f"{size}.safetensors" for size in order), cwd=folder)
        found = [line.split() for line in done.stdout.splitlines()]
        assert [name for name, _ in found] == ["train/last[x.1=7]", "train/last[x.1=4]"], found
        options = dict(SGD)
        optimizer = OPTIMIZERS[options.pop("name")](model.parameters(), **options)
        for step, (_, loss) in enumerate(found):
            total = 0.0
            for size in order[step * micro_batches:(step + 1) * micro_batches]:
                for rank in range(world):
                    own = model(**batch_of(data[size], cut[size], rank)) / world / micro_batches
                    own.backward()
                    total += own.item()
            optimizer.step()
            optimizer.zero_grad()
            assert abs(float(loss) - total) <= 2e-5 * abs(total), f"step {step}: loss {loss} instead of {total}"
        # One shape for all steps, chosen by the data or by name.
        for size in sizes:
            rows = {"x": torch.randint(0, 31, (50, size)), "y": torch.randint(0, 31, (50, size))}
            save_file(rows, folder / "data.safetensors")
            got, _ = train(bin, folder, world, 2)
            named, _ = train(bin, folder, world, 2, options=[f"--program=x.1={size}"])
            assert [r["loss"] for r in got] == [r["loss"] for r in named]
    return case


def dry_run(bin):
    def case(folder):
        model, inputs = zoo.mlp()
        compile_step(bin, folder, model, inputs, make_config(4, gradient_accumulation_steps=4))
        out = must(bin / "fsdp-run", "step.fsdp", "--dry-run", "--steps=2", cwd=folder).stdout
        for part in ("collectives of train/first (", "collectives of train/middle (", "2 times a step", "collectives of train/last ("):
            assert part in out, out
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {}

    def add(factory, world, micro_batches, mode="each", label="", also_flat=False, **config):
        name = " ".join(filter(None, [factory.__name__, f"world={world}", f"micro-batches={micro_batches}", mode, label]))
        config = {"optimizer": SGD, **config, **MODES[mode]}
        cases[name] = flat(train_case(bin, factory, world, gradient_accumulation_steps=micro_batches, **config), also_flat)

    for world in (1, 2, 3, 4) if arguments.all else (1, 4):
        add(zoo.mlp, world, 3, reshard_after_forward=True)
    for mode in MODES:
        add(zoo.mlp, 3, 2, mode, also_flat=True)
        add(zoo.gpt, 2, 3, mode, "clip", also_flat=True, max_grad_norm=0.1)
        if arguments.all or mode in ("last", "kept, last"):
            add(zoo.tiny, 4, 3, mode)
    add(zoo.mlp, 1, 4, "last")
    add(zoo.mlp, 2, 4, "kept")
    add(zoo.gpt, 3, 4, "last", "zero3", reshard_after_forward=True)
    add(zoo.convnet, 2, 3)
    add(zoo.convnet, 3, 2, "kept, last")
    add(zoo.partial, 2, 3, "kept")
    add(zoo.mlp, 3, 2, "kept", "largest dims", also_flat=True, shard_dims={"*": "largest"})
    add(zoo.gpt, 3, 2, "kept, last", "largest dims", shard_dims={"*": "largest"})
    add(zoo.partial, 3, 2, "last", also_flat=True)
    add(zoo.double, 3, 3)
    add(zoo.double, 2, 2, "last", also_flat=True)
    add(zoo.lora, 2, 3, "kept", also_flat=True)
    add(zoo.lora, 3, 2, "last", also_flat=True, reshard_after_forward=True)
    add(zoo.looped, 2, 2, "last")
    add(zoo.llama, 2, 3, "each", "zero3 clip", reshard_after_forward=True, max_grad_norm=0.5)
    add(zoo.llama, 3, 2, "kept, last", also_flat=True)
    for mode in ("each", "last", "kept") if arguments.all else ("last", "kept"):
        add(zoo.gpt, 2, 2, mode, "gloo", also_flat=mode == "last", backend="gloo")
    cases["masks"] = masks(bin)
    for world in (1, 2, 3) if arguments.all else (3,):
        cases[f"modes agree, mlp world={world}"] = flat(modes_agree(bin, zoo.mlp, world))
        cases[f"modes agree, mlp cut along its largest dims world={world}"] = modes_agree(bin, zoo.mlp, world, shard_dims={"*": "largest"})
    cases["modes agree, gpt world=2"] = flat(modes_agree(bin, zoo.gpt, 2, max_grad_norm=0.1))
    cases["modes agree, dropout world=2"] = modes_agree(bin, dropped, 2)
    cases["outputs world=2"] = flat(outputs(bin, 2))
    cases["outputs world=3 gloo"] = outputs(bin, 3, "gloo")
    cases["shapes world=2"] = shapes(bin, 2)
    cases["shapes world=2, kept"] = shapes(bin, 2, reshard_after_forward=False, reshard_after_backward=False)
    cases["dry run"] = dry_run(bin)
    run_cases(cases, arguments.only)


main()
