# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it costs to record each transfer (runtime/comm/flights), as a ratio of whole steps.

    flights.py --bin build/bin [--shape 64x2] [--steps 400] [--repeat 5] [--backends local gloo]

The same artifact runs with and without recording, in turns, whose order alternates; medians of the steps of each run are compared, pair by
pair. A second column compares runs without recording with each other in the same way: the noise. Two ranks with a thread each; the smaller
the shape, the larger the part of a step that transfers take.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
WORLD, WARMUP = 2, 20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--shape", default="64x2")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--backends", nargs="+", default=["local", "gloo"])
    arguments = parser.parse_args()
    import bench
    from harness import compile_step, launch, make_config
    import warm
    warm.is_off = True  # what is measured is loaded by itself
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model, inputs = bench.make_model(arguments.shape)
        compile_step(arguments.bin, folder, model, inputs, make_config(WORLD, reshard_after_forward=True))

        def run(backend, recorded):
            """The median step, and its collectives."""
            launch(arguments.bin, folder, WORLD, backend, "step.fsdp", "--data=sample", f"--steps={arguments.steps}", "--metrics=m.jsonl",
                   "--threads=1", *([] if recorded else ["--unrecorded"]))
            rows = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()][WARMUP:]
            return statistics.median(row["step_time_s"] for row in rows), sum(each["count"] for each in rows[0]["collectives"])

        for backend in arguments.backends:
            ratios, noise, times = [], [], []
            for turn in range(arguments.repeat):
                order = (True, False, False) if turn % 2 else (False, False, True)
                made = [(recorded, run(backend, recorded)) for recorded in order]
                plain = [time for recorded, (time, _) in made if not recorded]
                ratios.append(next(time for recorded, (time, _) in made if recorded) / statistics.mean(plain))
                noise.append(plain[1] / plain[0])
                times += plain
            print(f"{backend}: a step of {statistics.median(times) * 1e3:.3f} ms with {made[0][1][1]} collectives; recorded / not recorded: median "
                  f"{statistics.median(ratios):.4f}, {min(ratios):.4f} to {max(ratios):.4f}; not recorded / not recorded: median "
                  f"{statistics.median(noise):.4f}, {min(noise):.4f} to {max(noise):.4f}", flush=True)


main()
