# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What checkpoints cost: the disk's throughput against dd with fsync, and what a step waits for one.

    checkpoint.py --bin build/bin [--folder FOLDER] [--megabytes 384] [--repeat 5] [--world 1] [--json out.json]

Each of `--repeat` rounds has three runs of the same training: without checkpoints, with `--save-sync` (throughput: bytes of the checkpoint by the
time of the save), and with one save that is written while later steps run (delay: what all steps took longer than the median step without
saves, against the copy in memory alone). In between dd writes as many bytes to the same folder with conv=fsync. Medians over the rounds.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
STEPS, SAVED = 14, 4


def prepare(bin, folder, megabytes, world):
    import torch
    import torch.nn as nn
    from harness import compile_step, make_config
    # A third are parameters, the rest AdamW's moments.
    width, layers = 1024, max(2, round(megabytes / 12.6))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

        def forward(self, x):
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return x.square().mean()

    compile_step(bin, folder, Net(), {"x": torch.randn(64, width)}, make_config(world))


def run(bin, folder, world, *options):
    """Step times, and seconds of each save and of its copy."""
    # On another disk: who appends to a file waits for the journal while the checkpoint is synchronised.
    metrics = pathlib.Path(f"/dev/shm/fsdp-bench-{os.getpid()}.jsonl")
    done = subprocess.run([bin / "fsdp-run", "step.fsdp", f"--steps={STEPS}", "--threads=1", f"--metrics={metrics}", "--log-level=info", *options],
                          cwd=folder, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    times = [json.loads(line)["step_time_s"] for line in metrics.read_text().splitlines()]
    saves = [(float(a), float(b)) for a, b in re.findall(r"wrote '.*' in ([\d.]+) s, ([\d.]+) s", done.stderr)]
    return times, saves


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--folder", default=None, help="on the disk to measure")
    parser.add_argument("--megabytes", type=float, default=384)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    found = {"save MB/s": [], "dd MB/s": [], "copy s": [], "next step s": [], "all steps s": [], "step s": []}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        prepare(arguments.bin, folder, arguments.megabytes, arguments.world)
        clean = lambda: subprocess.run(["rm", "-rf", "ck", "dd.bin"], cwd=folder, check=True)
        for _ in range(arguments.repeat):
            plain, _ = run(arguments.bin, folder, arguments.world)
            usual = statistics.median(plain[2:])
            os.sync()
            _, saves = run(arguments.bin, folder, arguments.world, "--save=ck", f"--save-every={SAVED}", "--save-sync")
            size = sum(f.stat().st_size for f in (folder / f"ck/step_{SAVED}").iterdir()) / 1e6
            clean()
            os.sync()
            begin = time.perf_counter()
            subprocess.run(["dd", "if=/dev/zero", "of=dd.bin", "bs=1M", f"count={round(size * 1e6) >> 20}", "conv=fsync"], cwd=folder, check=True,
                           stderr=subprocess.DEVNULL)
            found["dd MB/s"].append(size / (time.perf_counter() - begin))
            clean()
            os.sync()
            # The first save of a process makes the memory for the copy; the others use it again.
            found["save MB/s"].append(size / statistics.median(save for save, _ in saves[1:]))
            times, saves = run(arguments.bin, folder, arguments.world, "--save=ck", f"--save-every={SAVED}")
            clean()
            # Steps behind the second save.
            found["copy s"].append(saves[1][1])
            found["next step s"].append(times[2 * SAVED] - usual)
            found["all steps s"].append(sum(each - usual for each in times[2 * SAVED:3 * SAVED]))
            found["step s"].append(usual)
    median = {key: statistics.median(values) for key, values in found.items()}
    print(f"{size:.0f} MB in {arguments.world} ranks, medians of {arguments.repeat}:")
    print(f"  save {median['save MB/s']:.0f} MB/s, dd {median['dd MB/s']:.0f} MB/s: {median['save MB/s'] / median['dd MB/s']:.0%} (target 80 %)")
    print(f"  the copy takes {median['copy s']:.4f} s; the next step of {median['step s']:.4f} s takes {median['next step s']:.4f} s longer: "
          f"{median['next step s'] / median['copy s']:.2f} times the copy (target 2); all {SAVED} steps to the next save: {median['all steps s']:.4f} s longer")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"found": found, "median": median}, indent=1))


if __name__ == "__main__":
    main()
