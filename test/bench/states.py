# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What optimizer states in fewer bytes cost and save: the tables and the figure of docs/Performance.md.

    states.py --bin build/bin quality [--steps 1000] [--orders 0] [--svg out.svg]   loss of the quickstart's decoder with each state_dtype
    states.py --bin build/bin memory [--width 2048] [--layers 8]       planned and resident bytes of AdamW's states
    states.py --bin build/bin speed [--width 1024] [--layers 4]        time of a step that consists of little but the update

Needs torch (2.11). Resident bytes are a rank's greatest resident set less that of the same run with SGD without momentum, which keeps
nothing. All of a table is measured by turns.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).parents[2]
DTYPES = (None, "bfloat16", "int8", "float8")
COLOURS = ("#222", "#1b7837", "#2166ac", "#b2182b", "#e08214", "#762a83")
ADAMW = {"name": "adamw", "lr": 1e-3, "betas": [0.9, 0.95], "weight_decay": 0.1}


def run(folder, *command):
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]}: {done.stderr.strip()}")


def train(arguments, folder, model, data, config, steps):
    """The report, and the rows of the metrics."""
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
    run(folder, arguments.bin / "fsdp-opt", model, "--config=fsdp.yaml", "--report=report.json", "-o", "step.fsdp")
    run(folder, arguments.bin / "fsdp-run", "step.fsdp", f"--data={data}", f"--steps={steps}", "--metrics=metrics.jsonl")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return json.loads((folder / "report.json").read_text()), [row for row in rows if "loss" in row]


def draw(curves, path):
    """Means of 20 steps."""
    right = max(90, 12 + 6 * max(map(len, curves)))
    width, height, left, bottom = 550 + right, 320, 48, 32
    assert len(curves) <= len(COLOURS), "two curves would have one colour"
    smooth = {name: [statistics.mean(losses[i:i + 20]) for i in range(0, len(losses) - 19, 20)] for name, losses in curves.items()}
    low, high = min(min(c) for c in smooth.values()), max(max(c) for c in smooth.values())
    count = max(len(c) for c in smooth.values())
    x = lambda i: left + (width - left - right) * i / (count - 1)
    y = lambda v: 8 + (height - bottom - 8) * (high - v) / (high - low)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for part in range(5):
        value = low + (high - low) * part / 4
        lines.append(f'<path d="M{left} {y(value):.1f}H{width - right}" stroke="#ddd"/><text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.2f}</text>')
        step = (count - 1) * part // 4
        lines.append(f'<text x="{x(step):.1f}" y="{height - 10}" text-anchor="middle">{step * 20}</text>')
    for row, ((name, curve), colour) in enumerate(zip(smooth.items(), COLOURS)):
        points = " ".join(f"{x(i):.1f},{y(v):.1f}" for i, v in enumerate(curve))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.2"/>')
        lines.append(f'<text x="{width - right + 6}" y="{24 + 16 * row}" fill="{colour}">{name}</text>')
    path.write_text("\n".join([*lines, "</svg>"]) + "\n")


def compare_quality(arguments, folder, heads, variants, measure):
    """Losses of the quickstart's decoder. `variants`: by name, f32 first, what becomes of its config; `measure`: what else the report says. With
    several orders of the rows, a variant's ratio is that of its mean, and the least and the most are said behind it."""
    example = ROOT / "docs/examples/quickstart"
    texts = sorted(p for p in pathlib.Path("/usr/share/common-licenses").iterdir() if p.is_file() and not p.is_symlink())
    run(folder, sys.executable, example / "export.py", folder, *texts)
    base = yaml.safe_load((example / "fsdp.yaml").read_text())
    orders = [{"data": {"shuffle": True, "seed": seed}} for seed in range(arguments.orders)] or [{}]
    curves, last = {}, {}
    print(f"| {heads[0]} | mean loss of the last 50 of {arguments.steps} steps | to f32's | {heads[1]} |\n|---|---|---|---|")
    for name, change in variants.items():
        last[name] = []
        for order in orders:
            report, rows = train(arguments, folder, "decoder.pt2", "text.safetensors", {**change(base), **order}, arguments.steps)
            losses = [row["loss"] for row in rows]
            curves.setdefault(name, losses)
            last[name].append(statistics.mean(losses[-50:]))
        ratios = [mine / f32 for mine, f32 in zip(last[name], last["f32"])]
        spread = f" ({min(ratios):.4f} to {max(ratios):.4f})" if len(orders) > 1 else ""
        print(f"| {name} | {statistics.mean(last[name]):.4f} | {sum(last[name]) / sum(last['f32']):.4f}{spread} | {measure(report):,} |", flush=True)
    if arguments.svg:
        draw(curves, arguments.svg)


def quality(arguments, folder):
    def store_in(dtype):
        return lambda base: {**base, "optimizer": {**base["optimizer"], **({"state_dtype": dtype} if dtype else {})}}
    compare_quality(arguments, folder, ("`state_dtype`", "planned states of a rank"), {dtype or "f32": store_in(dtype) for dtype in DTYPES},
                    lambda report: report["memory"]["optimizer"])


def export_stack(folder, width, layers, rows):
    import torch
    from safetensors.torch import save_file
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = model

        def forward(self, x):
            return self.layers(x).square().mean()

    torch.export.save(torch.export.export(Loss(), (), {"x": torch.zeros(rows, width)}), folder / "stack.pt2")
    save_file({"x": torch.randn(4 * rows, width)}, folder / "x.safetensors")


def stack_config(optimizer):
    return {"fsdp_version": 2, "mesh": {"dp_shard": 1}, "optimizer": optimizer}


def memory(arguments, folder):
    export_stack(folder, arguments.width, arguments.layers, 2)
    peak = lambda rows: max(max(row["rank_peak_rss_bytes"]) for row in rows)
    _, rows = train(arguments, folder, "stack.pt2", "x.safetensors", stack_config({"name": "sgd", "lr": 1e-3}), 3)
    none, first = peak(rows), None
    print("| `state_dtype` | planned | to f32's | resident | to f32's |\n|---|---|---|---|---|")
    for dtype in DTYPES:
        report, rows = train(arguments, folder, "stack.pt2", "x.safetensors", stack_config({**ADAMW, **({"state_dtype": dtype} if dtype else {})}), 3)
        found = report["memory"]["optimizer"], peak(rows) - none
        first = first or found
        print(f"| {dtype or 'f32'} | {found[0]:,} | {found[0] / first[0]:.3f} | {found[1]:,} | {found[1] / first[1]:.3f} |", flush=True)


def speed(arguments, folder):
    export_stack(folder, arguments.width, arguments.layers, 1)
    times = {dtype: [] for dtype in DTYPES}
    for _ in range(3):
        for dtype in DTYPES:
            _, rows = train(arguments, folder, "stack.pt2", "x.safetensors", stack_config({**ADAMW, **({"state_dtype": dtype} if dtype else {})}), 20)
            times[dtype] += [row["step_time_s"] for row in rows[5:]]
    first = statistics.median(times[None])
    print("| `state_dtype` | step, ms | to f32's |\n|---|---|---|")
    for dtype, all in times.items():
        print(f"| {dtype or 'f32'} | {statistics.median(all) * 1e3:.2f} | {statistics.median(all) / first:.2f} |")


def add_quality(parts):
    """The part that `compare_quality` is for."""
    part = parts.add_parser("quality")
    part.add_argument("--steps", type=int, default=1000)
    part.add_argument("--orders", type=int, default=0, help="shuffle the rows, in so many orders, instead of one run in theirs")
    part.add_argument("--svg", type=pathlib.Path)
    return part


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parts = parser.add_subparsers(dest="part", required=True)
    add_quality(parts)
    for name, width, layers in (("memory", 2048, 8), ("speed", 1024, 4)):
        part = parts.add_parser(name)
        part.add_argument("--width", type=int, default=width)
        part.add_argument("--layers", type=int, default=layers)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        {"quality": quality, "memory": memory, "speed": speed}[arguments.part](arguments, pathlib.Path(name))


if __name__ == "__main__":
    main()
