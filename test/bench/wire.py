# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it brings to send gradients in bfloat16 (reduce_wire_dtype), as a ratio to the same steps without.

    wire.py --bin build/bin [--shape 512x8] [--steps 12] [--repeat 3]

Two ranks over gloo, a thread each; the two artifacts run in turns. Compared are median steps, and what a rank spends on its reductions in a
step: issuing them, waiting for them (which sums), and casting in front of them. Profiled steps are a few more.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
WORLD, WARMUP, PROFILED = 2, 3, 5


def get_reduction_times(trace):
    """Seconds of each step that rank 0 spends on reductions."""
    steps = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        details = event.get("args", {})
        is_reduction = event.get("cat") in ("start", "wait") and details.get("collective") == "reduce_scatter"
        is_cast = event.get("name") == "aten::_to_copy" and details.get("result", "").startswith("bf16")
        if event.get("pid") == 0 and (is_reduction or is_cast):
            steps[details["step"]] = steps.get(details["step"], 0) + event["dur"] / 1e6
    return list(steps.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--shape", default="512x8")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    import bench
    from harness import compile_step, launch, make_config
    with tempfile.TemporaryDirectory() as name:
        times, reductions = {}, {}
        wires = (None, "bfloat16")
        for wire in wires:
            folder = pathlib.Path(name) / str(wire)
            folder.mkdir()
            model, inputs = bench.make_model(arguments.shape)
            config = make_config(WORLD, reshard_after_forward=True)
            config["fsdp_config"].update({"reduce_wire_dtype": wire} if wire else {})
            compile_step(arguments.bin, folder, model, inputs, config)
        for _ in range(arguments.repeat):
            for wire in wires:
                folder = pathlib.Path(name) / str(wire)
                common = ("step.fsdp", "--data=sample", "--threads=1")
                (folder / "m.jsonl").unlink(missing_ok=True)
                launch(arguments.bin, folder, WORLD, "gloo", *common, f"--steps={arguments.steps}", "--metrics=m.jsonl")
                rows = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()][WARMUP:]
                times.setdefault(wire, []).extend(row["step_time_s"] for row in rows)
                launch(arguments.bin, folder, WORLD, "gloo", *common, f"--steps={WARMUP + PROFILED}", "--profile=trace.json")
                reductions.setdefault(wire, []).extend(get_reduction_times(folder / "trace.json"))
        for what, each in (("a step", times), ("its reductions", reductions)):
            plain, low = (statistics.median(each[wire]) for wire in wires)
            print(f"{what}: {plain * 1e3:.1f} ms in float32, {low * 1e3:.1f} ms in bfloat16: {low / plain:.3f}")


main()
