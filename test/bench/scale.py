# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles decoders of Llama-3-8B's shapes for 64 ranks and measures fsdp-opt: seconds, memory, growth with the layers.

    scale.py --bin build/bin [--layers 8 32 126] [--world 64] [--json out.json]

The model is exported on the meta device: there are no weights. Checks what the project promises: 32 layers in under 30 s and 4 GB, of which
capture under 10 s; time about linear in the layers (seconds per layer of the deepest at most 1.5 times those of the shallowest); at most 100 us of
processor time for each operator that capture adds from the shallowest to the deepest. Needs torch and transformers.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import transformers

SECONDS, BYTES, GROWTH = 30.0, 4e9, 1.5
# What else the machine does comes on top for seconds at a time, so the least of several captures counts, of more where that is too much.
CAPTURES, MOST_CAPTURES = 3, 12
CAPTURE_SECONDS, OPERATOR_SECONDS = 10.0, 100e-6
CONFIG = """
fsdp_version: 2
mesh: {{dp_shard: {world}}}
fsdp_config: {{auto_wrap_policy: TRANSFORMER_BASED_WRAP, transformer_layer_cls_to_wrap: LlamaDecoderLayer, reshard_after_forward: true}}
optimizer: {{name: adamw, lr: 3.0e-4, betas: [0.9, 0.95], weight_decay: 0.1}}
max_grad_norm: 1.0
"""


def export(layers, path):
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers,
            num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0))
        ids = torch.zeros(1, 8192, dtype=torch.int64)
    model.train()
    inputs = {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
    torch.export.save(torch.export.export(model, (), inputs, strict=False), path)


def measure(command):
    """Seconds, processor seconds and peak resident bytes of one run of a command."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[0]} failed:\n{output}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def operator_seconds(rows):
    """Processor seconds of capture for each operator that the deepest has more than the shallowest."""
    first, last = rows[0], rows[-1]
    return (last["capture_processor_seconds"] - first["capture_processor_seconds"]) / (last["operators"] - first["operators"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--layers", type=int, nargs="*", default=[8, 32, 126])
    parser.add_argument("--world", type=int, default=64)
    parser.add_argument("--keep", type=pathlib.Path, help="keep the exported models in this folder, and use those that are there")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    rows, failures, commands = [], [], []
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "fsdp.yaml").write_text(CONFIG.format(world=args.world))
        for layers in args.layers:
            model = (args.keep or work) / f"decoder-{layers}.pt2"
            if not model.exists():
                export(layers, model)
            captured = work / f"captured-{layers}.mlir"
            capturing = [str(args.bin / "fsdp-opt"), str(model), "-o", str(captured)]
            captures = [measure(capturing)[:2] for _ in range(CAPTURES)]
            capture, capture_processor = (min(times) for times in zip(*captures))
            operators = captured.read_text().count(" aten.")
            seconds, processor, peak = measure([str(args.bin / "fsdp-opt"), str(model), f"--config={work / 'fsdp.yaml'}",
                                     f"--report={work / 'report.json'}", "-o", str(work / "step.fsdp")])
            report = json.loads((work / "report.json").read_text())
            rows.append({"layers": layers, "seconds": seconds, "processor_seconds_per_layer": processor / layers, "peak_bytes": peak,
                         "capture_seconds": capture, "capture_processor_seconds": capture_processor, "operators": operators,
                         "planned_peak_bytes": report["memory"]["peak"]})
            commands.append(capturing)
            print(f"{layers:4} layers  {seconds:7.2f} s  {1e3 * seconds / layers:7.1f} ms a layer  {peak / 1e9:5.2f} GB  "
                  f"capture of {operators} operators {capture:5.2f} s", flush=True)
            if layers == 32 and capture > CAPTURE_SECONDS:
                failures.append(f"capture of 32 layers took {capture:.1f} s; promised are {CAPTURE_SECONDS:.0f} s")
            if layers == 32 and (seconds > SECONDS or peak > BYTES):
                failures.append(f"32 layers took {seconds:.1f} s and {peak / 1e9:.1f} GB; promised are {SECONDS:.0f} s and {BYTES / 1e9:.0f} GB")
        for _ in range(CAPTURES, MOST_CAPTURES):
            if len(rows) < 2 or operator_seconds(rows) <= OPERATOR_SECONDS:
                break
            for row, command in zip(rows, commands):
                row["capture_processor_seconds"] = min(row["capture_processor_seconds"], measure(command)[1])
    if len(rows) > 1 and rows[-1]["processor_seconds_per_layer"] > GROWTH * rows[0]["processor_seconds_per_layer"]:
        failures.append(f"time grows faster than the layers: {rows[0]['processor_seconds_per_layer']:.3f} s a layer at {rows[0]['layers']}, "
                        f"{rows[-1]['processor_seconds_per_layer']:.3f} at {rows[-1]['layers']}")
    if len(rows) > 1:
        each = operator_seconds(rows)
        print(f"{1e6 * each:.0f} us of capture for each operator")
        if each > OPERATOR_SECONDS:
            failures.append(f"an operator costs {1e6 * each:.0f} us of capture; promised are {1e6 * OPERATOR_SECONDS:.0f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    for failure in failures:
        print(failure)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
