# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Planned peaks of a decoder with 8B parameters, by what lowers them: the table of docs/Performance.md.

    memory_table.py --bin build/bin [--layers 32] [--rows 2] [--tokens 8192] [--ranks 8] [--only full] [--json out.json]

Nothing runs and no weight exists: the model is exported on the meta device, and the planned bytes of a rank are the report's. Memory that the
plan does not know, of kernels, libraries and NCCL, comes on top of them on a GPU. Needs torch (2.11) and transformers.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile

import yaml

GIB = 2**30


def export(folder, arguments):
    import torch
    import transformers
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=arguments.layers, num_attention_heads=32,
            num_key_value_heads=8, max_position_embeddings=arguments.tokens)).train()
        ids = torch.zeros(arguments.rows, arguments.tokens, dtype=torch.int64)
        program = torch.export.export(model, (), {"input_ids": ids, "labels": ids.clone(), "use_cache": False}, strict=False)
    torch.export.save(program, folder / "model.pt2")
    return sum(p.numel() for p in model.parameters())


def plan(folder, arguments, **fsdp):
    config = {"fsdp_version": 2, "device": "cuda", "mesh": {"dp_shard": arguments.ranks}, "optimizer": {"name": "adamw", "lr": 1e-4},
              "fsdp_config": {"mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}, **fsdp}}
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
    done = subprocess.run([arguments.bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", "step.fsdp"],
                          cwd=folder, capture_output=True, text=True)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[0]}
    return json.loads((folder / "report.json").read_text())["memory"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    choices = itertools.product((None, {"policy": "selective"}, True), (False, True), (1, "auto"), (True, False))
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print(f"{export(folder, arguments) / 1e9:.2f}e9 parameters, {arguments.ranks} ranks, {arguments.rows} x {arguments.tokens} tokens a rank")
        print("| checkpointing | activations on the host | chunks | reshard | peak GiB | states | activations | gathered | gradients | host GiB | fits 80 GB |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for checkpointing, offload, chunks, reshard in choices:
            label = "none" if checkpointing is None else "full" if checkpointing is True else "selective"
            row = f"{label} {'offload' if offload else ''} {chunks} {reshard}"
            if arguments.only not in row:
                continue
            keys = {"activation_checkpointing": checkpointing or False, "reshard_after_forward": reshard}
            keys.update({"activation_offloading": True} if offload else {})
            keys.update({"loss_chunks": chunks} if chunks != 1 else {})
            memory = plan(folder, arguments, **keys)
            found.append({"checkpointing": label, "offload": offload, "chunks": chunks, "reshard": reshard, "memory": memory})
            begin = f"| {label} | {'yes' if offload else 'no'} | {chunks} | {str(reshard).lower()} | "
            if "error" in memory:
                print(begin + memory["error"] + " |", flush=True)
                continue
            sizes = [memory["peak"], memory["states"], memory["activations"], memory["gathered"], memory["grads"], memory.get("host", {}).get("peak", 0)]
            fits = "yes" if memory["peak"] < 80e9 else "no"
            print(begin + " | ".join(f"{size / GIB:.2f}" for size in sizes) + f" | {fits} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
