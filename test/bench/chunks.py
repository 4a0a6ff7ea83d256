# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What chunks of the loss cost and save: peak memory and step time of a decoder with a large vocabulary, with all rows at once and in chunks.

    chunks.py --bin build/bin --vocab 131072 --tokens 4096 --width 256 --chunks 1 4 8 auto
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml


class Decoder(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed, self.body = nn.Embedding(vocab, width), nn.Linear(width, width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, x, y):
        logits = self.head(torch.tanh(self.body(self.embed(x))))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True)
    parser.add_argument("--vocab", type=int, default=131072)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--chunks", nargs="+", default=["1", "4", "auto"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        torch.manual_seed(7)
        model = Decoder(args.vocab, args.width)
        inputs = {name: torch.randint(0, args.vocab, (1, args.tokens)) for name in "xy"}
        torch.export.save(torch.export.export(model, (), inputs), folder / "model.pt2")
        del model
        mixed = {"mixed_precision": {"param_dtype": args.dtype, "reduce_dtype": "float32"}} if args.dtype != "float32" else {}
        peaks, times, losses = {}, {c: [] for c in args.chunks}, {}
        for chunks in args.chunks:
            config = {"fsdp_version": 2, "mesh": {"dp_shard": 1}, "optimizer": {"name": "sgd", "lr": 0.1},
                      "fsdp_config": {"loss_chunks": chunks if chunks == "auto" else int(chunks), **mixed}}
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
            subprocess.run([args.bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", f"{chunks}.fsdp"], cwd=folder, check=True)
            peaks[chunks] = json.loads((folder / "report.json").read_text())["memory"]["peak"]
        resident = {}
        for _ in range(args.rounds):
            for chunks in args.chunks:
                subprocess.run([args.bin / "fsdp-run", f"{chunks}.fsdp", "--data=sample", f"--steps={args.steps}", "--metrics=metrics.jsonl"], cwd=folder, check=True)
                rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
                times[chunks] += [row["step_time_s"] for row in rows[1:]]
                losses[chunks] = [row["loss"] for row in rows]
                resident[chunks] = max(row["rank_peak_rss_bytes"][0] for row in rows)
        first = args.chunks[0]
        print(f"{args.tokens} tokens, {args.vocab} classes, width {args.width}, {args.dtype}: logits of {args.tokens * args.vocab * 4 / 1e9:.2f} GB in f32")
        for chunks in args.chunks:
            median, base = statistics.median(times[chunks]), statistics.median(times[first])
            print(f"{chunks:>5} chunks: peak {peaks[chunks] / 1e9:6.2f} GB, resident {resident[chunks] / 1e9:6.2f} GB, step {median:.3f} s ({median / base:.3f}), "
                  f"fastest {min(times[chunks]):.3f} ({min(times[chunks]) / min(times[first]):.3f}), losses {losses[chunks]}", flush=True)


if __name__ == "__main__":
    main()
