# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dynamic dimensions: bound when compiled, one or several sizes in an artifact, trained as PyTorch trains at those shapes."""
import copy
import json

import torch
import yaml
from safetensors.torch import save_file
from torch.export import Dim

import zoo
from harness import (OPTIMIZERS, batch_of, call, compare, export, flat, make_config, make_data, must, parse_arguments, reference, run_cases,
                     train)

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}


def mlp():
    """Its batch is dynamic: programs differ in the number of rows."""
    model, inputs = zoo.mlp()
    batch = Dim("batch", max=64)
    return model, inputs, {"x": {0: batch}, "y": {0: batch}}, ["x.0"]


def with_sequence(factory):
    """Its sequence is dynamic; the export finds that both inputs share it."""
    def made():
        model, inputs = factory()
        return model, inputs, {"x": {1: Dim.AUTO}, "y": {1: Dim.AUTO}}, ["x.1"]
    return made


def resized(inputs, name, size):
    """Random inputs of the same kind whose dim `name` has another size."""
    dim = int(name.split(".")[1])
    def one(value):
        shape = list(value.shape)
        shape[dim] = size
        if value.is_floating_point():
            return torch.randn(shape, dtype=value.dtype)
        return torch.randint(0, int(value.max()) + 1, shape, dtype=value.dtype)
    return {key: one(value) for key, value in inputs.items()}


class Case:
    """A model compiled for several sizes of its dynamic dimension."""

    def __init__(self, bin, folder, made, sizes, world, **config):
        torch.manual_seed(11)
        self.bin, self.folder, self.world = bin, folder, world
        self.model, inputs, dims, self.names = made()
        self.model.train()
        self.settings = make_config(world, **config)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(self.settings))
        export(self.model, inputs, folder / "model.pt2", dims=dims)
        self.inputs = {size: resized(inputs, self.names[0], size) for size in sizes}
        self.start = {k: v.detach().clone() for k, v in self.model.named_parameters(remove_duplicate=False)}

    def compile(self, sizes, out="step.fsdp"):
        """The report of an artifact for these sizes."""
        flags = [f"--dim={name}={','.join(map(str, sizes))}" for name in self.names]
        must(self.bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", *flags, "--report=report.json", "-o", out, cwd=self.folder)
        return json.loads((self.folder / "report.json").read_text())

    def data(self, size, steps):
        data = make_data(self.inputs[size], self.world * steps)
        save_file(data, self.folder / f"{size}.safetensors")
        return data

    def check(self, size, steps=2, flags=()):
        data = self.data(size, steps)
        rows, final = train(self.bin, self.folder, self.world, steps, tag=size, data=f"{size}.safetensors", options=flags)
        compare(rows, final, *reference(self.model, self.inputs[size], data, self.world, steps, self.settings), self.start)


def several(bin, made, sizes, world, named=False, **config):
    """One artifact trains at each of its sizes; it needs as much memory as its largest program."""
    def case(folder):
        each = Case(bin, folder, made, sizes, world, **config)
        peaks = [each.compile([size])["memory"]["peak"] for size in sizes]
        report = each.compile(sizes)
        assert report["memory"]["peak"] == max(peaks), f"peak {report['memory']['peak']} of programs with {peaks}"
        assert [p["name"] for p in report["programs"]] == [
            f"train/step[{','.join(f'{name}={size}' for name in each.names)}]" for size in sizes], report["programs"]
        for size in sizes:
            each.check(size, flags=[f"--program={each.names[0]}={size}"] if named else [])
    return case


def alone(bin, made, size, world, **config):
    def case(folder):
        each = Case(bin, folder, made, [size], world, **config)
        assert "programs" not in each.compile([size])
        each.check(size)
    return case


def refused(bin, made, sizes, data_size, expected, flags=()):
    """fsdp-run does not guess a program."""
    def case(folder):
        each = Case(bin, folder, made, [*sizes, data_size], 2)
        each.compile(sizes)
        each.data(data_size, 1)
        done = call(bin / "fsdp-run", "step.fsdp", f"--data={data_size}.safetensors", "--steps=1", *flags, cwd=folder)
        assert done.returncode == 1 and done.stderr.startswith("error[fsdp-E081]") and expected in done.stderr, done.stderr
    return case


def alternating(bin, made, sizes, world, **config):
    """A caller changes the shapes from step to step; states go on, and the program's own inputs come back."""
    def case(folder):
        each = Case(bin, folder, made, sizes, world, **config)
        each.compile(sizes)
        steps = [sizes[0], sizes[1], sizes[1], sizes[0]]
        data = {size: each.data(size, 4) for size in sizes}
        done = must(bin.parent / "test/bin/fsdp-alternate", "step.fsdp", *(f"{size}.safetensors" for size in steps), cwd=folder)
        model = copy.deepcopy(each.model)
        options = dict(each.settings["optimizer"])
        optimizer = OPTIMIZERS[options.pop("name")]([p for p in model.parameters() if p.requires_grad], **options)
        losses = [line.split() for line in done.stdout.splitlines()]
        assert len(losses) == len(steps), done.stdout
        for step, size in enumerate(steps):
            total = 0.0
            for rank in range(world):
                loss = model(**batch_of(data[size], each.inputs[size], rank))
                (loss / world).backward()
                total += loss.item() / world
            optimizer.step()
            optimizer.zero_grad()
            program, found = losses[step]
            assert f"={size}]" in program or f"={size}," in program, f"step {step} of size {size} ran {program}"
            assert abs(float(found) - total) <= 2e-5 * max(1, abs(total)), f"step {step}: loss {found} instead of {total}"
    return case


def disagreeing(bin, made, sizes):
    """Ranks with inputs of different programs are told so, before a transfer."""
    def case(folder):
        each = Case(bin, folder, made, sizes, 2)
        each.compile(sizes)
        for size in sizes:
            each.data(size, 1)
        done = call(bin.parent / "test/bin/fsdp-alternate", "--by-rank", "step.fsdp", *(f"{size}.safetensors" for size in sizes), cwd=folder)
        assert done.returncode == 1 and "error[fsdp-E081]: in step 0 rank" in done.stderr, done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    gpt, llama = with_sequence(zoo.gpt), with_sequence(zoo.llama)
    run_cases({
        "batch of an mlp, world=1": several(bin, mlp, [5, 3], 1, named=True),
        "batch of an mlp, world=3": several(bin, mlp, [2, 7], 3, named=True, optimizer=SGD),
        "batch of an mlp, one size": alone(bin, mlp, 4, 2),
        "sequence of a gpt, world=2": several(bin, gpt, [4, 7], 2, reshard_after_forward=True),
        "sequence of a gpt, world=3": several(bin, gpt, [8, 5], 3, optimizer=SGD),
        "sequence of a llama, world=2": flat(several(bin, llama, [8, 3], 2, reshard_after_forward=True, max_grad_norm=0.5)),
        "rows do not tell the program": refused(bin, mlp, [5, 3], 5, "choose one with --program=NAME"),
        "no program takes the data": refused(bin, gpt, [4, 7], 6, "no program of the artifact takes these inputs: train/step[x.1=4]: "),
        "there is no such program": refused(bin, mlp, [5, 3], 5, "it has train/step[x.0=5], train/step[x.0=3]", ["--program=x.0=4"]),
        "shapes that change from step to step": flat(alternating(bin, gpt, [4, 7], 2, optimizer=SGD)),
        "ranks that disagree": disagreeing(bin, gpt, [4, 7]),
    }, arguments.only)


main()
