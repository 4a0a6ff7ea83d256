# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a step costs more through the Python package than through fsdp-run.

    PYTHONPATH=build/python door.py --bin build/bin [--shapes 16x1 64x2 128x4] [--worlds 1 2] [--steps 400] [--repeat 5]

The same artifact takes the same rows, as ranks that are threads: from a data file by fsdp-run, as tensors by fsdp_opt.Session, in turns whose
order alternates. Medians of the steps of each run are compared pair by pair; fsdp-run's step is what its metrics say, the session's is
from one call to the next in Python. fsdp-run against itself, in the same way, is the noise.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
WARMUP = 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--shapes", nargs="+", default=["16x1", "64x2", "128x4"])
    parser.add_argument("--worlds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    import bench
    import fsdp_opt
    import torch
    from harness import compile_step, launch, make_config
    import warm
    warm.is_off = True  # what is measured is loaded by itself
    from safetensors.torch import save_file

    def through_run(folder, world):
        launch(arguments.bin, folder, world, "local", "step.fsdp", "--data=data.safetensors", f"--steps={arguments.steps}", "--metrics=m.jsonl",
               "--threads=1")
        return statistics.median(json.loads(line)["step_time_s"] for line in (folder / "m.jsonl").read_text().splitlines()[WARMUP:])

    def through_door(folder, batch):
        times = []
        with fsdp_opt.Session(folder / "step.fsdp", threads=1) as step:
            last = time.perf_counter()
            for _ in range(arguments.steps):
                step(**batch).loss.item()
                now = time.perf_counter()
                times.append(now - last)
                last = now
        return statistics.median(times[WARMUP:])

    for shape in arguments.shapes:
        for world in arguments.worlds:
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                model, inputs = bench.make_model(shape)
                compile_step(arguments.bin, folder, model, inputs, make_config(world))
                batch = {name: torch.cat([value] * world) for name, value in inputs.items() if isinstance(value, torch.Tensor)}
                save_file(batch, folder / "data.safetensors")
                more, noise, plain = [], [], []
                for turn in range(arguments.repeat):
                    order = "drr" if turn % 2 else "rrd"
                    made = [(kind, through_door(folder, batch) if kind == "d" else through_run(folder, world)) for kind in order]
                    door, = (seconds for kind, seconds in made if kind == "d")
                    runs = [seconds for kind, seconds in made if kind == "r"]
                    more.append(door - statistics.mean(runs))
                    noise.append(runs[1] - runs[0])
                    plain += runs
                median = statistics.median(plain)
                print(f"{shape} world={world}: a step of {median * 1e6:.0f} us; through the door {statistics.median(more) * 1e6:+.0f} us "
                      f"({min(more) * 1e6:+.0f} to {max(more) * 1e6:+.0f}), {statistics.median(more) / median:+.2%}; "
                      f"noise {statistics.median(noise) * 1e6:+.0f} us ({min(noise) * 1e6:+.0f} to {max(noise) * 1e6:+.0f})", flush=True)


main()
