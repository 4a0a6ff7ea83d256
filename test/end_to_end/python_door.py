# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package: training through it equals PyTorch's, and what it refuses it refuses by id.

As a program of its own (`--rank FOLDER`) it is one rank under torchrun.
"""
import argparse
import contextlib
import copy
import inspect
import os
import pathlib
import subprocess
import sys
import threading
import time

import torch
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import fsdp_opt
import warm
import zoo
from harness import ADAMW, batch_of, compare, launch, make_config, make_data, must, parse_arguments, reference, run_cases
from outputs import Outputs
from ranks import end_rank, find_port

STEPS = 3


class Rows(Dataset):
    """The data's rows, as a loader wants them, without an end that is shorter."""

    def __init__(self, data, rows):
        self.data, self.rows = data, rows

    def __len__(self):
        return self.rows

    def __getitem__(self, row):
        return {name: tensor[row % len(tensor)] for name, tensor in self.data.items()}


def train(step, loader):
    rows = []
    for batch in loader:
        out = step(**batch)
        rows.append({"step": out.step, "loss": out.loss.item(), "grad_norm": out.grad_norm.item()})
    return rows


def parity(factory, world, **config):
    """Ranks as threads, with batches of a DataLoader."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        settings = make_config(world, **config)
        micro_batches = settings.get("gradient_accumulation_steps", 1)
        ranks = world // settings["mesh"].get("tp", 1)
        settings["mesh"]["dp_shard"] = ranks
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        data = make_data(inputs, ranks * STEPS * micro_batches)
        artifact = fsdp_opt.compile(copy.deepcopy(model), kwargs=inputs, config=settings, out=folder / "step.fsdp")
        size = ranks * micro_batches * len(next(iter(inputs.values())))
        with fsdp_opt.Session(artifact) as step:
            assert (step.world_size, step.data_parallel, step.micro_batches) == (world, ranks, micro_batches), step
            rows = train(step, DataLoader(Rows(data, STEPS * size), batch_size=size))
            final = step.state_dict()
            step.export(folder / "final.safetensors")
        want = reference(model, inputs, data, ranks, STEPS, settings)
        compare(rows, final, *want, start)
        exported = load_file(folder / "final.safetensors")
        assert exported.keys() == final.keys() and all(torch.equal(final[k], exported[k]) for k in final), "export() differs from state_dict()"
    return case


def torchrun(factory, world, **config):
    """Ranks as processes that torchrun starts, whose script has a process group of its own."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        settings = make_config(world, **config)
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        data = make_data(inputs, world * STEPS)
        fsdp_opt.compile(copy.deepcopy(model), kwargs=inputs, config=settings, out=folder / "step.fsdp")
        torch.save((data, len(next(iter(inputs.values())))), folder / "data.pt")
        must(*warm.torchrun(world), pathlib.Path(__file__).resolve(), "--rank", folder, cwd=folder)
        rows, final = torch.load(folder / "result.pt")
        compare(rows, final, *reference(model, inputs, data, world, STEPS, settings), start)
    return case


def run_spawned(rank, folder, port):
    """A rank that only its process group knows of, whose store is at no address of the environment."""
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    data, size = torch.load(folder / "data.pt")
    losses = []
    for _ in range(2):  # one session after the other, in one store
        with fsdp_opt.Session(folder / "step.fsdp", threads=1) as step:
            assert (step.rank, step.world_size) == (rank, 2), step.rank
            losses.append(step(**{key: value[rank * size:(rank + 1) * size] for key, value in data.items()}).loss.item())
    assert "RANK" not in os.environ and losses[0] == losses[1], losses
    total = torch.ones(1)
    torch.distributed.all_reduce(total)  # the group is as it was
    assert total == 2
    if rank == 0:
        torch.save(losses[0], folder / "loss.pt")
    end_rank()


def spawned(folder):
    """Processes that no launcher has started meet through the group that the script has made."""
    _, inputs, artifact = compiled(folder)
    size = len(next(iter(inputs.values())))
    data = make_data(inputs, 3)
    torch.save((data, size), folder / "data.pt")
    torch.multiprocessing.spawn(run_spawned, (folder, find_port()), nprocs=2)
    with fsdp_opt.Session(artifact, threads=1) as step:
        want = step(**{key: value[:2 * size] for key, value in data.items()}).loss.item()
    assert torch.load(folder / "loss.pt") == want


def run_rank(folder):
    """One of these processes. Rows of rank r are those that fsdp-run gives it."""
    torch.distributed.init_process_group("gloo")
    data, size = torch.load(folder / "data.pt")
    with fsdp_opt.Session(folder / "step.fsdp") as step:
        assert step.rank == step.data_rank == torch.distributed.get_rank(), step.rank
        rows = Rows(data, STEPS * size * step.data_parallel)
        # Whole batches in turn: DistributedSampler deals out single rows.
        order = [first + row for first in range(step.data_rank * size, len(rows), size * step.data_parallel) for row in range(size)]
        made = train(step, DataLoader(rows, batch_size=size, sampler=order))
        assert len(list(DistributedSampler(rows, step.data_parallel, step.data_rank))) == len(order)
        step.save(folder / "ck")
        before = step.state_dict()
        assert bool(before) == (step.rank == 0), "state_dict() is rank 0's"
        shared = [before]
        torch.distributed.broadcast_object_list(shared)
        batch = next(iter(DataLoader(rows, batch_size=size, sampler=order)))
        once = step(**batch).loss
        step.load(folder / "ck")
        assert step.steps_done == STEPS and step(**batch).loss == once, "load() does not go on where save() was"
        step.load_state_dict(shared[0])
        assert step(**batch).loss == once, "load_state_dict() gave other parameters"
    if torch.distributed.get_rank() == 0:
        torch.save((made, before), folder / "result.pt")
    end_rank()


def compiled(folder, factory=zoo.mlp, world=2, name="step.fsdp", outputs=(), **config):
    torch.manual_seed(7)
    model, inputs = factory()
    return model, inputs, fsdp_opt.compile(copy.deepcopy(model), kwargs=inputs, config=make_config(world, **config), out=folder / name, outputs=outputs)


def refused(id, part, call, kind=fsdp_opt.Error):
    try:
        call()
    except fsdp_opt.Error as error:
        assert error.id == id and part in str(error) and isinstance(error, kind), f"{type(error).__name__} {error}"
        return
    raise AssertionError(f"{id} was not raised")


def outputs(folder):
    """Kept outputs have the rows of the whole batch in its order, and stay what they are."""
    def factory():
        model, inputs = zoo.mlp()
        return Outputs(model.net), inputs
    model, inputs, artifact = compiled(folder, factory, outputs=["logits", "best", "right", "accuracy"], gradient_accumulation_steps=2)
    data = make_data(inputs, 8)
    seen = []
    reference(model, inputs, data, 2, 2, make_config(2, gradient_accumulation_steps=2), record=lambda out: seen.append(out))
    with fsdp_opt.Session(artifact) as step:
        outs = [step(**{k: torch.cat([batch_of(data, inputs, 4 * number + i)[k] for i in range(4)]) for k in inputs}) for number in range(2)]
    for number, out in enumerate(outs):
        want = seen[4 * number:4 * number + 4]
        assert torch.allclose(out["logits"], torch.cat([w["logits"] for w in want]), atol=1e-5), "logits"
        assert torch.equal(out["best"], torch.cat([w["best"] for w in want])), "best"
        assert out["right"].tolist() == [w["right"].item() for w in want], out["right"]
        assert abs(out.metrics["accuracy"] - sum(w["accuracy"].item() for w in want) / 4) < 1e-6, out.metrics
        assert out["loss"] == out.loss and "logits" in out and "nothing" not in out
    try:
        outs[0]["parts.0"]
        raise AssertionError("an output that was not kept is there")
    except KeyError as error:
        assert "outputs=['parts.0']" in str(error), error


def refusals(folder):
    """A batch that does not fit is refused with the session as it was."""
    _, inputs, artifact = compiled(folder)
    whole = {k: torch.cat([v, v]) for k, v in inputs.items()}
    with fsdp_opt.Session(artifact) as step, fsdp_opt.Session(artifact) as other:
        data = fsdp_opt.errors.DataError
        refused("E081", "drop_last=True", lambda: step(**{k: v[:9] for k, v in whole.items()}), data)
        refused("E081", "2 ranks, each [6, 19]", lambda: step(**inputs), data)
        refused("E082", "takes f32, found f64", lambda: step(whole["x"].double(), whole["y"]), data)
        refused("E084", "which takes x, y", lambda: step(xx=whole["x"], y=whole["y"]), data)
        refused("E084", "expected 2 inputs", lambda: step(1, 2, 3), data)
        refused("E080", "'y' was given nothing", lambda: step(x=whole["x"]), data)
        refused("E080", "'x' was given nothing", lambda: step(), data)
        refused("E076", "eval: {} in the config", lambda: step.evaluate([whole]))
        refused("E100", "is not there", lambda: step.load(folder / "nowhere"), fsdp_opt.errors.CheckpointError)
        states = step.state_dict()
        refused("E102", "it has no 'net.0.weight'", lambda: step.load_state_dict({k: v for k, v in states.items() if k != "net.0.weight"}))
        refused("E102", "shape [1]", lambda: step.load_state_dict({**states, "net.0.bias": torch.ones(1)}))
        refused("E102", "no 'spare'", lambda: step.load_state_dict({**states, "spare": torch.ones(1)}))
        # Rows that lie apart, that autograd follows, a numpy-like sequence: all are as good.
        apart = torch.empty(12, 38)[:, ::2].copy_(whole["x"]).requires_grad_()
        assert step(x=apart, y=whole["y"].tolist()).loss == other(**whole).loss, "the same rows give another loss"
    assert not step.is_open
    refused("E076", "is closed", lambda: step(**whole))
    refused("E001", "nothing.fsdp", lambda: fsdp_opt.Session(folder / "nothing.fsdp"), fsdp_opt.errors.ModelError)
    refused("E094", "RANK and WORLD_SIZE", lambda: fsdp_opt.Session(artifact, backend="gloo", rendezvous=f"file://{folder}/meet"))


def base_of_codes(folder):
    """A session over a base in blocks of codes trains as fsdp-run does, and lends the numbers that they stand for."""
    model, inputs, artifact = compiled(folder, zoo.lora, name="coded.fsdp", quantize={})
    with fsdp_opt.Session(artifact) as step:
        first = step.state_dict()
        batch = {name: torch.cat([value] * step.world_size) for name, value in inputs.items()}
        losses = [step(**batch).loss for _ in range(3)]
        step.save(folder / "coded_ck")
        after, later = step.state_dict(), step(**batch).loss
        refused("E076", "is held in blocks of codes", lambda: step.load_state_dict(after))
        step.load(folder / "coded_ck" / "step_3")
        assert step(**batch).loss == later, "it did not go on with what it had"
    assert losses[2] < losses[0]
    rounded = 0
    for name, value in model.state_dict().items():
        assert first[name].dtype == value.dtype and first[name].shape == value.shape, name
        if "lora" in name or torch.equal(first[name], value):
            continue
        rounded += 1
        assert torch.equal(first[name], after[name]) and torch.allclose(first[name], value, atol=0.2 * value.abs().max()), name
    assert rounded, "no base was held in codes"


def options_of_runs(folder):
    """Those of fsdp-run are read by their types and bounds; what is none of them is refused before any rank begins."""
    _, inputs, artifact = compiled(folder)
    whole = {k: torch.cat([v, v]) for k, v in inputs.items()}

    class Whole:
        def __index__(self):
            return 1

    with fsdp_opt.Session(artifact, seed=None, threads=Whole(), lr=1, matmul="blas", pin="none", cuda_graph="auto", poison=True, steps=3, trusted=True) as step:
        assert step(**whole).lr == 1
    with fsdp_opt.Session(artifact, weights=(folder / "no" / name for name in ()), debug_nan=True, flight_records="none") as step:
        refused("E078", "input 'x' held a NaN", lambda: step(x=whole["x"] * float("nan"), y=whole["y"]))
    for expected, options in (("threads: expected a whole number from 1 to 65536, found 0 (int)", {"threads": 0}),
                              ("threads: expected a whole number from 1 to 65536, found True (bool)", {"threads": True}),
                              ("seed: expected a whole number, found -1 (int)", {"seed": -1}),
                              ("seed: expected a whole number, found 1.0 (float)", {"seed": 1.0}),
                              ("world: expected a whole number above 0, found '2' (str)", {"world": "2"}),
                              ("lr: expected a number, found 'x' (str)", {"lr": "x"}),
                              ("deadline: expected a number from 0.001 to 1e+09, found nan (float)", {"deadline": float("nan")}),
                              ("poison: expected True or False, found 1 (int)", {"poison": 1}),
                              ("backend: expected a str, found PosixPath", {"backend": folder}),
                              ("load: expected a path, a str or os.PathLike, found 3 (int)", {"load": 3}),
                              ("weights: expected a path, or several, found 3 (int)", {"weights": 3}),
                              ("weights: expected a path, a str or os.PathLike, found [3] (list)", {"weights": [3]}),
                              ("matmul: expected one of 'auto', 'blas', 'onednn', found 'mkl' (str)", {"matmul": "mkl"})):
        refused("E040", expected, lambda: fsdp_opt.Session(artifact, **options), fsdp_opt.errors.UsageError)
    for name, near in (("see", "seed"), ("unrecorded", ""), ("metrics", "")):
        try:
            fsdp_opt.Session(artifact, **{name: 1})
        except TypeError as error:
            assert f"'{name}'" in str(error) and (f"did you mean '{near}'?" in str(error) if near else True), error
        else:
            raise AssertionError(f"{name} was taken")
    known = inspect.signature(fsdp_opt.Session).parameters
    assert list(known)[:2] == ["artifact", "pad"] and {"lr", "lr_schedule", "trusted"} < set(known) and "options" not in known, list(known)


def failures(folder):
    """An error in a step ends the session with its id; the process goes on."""
    _, inputs, artifact = compiled(folder)
    whole = {k: torch.cat([v, v]) for k, v in inputs.items()}
    with fsdp_opt.Session(artifact, flight_records="none") as step:
        refused("E078", "the loss is NaN", lambda: step(x=whole["x"] * float("nan"), y=whole["y"]))
        assert not step.is_open
        refused("E076", "ended with an error", lambda: step(**whole))
    with fsdp_opt.Session(artifact) as step:
        assert step(**whole).loss.isfinite()


def others_run(folder):
    """Threads of Python go on while a step runs."""
    def wide():
        """Steps of some ten milliseconds."""
        return zoo.Classifier(torch.nn.Linear(1024, 1024)), {"x": torch.randn(512, 1024), "y": torch.randint(0, 1024, (512,))}
    _, inputs, artifact = compiled(folder, wide)
    whole = {k: torch.cat([v, v]) for k, v in inputs.items()}
    ticks, ends = 0, threading.Event()

    def tick():
        nonlocal ticks
        while not ends.is_set():
            ticks += 1
            time.sleep(0)

    with fsdp_opt.Session(artifact) as step:
        step(**whole)
        switch = sys.getswitchinterval()
        # Long enough that this thread gets no turn for itself while another one holds the lock.
        sys.setswitchinterval(60)
        thread = threading.Thread(target=tick)
        thread.start()
        try:
            before = ticks
            for _ in range(10):
                step(**whole)
            during = ticks - before
        finally:
            ends.set()
            sys.setswitchinterval(switch)
            thread.join()
    assert during > 10, f"the other thread ran {during} times"


def checkpoints(folder):
    """Saved through Python, continued by Python on another number of ranks, and by fsdp-run."""
    def run(bin):
        model, inputs, artifact = compiled(folder, zoo.gpt)
        compiled(folder, zoo.gpt, world=1, name="one.fsdp", gradient_accumulation_steps=2)
        data = make_data(inputs, 8)
        save_file(data, folder / "data.safetensors")
        size = 2 * len(next(iter(inputs.values())))
        batches = list(DataLoader(Rows(data, 4 * size), batch_size=size))
        with fsdp_opt.Session(artifact) as step:
            for batch in batches[:2]:
                step(**batch)
            path = step.save(folder / "ck", wait=False)
            assert path.endswith("step_2"), path
            want = [step(**batch).loss for batch in batches[2:]]
            step.save(folder / "ck", keep=1)
            step.save(folder / "other")
            last = step.state_dict()
        assert [p.name for p in sorted((folder / "ck").iterdir()) if p.is_dir()] == ["step_4"], list((folder / "ck").iterdir())
        with fsdp_opt.Session(artifact) as step:
            for batch in batches[:2]:
                step(**batch)
            step.save(folder / "two")
        for name, bits in (("step.fsdp", True), ("one.fsdp", False)):
            with fsdp_opt.Session(folder / name, load=folder / "two") as step:
                assert step.steps_done == 2
                losses = [step(**batch).loss for batch in batches[2:]]
                assert losses == want if bits else torch.allclose(torch.stack(losses), torch.stack(want), atol=1e-5), f"{name}: {losses}, {want}"
        launch(bin, folder, 2, "local", "step.fsdp", "--data=data.safetensors", "--load=two", "--steps=4", "--export=final.safetensors")
        final = load_file(folder / "final.safetensors")
        assert all(torch.equal(final[k], last[k]) for k in final), "fsdp-run goes on otherwise"
        # A module's states are taken as they are.
        with fsdp_opt.Session(artifact) as step:
            step(**batches[0])
            step.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
            back = step.state_dict()
        assert all(torch.equal(back[k], v) for k, v in model.state_dict().items()), "load_state_dict() changed values"
        names = [k for k, v in model.named_parameters(remove_duplicate=False) if v is model.get_parameter("head.weight")] if hasattr(model, "head") else []
        assert len({back[k].data_ptr() for k in names}) <= 1, "tied parameters are apart"
    return run


def evaluation(folder):
    """The mean of a loader's losses, with nothing changed; a shorter end is left out and counted."""
    model, inputs, artifact = compiled(folder, zoo.gpt, eval={})
    size = 2 * len(next(iter(inputs.values())))
    data = make_data(inputs, 8)
    loader = DataLoader(Rows(data, 3 * size + 1), batch_size=size)
    with torch.no_grad():
        batches = [batch_of(data, inputs, number) for number in range(6)]
        want = sum((out[0] if isinstance(out := model(**batch), tuple) else out).item() for batch in batches) / 6
    with fsdp_opt.Session(artifact) as step, fsdp_opt.Session(artifact) as other:
        for number, batch in enumerate(loader):
            found = step.evaluate(loader) if number < 3 else None
            if number == 0:
                assert abs(found.loss - want) < 2e-5 and found[1:] == (3, 3 * size, 1), (found, want)
            if number < 3:
                assert step(**batch).loss == other(**batch).loss, "evaluate() changed the training"
        refused("E081", "drop_last", lambda: step.evaluate(loader, drop_last=False))
        refused("E080", "no batch", lambda: step.evaluate([]))
        refused("E076", "eval_data=", lambda: step.evaluate())
        assert step.evaluate(tuple(batch.values()) for batch in list(loader)[:1]).batches == 1


def held(folder):
    """What has no rows is given once."""
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(5, 3)

        def forward(self, x, scale, y):
            return torch.nn.functional.mse_loss(self.linear(x) * scale, y)
    model = Scaled()
    inputs = {"x": torch.randn(4, 5), "scale": torch.rand(3), "y": torch.randn(4, 3)}
    artifact = fsdp_opt.compile(model, kwargs=inputs, config=make_config(2), out=folder / "step.fsdp")
    with fsdp_opt.Session(artifact) as step:
        x, y = (torch.cat([inputs[k], inputs[k]]) for k in "xy")
        refused("E081", "hold(scale=…)", lambda: step(x=x, y=y, scale=inputs["scale"]))
        step.hold(scale=inputs["scale"])
        assert abs(step(x, y).loss - model(**inputs)) < 1e-6
        assert step(x=x, y=y).step == 1


def data_files(folder):
    """Steps without a batch read the data's rows."""
    model, inputs, artifact = compiled(folder)
    data = make_data(inputs, 4)
    save_file(data, folder / "data.safetensors")
    with fsdp_opt.Session(artifact, data=folder / "data.safetensors", data_options="epochs=1,drop_last=false") as step, fsdp_opt.Session(artifact) as other:
        for number in range(2):
            whole = {k: torch.cat([batch_of(data, inputs, 2 * number + i)[k] for i in range(2)]) for k in inputs}
            assert step().loss == other(**whole).loss, "other rows were read"
        refused("E080", "no rows for another step", lambda: step())


def compiling(folder):
    """What the compiler refuses is an exception with its id; explain() tells it."""
    model, inputs = zoo.mlp()
    out = folder / "step.fsdp"
    # Others may write their configs to where the test was started.
    with contextlib.chdir(folder):
        refused("E042", "config:1:2: unknown key", lambda: fsdp_opt.compile(model, kwargs=inputs, config={"optimiser": {}}, world=2, out=out), fsdp_opt.errors.UsageError)
        assert not list(folder.glob(".fsdp-config-*")), "the config's file stays"
    refused("E040", "ends with .fsdp", lambda: fsdp_opt.compile(model, kwargs=inputs, out=folder / "step.bin"))
    refused("E040", "is a file", lambda: fsdp_opt.compile(folder / "model.pt2", kwargs=inputs, out=out))
    refused("E001", "nowhere.pt2", lambda: fsdp_opt.compile(folder / "nowhere.pt2", config={}, world=1, out=out), fsdp_opt.errors.ModelError)
    (folder / "fsdp.yaml").write_text("optimizer: {name: sgd, lr: 0.1}\nmesh: {dp_shard: 2}\n")
    artifact = fsdp_opt.compile(model, kwargs=inputs, config=folder / "fsdp.yaml", out=out)
    assert artifact.peak_bytes == artifact.report["memory"]["peak"] > 0 and pathlib.Path(artifact) == out
    told = fsdp_opt.explain(model, kwargs=inputs, config=folder / "fsdp.yaml")
    assert told.unsupported is None and [t.title.split(" ")[0] for t in told.tables] == ["Memory", "Transfers", "Schedule", "Predicted"], told.tables
    assert dict(told.tables[0].rows)["peak"] == artifact.peak_bytes and "net.0" in str(told) and "<table>" in told._repr_html_()

    class Sorted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return torch.linalg.svd(self.linear(x))[1].nonzero().float().sum()
    bad = {"x": torch.randn(3, 3)}
    told = fsdp_opt.explain(Sorted(), kwargs=bad, world=1)
    assert told.unsupported and "Not supported" in told._repr_html_() and not told.tables, told
    refused(told.unsupported[6:10], "", lambda: fsdp_opt.compile(Sorted(), kwargs=bad, config={"optimizer": ADAMW}, world=1, out=out), fsdp_opt.errors.ModelError)
    assert fsdp_opt.errors.make("E081", "x").advice and fsdp_opt.errors.make("E127", "x").__class__ is fsdp_opt.errors.RankError


class Tagger(torch.nn.Module):
    """A label for each token; a mask that nothing reads."""

    def __init__(self, vocabulary=24):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(vocabulary, 8), torch.nn.Linear(8, vocabulary)

    def forward(self, input_ids, labels, mask=None):
        scores = self.head(self.embed(input_ids))
        # As language models of transformers shift them.
        labels = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


def one_tensor(folder):
    """One tensor that is given for two inputs: a module is exported with two; of a file that has it, which reads one input for both, the compiler
    refuses what it would train."""
    model = Tagger()
    ids, labels = torch.randint(0, 24, (2, 4, 6))
    both = {"input_ids": ids, "labels": ids}
    artifact = fsdp_opt.compile(model, kwargs=both, config=make_config(1), out=folder / "step.fsdp")
    assert not [note for note in artifact.notes if "read by nothing" in note], artifact.notes
    with fsdp_opt.Session(artifact) as step:
        assert abs(step(ids, labels).loss - model(ids, labels).item()) < 1e-5, "one input is read for both"
    assert fsdp_opt.explain(model, kwargs=both, world=1).unsupported is None
    told = "inputs 'input_ids' and 'labels' were one tensor when the model was exported, and its program reads 'labels' for both"
    for device in ("cpu", "meta"):
        given = {name: each.to(device) for name, each in both.items()}
        given["labels"] = given["input_ids"]
        program = torch.export.export(copy.deepcopy(model).to(device), (), given, strict=False)
        refused("E007", told, lambda: fsdp_opt.compile(program, config=make_config(1), out=folder / "one.fsdp"), fsdp_opt.errors.ModelError)
        unsupported = fsdp_opt.explain(program, world=1).unsupported
        assert unsupported and told in unsupported, unsupported
        # Views of it are tensors of their own.
        given["labels"] = given["input_ids"][:]
        assert fsdp_opt.explain(torch.export.export(copy.deepcopy(model).to(device), (), given, strict=False), world=1).unsupported is None
    # A traced file does not say what it was given.
    torch.jit.trace(model, example_kwarg_inputs=both, check_trace=False).save(str(folder / "model.pt"))
    done = subprocess.run([fsdp_opt.tools.path("fsdp-opt"), "model.pt", "--input=input_ids:i64[4,6]", "--input=labels:i64[4,6]", "--explain"], cwd=folder,
                          env=fsdp_opt.tools.environment(), capture_output=True, text=True)
    assert done.returncode == 0 and "  read by nothing: labels" in done.stdout and "such as labels.clone()" in done.stderr, done


def unread(folder):
    """An input that nothing reads is told, and stays one that is given."""
    ids = torch.randint(0, 24, (4, 6))
    inputs = {"input_ids": ids, "labels": ids.clone(), "mask": torch.ones(4, 6)}
    model = Tagger()
    artifact = fsdp_opt.compile(model, kwargs=inputs, config=make_config(1), out=folder / "step.fsdp")
    (note,) = [each for each in artifact.notes if "read by nothing" in each]
    assert note.startswith("warning: input 'mask' is read by nothing"), note
    assert "  read by nothing: mask\n" in fsdp_opt.explain(model, kwargs=inputs, world=1).text
    with fsdp_opt.Session(artifact) as step:
        assert abs(step(**inputs).loss - model(**inputs).item()) < 1e-5


def beyond(folder):
    """A token that the vocabulary does not have, or a class that the loss does not: refused with input, row and value before a kernel sees it."""
    ids = torch.randint(0, 24, (4, 6))
    inputs = {"input_ids": ids, "labels": ids.clone()}
    wrong = torch.cat([ids, ids])
    wrong[5, 2] = 24
    classes = torch.cat([ids, ids])
    classes[3, 0], classes[6, 1] = 99, -7  # nothing reads the first of a row
    masked = classes.clone()
    masked[6, 1] = -100
    for name, config in (("one.fsdp", {}), ("tp.fsdp", {"mesh": {"tp": 2}, "tp_plan": "auto"})):
        settings = make_config(2, **config)
        settings["mesh"]["dp_shard"] = 2
        artifact = fsdp_opt.compile(Tagger(), kwargs=inputs, config=settings, out=folder / name)
        with fsdp_opt.Session(artifact) as step, fsdp_opt.Session(artifact) as other:
            whole = torch.cat([ids, ids])
            refused("E086", "'input_ids', row 5: 24 of 24: aten::embedding of embed", lambda: step(wrong, whole), fsdp_opt.errors.DataError)
            refused("E086", "takes 0 to 23, or -100", lambda: step(whole, classes), fsdp_opt.errors.DataError)
            refused("E086", "'labels', row 6: -7 of 24", lambda: step(whole, classes), fsdp_opt.errors.DataError)
            clean = masked.clone()
            clean[3, 0] = 0
            assert step(whole, masked).loss == other(whole, clean).loss, "another loss for labels that count for nothing"
        save_file({"input_ids": torch.cat([whole, wrong]), "labels": torch.cat([whole, whole])}, folder / "data.safetensors")
        with fsdp_opt.Session(artifact, data=folder / "data.safetensors") as step:
            step()
            refused("E086", f"'input_ids', row 13 of '{folder / 'data.safetensors'}': 24 of 24", step, fsdp_opt.errors.DataError)


def worlds(folder):
    """One artifact for several numbers of ranks, which give the same bits and go on from each other's checkpoints."""
    torch.manual_seed(7)
    model, inputs = zoo.mlp()
    config = {"mesh": {}, "optimizer": ADAMW, "fsdp_config": {"grains": 4}}
    artifact = fsdp_opt.compile(model, kwargs=inputs, config=config, world=[1, 2, 4], out=folder / "step.fsdp")
    assert artifact.worlds == [1, 2, 4] and artifact.peak_bytes > 0, artifact
    save_file(make_data(inputs, 4 * STEPS), folder / "data.safetensors")
    states = []
    for world, load in ((1, None), (2, None), (4, folder / "ck")):
        with fsdp_opt.Session(artifact, world=world, data=folder / "data.safetensors", load=load) as step:
            assert step.world_size == world, step.world_size
            while step.steps_done < STEPS:
                step()
                if world == 2 and step.steps_done == 1:
                    step.save(folder / "ck")
            states.append(step.state_dict())
    with fsdp_opt.Session(artifact, world=2, data=folder / "data.safetensors") as step:
        refused("E076", "grains", lambda: step(**{name: torch.cat([value] * 4) for name, value in inputs.items()}))
    assert all(torch.equal(states[0][name], each[name]) for each in states for name in states[0]), "other bits on another number of ranks"
    refused("E040", "plans for 1, 2, 4 ranks", lambda: fsdp_opt.Session(artifact))
    refused("E096", "1, 2, 4 ranks, and 3 ranks are here", lambda: fsdp_opt.Session(artifact, world=3))
    refused("E040", "world: expected", lambda: fsdp_opt.compile(folder / "step.pt2", config=config, world=[], out=folder / "none.fsdp"))


def merged(folder):
    """A model of base and adapters; where that cannot be, the session goes on."""
    *_, artifact = compiled(folder, zoo.lora)
    _, plain, other = compiled(folder, name="plain.fsdp")
    with fsdp_opt.Session(artifact) as step, fsdp_opt.Session(other) as bare:
        states = step.state_dict()
        step.export(folder / "merged.safetensors", merge_adapters=True)
        refused("E076", "the artifact has none", lambda: bare.export(folder / "none.safetensors", merge_adapters=True))
        bare(**{name: torch.cat([value, value]) for name, value in plain.items()})
    found = load_file(folder / "merged.safetensors")
    assert set(found) == {name.replace("base_layer.", "") for name in states if "lora_" not in name}, sorted(found)
    base, down, up = (states[f"net.blocks.0.down.{part}.weight"] for part in ("base_layer", "lora_A.default", "lora_B.default"))
    assert torch.allclose(found["net.blocks.0.down.weight"], base + 2 * up @ down, atol=1e-6), "merged into something else"


def averaged(folder):
    """The model with averages of its weights, of which a session that keeps none says so."""
    _, inputs, artifact = compiled(folder, ema={"decay": 0.5})
    *_, other = compiled(folder, name="plain.fsdp")
    given = {name: torch.cat([value, value]) for name, value in inputs.items()}
    with fsdp_opt.Session(artifact) as step, fsdp_opt.Session(other) as bare:
        step(**given)
        first = step.state_dict()
        step(**given)
        second = step.state_dict()
        step.export(folder / "ema", ema=True)
        refused("E076", "keeps no averages", lambda: bare.export(folder / "none.safetensors", ema=True))
        refused("E040", "without merge_adapters", lambda: step.export(folder / "none.safetensors", ema=True, adapters=True))
    found = load_file(folder / "ema" / "model.safetensors")
    assert set(found) == set(first) and all(torch.equal(value, first[name].lerp(second[name], 0.5)) for name, value in found.items()), "another average"


def not_closed(folder):
    """A program that forgets its session, or fails inside of it, ends."""
    compiled(folder)
    program = "import fsdp_opt, sys\nstep = fsdp_opt.Session('step.fsdp')\nif len(sys.argv) > 1:\n    with step: raise ValueError('mine')\n"
    for arguments, status in (((), 0), (("fail",), 1)):
        done = subprocess.run([sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == status and ("mine" in done.stderr) == bool(status), done


def main():
    if "--rank" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--rank", type=pathlib.Path)
        return run_rank(parser.parse_args().rank)
    arguments = parse_arguments()
    sgd = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
    run_cases({
        "mlp world=1": parity(zoo.mlp, 1),
        "mlp world=2": parity(zoo.mlp, 2, reshard_after_forward=True),
        "gpt world=2 clip": parity(zoo.gpt, 2, max_grad_norm=0.1),
        "gpt world=2 accumulated": parity(zoo.gpt, 2, gradient_accumulation_steps=2),
        "convnet world=2 sgd": parity(zoo.convnet, 2, optimizer=sgd),
        "llama tp=2": parity(zoo.llama, 2, optimizer=sgd, mesh={"tp": 2}, tp_plan="auto"),
        "gpt torchrun": torchrun(zoo.gpt, 2), "spawned": spawned,
        "outputs": outputs, "refusals": refusals, "options": options_of_runs, "merged": merged, "averaged": averaged, "failures": failures, "others run": others_run,
        "checkpoints": lambda folder: checkpoints(folder)(arguments.bin),
        "evaluation": evaluation, "held": held, "data files": data_files, "compiling": compiling, "one tensor for two inputs": one_tensor,
        "an input that nothing reads": unread, "beyond the vocabulary": beyond, "worlds": worlds, "not closed": not_closed,
    }, arguments.only)


if __name__ == "__main__":
    main()
