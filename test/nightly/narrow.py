# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""1,000 steps in each narrow type beside float32, in three orders of the rows each: does what is rounded change what is learned?

    narrow.py --bin build/bin [--steps 1000] [--orders 3] [--only float8] [--svg out.svg]

A small Llama learns a language that a fixed grammar makes. The mean loss of the last 50 steps, over all orders, may be off float32's by what float32's own
orders differ by, and what BOUNDS grants a type beside that. Adapters over bases in blocks of codes are compared with adapters over the same base in float32. Needs torch (2.11) and safetensors.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "end_to_end"))
from harness import export, must, run_step  # noqa: E402

WORLD, ROWS, LENGTH, SYMBOLS, WIDTH, HEADS, UNITS, LAYERS = 2, 4, 32, 64, 64, 4, 128, 2
ADAMW = {"name": "adamw", "lr": 3e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}
LAST = 50
COLOURS = ("#222", "#b2182b", "#2166ac", "#1b7837", "#e08214")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
        self.q, self.k, self.v, self.o = (linear(WIDTH, WIDTH) for _ in range(4))
        self.gate, self.up, self.down = linear(WIDTH, UNITS), linear(WIDTH, UNITS), linear(UNITS, WIDTH)

    def forward(self, x, cos, sin):
        h = self.norm1(x)
        q, k, v = (f(h).view(*x.shape[:2], HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        half = q.shape[-1] // 2
        turn = lambda z: z * cos + torch.cat((-z[..., half:], z[..., :half]), -1) * sin
        x = x + self.o(F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True).transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH, eps=1e-6), nn.Linear(WIDTH, SYMBOLS, bias=False)
        size = WIDTH // HEADS
        angles = torch.outer(torch.arange(LENGTH), 100.0 ** -(torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x, y):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1).float(), y.flatten())


def corpus(path, seed, rows=4096):
    """Each symbol follows from the last two: one of four, mostly the first of these."""
    generator = torch.Generator().manual_seed(seed)
    follows = torch.randint(0, SYMBOLS, (SYMBOLS, 8, 4), generator=generator)
    chances = torch.tensor([0.7, 0.15, 0.1, 0.05])
    text = torch.zeros(rows, LENGTH + 1, dtype=torch.int64)
    text[:, :2] = torch.randint(0, SYMBOLS, (rows, 2), generator=generator)
    for i in range(2, LENGTH + 1):
        which = torch.multinomial(chances, rows, replacement=True, generator=generator)
        text[:, i] = follows[text[:, i - 1], text[:, i - 2] % 8, which]
    save_file({"x": text[:, :-1].contiguous(), "y": text[:, 1:].contiguous()}, path)


def optimizer(**extra):
    return {"optimizer": {**ADAMW, **extra}}


def wires(dtype):
    return {"fsdp_config": {"reduce_wire_dtype": dtype}}


def float8(recipe, **extra):
    return {"float8": {"recipe": recipe, "modules": "layers.*", **extra}}


LORA = {"adapter": {"r": 8, "alpha": 16}, "optimizer": {**ADAMW, "lr": 1e-2}}
# Chart -> what is drawn beside its first: the export that is trained, and what its config says.
CHARTS = {
    "bfloat16": {"f32": ("f32", {}), "bf16": ("bf16", {}), "bf16, master_dtype: float32": ("bf16", optimizer(master_dtype="float32")),
                 "bf16, stochastic_rounding": ("bf16", optimizer(stochastic_rounding=True))},
    "the optimizer's states": {"f32": ("f32", {}), "state_dtype: int8": ("f32", optimizer(state_dtype="int8")),
                               "state_dtype: bfloat16": ("f32", optimizer(state_dtype="bfloat16"))},
    "float8": {"f32": ("f32", {}), "float8 tensorwise": ("f32", float8("tensorwise")), "float8 rowwise": ("f32", float8("rowwise")),
               "float8 gathers": ("f32", float8("tensorwise", enable_fsdp_float8_all_gather=True)), "float8 mxfp8": ("f32", float8("mxfp8"))},
    "gradients that travel": {"f32": ("f32", {}), "reduce_wire_dtype: bfloat16": ("f32", wires("bfloat16")), "reduce_wire_dtype: float8": ("f32", wires("float8"))},
    "adapters over a base": {"LoRA, base in f32": ("base", LORA), "LoRA, base in nf4": ("base", {**LORA, "quantize": {"kind": "nf4"}}),
                             "LoRA, base in int8": ("base", {**LORA, "quantize": {"kind": "int8"}})},
}
# Of the loss of its chart's first, beside what the orders differ by. A model that is bfloat16 all through loses updates: that is what masters
# and rounding at random are for (1.023 of float32's loss where this was written).
BOUNDS = {"bf16": 0.03}


def train(arguments, folder, kind, extra, order, *options):
    """The losses of one run."""
    config = {"fsdp_version": 2, "mesh": {"dp_shard": WORLD}, "max_grad_norm": 1.0, "lr_scheduler": {"name": "constant_with_warmup", "warmup_steps": 20},
              **optimizer(), "data": {"shuffle": True, "seed": order}, **extra}
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
    must(arguments.bin / "fsdp-opt", f"{kind}.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
    rows = run_step(arguments.bin, folder, WORLD, f"--steps={arguments.steps}", *options, data="other.safetensors" if kind == "base" else "data.safetensors")
    return [row["loss"] for row in rows]


def prepare(arguments, folder):
    """Both languages, the model in both types, and as a base that has learned the first of them."""
    corpus(folder / "data.safetensors", 1)
    corpus(folder / "other.safetensors", 2)
    torch.manual_seed(0)
    model = Llama()
    inputs = {name: torch.zeros(ROWS, LENGTH, dtype=torch.int64) for name in ("x", "y")}
    export(model, inputs, folder / "f32.pt2")
    train(arguments, folder, "f32", {}, 0, "--export=base.safetensors")
    half = Llama().to(torch.bfloat16)
    half.load_state_dict(model.state_dict())
    export(half, inputs, folder / "bf16.pt2")
    model.load_state_dict(load_file(folder / "base.safetensors"))
    export(model, inputs, folder / "base.pt2")


def chart(title, curves, at, height=190, width=330, left=44):
    """Means of 20 steps, behind the first 100: the mean of all orders as a line, the least and the most of them as a band."""
    begin = 100 if len(next(iter(curves.values()))[0]) > 200 else 0
    smooth = {name: [[statistics.mean(losses[i:i + 20]) for i in range(begin, len(losses) - 19, 20)] for losses in all] for name, all in curves.items()}
    low = min(min(map(min, all)) for all in smooth.values())
    high = max(max(map(max, all)) for all in smooth.values())
    count = len(next(iter(smooth.values()))[0])
    x = lambda i: at[0] + left + (width - left - 10) * i / max(count - 1, 1)
    y = lambda v: at[1] + 22 + (height - 40) * (high - v) / (high - low)
    lines = [f'<text x="{at[0] + left}" y="{at[1] + 14}" font-weight="bold">{title}</text>']
    for part in range(5):
        value, step = low + (high - low) * part / 4, (count - 1) * part // 4
        lines.append(f'<path d="M{at[0] + left} {y(value):.1f}H{at[0] + width - 10}" stroke="#ddd"/><text x="{at[0] + left - 5}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
        lines.append(f'<text x="{x(step):.1f}" y="{at[1] + height - 4}" text-anchor="middle">{begin + step * 20}</text>')
    for row, ((name, all), colour) in enumerate(zip(smooth.items(), COLOURS, strict=False)):
        columns = list(zip(*all))
        points = lambda which: [f"{x(i):.1f},{y(which(column)):.1f}" for i, column in enumerate(columns)]
        lines.append(f'<polygon points="{" ".join(points(min) + points(max)[::-1])}" fill="{colour}" fill-opacity="0.12"/>')
        lines.append(f'<polyline points="{" ".join(points(statistics.mean))}" fill="none" stroke="{colour}" stroke-width="1.1"/>')
        lines.append(f'<text x="{at[0] + width - 14}" y="{at[1] + 36 + 14 * row}" text-anchor="end" fill="{colour}">{name}</text>')
    return lines


def draw(curves, path):
    places = [(350 * (i % 2), 200 * (i // 2)) for i in range(len(curves))]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 690 {200 * ((len(curves) + 1) // 2)}" font-family="sans-serif" font-size="10">',
             '<rect width="100%" height="100%" fill="white"/>']
    for (title, own), at in zip(curves.items(), places):
        lines += chart(title, own, at)
    path.write_text("\n".join([*lines, "</svg>"]) + "\n")


def judge(title, finals):
    """Rows of a table, and what is wrong."""
    names = list(finals)
    first = finals[names[0]]
    spread = max(first) - min(first)
    rows, wrong = [], []
    for name in names:
        mean, off = statistics.mean(finals[name]), statistics.mean(finals[name]) - statistics.mean(first)
        bound = spread + BOUNDS.get(name, 0) * statistics.mean(first)
        rows.append(f"| {name} | {mean:.4f} | {min(finals[name]):.4f} to {max(finals[name]):.4f} | {mean / statistics.mean(first):.4f} |")
        if off > bound:
            wrong.append(f"{title}, {name}: {mean:.4f} where {names[0]} has {statistics.mean(first):.4f}, more than {bound:.4f} above")
    return rows, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--orders", type=int, default=3)
    parser.add_argument("--only", default="", help="charts whose title contains this")
    parser.add_argument("--svg", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.steps < LAST:
        parser.error(f"--steps: expected at least {LAST}, whose mean is compared")
    curves, known, wrong, begin = {}, {}, [], time.monotonic()
    print(f"| | mean loss of the last {LAST} of {arguments.steps} steps | least and most of {arguments.orders} orders | to the first's |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(arguments, folder)
        for title, all in CHARTS.items():
            if arguments.only not in title:
                continue
            curves[title] = {}
            for name, (kind, extra) in all.items():
                if name not in known:
                    known[name] = [train(arguments, folder, kind, extra, order) for order in range(arguments.orders)]
                curves[title][name] = known[name]
            rows, found = judge(title, {name: [statistics.mean(losses[-LAST:]) for losses in own] for name, own in curves[title].items()})
            wrong += found
            print("\n".join([f"| **{title}** | | | |", *rows]), flush=True)
    if arguments.svg:
        draw(curves, arguments.svg)
    for each in wrong:
        print(f"FAIL  {each}")
    print(f"{sum(map(len, curves.values())) - len(wrong)} of {sum(map(len, curves.values()))} types learn as their first, {time.monotonic() - begin:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
