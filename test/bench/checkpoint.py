# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What checkpoints cost: the disk's throughput against dd with fsync, and what a step waits for one.

    checkpoint.py --bin build/bin [--folder FOLDER] [--megabytes 384] [--repeat 5] [--world 1] [--json out.json]

Each of `--repeat` rounds has three runs of the same training: without checkpoints, with one save that the run waits for (throughput: bytes of the
checkpoint by the time of the save), and with saves that are written while later steps run (delay: what steps took longer than the median step without
saves, against the copy in memory alone). In between dd writes as many bytes to the same folder with conv=fsync. Before each the disk rests: disks
that are shared give short bursts more than they sustain, and who comes first would take them. Medians over the rounds.
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
    import warm
    warm.is_off = True  # what is measured is loaded by itself
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


def run(bin, folder, world, steps, *options):
    """Step times, and seconds of each save and of its copy."""
    # On another disk: who appends to a file waits for the journal while the checkpoint is synchronised.
    metrics = pathlib.Path(f"/dev/shm/fsdp-bench-{os.getpid()}.jsonl")
    done = subprocess.run([bin / "fsdp-run", "step.fsdp", "--data=sample", f"--steps={steps}", "--threads=1", f"--metrics={metrics}", "--log-level=info", *options],
                          cwd=folder, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    times = [json.loads(line)["step_time_s"] for line in metrics.read_text().splitlines()]
    saves = [(float(a), float(b)) for a, b in re.findall(r"wrote '.*' in ([\d.]+) s, ([\d.]+) s", done.stderr)]
    return times, saves


def checkpoint_size(folder):
    """In megabytes."""
    return sum(f.stat().st_size for f in (folder / f"ck/step_{SAVED}").iterdir()) / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--folder", default=None, help="on the disk to measure")
    parser.add_argument("--megabytes", type=float, default=384)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--rest", type=float, default=4, help="seconds before each write, in which a disk that gives bursts recovers")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    found = {"save MB/s": [], "dd MB/s": [], "copy s": [], "next step s": [], "all steps s": [], "step s": []}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        prepare(arguments.bin, folder, arguments.megabytes, arguments.world)

        def rest():
            subprocess.run(["rm", "-rf", "ck", "dd.bin"], cwd=folder, check=True)
            os.sync()
            time.sleep(arguments.rest)

        def save():
            _, saves = run(arguments.bin, folder, arguments.world, SAVED, "--save=ck", "--save-sync")
            found["save MB/s"].append(checkpoint_size(folder) / saves[0][0])

        def copy():
            # As behind the save's steps: a virtual machine that was idle has given memory back, which the file then waits for.
            run(arguments.bin, folder, arguments.world, SAVED)
            begin = time.perf_counter()
            subprocess.run(["dd", "if=/dev/zero", "of=dd.bin", "bs=1M", f"count={round(size * 1e6) >> 20}", "conv=fsync"], cwd=folder, check=True,
                           stderr=subprocess.DEVNULL)
            found["dd MB/s"].append(size / (time.perf_counter() - begin))

        run(arguments.bin, folder, arguments.world, SAVED, "--save=ck", "--save-sync")
        size = checkpoint_size(folder)
        for number in range(arguments.repeat):
            plain, _ = run(arguments.bin, folder, arguments.world, STEPS)
            usual = statistics.median(plain[2:])
            # In turns, so that neither always has the disk as the other left it.
            for measure in (save, copy) if number % 2 else (copy, save):
                rest()
                measure()
            rest()
            times, saves = run(arguments.bin, folder, arguments.world, STEPS, "--save=ck", f"--save-every={SAVED}")
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
