# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a run takes of the machine's memory against what was planned.

The tensor region is what the compiler said, to the byte. The scratch region is
the same in all steps, since it was sized by the rehearsal, and within the
compiler's bound. What a dry run says of processes is what they take, their
staging included. Resident memory is below their sum, taken for each rank of the
process, and a tenth of it and LibTorch's own footprint: what the same model
takes beside its regions where its tensors are tiny.
"""
import re

import torch
from safetensors.torch import save_file

from harness import must, parse_arguments, run_cases, run_step
from memory import Blocks
from report import make_report

BLOCKS, BATCH, STEPS = 4, 64, 3
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SLACK = 1.10


def measure(bin, folder, width, world, backend, config):
    """Most resident bytes of a process, and the regions' bytes of the ranks in it."""
    folder.mkdir()
    inputs = {"x": torch.randn(BATCH, width), "y": torch.randint(0, 8, (BATCH,))}
    report = make_report(bin, folder, Blocks(BLOCKS, width), inputs, world, **config)["memory"]
    save_file({k: v.repeat_interleave(world, 0) for k, v in inputs.items()}, folder / "data.safetensors")
    rows = run_step(bin, folder, world, f"--steps={STEPS}", backend=backend)
    (regions,) = {row["peak_memory_bytes"] for row in rows}
    (scratch,) = {row["scratch_bytes"] for row in rows}
    assert 0 <= scratch <= report["scratch_bound"], f"{scratch} bytes of scratch, the bound is {report['scratch_bound']}"
    assert regions >= report["peak"] + scratch, f"{regions} bytes are not the planned {report['peak']} and {scratch} of scratch"
    assert all(row["unplanned_bytes"] == 0 for row in rows), rows
    if backend == "gloo":
        said = must(bin / "fsdp-run", "step.fsdp", "--dry-run", "--data=data.safetensors", cwd=folder).stdout
        number, unit = re.search(r"with --backend=gloo a rank holds ([\d.]+) (\w+) in all", said).groups()
        assert abs(float(number) * UNITS[unit] - regions) <= 0.051 * UNITS[unit], f"{number} {unit} are predicted, {regions} bytes are taken"
        assert regions > report["peak"] + scratch, "nothing is staged"
    return max(rows[-1]["rank_peak_rss_bytes"]), regions * (world if backend == "local" else 1)


def resident_case(bin, world, backend="local", **config):
    def case(folder):
        small, small_regions = measure(bin, folder / "small", 16, world, backend, config)
        large, regions = measure(bin, folder / "large", 1024, world, backend, config)
        assert regions > 2e8, f"regions of {regions} bytes test nothing"
        footprint = small - small_regions
        most = SLACK * regions + footprint
        assert large < most, f"{large} bytes are resident, {regions} were planned beside a footprint of {footprint}: {(large - footprint) / regions:.3f}"
        print(f"      {(large - footprint) / regions:.3f} of {regions / 2**20:.0f} MiB, footprint {footprint / 2**20:.0f} MiB")
    return case


def main():
    arguments = parse_arguments()
    run_cases({
        "alone": resident_case(arguments.bin, 1),
        "threads": resident_case(arguments.bin, 2),
        "threads, flat": resident_case(arguments.bin, 2, bucket_layout="flat"),
        "threads, kept gathered": resident_case(arguments.bin, 3, reshard_after_forward=False),
        "threads, bf16": resident_case(arguments.bin, 2, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "float32"}),
        "processes": resident_case(arguments.bin, 2, "gloo"),
    }, arguments.only)


main()
