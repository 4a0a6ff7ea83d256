# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predicted steps of Llama-3-8B and 70B, as transformers has them, on eight H100s: bfloat16, and what takes fewer bits.

    few_bits.py --bin build/bin [--models 8b 70b] [--cluster h100x8] [--arch sm_90] [--tokens 8192] [--only NAME ...] [--keep FOLDER]

Prints a table for docs/Performance.md: the time of a step, its ratio to bfloat16's, a rank's planned memory, and that with what
libraries hold. Models are exported on the meta device. Needs torch and transformers.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import torch
import transformers
import yaml

SHAPES = {"8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32},
          "70b": {"hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64}}
ADAMW = {"name": "adamw", "lr": 1e-4}
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
LAYERS = ["model.model.layers.*"]
LORA = {"adapter": {"name": "lora", "r": 16, "alpha": 32, "modules": "all-linear"}}
# Name -> what is said beside the mesh, and of fsdp_config.
ROWS = {
    "bfloat16": ({}, {}),
    "kernels": ({}, {"kernels": "on", "norms": "fused"}),
    "8-bit AdamW": ({"optimizer": {**ADAMW, "state_dtype": "int8"}}, {"kernels": "on", "norms": "fused"}),
    "float8": ({"float8": {"modules": LAYERS}}, {"kernels": "on", "norms": "fused"}),
    "float8, gathered": ({"float8": {"modules": LAYERS, "enable_fsdp_float8_all_gather": True}}, {"kernels": "on", "norms": "fused"}),
    "float8 by rows": ({"float8": {"modules": LAYERS, "recipe": "rowwise"}}, {"kernels": "on", "norms": "fused"}),
    "mxfp8": ({"float8": {"modules": LAYERS, "recipe": "mxfp8"}}, {"kernels": "on", "norms": "fused"}),
    "LoRA": (LORA, {"kernels": "on", "norms": "fused"}),
    "QLoRA, int8": ({**LORA, "quantize": {"modules": LAYERS, "kind": "int8"}}, {"kernels": "on", "norms": "fused"}),
    "QLoRA, nf4, double": ({**LORA, "quantize": {"modules": LAYERS, "kind": "nf4", "double_quant": True}}, {"kernels": "on", "norms": "fused"}),
}


class Loss(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, labels):
        return self.model(input_ids=input_ids, labels=labels).loss


def export(name, tokens, path):
    config = transformers.LlamaConfig(**SHAPES[name], num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192, rope_theta=500000.0, use_cache=False)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
        inputs = {key: torch.zeros(1, tokens, dtype=torch.int64) for key in ("input_ids", "labels")}
    torch.export.save(torch.export.export(Loss(model).train(), (), inputs, strict=False), path)


def predict(bin, cluster, arch, folder, model, row, recompute):
    said, sharding = ROWS[row]
    config = {"fsdp_version": 2, "mesh": {"dp_shard": 8}, "device": "cuda", "cuda_arch": arch, "optimizer": ADAMW, **said,
              "fsdp_config": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
                              "reshard_after_forward": True, "mixed_precision": BF16, "activation_checkpointing": recompute, "loss_chunks": "auto", **sharding}}
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
    for command in ([bin / "fsdp-opt", model, "--config=fsdp.yaml", "-o", "step.fsdp"],
                    [bin / "fsdp-opt", "step.fsdp", "--print-plan=plan.json", f"--cluster={cluster}"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{row}: {done.stderr}")
    return json.loads((folder / "plan.json").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--cluster", default="h100x8")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--only", nargs="+", choices=ROWS, default=[row for row in ROWS if row != "mxfp8"], help="default: all but mxfp8, which GPUs from sm_100 on multiply")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the exported models in this folder, and use them if they are there")
    arguments = parser.parse_args()
    print("| model | | step, ms | to the first | planned, GiB | all that the device holds, GiB |\n|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for name in arguments.models:
            model = ((arguments.keep or work) / f"{name}-{arguments.tokens}.pt2").resolve()
            if not model.exists():
                export(name, arguments.tokens, model)
            first = None
            for row in arguments.only:
                plan = predict(arguments.bin.resolve(), arguments.cluster, arguments.arch, work, model, row, recompute=name == "70b")
                seconds = plan["seconds"]
                first = first or seconds
                print(f"| {name} | {row} | {1e3 * seconds:.0f} | {seconds / first:.2f} | {plan['memory']['planned'] / 2**30:.1f} | {plan['memory']['held'] / 2**30:.1f} |", flush=True)


if __name__ == "__main__":
    main()
