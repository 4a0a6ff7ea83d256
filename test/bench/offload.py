# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What states in the host's memory cost a step, at several bandwidths of the copies.

    offload.py --bin build/bin [--world 1] [--rows 512] [--blocks 16] [--steps 12] [--repeat 3] [--ratios 4 2 1 0.5]

The step without offloading is measured first; a ratio r stands for the bandwidth that moves a step's uploads (or downloads, if these are more) in
1 / r of that time. The bound is the longest of each phase's computation and of what has to be moved in it: forward, a third of the step, brings half
of the parameters' uploads; backward the other half, and takes gradients away. With the optimizer alone, parameters may move at any time. In front of
the first block and behind the last one nothing hides a copy: with B blocks that is 1 / B of a phase. The promise is 1.10 of the step without
offloading where the bound is that step, and 1.10 of the bound below. Runs take turns, and medians of steps are compared: other work on the machine
shows in all of them. Needs torch (2.11), safetensors, pyyaml.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import zoo


class Stack(nn.Module):
    def __init__(self, width=384, blocks=8):
        super().__init__()
        self.layers = nn.ModuleList(zoo.MlpBlock(width) for _ in range(blocks))
        self.head = nn.Linear(width, width)

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return F.mse_loss(self.head(x), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--blocks", type=int, default=16)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--ratios", type=float, nargs="*", default=[4, 2, 1, 0.5])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        torch.manual_seed(0)
        inputs = {"x": torch.randn(args.rows, 384), "y": torch.randn(args.rows, 384)}
        torch.export.save(torch.export.export(Stack(blocks=args.blocks), (), inputs, strict=False), folder / "model.pt2")
        moved = {}
        for plan, keys in {"plain": {}, "params": {"offload_params": True}, "optimizer": {"offload_optimizer": True}}.items():
            (folder / "c.yaml").write_text(yaml.safe_dump({"fsdp_version": 2, "mesh": {"dp_shard": args.world}, "optimizer": {"name": "adamw", "lr": 1e-3},
                                                           "fsdp_config": {"reshard_after_forward": True, **keys}}))
            subprocess.run([args.bin / "fsdp-opt", "model.pt2", "--config=c.yaml", "--report=r.json", "-o", f"{plan}.fsdp"], cwd=folder, check=True)
            report = json.loads((folder / "r.json").read_text())
            moved[plan] = {kind: sum(c["bytes"] * c["count"] for c in report.get("copies", []) if c["kind"] == kind) for kind in ("upload", "download")}
            memory = report["memory"]
            print(f"{plan}: device {memory['peak']} bytes, host {memory.get('host', {}).get('peak', 0)}, {moved[plan]} a step")

        def run(plan, bandwidth=None):
            extra = [f"--copy-bandwidth={bandwidth:.0f}"] if bandwidth else []
            subprocess.run([args.bin / "fsdp-run", f"{plan}.fsdp", "--data=sample", f"--steps={args.steps}", "--metrics=m.jsonl", "--threads=1", *extra],
                           cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return [json.loads(line)["step_time_s"] for line in (folder / "m.jsonl").read_text().splitlines()][3:]

        first = statistics.median(run("plain"))
        settings = [("plain", None)] + [(plan, ratio) for plan in ("params", "optimizer") for ratio in (None, *args.ratios)]
        times = {setting: [] for setting in settings}
        for _ in range(args.repeat):
            for plan, ratio in settings:
                times[plan, ratio] += run(plan, ratio and max(moved[plan].values()) * ratio / first)
        plain = statistics.median(times["plain", None])
        for plan, ratio in settings:
            seconds = statistics.median(times[plan, ratio])
            bound = plain
            if ratio:
                bandwidth = max(moved[plan].values()) * ratio / first
                up, down = (moved[plan][kind] / bandwidth for kind in ("upload", "download"))
                bound = (max(plain / 3, up / 2) + max(2 * plain / 3, up / 2, down) if plan == "params"
                         else max(plain, up, down, plain / 3 + down / 2))
            bus = "as fast as memory" if ratio is None else f"{max(moved[plan].values()) * ratio / first / 1e6:.0f} MB/s"
            print(f"{plan:10} {bus:18} {seconds * 1e3:8.1f} ms, {seconds / plain:.2f} of plain, {seconds / bound:.2f} of the bound", flush=True)


if __name__ == "__main__":
    main()
