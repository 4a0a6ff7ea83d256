# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimizer states in fewer bytes and parameters that are rounded at random, against the same arithmetic in PyTorch on whole tensors."""
import json

import torch
from safetensors.torch import load_file, save_file

import harness
from harness import ADAMW, call, compare, compile_step, make_config, make_data, must, must_refuse, parse_arguments, reference, run_cases, train

BLOCK, LEAST = 256, 4096
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}


def dynamic_map(signed):
    """bitsandbytes' create_dynamic_map, of 8 bits."""
    values = []
    for i in range(7):
        steps = 2 ** i if signed else 2 ** (i + 1)
        edges = torch.linspace(0.1, 1, steps + 1, dtype=torch.float64)
        means = 10.0 ** (i - 6) * (edges[:-1] + edges[1:]) / 2
        values += means.tolist() + ([-m for m in means.tolist()] if signed else [])
    return torch.tensor(sorted([*values, 0.0, 1.0]), dtype=torch.float32)


MAPS = {signed: dynamic_map(signed) for signed in (True, False)}


def store(value, dtype, signed):
    """What is read back of a state that was stored."""
    if dtype == "bfloat16":
        return value.bfloat16().float()
    if dtype is None or value.numel() < LEAST:
        return value
    blocks = torch.nn.functional.pad(value.flatten(), (0, -value.numel() % BLOCK)).view(-1, BLOCK)
    greatest = blocks.abs().amax(1, keepdim=True)
    if dtype == "float8":
        scale = greatest / 448
        read = (blocks / scale.clamp(min=1e-38)).to(torch.float8_e4m3fn).float() * scale
    else:
        codes = torch.searchsorted((MAPS[signed][1:] + MAPS[signed][:-1]) / 2, blocks / greatest.clamp(min=1e-38))
        read = MAPS[signed][codes] * greatest
    return read.flatten()[:value.numel()].view_as(value)


class Stored(torch.optim.Optimizer):
    """AdamW, Adam or SGD in float32 over states that are stored in between."""

    def __init__(self, groups, kind, state_dtype=None, **defaults):
        self.kind, self.dtype = kind, state_dtype
        super().__init__(groups, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "momentum": 0.0, **defaults})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state, g, lr, decay = self.state[p], p.grad.float(), group["lr"], group["weight_decay"]
                state["step"] = state.get("step", 0) + 1
                value = p.float()
                if self.kind != "adamw":
                    g = g + decay * value
                if self.kind == "sgd":
                    way = g
                    if group["momentum"]:
                        way = group["momentum"] * state.get("m", torch.zeros_like(value)) + g
                        state["m"] = store(way, self.dtype, True)
                    p.copy_(value - lr * way)
                    continue
                one, two = group["betas"]
                m = torch.lerp(state.get("m", torch.zeros_like(value)), g, 1 - one)
                v = two * state.get("v", torch.zeros_like(value)) + (1 - two) * g * g
                state["m"], state["v"] = store(m, self.dtype, True), store(v, self.dtype, False)
                if self.kind == "adamw":
                    value = value - lr * decay * value
                root = v.sqrt() / (1 - two ** state["step"]) ** 0.5
                p.copy_(value - lr / (1 - one ** state["step"]) * m / (root + group["eps"]))


for kind in ("adamw", "adam", "sgd"):
    harness.OPTIMIZERS[kind] = lambda groups, kind=kind, **options: Stored(groups, kind, **options)


def blocks(dtype=torch.float32):
    """Tensors whose shards are whole blocks at any number of ranks, at some, at none; a vector, and some that are not coded."""

    class Blocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(19, 256)
            self.up = torch.nn.Linear(256, 64)
            self.odd = torch.nn.Linear(64, 150)
            self.down = torch.nn.Linear(150, 35)
            self.gain = torch.nn.Parameter(torch.ones(5000))

        def forward(self, tokens, y):
            hidden = self.odd(torch.tanh(self.up(self.embed(tokens))))
            return torch.nn.functional.mse_loss(self.down(torch.tanh(hidden)) * self.gain[:35] * self.gain.mean(), y)

    return Blocks().to(dtype), {"tokens": torch.randint(0, 19, (8,)), "y": torch.randn(8, 35, dtype=dtype)}


def pair(dtype=torch.float32, hidden=512):
    """Two matrices that tensor parallelism splits, one along each dim."""

    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(96, hidden), torch.nn.Linear(hidden, 96)

        def forward(self, x):
            return (self.down(torch.relu(self.up(x))) - x).square().mean()

    return Pair().to(dtype), {"x": torch.randn(8, 96, dtype=dtype)}


def odd_pair():
    return pair(hidden=250)


def training_case(bin, world, factory=blocks, steps=4, backend="local", **config):
    def case(folder):
        torch.manual_seed(5)
        model, inputs = factory()
        settings = make_config(world, **config)
        readers = world // settings["mesh"].get("tp", 1)
        start = {k: v.detach().clone() for k, v in model.named_parameters()}
        data = make_data(inputs, readers * steps * settings.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings)
        rows, final = train(bin, folder, world, steps, backend)
        compare(rows, final, *reference(model, inputs, data, readers, steps, settings), start)
        for row in rows:
            assert row["unplanned_bytes"] == 0, row
    return case


def read_checkpoint(folder):
    """Whole tensors of a checkpoint's pieces."""
    states = {state["name"]: state["shape"] for state in json.loads((folder / "manifest.json").read_text())["states"]}
    whole = {}
    for file in sorted(folder.glob("*.safetensors")):
        from safetensors import safe_open
        with safe_open(file, "pt") as opened:
            places = json.loads(opened.metadata()["DCP_SHARDING_INFO"])
            for name in opened.keys():
                piece = opened.get_tensor(name)
                if name not in whole:
                    whole[name] = torch.zeros(states[name], dtype=piece.dtype)
                where = tuple(slice(o, o + s) for o, s in zip(places[name]["saved_offsets"], piece.shape))
                whole[name][where] = piece
    return whole


def bits(tensor):
    """Whatever its type, as numbers that are compared bit by bit."""
    return tensor.reshape(-1).view(torch.uint8)


def same_rows(inputs, batches):
    """All batches are one: the mean gradient is the same, bit for bit, on 1, 2 and 4 ranks."""
    return {name: value.repeat(batches, *[1] * (value.ndim - 1)) for name, value in inputs.items()}


def same_bits_case(bin, variants, factory=blocks, dtype=torch.float32, steps=3, **config):
    """Checkpoints of these worlds, and settings that go with each, are equal bit for bit."""
    def case(folder):
        torch.manual_seed(6)
        model, inputs = factory(dtype)
        # LibTorch's kernels, which update what is not coded in f32, round the last elements of a shard otherwise than others.
        for parameter in model.parameters() if dtype == torch.float32 else ():
            parameter.requires_grad_(parameter.numel() >= LEAST)
        save_file(same_rows(inputs, steps * 4), folder / "data.safetensors")
        found = []
        for number, (world, more) in enumerate(variants):
            compile_step(bin, folder, model, inputs, make_config(world, **config, **more))
            train(bin, folder, world, steps, options=(f"--save=ck{number}",))
            found.append(read_checkpoint(folder / f"ck{number}" / f"step_{steps}"))
        assert any("_scale" in name for name in found[0]) or dtype == torch.bfloat16, f"nothing is coded: {sorted(found[0])}"
        for (world, more), states in zip(variants[1:], found[1:]):
            assert set(states) == set(found[0]), f"world {world} {more}: states {sorted(set(states) ^ set(found[0]))[:4]}"
            for name, value in states.items():
                first = found[0][name]
                equal = value.dtype == first.dtype and value.shape == first.shape and torch.equal(bits(value), bits(first))
                assert equal, f"world {world} {more}: {name} differs from world {variants[0][0]}'s"
    return case


def moving_case(bin, worlds, dtype):
    """A checkpoint is the same after it went through other worlds, and each of them goes on from it."""
    def case(folder):
        torch.manual_seed(8)
        model, inputs = blocks()
        save_file(make_data(inputs, 16), folder / "data.safetensors")
        source = None
        for number, (world, more) in enumerate(worlds):
            compile_step(bin, folder, model, inputs, make_config(world, optimizer={**ADAMW, "state_dtype": dtype}, **more))
            train(bin, folder, world, 2, options=(f"--save=ck{number}", *([f"--load={source}"] if source else [])))
            source = f"ck{number}"
        first, *others = (read_checkpoint(folder / f"ck{number}" / "step_2") for number in range(len(worlds)))
        for other in others:
            assert set(other) == set(first)
            for name, value in other.items():
                assert torch.equal(bits(value), bits(first[name])), f"{name} has changed on the way"
        train(bin, folder, worlds[-1][0], 4, options=[f"--load={source}"])
    return case


def refusals(bin):
    def case(folder):
        torch.manual_seed(9)
        model, inputs = blocks()
        save_file(make_data(inputs, 8), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(1))
        train(bin, folder, 1, 1, options=["--save=plain"])
        compile_step(bin, folder, model, inputs, make_config(1, optimizer={**ADAMW, "state_dtype": "int8"}))
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=2", "--load=plain", cwd=folder)
        assert done.returncode and "optimizer.exp_avg_int8." in done.stderr, done.stderr
        must_refuse(bin, folder, {
            "stochastic_rounding": {"optimizer": {**ADAMW, "stochastic_rounding": True}},
            "one of": {"optimizer": {**ADAMW, "state_dtype": "int4"}}})
    return case


def memory_case(bin):
    """Planned bytes of AdamW's states, and those of the checkpoints."""
    def case(folder):
        torch.manual_seed(10)
        model, inputs = blocks()
        bytes_of = {}
        for dtype in (None, "bfloat16", "int8", "float8"):
            config = make_config(2, optimizer={**ADAMW, **({"state_dtype": dtype} if dtype else {})})
            compile_step(bin, folder, model, inputs, config, options=["--report=report.json"])
            bytes_of[dtype] = json.loads((folder / "report.json").read_text())["memory"]["optimizer"]
        assert bytes_of["int8"] <= 0.45 * bytes_of[None] and bytes_of["float8"] <= 0.45 * bytes_of[None], bytes_of
        assert abs(bytes_of["bfloat16"] / bytes_of[None] - 0.5) < 0.01, bytes_of
    return case


def rounding_case(bin):
    """Updates far below the last digit of bf16 are lost to rounding to nearest, and are right on average if rounded at random."""
    def case(folder):
        torch.manual_seed(12)
        model, inputs = blocks(torch.bfloat16)
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(1.0)
        start = model.up.weight.detach().clone()
        save_file(same_rows(inputs, 4), folder / "data.safetensors")
        moved = {}
        for stochastic in (False, True):
            optimizer = {"name": "adamw", "lr": 1e-4, "weight_decay": 0.1, "stochastic_rounding": stochastic}
            compile_step(bin, folder, model, inputs, make_config(2, optimizer=optimizer))
            runs = [train(bin, folder, 2, 4)[1] for _ in range(2)]
            assert all(torch.equal(runs[0][k], runs[1][k]) for k in runs[0]), "a run does not repeat"
            moved[stochastic] = (runs[0]["down.bias"].float() - 1).abs().max().item(), (runs[0]["gain"].float() - 1).mean().item()
        assert moved[False][1] == 0, f"rounding to nearest moved by {moved[False]}"
        # Of the 5000 elements nearly all have the same gradient: four steps of Adam, 1e-4 each, and the decay.
        assert abs(abs(moved[True][1]) / 4e-4 - 1) < 0.2, f"rounding at random moved by {moved[True]}, and 4e-4 was asked for"
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}

    def add(name, world, **options):
        if arguments.all or f"{name} {world}" in here:
            cases[f"{name} world={world}"] = training_case(bin, world, **options)

    # Each way to hold states once; --all: everywhere.
    here = ("adamw int8 1", "adamw int8 3", "adamw float8 3", "adam int8 3", "sgd int8 3", "flat 4", "columns 3", "on the host 3", "over gloo 3",
            "accumulated 3", "in backward 2", "tensor parallel, blocks cut 4", "tensor parallel flat 4")

    int8, float8, half = ({**ADAMW, "state_dtype": dtype} for dtype in ("int8", "float8", "bfloat16"))
    for world in (1, 2, 3, 4):
        add("adamw int8", world, optimizer=int8)
        add("adamw float8", world, optimizer=float8)
        add("adamw bfloat16", world, optimizer=half)
        add("adam int8", world, optimizer={**int8, "name": "adam"}, max_grad_norm=0.5)
        add("sgd int8", world, optimizer={**SGD, "state_dtype": "int8"})
        add("sgd nothing kept float8", world, optimizer={"name": "sgd", "lr": 0.05, "state_dtype": "float8"})
    add("flat", 3, optimizer=int8, bucket_layout="flat")
    add("flat", 4, optimizer=float8, bucket_layout="flat", replicate=2)
    add("columns", 3, optimizer=int8, shard_dims={"*weight": 1})
    add("replicas", 4, optimizer=int8, replicate=2)
    add("in backward", 2, optimizer={**int8, "groups": [{"params": "*bias", "weight_decay": 0.0}]})
    add("on the host", 3, optimizer=int8, offload_optimizer=True)
    add("parameters on the host", 2, optimizer=float8, offload_params=True)
    add("accumulated", 3, optimizer=int8, gradient_accumulation_steps=2, max_grad_norm=0.5)
    add("over gloo", 3, optimizer=int8, backend="gloo")

    def tensor_parallel(world, layout="rows"):
        return {"mesh": {"dp_shard": world // 2, "tp": 2}, "tp_plan": {"up": "colwise", "down": "rowwise"}, "bucket_layout": layout}
    add("tensor parallel", 4, factory=pair, optimizer=int8, **tensor_parallel(4))
    add("tensor parallel, blocks cut", 4, factory=odd_pair, optimizer=int8, **tensor_parallel(4))
    add("tensor parallel flat", 4, factory=pair, optimizer=int8, **tensor_parallel(4, "flat"))

    rows = [(1, {}), (2, {}), (4, {}), (4, {"bucket_layout": "flat"}), (2, {"shard_dims": {"*weight": 1}}), (4, {"replicate": 2}),
            (2, {"offload_optimizer": True})]
    few = [rows[0], rows[2], rows[3], rows[4]]
    for dtype in ("int8", "float8") if arguments.all else ("int8",):
        cases[f"same bits {dtype}"] = same_bits_case(bin, rows if arguments.all else few, optimizer={**ADAMW, "state_dtype": dtype})
    rounded = {**ADAMW, "lr": 1e-4, "stochastic_rounding": True}
    cases["same bits rounded int8"] = same_bits_case(bin, rows[:6] if arguments.all else few, dtype=torch.bfloat16, optimizer={**rounded, "state_dtype": "int8"})
    if arguments.all:
        cases["same bits rounded"] = same_bits_case(bin, rows[:6], dtype=torch.bfloat16, optimizer=rounded)
        cases["same bits rounded sgd"] = same_bits_case(bin, rows[:4], dtype=torch.bfloat16, optimizer={"name": "sgd", "lr": 1e-3, "stochastic_rounding": True})
    path = [(2, {}), (3, {}), (4, {"bucket_layout": "flat"}), (3, {"shard_dims": {"*weight": 1}}), (1, {}), (2, {})]
    cases["moving int8"] = moving_case(bin, path if arguments.all else path[:4], "int8")
    if arguments.all:
        cases["moving float8"] = moving_case(bin, path[1:4], "float8")
    cases["refusals"] = refusals(bin)
    cases["memory"] = memory_case(bin)
    cases["rounding"] = rounding_case(bin)
    run_cases(cases, arguments.only)


main()
