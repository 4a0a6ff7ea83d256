# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ranks hold of a decoder of Llama-3-70B's shapes that adapters are trained over, its base in bfloat16, int8, nf4 and nf4 with coded scales.

    qlora.py --bin build/bin [--world 8] [--tokens 4096] [--layers 80] [--keep FOLDER]

The model is exported on the meta device: there are no weights. Planned memory, in bytes a rank; fails if nf4 needs 24 GB or more. Needs torch and transformers.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "end_to_end"))
import zoo  # noqa: E402

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
MOST = 24e9


def export(layers, tokens, path):
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=128256, hidden_size=8192, intermediate_size=28672, num_hidden_layers=layers,
            num_attention_heads=64, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0))
        ids = torch.zeros(1, tokens, dtype=torch.int64)
        model = zoo.add_lora(model.bfloat16(), TARGETS, rank=16, alpha=32).bfloat16()
    model.train()
    inputs = {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
    torch.export.save(torch.export.export(model, (), inputs, strict=False), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--world", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=80)
    parser.add_argument("--keep", type=pathlib.Path, help="keep the exported model in this folder, and use it if it is there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        model = (args.keep or work) / f"qlora-{args.layers}-{args.tokens}.pt2"
        if not model.exists():
            export(args.layers, args.tokens, model)
        rows = {}
        for kind, told in {"bf16": None, "int8": {"kind": "int8"}, "nf4": {"kind": "nf4"}, "nf4, double": {"kind": "nf4", "double_quant": True}}.items():
            config = {"fsdp_version": 2, "mesh": {"dp_shard": args.world}, "optimizer": {"name": "adamw", "lr": 1e-4},
                      "fsdp_config": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
                                      "reshard_after_forward": True, "activation_checkpointing": True, "loss_chunks": "auto"}}
            if told:
                config["quantize"] = {"modules": ["model.layers.*"], **told}
            (work / "fsdp.yaml").write_text(yaml.safe_dump(config))
            done = subprocess.run([args.bin / "fsdp-opt", model, f"--config={work / 'fsdp.yaml'}", f"--report={work / 'report.json'}",
                                   "-o", work / "step.fsdp"], capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr)
            report = json.loads((work / "report.json").read_text())
            rows[kind] = {"memory": report["memory"], "gathered": sum(c["bytes"] * c["count"] for c in report["collectives"] if c["kind"] == "all_gather")}
            use = {k: v for k, v in rows[kind]["memory"].items() if isinstance(v, int) and v}
            print(f"{kind}: gathers {rows[kind]['gathered'] / 1e9:.2f} GB a step; " + ", ".join(f"{k} {v / 1e9:.2f}" for k, v in use.items()), flush=True)
    if rows["nf4"]["memory"]["peak"] >= MOST:
        sys.exit(f"nf4 needs {rows['nf4']['memory']['peak']} bytes a rank, expected less than {MOST:.0f}")


if __name__ == "__main__":
    main()
