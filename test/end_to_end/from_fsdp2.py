# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of an FSDP2 run continue here, and ours there, with the losses of a run that nobody disturbed.

As a program of its own (`--rank FOLDER OPTIMIZER`) it is one rank of the FSDP2 run.
"""
import copy
import json
import pathlib
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict, set_state_dict

import fsdp_opt
import warm
import zoo
from fsdp_opt.dcp import from_dcp, to_dcp
from harness import batch_of, make_config, make_data, make_optimizer, must, parse_arguments, run_cases
from ranks import end_rank

STEPS, WORLD = 6, 2
OPTIMIZERS = {
    "adamw": {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1, "groups": [{"params": ["*.bias", "*ln*"], "weight_decay": 0.0}]},
    "sgd": {"name": "sgd", "lr": 0.1, "momentum": 0.9}}
FLAT = {"optim": {}, "flat": {"flatten_optimizer_state_dict": True}}


class Tied(torch.nn.Module):
    """A tied head, frozen numbers, buffers that exports have and leave out."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(32, 16)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(2))
        self.ln = torch.nn.LayerNorm(16)
        self.scale = torch.nn.Parameter(torch.full((16,), 1.5), requires_grad=False)
        self.head = torch.nn.Linear(16, 32, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("shift", torch.randn(16))
        self.register_buffer("phase", torch.randn(16), persistent=False)

    def forward(self, ids, labels):
        x = self.embed(ids) * self.scale + self.shift
        for layer in self.layers:
            x = x + torch.sin(layer(x) + self.phase)
        return torch.nn.functional.cross_entropy(self.head(self.ln(x)).flatten(0, 1), labels.flatten())


def make():
    torch.manual_seed(7)
    model = Tied()
    inputs = {"ids": torch.randint(0, 32, (3, 8)), "labels": torch.randint(0, 32, (3, 8))}
    inputs["ids"][0, 0] = inputs["labels"][0, 0] = 31
    return model, inputs, make_data(inputs, WORLD * STEPS)


def steps_of(model, optimizer, inputs, data, first):
    rank, losses = dist.get_rank(), []
    for step in range(first, STEPS):
        loss = model(**batch_of(data, inputs, step * WORLD + rank))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / WORLD)
    return losses


def shard(name):
    from torch.distributed.fsdp import fully_shard
    model, inputs, data = make()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model, make_optimizer(model, OPTIMIZERS[name]), inputs, data


def run_rank(folder, name):
    """Undisturbed, with a folder of its state in the middle; then from ours, as nested and flattened states."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model, optimizer, inputs, data = shard(name)
    losses = []
    for step in range(STEPS):
        if step == STEPS // 2:
            for kind, options in FLAT.items():
                dcp.save({"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer, options=StateDictOptions(**options))},
                         checkpoint_id=folder / f"fsdp2-{kind}")
        loss = model(**batch_of(data, inputs, step * WORLD + dist.get_rank()))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / WORLD)
    found = {"undisturbed": losses}
    for kind, options in FLAT.items():
        model, optimizer, inputs, data = shard(name)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()  # what is not loaded shows
        options = StateDictOptions(**options)
        state = {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer, options=options)}
        dcp.load(state, checkpoint_id=folder / f"ours-{kind}")
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"], options=options)
        found[kind] = steps_of(model, optimizer, inputs, data, STEPS // 2)
    if dist.get_rank() == 0:
        (folder / "losses.json").write_text(json.dumps(found))
    end_rank()


def train(step, inputs, data, first, last):
    """All ranks of this process read rows as the processes do."""
    losses = []
    for number in range(first, last):
        batches = [batch_of(data, inputs, number * WORLD + rank) for rank in range(WORLD)]
        losses.append(step(**{key: torch.cat([batch[key] for batch in batches]) for key in inputs}).loss.item())
    return losses


def both_ways(name):
    def case(folder):
        model, inputs, data = make()
        artifact = fsdp_opt.compile(copy.deepcopy(model), kwargs=inputs, config=make_config(WORLD, OPTIMIZERS[name]), out=folder / "step.fsdp")
        half = STEPS // 2
        with fsdp_opt.Session(artifact, threads=1) as step:
            begin = train(step, inputs, data, 0, half)
            saved = step.save(folder / "ck")
        for kind, options in FLAT.items():
            to_dcp(saved, folder / f"ours-{kind}", artifact, flatten=bool(options))
        must(*warm.torchrun(WORLD), pathlib.Path(__file__).resolve(), "--rank",
             folder, name, cwd=folder)
        found = json.loads((folder / "losses.json").read_text())
        whole = found["undisturbed"]
        close(begin, whole[:half], "before")
        for kind in FLAT:
            close(found[kind], whole[half:], f"FSDP2 from ours, {kind}")
            count = {} if name == "adamw" else {"step": half}
            path = from_dcp(folder / f"fsdp2-{kind}", folder / f"from-{kind}", artifact, **count)
            assert path.endswith(f"step_{half}"), path
            with fsdp_opt.Session(artifact, load=path, threads=1) as step:
                assert step.steps_done == half
                close(train(step, inputs, data, half, STEPS), whole[half:], f"ours from FSDP2, {kind}")
            # There and back are the same bits.
            again = folder / f"again-{kind}"
            to_dcp(path, again, artifact, flatten=bool(options))
            same_folders(folder / f"fsdp2-{kind}" if kind == "optim" else folder / "fsdp2-optim", again, kind)
        if name == "sgd":
            refused("E040", "step:", lambda: from_dcp(folder / "fsdp2-optim", folder / "nowhere", artifact))
        other = fsdp_opt.compile(zoo.mlp()[0], kwargs=zoo.mlp()[1], config=make_config(WORLD), out=folder / "other.fsdp")
        refused("E102", "it has no 'model.net.0.weight'", lambda: from_dcp(folder / "fsdp2-optim", folder / "nowhere", other))
        refused("E102", "it has no", lambda: to_dcp(saved, folder / "nowhere", other))
        refused("E100", "is no folder of torch.distributed.checkpoint", lambda: from_dcp(folder, folder / "nowhere", artifact))
        refused("E100", "manifest.json", lambda: to_dcp(folder / "ck", folder / "nowhere", artifact))
        assert not (folder / "nowhere").exists(), "something was written"
    return case


def same_folders(one, other, kind):
    first, second = (dict(dcp.FileSystemReader(folder).read_metadata().state_dict_metadata) for folder in (one, other))
    tensors = {key: torch.empty(entry.size, dtype=entry.properties.dtype) for key, entry in first.items() if hasattr(entry, "size")}
    missing = [key for key in tensors if key not in second]
    assert not missing, f"{kind}: {missing} are not there"
    copies = {key: torch.empty_like(value) for key, value in tensors.items()}
    dcp.load(tensors, checkpoint_id=one, no_dist=True)
    dcp.load(copies, checkpoint_id=other, no_dist=True)
    assert all(torch.equal(tensors[key], copies[key]) for key in tensors), f"{kind}: values have changed"


def warmed_up(folder):
    """The rates of the next step go along where the artifact says them; else they have to be given."""
    model, inputs, data = make()
    for name, rule in (("known", {"name": "linear", "warmup_steps": 2, "total_steps": 10}), ("open", {"name": "linear", "warmup_steps": 2})):
        artifact = fsdp_opt.compile(copy.deepcopy(model), kwargs=inputs, config=make_config(WORLD, OPTIMIZERS["adamw"], lr_scheduler=rule),
                                    out=folder / f"{name}.fsdp")
        with fsdp_opt.Session(artifact, threads=1, steps=10) as step:
            train(step, inputs, data, 0, 3)
            saved = step.save(folder / name)
        if name == "open":
            refused("E040", "param_groups", lambda: to_dcp(saved, folder / "dcp", artifact))
            to_dcp(saved, folder / "dcp", artifact, param_groups=[{"lr": 5e-4, "params": ["ln.bias"]}])
            continue
        to_dcp(saved, folder / "dcp-known", artifact)
        wanted = {f"optim.param_groups.{group}.{key}": None for group in range(2) for key in ("lr", "initial_lr", "weight_decay", "params")}
        dcp.load(wanted, checkpoint_id=folder / "dcp-known", no_dist=True)
        assert abs(wanted["optim.param_groups.0.lr"] - 1e-3 * 7 / 8) < 1e-12 and wanted["optim.param_groups.0.initial_lr"] == 1e-3, wanted
        assert sorted([wanted["optim.param_groups.0.weight_decay"], wanted["optim.param_groups.1.weight_decay"]]) == [0.0, 0.1], wanted


def close(have, want, what):
    assert len(have) == len(want) and all(abs(a - b) <= 2e-5 * max(1, abs(b)) for a, b in zip(have, want)), f"{what}: losses {have} instead of {want}"


def refused(id, part, call):
    try:
        call()
    except fsdp_opt.Error as error:
        assert error.id == id and part in str(error), error
        return
    raise AssertionError(f"{id} was not raised")


def main():
    if "--rank" in sys.argv:
        return run_rank(pathlib.Path(sys.argv[-2]), sys.argv[-1])
    args = parse_arguments()
    torch.set_num_threads(1)
    run_cases({"adamw": both_ways("adamw"), "sgd": both_ways("sgd"), "warmed up": warmed_up}, args.only)


if __name__ == "__main__":
    sys.exit(main())
