# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What narrow types cost.

    low_precision.py --bin build/bin quality [--steps 1000] [--orders 0] [--only f32 …] [--svg out.svg]   loss of the quickstart's decoder in float8, with narrow wires, with narrow states
    low_precision.py --bin build/bin speed [--width 1024] [--layers 4] [--rows 256]   time of a step of linear layers in float8, and the bytes it gathers

Needs torch (2.11). All of a table is measured by turns.
"""
import argparse
import pathlib
import statistics
import tempfile

from states import ADAMW, add_quality, compare_quality, export_stack, stack_config, train

RECIPES = {"f32": None, "tensorwise": {"recipe": "tensorwise", "enable_fsdp_float8_all_gather": True}, "rowwise": {"recipe": "rowwise"}}


def gathered(report):
    return sum(each["bytes"] * each["count"] for each in report["collectives"] if each["kind"] == "all_gather")


def use(recipe, modules="*"):
    return lambda base: {**base, **({"float8": {**RECIPES[recipe], "modules": modules}} if RECIPES[recipe] else {})}


def narrow_wires(dtype):
    return lambda base: {**base, "fsdp_config": {**base["fsdp_config"], "reduce_wire_dtype": dtype}}


def narrow_states(base):
    return {**base, "optimizer": {**base["optimizer"], "state_dtype": "int8"}}


def quality(arguments, folder):
    """float8 beside the other narrow types. As torchtitan's examples do, the head stays as it is, but where its name says otherwise."""
    changes = {
        "f32": lambda base: base,
        "tensorwise": use("tensorwise", "blocks.*"), "rowwise": use("rowwise", "blocks.*"),
        "wires in bfloat16": narrow_wires("bfloat16"), "wires in float8": narrow_wires("float8"), "states in int8": narrow_states,
        "tensorwise, with the head": use("tensorwise"), "rowwise, with the head": use("rowwise"),
    }
    chosen = {name: change for name, change in changes.items() if name == "f32" or name in (arguments.only or changes)}
    compare_quality(arguments, folder, ("narrow", "bytes that a step gathers"), chosen, gathered)


def speed(arguments, folder):
    export_stack(folder, arguments.width, arguments.layers, arguments.rows)
    times, bytes_of = {name: [] for name in RECIPES}, {}
    for _ in range(3):
        for name in RECIPES:
            config = use(name)({**stack_config(ADAMW), "mesh": {"dp_shard": 2}})
            report, rows = train(arguments, folder, "stack.pt2", "x.safetensors", config, 8)
            times[name] += [row["step_time_s"] for row in rows[2:]]
            bytes_of[name] = gathered(report)
    first = statistics.median(times["f32"])
    print("| `recipe` | step, ms | to f32's | bytes that a step gathers | to f32's |\n|---|---|---|---|---|")
    for name, all in times.items():
        print(f"| {name} | {statistics.median(all) * 1e3:.1f} | {statistics.median(all) / first:.2f} | {bytes_of[name]:,} | {bytes_of[name] / bytes_of['f32']:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parts = parser.add_subparsers(dest="part", required=True)
    add_quality(parts).add_argument("--only", nargs="*")
    part = parts.add_parser("speed")
    for name, value in {"width": 1024, "layers": 4, "rows": 256}.items():
        part.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        {"quality": quality, "speed": speed}[arguments.part](arguments, pathlib.Path(name))


main()
