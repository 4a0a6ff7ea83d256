# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Token files, orders of rows and validation: what is read and computed equals PyTorch on the same rows."""
import copy
import json
import re
import shutil
import struct

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file

import zoo
from harness import (call, compare, compile_step, launch, make_config, make_data, must, parse_arguments, reference, run_cases, run_step, train)
from row_order import permute

LENGTH = 9  # of zoo.gpt's rows, two of which are a batch
SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
BASE = {"inputs": "x", "targets": "y"}


# What the documents say of files and orders, once more.

def in_order(data, epochs, shuffle=False, seed=0):
    """The rows of `data` as a run reads them."""
    count = len(next(iter(data.values())))
    order = [permute(i, count, seed, epoch) if shuffle else i for epoch in range(epochs) for i in range(count)]
    return {name: rows[order] for name, rows in data.items()}


def windows(files, length=LENGTH):
    """Inputs and targets of each file's windows, one file after another."""
    x, y = [], []
    for tokens in files:
        tokens = torch.as_tensor(numpy.asarray(tokens, dtype=numpy.int64))
        for begin in range(0, len(tokens) - length, length):
            x.append(tokens[begin:begin + length])
            y.append(tokens[begin + 1:begin + length + 1])
    return {"x": torch.stack(x), "y": torch.stack(y)}


def write_nanogpt(path, tokens):
    numpy.asarray(tokens, dtype=numpy.uint16).tofile(path)


def write_llmc(path, tokens):
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = 20240520, 1, len(tokens)
    path.write_bytes(header.tobytes() + numpy.asarray(tokens, dtype=numpy.uint16).tobytes())


def write_llama3(path, tokens):
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = 20240801, 7, len(tokens)
    path.write_bytes(header.tobytes() + numpy.asarray(tokens, dtype=numpy.uint32).tobytes())


def write_megatron(path, tokens):
    """Documents of up to 17 tokens."""
    numpy.asarray(tokens, dtype=numpy.int32).tofile(path)
    lengths = [min(17, len(tokens) - i) for i in range(0, len(tokens), 17)]
    pointers = numpy.cumsum([0] + lengths[:-1]) * 4
    path.with_suffix(".idx").write_bytes(
        b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1) + numpy.asarray(lengths, dtype=numpy.int32).tobytes()
        + numpy.asarray(pointers, dtype=numpy.int64).tobytes() + numpy.arange(len(lengths) + 1, dtype=numpy.int64).tobytes())


FORMATS = {"nanogpt": write_nanogpt, "llm.c": write_llmc, "llm.c of llama 3": write_llama3, "megatron": write_megatron}


def make_tokens(*counts):
    return [torch.randint(0, 31, (count,)).numpy() for count in counts]


def start(factory=zoo.gpt):
    torch.manual_seed(7)
    model, inputs = factory()
    return model.train(), inputs, {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}


def run(bin, folder, world, *options, backend="local"):
    """Metrics of steps, those of validations, and what the run said on stderr; without --data."""
    metrics = folder / "metrics.jsonl"
    said = launch(bin, folder, world, backend, "step.fsdp", f"--metrics={metrics}", *options)
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [row for row in rows if "loss" in row], [row for row in rows if "eval_loss" in row], said


# Training.

def formats(bin, name, world=2, steps=4):
    """Three files, of which one is shorter than a window."""
    def case(folder):
        model, inputs, first = start()
        files = make_tokens(70, 6, 64)
        for number, tokens in enumerate(files):
            FORMATS[name](folder / f"train_{number}.bin", tokens)
        settings = make_config(world, data={**BASE, "tokens": "train_*.bin"})
        compile_step(bin, folder, model, inputs, settings)
        rows, _, _ = run(bin, folder, world, f"--steps={steps}", "--export=final.safetensors")
        # 7 and 7 windows, of which 16 rows are read: the first ones again.
        data = windows(files)
        assert len(data["x"]) == 14
        compare(rows, load_file(folder / "final.safetensors"), *reference(model, inputs, data, world, steps, settings), first)
    return case


def ordered(bin, world, micro_batches, shuffle, drop_last, replicate=1):
    """Two epochs of 11 rows, and not a step more."""
    def case(folder):
        model, inputs, first = start()
        (tokens,) = files = make_tokens(11 * LENGTH + 1)
        write_nanogpt(folder / "train.bin", tokens)
        settings = make_config(world, optimizer=SGD, gradient_accumulation_steps=micro_batches, replicate=replicate,
                               data={**BASE, "tokens": ["train.bin"], "shuffle": shuffle, "seed": 5, "epochs": 2, "drop_last": drop_last})
        compile_step(bin, folder, model, inputs, settings)
        rows, _, said = run(bin, folder, world, "--steps=100", "--export=final.safetensors")
        each = world * micro_batches * 2
        steps = 22 // each if drop_last else -(-22 // each)
        assert len(rows) == steps, f"{len(rows)} steps instead of {steps}"
        assert f"the data's epochs end after {steps} steps, before the 100 of --steps" in said, said
        # What fills the last step is of the epoch behind the last.
        data = in_order(windows(files), 3, shuffle, 5)
        compare(rows, load_file(folder / "final.safetensors"), *reference(model, inputs, data, world, steps, settings), first)
        # The data says how many steps there are.
        again, _, said = run(bin, folder, world)
        assert [row["loss"] for row in again] == [row["loss"] for row in rows] and "before" not in said, said
    return case


def endless(bin):
    """Where the data has no end, the number of steps has to be said."""
    def case(folder):
        model, inputs, _ = start(zoo.mlp)
        save_file({"x": torch.randn(17, 19), "y": torch.randint(0, 7, (17,))}, folder / "train.safetensors")
        compile_step(bin, folder, model, inputs, make_config(2, data={"samples": "train.safetensors"}))
        done = call(bin / "fsdp-run", "step.fsdp", cwd=folder)
        assert done.returncode == 2 and "expected --steps=N" in done.stderr and "epochs" in done.stderr, done.stderr
        rows, _, _ = run(bin, folder, 2, "--data-options=epochs=1")
        assert len(rows) == 1, rows  # 17 rows, 12 a step
    return case


def samples_ordered(bin, world):
    """Rows of a safetensors file, shuffled by the config and by the command line."""
    def case(folder):
        model, inputs, first = start(zoo.mlp)
        data = {"x": torch.randn(17, 19), "y": torch.randint(0, 7, (17,))}
        save_file(data, folder / "train.safetensors")
        settings = make_config(world, optimizer=SGD, data={"samples": "train.safetensors", "shuffle": True, "seed": 3})
        compile_step(bin, folder, model, inputs, settings)
        for seed, options in ((3, ()), (4, ("--data-options=seed=4",)), (None, ("--data-options=shuffle=false",))):
            rows, _, _ = run(bin, folder, world, "--steps=4", "--export=final.safetensors", *options)
            order = in_order(data, 6, seed is not None, seed or 0)
            compare(rows, load_file(folder / "final.safetensors"), *reference(model, inputs, order, world, 4, settings), first)
    return case


class Echo(nn.Module):
    """Returns what it reads."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(3))

    def forward(self, x, y):
        return {"x": x + 0, "y": y + 0, "gain": self.gain * 2}


def one_sequence(bin):
    """Whatever the number of ranks, all together read one sequence of rows."""
    def case(folder):
        files = make_tokens(40 * LENGTH + 1)
        write_nanogpt(folder / "train.bin", files[0])
        expected = in_order(windows(files), 2, True, 9)
        inputs = zoo.tokens()
        for world, replicate in ((1, 1), (2, 1), (3, 1), (4, 2)):
            settings = make_config(world, mode="inference", replicate=replicate, data={**BASE, "tokens": "train.bin", "shuffle": True, "seed": 9})
            settings.pop("optimizer")
            compile_step(bin, folder, Echo(), inputs, settings)
            must(bin / "fsdp-run", "step.fsdp", f"--steps={24 // world}", "--outputs=outputs.safetensors", cwd=folder)
            found = load_file(folder / "outputs.safetensors")
            for name in ("x", "y"):
                assert torch.equal(found[name], expected[name][:48]), f"{world} ranks read other rows"
    return case


def moved_files(bin):
    """Paths are meant from the config's folder, and from the artifact's afterwards; --data from where the run is started."""
    def case(folder):
        model, inputs, _ = start()
        files = make_tokens(100)
        (folder / "there" / "data").mkdir(parents=True)
        write_nanogpt(folder / "there" / "data" / "a.bin", files[0])
        compile_step(bin, folder / "there", model, inputs, make_config(1, data={**BASE, "tokens": "data/*.bin"}))
        losses = []
        for cwd, options in ((folder / "there", ()), (folder, ())):
            must(bin / "fsdp-run", folder / "there" / "step.fsdp", "--steps=2", f"--metrics={folder / 'm.jsonl'}", *options, cwd=cwd)
            losses.append([json.loads(line)["loss"] for line in (folder / "m.jsonl").read_text().splitlines()])
        (folder / "there").rename(folder / "here")
        must(bin / "fsdp-run", "here/step.fsdp", "--steps=2", "--metrics=m.jsonl", cwd=folder)
        losses.append([json.loads(line)["loss"] for line in (folder / "m.jsonl").read_text().splitlines()])
        shutil.copy(folder / "here" / "data" / "a.bin", folder / "b.bin")
        must(bin / "fsdp-run", "here/step.fsdp", "--data=b.bin", "--steps=2", "--metrics=m.jsonl", cwd=folder)
        losses.append([json.loads(line)["loss"] for line in (folder / "m.jsonl").read_text().splitlines()])
        assert all(each == losses[0] for each in losses), losses
    return case


def larger_than_memory(bin):
    """64 GiB of tokens, all hole, read from everywhere: what a rank keeps of them is a few windows."""
    def case(folder):
        model, inputs, _ = start()
        write_nanogpt(folder / "small.bin", make_tokens(1000)[0])
        with open(folder / "large.bin", "wb") as file:
            file.truncate(64 << 30)
        compile_step(bin, folder, model, inputs, make_config(1, data={**BASE, "tokens": "small.bin", "shuffle": True}))
        small, _, _ = run(bin, folder, 1, "--steps=30")
        large, _, _ = run(bin, folder, 1, "--steps=30", "--data=large.bin")
        grown = large[-1]["rank_peak_rss_bytes"][0] - small[-1]["rank_peak_rss_bytes"][0]
        assert grown < 32 << 20, f"{grown} bytes more resident"
    return case


# Validation.

def mean_loss(model, parameters, buffers, data, batch, rows):
    """Of the model with these values over the first rows, without gradients."""
    model = copy.deepcopy(model)
    model.load_state_dict({**parameters, **buffers})
    with torch.no_grad():
        losses = [model(**{k: v[i:i + batch] for k, v in data.items()}).item() for i in range(0, rows, batch)]
    return sum(losses) / len(losses)


def validates(bin, world, backend="local", factory=zoo.gpt, options=(), **config):
    """Training is the same with and without; the loss is PyTorch's, with the parameters of that step."""
    def case(folder):
        model, inputs, first = start(factory)
        train_files, val_files = make_tokens(200), make_tokens(100, 75)
        write_nanogpt(folder / "train.bin", train_files[0])
        for number, tokens in enumerate(val_files):
            write_nanogpt(folder / f"val_{number}.bin", tokens)
        # 11 and 8 windows: 16 rows are whole batches of two or four ranks, 18 of one or three.
        data, val = windows(train_files), windows(val_files)
        assert len(val["x"]) == 19
        rows_read = 19 // (2 * world) * 2 * world
        steps = 3
        settings = make_config(world, data={**BASE, "tokens": "train.bin"}, **config)
        compile_step(bin, folder, model, inputs, settings)
        plain, none, _ = run(bin, folder, world, f"--steps={steps}", "--export=plain.safetensors", backend=backend)
        assert not none
        compile_step(bin, folder, model, inputs, {**settings, "eval": {"data": ["val_0.bin", "val_1.bin"], "every": 2}})
        rows, evals, said = run(bin, folder, world, f"--steps={steps}", "--export=final.safetensors", *options, backend=backend)
        assert (folder / "plain.safetensors").read_bytes() == (folder / "final.safetensors").read_bytes(), "validation changes the training"
        for a, b in zip(plain, rows, strict=True):
            for key in ("loss", "grad_norm", "collectives", "unplanned_bytes"):
                assert a.get(key) == b.get(key), f"{key}: {a.get(key)} and {b.get(key)}"
        assert [row["step"] for row in evals] == [2, 3], evals
        for row in evals:
            _, parameters, buffers = reference(model, inputs, data, world, row["step"], settings)
            want = mean_loss(model, parameters, buffers, val, 2, rows_read)
            assert row["eval_rows"] == rows_read and row["eval_batches"] == rows_read // (2 * world), row
            assert abs(row["eval_loss"] - want) < 2e-5 * want, f"step {row['step']}: {row['eval_loss']} instead of {want}"
        assert abs(evals[0]["eval_loss"] - evals[1]["eval_loss"]) > 1e-5, "nothing is learnt between validations"
        assert re.search(r"after step 2  eval loss \d+\.\d{4}", said), said
    return case


def same_forward(bin, world, factory=zoo.gpt, precision=None, **config):
    """Over the rows of the next step, validation finds the very loss that training finds there."""
    def case(folder):
        model, inputs, _ = start(factory)
        tokens = make_tokens(6 * 2 * world * LENGTH + 1)[0]
        write_nanogpt(folder / "train.bin", tokens)
        settings = make_config(world, data={**BASE, "tokens": "train.bin"}, eval={"data": "val.bin"}, **config)
        settings["fsdp_config"].update({"mixed_precision": precision} if precision else {})
        compile_step(bin, folder, model, inputs, settings)
        micro_batches = config.get("gradient_accumulation_steps", 1)
        for step in (0, 2):
            size = micro_batches * 2 * world * LENGTH
            write_nanogpt(folder / "val.bin", tokens[step * size:(step + 1) * size + 1])
            rows, _, _ = run(bin, folder, world, f"--steps={step + 1}")
            if step == 0:
                _, evals, _ = run(bin, folder, world, "--eval-only")
            else:
                _, evals, _ = run(bin, folder, world, f"--steps={step}")
            assert len(evals) == 1 and evals[0]["step"] == step, evals
            # Micro-batches are summed in another order.
            bound = 0 if micro_batches == 1 else 1e-6
            assert abs(evals[0]["eval_loss"] - rows[step]["loss"]) <= bound, f"{evals[0]['eval_loss']} and {rows[step]['loss']}"
    return case


class Moody(nn.Module):
    """Draws numbers and keeps running statistics."""

    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = nn.Embedding(31, 8), nn.BatchNorm1d(LENGTH), nn.Linear(8, 31)

    def forward(self, x, y):
        h = F.dropout(self.norm(self.embed(x)), 0.5, self.training)
        return F.cross_entropy(self.head(h).flatten(0, -2), y.flatten())


def changes_nothing(bin, world):
    """Neither random numbers nor running statistics, and not the position in the data; memory is poisoned in between."""
    def case(folder):
        torch.manual_seed(1)
        model, inputs = Moody().train(), zoo.tokens()
        write_nanogpt(folder / "train.bin", make_tokens(300)[0])
        write_nanogpt(folder / "val.bin", make_tokens(100)[0])
        settings = make_config(world, optimizer=SGD, data={**BASE, "tokens": "train.bin", "shuffle": True})
        compile_step(bin, folder, model, inputs, settings)
        plain, _, _ = run(bin, folder, world, "--steps=4", "--export=plain.safetensors")
        done = compile_step(bin, folder, model, inputs, {**settings, "eval": {"data": "val.bin", "every": 1, "batches": 2}})
        assert "note: the model " in done.stderr and "as the exported model does" in done.stderr, done.stderr
        for options in ((), ("--poison",)):
            rows, evals, _ = run(bin, folder, world, "--steps=4", "--export=final.safetensors", *options)
            assert len(evals) == 4 and all(row["eval_batches"] == 2 for row in evals), evals
            assert [row["loss"] for row in rows] == [row["loss"] for row in plain]
            assert (folder / "plain.safetensors").read_bytes() == (folder / "final.safetensors").read_bytes()
        # The same numbers are drawn again, so the same is found again.
        again = [run(bin, folder, world, "--eval-only")[1][0]["eval_loss"] for _ in range(2)]
        assert again[0] == again[1], again
    return case


def overridden(bin):
    """The command line says what validation reads, when and how much."""
    def case(folder):
        model, inputs, _ = start()
        write_nanogpt(folder / "train.bin", make_tokens(100)[0])
        write_nanogpt(folder / "val.bin", make_tokens(300)[0])
        other = windows(make_tokens(200))
        save_file(other, folder / "other.safetensors")
        compile_step(bin, folder, model, inputs, make_config(2, data={**BASE, "tokens": "train.bin"}, eval={"data": "val.bin", "every": 1, "batches": 3}))
        _, evals, _ = run(bin, folder, 2, "--steps=2")
        assert [(row["step"], row["eval_batches"]) for row in evals] == [(1, 3), (2, 3)], evals
        _, evals, _ = run(bin, folder, 2, "--steps=3", "--eval-every=0", "--eval-batches=0")
        assert [(row["step"], row["eval_batches"]) for row in evals] == [(3, 33 // 4)], evals
        _, evals, _ = run(bin, folder, 2, "--eval-only", "--eval-data=other.safetensors", "--eval-batches=5")
        buffers = {k: v for k, v in model.state_dict().items()}
        want = mean_loss(model, {}, buffers, other, 2, 20)
        assert evals[0]["eval_batches"] == 5 and abs(evals[0]["eval_loss"] - want) < 2e-5 * want, (evals, want)
    return case


# What is refused.

def refused(bin):
    def case(folder):
        model, inputs, _ = start()
        tokens = make_tokens(100)[0]
        write_nanogpt(folder / "train.bin", tokens)
        write_llmc(folder / "llmc.bin", tokens)
        write_megatron(folder / "mega.bin", tokens)
        (folder / "empty.bin").touch()
        write_nanogpt(folder / "short.bin", tokens[:9])
        (folder / "cut.bin").write_bytes((folder / "llmc.bin").read_bytes()[:-6])
        shutil.copy(folder / "mega.bin", folder / "cut_mega.bin")
        (folder / "cut_mega.idx").write_bytes((folder / "mega.idx").read_bytes()[:50])
        compile_step(bin, folder, model, inputs, make_config(2, data={**BASE, "tokens": "train.bin"}, eval={"data": "train.bin"}))

        def no(pattern, *options, status=1):
            done = call(bin / "fsdp-run", "step.fsdp", "--steps=1", *options, cwd=folder)
            first = done.stderr.splitlines()[0]
            assert done.returncode == status and first.startswith("error[fsdp-E") and re.search(pattern, first), f"{done.returncode}: {done.stderr}"

        no("token file 'empty.bin' is empty", "--data=empty.bin")
        no("no file holds the 10 tokens that a row of 'x' takes with its targets; the longest holds 9", "--data=short.bin")
        no("'cut.bin' states 100 tokens and holds 97; was it cut off", "--data=cut.bin")
        no("'cut_mega.idx' is no index of Megatron: it has 50 bytes", "--data=cut_mega.bin")
        no(r"no data file matches 'none_\*.bin'", "--data=none_*.bin")
        no("'train.bin' does not begin as llm.c's do", "--data=train.bin", "--data-options=format=llm.c")
        no("has no input 'z'", "--data-options=inputs=z", status=2)
        no("did you mean 'shuffle'", "--data-options=shufle=true", status=2)
        write_nanogpt(folder / "one.bin", tokens[:15])
        save_file({"x": torch.zeros(8, LENGTH, dtype=torch.int64), "z": torch.zeros(8, LENGTH, dtype=torch.int64)}, folder / "z.safetensors")
        no(r"E084\]: tensor 'z' of 'z.safetensors' is no input of the program, which takes x, y", "--eval-data=z.safetensors")
        no("the validation data has 1 rows, and the ranks read 4 at once", "--eval-data=one.bin")
        done = call(bin / "fsdp-run", "step.fsdp", "--steps=1", "--eval-only", cwd=folder)
        assert done.returncode == 2 and "--eval-only takes no step" in done.stderr, done.stderr
        compile_step(bin, folder, model, inputs, make_config(2))
        no("the artifact has no program for validation", "--data=sample", "--eval-data=train.bin", status=2)
        done = call(bin / "fsdp-run", "step.fsdp", "--eval-only", cwd=folder)
        assert done.returncode == 2 and "no program for validation" in done.stderr, done.stderr

        def not_compiled(pattern, **config):
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(2, **config)))
            done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "x.fsdp", cwd=folder)
            assert done.returncode == 2 and re.search(pattern, done.stderr) and not (folder / "x.fsdp").exists(), done.stderr

        not_compiled("the model has no input 'xx'; it has x, y", data={"tokens": "a.bin", "inputs": "xx"})
        not_compiled("'eval' names token files", eval={"data": "val.bin"})
        model, inputs, _ = start(zoo.mlp)
        compile_step(bin, folder, model, inputs, make_config(2))
        not_compiled(r"input 'x' cannot take tokens; expected int64 or int32 of two dims, rows and tokens, found tensor<6x19xf32>",
                     data={"tokens": "a.bin", "inputs": "x"})
    return case


class Misfits:
    """Data that does not fit a model's inputs; `x` are rows of 19 numbers, `y` their labels."""

    def __init__(self, bin, folder, **config):
        self.bin, self.folder = bin, folder
        self.model, self.inputs, self.first = start(zoo.mlp)
        self.settings = make_config(2, **config)
        self.data = {"x": torch.randn(24, 19), "y": torch.randint(0, 7, (24,))}
        save_file(self.data, folder / "good.safetensors")
        compile_step(bin, folder, self.model, self.inputs, self.settings)

    def call(self, *options, **tensors):
        """fsdp-run with a file of these tensors, if there are any."""
        if tensors:
            save_file({k: v.contiguous() for k, v in tensors.items() if v is not None}, self.folder / "d.safetensors")
            options = ("--data=d.safetensors", *options)
        return call(self.bin / "fsdp-run", "step.fsdp", "--steps=2", *options, cwd=self.folder)

    def refused(self, id, pattern, *options, status=1, **tensors):
        before = sorted(self.folder.iterdir())
        done = self.call(*options, **tensors)
        first = done.stderr.splitlines()[0]
        assert done.returncode == status and first.startswith(f"error[fsdp-{id}]: ") and re.search(pattern, first), f"{done.returncode}: {done.stderr}"
        assert [p for p in sorted(self.folder.iterdir()) if p not in before and p.name != "d.safetensors"] == [], "something was written"

    def trains(self, want, *options, steps=2, **tensors):
        """Equal to PyTorch on the rows `want`; what was said."""
        if tensors:
            save_file(tensors, self.folder / "d.safetensors")
            options = ("--data=d.safetensors", *options)
        rows, _, said = run(self.bin, self.folder, 2, f"--steps={steps}", "--export=final.safetensors", *options)
        compare(rows, load_file(self.folder / "final.safetensors"), *reference(self.model, self.inputs, want, 2, steps, self.settings), self.first)
        return said


def misfits(bin):
    """Names, rows and types that do not fit are errors, and what is meant all the same can be said."""
    def case(folder):
        tries = Misfits(bin, folder)
        x, y = tries.data["x"], tries.data["y"]
        # Names.
        tries.refused("E084", r"tensor 'Y' of 'd.safetensors' is no input of the program, which takes x, y; did you mean 'y'\?", x=x, Y=y)
        tries.refused("E084", "tensor 'mask' .*--data-options=ignore=mask", x=x, y=y, mask=x.clone())
        assert "mask" not in tries.trains(tries.data, "--data-options=ignore=mask", x=x, y=y, mask=x.clone())
        tries.refused("E080", "input 'y' has no data: 'd.safetensors' has nothing for it; expected i64.*--data-options=exported=y", x=x)
        sample = {"x": x, "y": tries.inputs["y"].repeat(4)}
        tries.trains(sample, "--data-options=exported=y", x=x)
        tries.refused("E040", "'exported' names 'y', which 'd.safetensors' has rows for", "--data-options=exported=y", status=2, x=x, y=y)
        # Rows.
        tries.refused("E081", "'d.safetensors' has 24 rows for input 'x' and 20 for 'y'; expected as many.*repeat=y", x=x, y=y[:20])
        tries.trains({"x": x, "y": torch.cat([y[:20], y[:4]])}, "--data-options=repeat=y", x=x, y=y[:20])
        # Types.
        tries.refused("E082", "tensor 'y' .* has element type i32; expected i64", x=x, y=y.int())
        # Fewer rows than a step reads.
        said = tries.trains({"x": x[:5], "y": y[:5]}, x=x[:5], y=y[:5])
        assert "has 5 rows, fewer than the 12 that a step reads (2 x 6 of the ranks)" in said, said
        assert "fewer" not in tries.trains({"x": x[:12], "y": y[:12]}, x=x[:12], y=y[:12])
        # None.
        tries.refused("E085", "--data=sample", status=2)
        repeated = {k: v.repeat(4, *[1] * (v.dim() - 1)) for k, v in tries.inputs.items()}
        tries.trains(repeated, "--data=sample")
        tries.refused("E040", "--data=sample reads none", "--data=sample", "--data-options=shuffle=true", status=2)
        must(bin / "fsdp-run", "step.fsdp", "--dry-run", cwd=folder)
    return case


def misfits_of_the_config(bin):
    """Data that the config names is held to the same, and so is that of inference."""
    def case(folder):
        tries = Misfits(bin, folder, data={"samples": "d.safetensors"})
        x, y = tries.data["x"], tries.data["y"]
        for settings in (tries.settings, {**make_config(2, data={"samples": "d.safetensors"}), "mode": "inference"}):
            settings = {k: v for k, v in settings.items() if k != "optimizer" or "mode" not in settings}
            compile_step(bin, folder, tries.model, tries.inputs, settings)
            for id, pattern, tensors in (("E084", "tensor 'label'", {"x": x, "label": y}), ("E080", "input 'y'", {"x": x}),
                                         ("E081", "24 rows for input 'x' and 23 for 'y'", {"x": x, "y": y[:23]})):
                save_file(tensors, folder / "d.safetensors")
                tries.refused(id, pattern)
            save_file(tries.data, folder / "d.safetensors")
            must(bin / "fsdp-run", "step.fsdp", "--steps=2", cwd=folder)
        (folder / "d.safetensors").unlink()
        tries.refused("E001", "d.safetensors")
        # Without any in the config.
        settings.pop("data")
        compile_step(bin, folder, tries.model, tries.inputs, settings)
        tries.refused("E085", "there is no data", status=2)
        must(bin / "fsdp-run", "step.fsdp", "--steps=2", "--data=sample", cwd=folder)
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {f"{name} files": formats(bin, name) for name in FORMATS}
    cases["two epochs, the last step dropped"] = ordered(bin, 2, 1, shuffle=True, drop_last=True)
    cases["two epochs, the last step filled"] = ordered(bin, 2, 2, shuffle=True, drop_last=False)
    cases["no end"] = endless(bin)
    cases["two epochs in the file's order, replicas"] = ordered(bin, 4, 1, shuffle=False, drop_last=False, replicate=2)
    cases["shuffled samples"] = samples_ordered(bin, 3)
    cases["one sequence for all worlds"] = one_sequence(bin)
    cases["files are moved"] = moved_files(bin)
    cases["data that does not fit"] = misfits(bin)
    cases["data of the config that does not fit"] = misfits_of_the_config(bin)
    cases["larger than memory"] = larger_than_memory(bin)
    cases["validation, 1 rank"] = validates(bin, 1)
    cases["validation, 2 ranks"] = validates(bin, 2)
    cases["validation, 3 ranks, kept gathered"] = validates(bin, 3, reshard_after_forward=False)
    cases["validation, replicas"] = validates(bin, 4, replicate=2)
    cases["validation, micro-batches"] = validates(bin, 2, gradient_accumulation_steps=3)
    cases["validation, gathered once a step"] = validates(bin, 2, gradient_accumulation_steps=2, reshard_after_forward=False, reshard_after_backward=False,
                                                           gradient_sync="last")
    cases["validation, flat"] = validates(bin, 2, bucket_layout="auto")
    cases["validation, processes"] = validates(bin, 2, backend="gloo")
    cases["the same forward, bf16"] = same_forward(bin, 2, precision={"param_dtype": "bfloat16"})
    cases["the same forward, replicas, flat"] = same_forward(bin, 4, replicate=2, bucket_layout="auto")
    cases["the same forward, micro-batches"] = same_forward(bin, 2, gradient_accumulation_steps=2)
    cases["validation changes nothing"] = changes_nothing(bin, 2)
    cases["overridden"] = overridden(bin)
    cases["refused"] = refused(bin)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
