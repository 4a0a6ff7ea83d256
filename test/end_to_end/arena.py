# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How tightly the arena is packed, and what the report and the picture say of it.

The peak is at most 2 % above the lower bound (states, and the largest sum of
what is alive at one op, with the room that alignment takes): for a zoo of models
in all modes. In arenas of more than 64 KiB the bytes themselves are no further below it. The picture's
rectangles are recomputed here from its data: none overlap while both are alive,
they reach up to the peak, and what is alive at the peak is what the report says.
"""
import json
import re

import torch
import yaml

import zoo
from harness import export, make_config, must, parse_arguments, run_cases

MOST = 1.02
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
BF16 = {"mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}}
MODES = {
    "zero3": (2, {"reshard_after_forward": True}),
    "zero3 of 8": (8, {"reshard_after_forward": True, "max_grad_norm": 1.0}),
    "zero2": (3, {"reshard_after_forward": False}),
    "accumulate": (3, {"gradient_accumulation_steps": 3, "optimizer": SGD}),
    "bf16": (8, {"optimizer": SGD, "reshard_after_forward": True, **BF16}),
    "alone": (1, {}),
}
KINDS = ["params", "optimizer", "buffers", "inputs", "activations", "gathered", "grads"]


def align(size):
    """The room of a tensor: multiples of 16 bytes for small ones, of 128 from 8 KiB on."""
    unit = min(128, max(16, 1 << (max(size // 64, 1).bit_length() - 1)))
    return -(-size // unit) * unit


def read_map(path):
    page = path.read_text()
    assert not re.search(r"(src|href)\s*=|https?:", page), "the page needs something from outside"
    (data,) = re.findall(r"^const DATA = (.*);$", page, re.M)
    return json.loads(data)


def check_map(data, report):
    memory, tops = report["memory"], []
    assert data["peak"] == memory["peak"] and data["statesEnd"] == memory["states"]
    for program in data["programs"]:
        assert [p[0] for p in program["phases"]] in (["forward", "backward", "optimizer"], ["forward", "backward"], ["forward"])
        assert program["phases"][0][1] == 0 and program["phases"][-1][2] == len(program["ops"])
        backward = [op for op, (name, *_) in enumerate(program["ops"]) if "backward" in data["strings"][name]]
        forward = program["phases"][0]
        assert not backward or forward[2] <= backward[0], f"{program['name']}: forward ends at {forward[2]}, backward begins at {backward[0]} or before"
        tensors = [t[:5] for t in program["tensors"] if t[2]]
        # Lowest address first at each op: each begins where the last one ended, or above.
        for op in range(len(program["ops"])):
            alive, end = sorted(t[1:3] for t in tensors if t[3] <= op <= t[4]), data["statesEnd"]
            for address, size in alive:
                assert address >= end, f"{program['name']}: two tensors at {address} in op {op}"
                end = address + size
        time = program["peak"]
        sums = [sum(t[2] for t in tensors if t[3] <= op <= t[4]) for op in range(len(program["ops"]))]
        assert sums[time] == max(sums), f"{program['name']}: peak at op {time} with {sums[time]}, but {max(sums)} are in use elsewhere"
        bound = max(sum(align(t[2]) for t in tensors if t[3] <= op <= t[4]) for op in range(len(program["ops"])))
        assert program["lowerBound"] == memory["states"] + bound
        tops.append(max([t[1] + align(t[2]) for t in tensors], default=data["statesEnd"]))
        assert program["end"] == tops[-1]
        if memory["at"]["program"] == program["name"] and memory["at"]["position"] == time:
            for number, kind in enumerate(KINDS[3:], 3):
                mine = sum(t[2] for t in tensors if t[0] == number and t[3] <= time <= t[4])
                kept = sum(s[2] for s in data["states"] if s[0] == number)
                assert mine + kept == memory[kind], f"{kind}: {mine} + {kept} bytes at the peak, reported are {memory[kind]}"
    assert max(tops) == memory["peak"]


def check_report(report):
    memory = report["memory"]
    ratio = memory["peak"] / memory["lower_bound"]
    assert abs(memory["over_lower_bound"] - ratio) < 1e-9
    assert 1 <= ratio <= MOST, f"the arena is {ratio:.4f} of the lower bound"
    if memory["peak"] > 65536:
        live = sum(memory[kind] for kind in KINDS)
        assert memory["peak"] <= MOST * live, f"the arena of {memory['peak']} bytes is {memory['peak'] / live:.4f} of those in use"
    for each in memory.get("programs", []):
        assert each["over_lower_bound"] <= MOST, each
    points = [memory["at"], *(phase["at"] for phase in report["phases"].values())]
    for point in points:
        assert point["program"].startswith("train/") and point["op"] and point["position"] >= 0, point
    return points


def case(bin, factory, modes):
    def run(folder):
        torch.manual_seed(0)
        model, inputs = factory()
        export(model.train(), inputs, folder / "model.pt2")
        for label, (world, config) in modes.items():
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(world, **config)))
            must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "--memory-map=map.html", "-o", "step.mlirbc", cwd=folder)
            report = json.loads((folder / "report.json").read_text())
            try:
                points = check_report(report)
                check_map(read_map(folder / "map.html"), report)
            except AssertionError as error:
                raise AssertionError(f"{label}: {error}") from error
            # A person finds the place again.
            assert any(re.search(r"\.py:\d+$", point.get("source", "")) for point in points), points
        # The same picture from the planned program.
        must(bin / "fsdp-opt", "step.mlirbc", "--memory-map=again.html", "-o", "planned.mlirbc", cwd=folder)
        first, again = read_map(folder / "map.html"), read_map(folder / "again.html")
        assert again.pop("title") == "step.mlirbc" and first.pop("title") == "model.pt2"
        assert first == again, "the picture of the planned program is another one"
    return run


def main():
    arguments = parse_arguments()
    cases = {}
    for factory in (zoo.mlp, zoo.tiny, zoo.convnet, zoo.tagger, zoo.gpt, zoo.llama, zoo.bert, zoo.gpt2, zoo.vit):
        # Running statistics in float32 reject a batch in bfloat16.
        modes = {label: mode for label, mode in MODES.items() if label != "bf16" or factory is not zoo.convnet}
        cases[factory.__name__] = case(arguments.bin, factory, modes)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
