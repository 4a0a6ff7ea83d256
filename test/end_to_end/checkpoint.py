# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What checkpoints promise (docs/Checkpoints.md): a run that continues makes the same
bits as one that never stopped, at the same world size; at any other one, mesh and layout,
all states have the same values; PyTorch reads the files, and its own are read; whatever
befalls files, the error is clear and the checkpoint before is whole.
"""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import random_training
import zoo
from harness import call, compile_step, export, make_config, make_data, must, parse_arguments, run_cases, run_step, train

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8))


def assert_same(have, want):
    assert have and set(have) == set(want), f"too few or too many: {sorted(set(have) ^ set(want))}"
    for name in want:
        assert same_bits(have[name], want[name]), f"{name} differs"


def read_checkpoint(path):
    """All states of a checkpoint, put together out of its pieces as DCP_SHARDING_INFO says."""
    states = {}
    for file in sorted(pathlib.Path(path).glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            offsets = json.loads(opened.metadata()["DCP_SHARDING_INFO"])
            for name in opened.keys():
                states.setdefault(name, []).append((offsets[name]["saved_offsets"], opened.get_tensor(name)))
    whole = {}
    for name, pieces in states.items():
        shape = [max(offset[i] + piece.shape[i] for offset, piece in pieces) for i in range(pieces[0][1].dim())]
        whole[name] = torch.zeros(shape, dtype=pieces[0][1].dtype)
        assert sum(piece.numel() for _, piece in pieces) == whole[name].numel(), f"{name} is not there once"
        for offset, piece in pieces:
            whole[name][tuple(slice(o, o + s) for o, s in zip(offset, piece.shape))] = piece
    return whole


def manifest_of(path):
    return json.loads((pathlib.Path(path) / "manifest.json").read_text())


def prepare(bin, folder, factory, world, steps, **config):
    torch.manual_seed(7)
    model, inputs = factory()
    model.train()
    settings = make_config(world, **config)
    save_file(make_data(inputs, world * steps * settings.get("gradient_accumulation_steps", 1)), folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, settings)


# Resuming

def without_times(rows):
    return [{key: row[key] for key in ("step", "loss", "grad_norm", "lr")} for row in rows]


def resume_case(bin, factory, world, backend="local", steps=5, at=2, expect=lambda folder: None, options=(), **config):
    """A run that saves is one that does not; continued, it makes the bits of the one that went on."""
    def case(folder):
        prepare(bin, folder, factory, world, steps, **config)
        rows, want = train(bin, folder, world, steps, backend, options=["--save=ck", f"--save-every={at}", *options])
        expect(folder)
        other = folder / "elsewhere"
        shutil.copytree(folder / f"ck/step_{at}", other)
        again, have = train(bin, folder, world, steps, backend, "again", options=[f"--load={other}", *options])
        assert without_times(again) == without_times(rows), (without_times(again), without_times(rows))
        assert_same(have, want)
        manifest = manifest_of(folder / f"ck/step_{steps}")
        assert manifest["step"] == steps and manifest["world_size"] == world, manifest
        assert len({row["loss"] for row in rows}) == steps, "nothing is trained: the case tests nothing"
    return case


def differs_by_rank(folder):
    states = manifest_of(folder / "ck/step_2")["states"]
    assert any(state.get("of_rank") for state in states), "no buffer is a rank's own: the case tests nothing"


def has_random_state(folder):
    state = read_checkpoint(folder / "ck/step_2")["random.state"]
    assert state[1] > 0, state


def has_pieces(folder):
    assert list((folder / "ck/step_2").glob("shard-*-model-00002-of-*")), "no part ends within a row: the case tests nothing"


def killed_case(bin, backend="local"):
    """Killed again and again, wherever it is, and called with the same words, a run ends as if it had not been."""
    def case(folder):
        steps, world = 60, 2
        prepare(bin, folder, zoo.gpt, world, steps, fsdp_version=2)
        rows, want = train(bin, folder, world, steps)
        command = [bin / "fsdp-run", "step.fsdp", f"--steps={steps}", "--data=data.safetensors", "--save=ck", "--save-every=1", "--keep=2",
                   "--load=latest", "--metrics=m.jsonl", "--export=again.safetensors"]
        generator, kills = random.Random(3), 0
        while kills < 6:
            process = subprocess.Popen([str(c) for c in command], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # From the first checkpoint of this run on.
            before = newest(folder / "ck")
            while process.poll() is None and newest(folder / "ck") == before:
                time.sleep(0.001)
            time.sleep(generator.random() * 0.01)
            process.kill()
            if process.wait() == 0:
                break
            kills += 1
        assert kills >= 3, f"{kills} kills: the case tests nothing"
        must(*command, cwd=folder)
        again = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()]
        assert without_times(again) == without_times(rows)
        assert_same(load_file(folder / "again.safetensors"), want)
        assert sorted(p.name for p in (folder / "ck").iterdir()) == ["step_59", "step_60"]
    return case


def newest(folder):
    return max((int(p.parent.name[5:]) for p in folder.glob("step_*/manifest.json") if not p.parent.name.endswith(".tmp")), default=0)


# Other worlds

def worlds_case(bin):
    """From every world, mesh and layout into every other."""
    variants = {
        "1": dict(world=1), "2": dict(world=2, reshard_after_forward=True), "3 flat": dict(world=3, bucket_layout="flat"),
        "4": dict(world=4, reshard_after_forward=False), "4 hsdp": dict(world=4, replicate=2, reshard_after_forward=True),
        "8 hsdp flat": dict(world=8, replicate=2, bucket_layout="flat", reshard_after_forward=False),
        "2 columns": dict(world=2, shard_dims={"net.blocks.0.qkv.weight": 1, "net.blocks.1.down.weight": 1}),
    }

    def case(folder):
        torch.manual_seed(7)
        model, inputs = zoo.gpt()
        export(model.train(), inputs, folder / "model.pt2")
        save_file(make_data(inputs, 8), folder / "data.safetensors")
        saved = {}
        for name, variant in variants.items():
            settings = make_config(**variant)
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(settings))
            must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", f"{name}.fsdp", cwd=folder)
            run_step(bin, folder, variant["world"], "--steps=1", f"--save=from {name}", f"--export={name}.safetensors", artifact=f"{name}.fsdp")
            saved[name] = read_checkpoint(folder / f"from {name}/step_1")
        for source in variants:
            final = load_file(folder / f"{source}.safetensors")
            for target, variant in variants.items():
                done = must(bin / "fsdp-run", f"{target}.fsdp", "--steps=1", f"--load=from {source}", "--save=to", "--export=to.safetensors", cwd=folder)
                assert "after step 1" in done.stderr, done.stderr
                assert_same(load_file(folder / "to.safetensors"), final)
                assert_same(read_checkpoint(folder / "to/step_1"), saved[source])
                shutil.rmtree(folder / "to")
        assert any(name.startswith("optimizer.exp_avg_sq.") and state.abs().sum() > 0 for name, state in saved["1"].items())
    return case


def continued_elsewhere(bin):
    """Training goes on at another world size, where it left off in the data and the schedule."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = zoo.mlp()
        export(model, inputs, folder / "model.pt2")
        data = make_data(inputs, 12)
        save_file(data, folder / "data.safetensors")
        for world, accumulated in ((4, 1), (2, 2)):
            settings = make_config(world, SGD, gradient_accumulation_steps=accumulated, lr_scheduler={"name": "linear", "total_steps": 6})
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(settings))
            must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", f"{world}.fsdp", cwd=folder)
        want = run_step(bin, folder, 4, "--steps=4", artifact="4.fsdp")
        run_step(bin, folder, 4, "--steps=2", "--save=ck", artifact="4.fsdp")
        have = run_step(bin, folder, 2, "--steps=4", "--load=ck", artifact="2.fsdp")
        for row, other in zip(have, want, strict=True):
            assert row["step"] == other["step"] and row["lr"] == other["lr"], (row, other)
            assert abs(row["loss"] - other["loss"]) < 1e-5 * max(1, other["loss"]), (row, other)
    return case


# PyTorch

def spawn(function, *arguments, world=2):
    torch.multiprocessing.spawn(in_group, (world, function, arguments), nprocs=world)


def in_group(rank, world, function, arguments):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{arguments[0]}/rendezvous", rank=rank, world_size=world)
    function(*arguments)
    dist.barrier()
    # Gloo's threads abort the interpreter's own exit now and then.
    os._exit(0)


def load_resharded(folder, want):
    """Each rank reads its columns, where the checkpoint has rows."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    mesh = init_device_mesh("cpu", (2,))
    state = {name: distribute_tensor(torch.zeros_like(value), mesh, [Shard(1)]) for name, value in want.items() if value.dim() == 2}
    assert state
    dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(f"{folder}/ck/step_1"))
    for name, value in state.items():
        assert torch.equal(value.full_tensor(), want[name]), name


def save_sharded(folder, state):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    mesh = init_device_mesh("cpu", (2,))
    state = {name: distribute_tensor(value, mesh, [Shard(0)]) if value.dim() else value for name, value in state.items()}
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(f"{folder}/theirs", save_distributed=True))


def torch_reads(bin, **config):
    def case(folder):
        import torch.distributed.checkpoint as dcp
        prepare(bin, folder, random_training.gpt, 3, 1, **config)
        _, final = train(bin, folder, 3, 1, options=["--save=ck"])
        want = read_checkpoint(folder / "ck/step_1")
        assert {"optimizer.step", "random.state"} <= set(want), sorted(want)
        for name, value in want.items():
            if name in final:
                assert same_bits(value, final[name]), name
        assert sum(name in final for name in want) >= 10
        state = {name: torch.zeros_like(value) for name, value in want.items()}
        dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(str(folder / "ck/step_1")), no_dist=True)
        assert_same(state, want)
        spawn(load_resharded, str(folder), want)
    return case


def torch_writes(bin):
    """Shards of torch.distributed.checkpoint, with and without an optimizer; folders of Hugging Face; one file."""
    def case(folder):
        prepare(bin, folder, zoo.gpt, 3, 1)
        train(bin, folder, 3, 1, options=["--save=ck"])
        ours = read_checkpoint(folder / "ck/step_1")
        torch.manual_seed(1)
        state = {name: torch.randn_like(value) if value.is_floating_point() else value for name, value in ours.items()}
        weights = {name: value for name, value in state.items() if not name.startswith("optimizer.")}
        assert set(weights) != set(state)
        spawn(save_sharded, str(folder), state)
        check = ["fsdp-run", "step.fsdp", "--steps=0", "--export=e.safetensors", "--save=again"]

        def load(path):
            shutil.rmtree(folder / "again", ignore_errors=True)
            must(bin / check[0], *check[1:], f"--load={path}", cwd=folder)
            return read_checkpoint(folder / "again/step_0")

        assert_same(load("theirs"), state)
        save_file(weights, folder / "weights.safetensors")
        loaded = load("weights.safetensors")
        assert_same({name: loaded[name] for name in weights}, weights)
        assert all(not value.any() for name, value in loaded.items() if name.startswith("optimizer."))
        # Half an optimizer, half a model.
        moment = next(name for name in state if name.startswith("optimizer.exp_avg."))
        save_file({name: value for name, value in state.items() if name != moment}, folder / "half.safetensors")
        done = call(bin / check[0], *check[1:], "--load=half.safetensors", cwd=folder)
        assert done.returncode == 1 and "fsdp-E102" in done.stderr and moment in done.stderr, done.stderr
    return case


def export_folder(bin):
    """Shards with an index hold what one file does, and are read as weights."""
    def case(folder):
        prepare(bin, folder, zoo.gpt, 3, 1)
        train(bin, folder, 3, 1)
        must(bin / "fsdp-run", "step.fsdp", "--steps=1", "--data=data.safetensors", "--export=out/", "--export-shard-size=4KB", cwd=folder)
        index = json.loads((folder / "out/model.safetensors.index.json").read_text())
        files = sorted(set(index["weight_map"].values()))
        assert len(files) > 2 and files[0] == f"model-00001-of-{len(files):05}.safetensors", files
        assert sorted(p.name for p in (folder / "out").iterdir()) == sorted([*files, "model.safetensors.index.json"])
        want, have = load_file(folder / "final.safetensors"), {}
        for file in files:
            tensors = load_file(folder / "out" / file)
            size = sum(value.nbytes for value in tensors.values())
            assert size <= 4000 or len(tensors) == 1, (file, size)
            assert all(index["weight_map"][name] == file for name in tensors)
            have.update(tensors)
        assert_same(have, want)
        assert index["metadata"]["total_size"] == sum(value.nbytes for value in want.values())
        must(bin / "fsdp-run", "step.fsdp", "--steps=0", "--load=out", "--export=back.safetensors", cwd=folder)
        assert_same(load_file(folder / "back.safetensors"), want)
        # In one file again, which the old index must not hide.
        must(bin / "fsdp-run", "step.fsdp", "--steps=1", "--data=data.safetensors", "--export=out", cwd=folder)
        assert_same(load_file(folder / "out/model.safetensors"), want)
        assert not (folder / "out/model.safetensors.index.json").exists()
    return case


# Faults

class Faults:
    def __init__(self, bin, folder):
        self.bin, self.folder = bin, folder
        prepare(bin, folder, zoo.mlp, 2, 4)
        self.run("--steps=2", "--save=ck", "--save-every=1")
        self.whole = self.contents()

    def run(self, *options, **keywords):
        return must(self.bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", *options, cwd=self.folder, **keywords)

    def refused(self, error, *texts, options=("--steps=3", "--load=ck/step_2"), command=(), status=1, line=0):
        done = call(*command, self.bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", *options, cwd=self.folder)
        lines = done.stderr.splitlines()
        assert done.returncode == status and lines[line].startswith(f"error[fsdp-{error}]"), (done.returncode, done.stderr)
        for text in texts:
            assert text in lines[line], done.stderr

    def contents(self):
        return {p.relative_to(self.folder): p.read_bytes() for p in (self.folder / "ck").rglob("*") if p.is_file()}

    def shards(self):
        return sorted((self.folder / "ck/step_2").glob("*.safetensors"))


def damaged_case(bin):
    def case(folder):
        faults = Faults(bin, folder)
        shard = faults.shards()[1]
        bytes = shard.read_bytes()
        head = struct.unpack("<Q", bytes[:8])[0] + 8
        shard.write_bytes(bytes[:-1])
        faults.refused("E101", shard.name, f"of {len(bytes)} bytes")
        # Of a folder, the newest that is whole.
        done = faults.run("--steps=1", "--load=ck")
        assert "step_2' is passed over" in done.stderr and "after step 1" in done.stderr, done.stderr
        # Whoever wants it replaced has to say so.
        before = faults.contents()
        faults.refused("E105", "where it is damaged or of another run, delete it", options=("--steps=3", "--load=latest", "--save=ck"), line=1)
        assert faults.contents() == before
        for at, text in ((3, "header"), (head // 2, "header"), (head, f"bytes {head} to"), (len(bytes) - 1, "are not those")):
            shard.write_bytes(bytes[:at] + b"%c" % (bytes[at] ^ 16) + bytes[at + 1:])
            faults.refused("E101", shard.name, text)
        shard.unlink()
        faults.refused("E101", shard.name, "No such file")
        shard.write_bytes(bytes)
        assert faults.contents() == faults.whole
        manifest = folder / "ck/step_2/manifest.json"
        text = manifest.read_text()
        manifest.write_text(text.replace('"rows": ', '"rows": 1'))
        faults.refused("E101", "checksum")
        manifest.write_text(text.replace('"format_version": 1', '"format_version": 7'))
        faults.refused("E103", "version 7")
        faults.refused("E103", "version 7", options=("--steps=3", "--load=ck"))
        manifest.unlink()
        faults.refused("E101", "it was not finished")
        manifest.write_text(text)
        done = faults.run("--steps=2", "--load=ck")
        assert "goes on" not in done.stderr, done.stderr
        done = faults.run("--steps=3", "--load=ck", "--lr=0.5")
        assert "the learning rate goes on as 0.5" in done.stderr, done.stderr
        faults.refused("E100", "holds no checkpoint", options=("--steps=3", "--load=nowhere"))
        faults.refused("E040", "--save", options=("--steps=3", "--load=latest"), status=2)
        faults.refused("E040", "--keep", options=("--steps=3", "--keep=2"), status=2)
    return case


def other_model_case(bin):
    def case(folder):
        Faults(bin, folder)
        other = folder / "other"
        other.mkdir()
        prepare(bin, other, zoo.tiny, 2, 1)
        done = call(bin / "fsdp-run", "step.fsdp", "--steps=3", "--load=../ck", cwd=other)
        assert done.returncode == 1 and done.stderr.startswith("error[fsdp-E102]"), done.stderr
        assert "it has no 'first." in done.stderr and "more" in done.stderr, done.stderr
        # Another optimizer.
        prepare(bin, other, zoo.mlp, 2, 1, optimizer=SGD)
        done = call(bin / "fsdp-run", "step.fsdp", "--steps=3", "--load=../ck", cwd=other)
        assert done.returncode == 1 and "it has no 'optimizer.momentum_buffer." in done.stderr, done.stderr
        prepare(bin, other, zoo.mlp, 2, 1, optimizer={"name": "sgd", "lr": 0.1})
        must(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=3", "--load=../ck", cwd=other)
    return case


def disk_case(bin):
    """Files of 8 KiB at most stand for a full disk."""
    def case(folder):
        faults = Faults(bin, folder)
        assert max(len(b) for p, b in faults.whole.items() if p.suffix == ".safetensors") > 2048
        limit = ("bash", "-c", "trap '' XFSZ; ulimit -f 2; exec \"$0\" \"$@\"")
        for more in ((), ("--save-sync",)):
            faults.refused("E104", "step_3' was not written: rank", "cannot be written: File too large",
                           options=("--steps=4", "--load=latest", "--save=ck", "--save-every=1", *more), command=limit, line=-1)
            assert faults.contents() == faults.whole, "the checkpoints before have changed"
            assert not list(folder.rglob("*.tmp"))
        # A folder that cannot be made or written to, before the first step.
        (folder / "file").write_text("")
        faults.refused("E104", "cannot be made", options=("--steps=3", "--save=file/ck"))
        if os.geteuid() == 0:
            faults.refused("E104", "cannot be made", options=("--steps=3", "--save=/proc/ck"))
        else:
            (folder / "closed").mkdir(mode=0o555)
            faults.refused("E104", "cannot be written to", options=("--steps=3", "--save=closed"))
        faults.refused("E105", "this run is at step 0", options=("--steps=3", "--save=ck"))
        faults.refused("E105", "this run is at step 1", options=("--steps=3", "--save=ck", "--load=ck/step_1"))
        # What a killed run left behind is not seen, and goes with the next save.
        (folder / "ck/step_9.tmp").mkdir()
        (folder / "ck/step_9.tmp/shard").write_text("half")
        faults.run("--steps=3", "--load=latest", "--save=ck")
        assert sorted(p.name for p in (folder / "ck").iterdir()) == ["step_1", "step_2", "step_3"]
    return case


def inference_case(bin):
    """An artifact for inference takes the weights alone, and saves nothing."""
    def case(folder):
        faults = Faults(bin, folder)
        must(bin / "fsdp-run", "step.fsdp", "--steps=2", "--load=ck", "--export=want.safetensors", cwd=folder)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump({**make_config(3), "mode": "inference"}))
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
        faults.run("--steps=2", "--load=ck", "--export=have.safetensors")
        assert_same(load_file(folder / "have.safetensors"), load_file(folder / "want.safetensors"))
        faults.refused("E076", "--save needs an artifact that trains", options=("--steps=1", "--save=other"), status=2)
    return case


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(1, 2, bias=False)

    def forward(self, x, y):
        return F.mse_loss(self.line(x), y)


def best_case(bin):
    """The checkpoint with the least loss in validation stays, and a run that finds nothing better ends."""
    def case(folder):
        # It learns to give 4 and is judged by how near it comes to 1: better for some steps, then worse.
        model, one = Line(), torch.ones(2, 1)
        with torch.no_grad():
            model.line.weight.zero_()
        save_file({"x": torch.ones(8, 1), "y": torch.full((8, 2), 4.0)}, folder / "data.safetensors")
        save_file({"x": torch.ones(4, 1), "y": torch.ones(4, 2)}, folder / "held.safetensors")
        compile_step(bin, folder, model, {"x": one, "y": torch.ones(2, 2)}, make_config(2, optimizer={"name": "sgd", "lr": 0.05}, eval={"data": "held.safetensors"}))
        common = ("--eval-every=1", "--keep=1", "--keep-best")
        rows = run_step(bin, folder, 2, *common, "--steps=50", "--patience=3", "--save=ck")
        losses = {row["step"]: row["eval_loss"] for row in rows if "eval_loss" in row}
        best = min(losses, key=losses.get)
        assert 2 < best < 20 and max(losses) == best + 3, losses
        there = lambda: sorted(each.name for each in (folder / "ck").iterdir() if not each.name.startswith("."))
        assert there() == sorted(["best", f"step_{best}", f"step_{best + 3}", "validations.json"]), there()
        assert os.readlink(folder / "ck/best") == f"step_{best}"
        assert [(row["step"], row["eval_loss"]) for row in json.loads((folder / "ck/validations.json").read_text())] == sorted(losses.items())
        run_step(bin, folder, 2, f"--steps={best}", "--load=ck/best", "--export=best.safetensors")
        run_step(bin, folder, 2, f"--steps={best}", "--export=want.safetensors")
        assert_same(load_file(folder / "best.safetensors"), load_file(folder / "want.safetensors"))
        # Who goes on remembers: a patience that is used up takes no step, and the best one stays.
        run_step(bin, folder, 2, *common, "--steps=50", "--patience=3", "--save=ck", "--load=latest")
        assert there() == sorted(["best", f"step_{best}", f"step_{best + 3}", "validations.json"]), there()
        run_step(bin, folder, 2, *common, "--steps=50", "--patience=5", "--save=ck", "--load=latest")
        assert there() == sorted(["best", f"step_{best}", f"step_{best + 5}", "validations.json"]), there()

        def refused(say, *options):
            done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=50", *options, cwd=folder)
            assert done.returncode != 0 and say in done.stderr, done.stderr
        refused("no --save=DIR says where", "--keep-best")
        refused("--outputs writes a file of as many batches as the run has", "--patience=2", "--outputs=o.safetensors")
        (folder / "ck/validations.json").write_text("[{}]")
        refused("validations.json' cannot be read", *common, "--save=ck", "--load=latest")
        compile_step(bin, folder, model, {"x": one, "y": torch.ones(2, 2)}, make_config(2))
        refused("--patience goes by the loss in validation", "--patience=2")
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    bf16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    cases = {
        "resume adamw, tied, clip": resume_case(bin, zoo.gpt, 3, max_grad_norm=0.5),
        "resume sgd": resume_case(bin, zoo.mlp, 2, optimizer=SGD),
        "resume dropout": resume_case(bin, random_training.gpt, 2, expect=has_random_state),
        "resume seed": resume_case(bin, random_training.gpt, 2, expect=has_random_state, options=["--seed=5"]),
        "resume accumulation": resume_case(bin, zoo.mlp, 2, gradient_accumulation_steps=3),
        "resume hsdp": resume_case(bin, zoo.gpt, 4, replicate=2),
        "resume bf16": resume_case(bin, zoo.gpt, 2, mixed_precision=bf16),
        "resume flat": resume_case(bin, zoo.gpt, 3, bucket_layout="flat", expect=has_pieces),
        "resume schedule": resume_case(bin, zoo.mlp, 2, lr_scheduler={"name": "cosine", "warmup_steps": 2}),
        "resume buffers of ranks": resume_case(bin, zoo.convnet, 3, expect=differs_by_rank),
        "resume ignored parameters": resume_case(bin, zoo.scaled, 2, ignored_params=["norm.*"], reduce_ignored_params=False, optimizer=SGD),
        "resume shuffled rows": resume_case(bin, zoo.mlp, 3, options=["--data-options=shuffle=true,seed=3"]),
        "resume over gloo": resume_case(bin, zoo.mlp, 2, "gloo"),
        "resume after kills": killed_case(bin),
        "worlds": worlds_case(bin),
        "continued elsewhere": continued_elsewhere(bin),
        "torch reads": torch_reads(bin),
        "torch reads flat": torch_reads(bin, bucket_layout="flat"),
        "torch writes": torch_writes(bin),
        "export folder": export_folder(bin),
        "damaged": damaged_case(bin),
        "other model": other_model_case(bin),
        "disk": disk_case(bin),
        "inference": inference_case(bin),
        "best": best_case(bin),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
