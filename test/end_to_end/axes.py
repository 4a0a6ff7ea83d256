# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that read the same rows (mesh: {tp: N}) and hold all parameters train as if each N of them were one rank.

They read and draw alike, gradients are averaged over those that read different rows, norms count each element once, and FSDP's
groups stand N apart: weights are the same bits. How parameters are split over such ranks is not looked at here.
"""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

import zoo
from harness import compile_step, make_config, make_data, parse_arguments, run_cases, train

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(13, 11), nn.Linear(11, 5), nn.Parameter(torch.tensor(1.5))

    def forward(self, x, y):
        h = F.dropout(torch.relu(self.first(x)), 0.4)
        return F.cross_entropy(F.dropout(self.second(h), 0.2) * self.scale, y)


def dropping():
    return Dropping(), {"x": torch.randn(4, 13), "y": torch.randint(0, 5, (4,))}


def axes_case(bin, factory, shard, tp, replicate=1, backend="local", exactly=True, **config):
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        model.train()
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        readers, steps = shard * replicate, 3
        save_file(make_data(inputs, readers * steps * config.get("gradient_accumulation_steps", 1)), folder / "data.safetensors")
        rows, finals = {}, {}
        for size in (1, tp):
            settings = make_config(readers, replicate=replicate, **json.loads(json.dumps(config)))
            if size > 1:
                settings["mesh"]["tp"] = size
                settings["tp_plan"] = {"*": "replicate"}
            compile_step(bin, folder, model, inputs, settings, options=["--report=report.json"])
            rows[size], finals[size] = train(bin, folder, readers * size, steps, backend if size > 1 else "local", tag=f"{size}", options=["--poison"])
        alone, together = rows[1], rows[tp]
        for a, b in zip(alone, together, strict=True):
            assert abs(a["loss"] - b["loss"]) <= 1e-6 * abs(a["loss"]), (a, b)
            assert abs(a["grad_norm"] - b["grad_norm"]) <= 1e-5 * a["grad_norm"], (a, b)
            assert len(b["rank_peak_rss_bytes"]) == readers * tp, b
        assert finals[1].keys() == finals[tp].keys()
        for name, value in finals[1].items():
            if exactly:
                assert torch.equal(value, finals[tp][name]), f"{name} differs"
            else:
                torch.testing.assert_close(finals[tp][name], value, rtol=1e-4, atol=1e-6)
        assert any(not torch.equal(start[name], finals[tp][name]) for name in start), "nothing moved: the case tests nothing"
        groups = {g["group"]: (g["ranks"], g["apart"]) for g in json.loads((folder / "report.json").read_text())["groups"]}
        assert groups["dp_shard"] == (shard, tp) and groups["tp"] == (tp, 1), groups
        assert replicate == 1 or groups["dp_replicate"] == (replicate, shard * tp), groups
    return case


def main():
    arguments = parse_arguments()
    cases = {}

    def add(factory, shard, tp, label, **config):
        cases[f"{factory.__name__} {shard}x{tp} {label}"] = axes_case(arguments.bin, factory, shard, tp, **config)

    add(zoo.gpt, 2, 2, "zero3", reshard_after_forward=True)
    add(zoo.gpt, 2, 2, "clip", max_grad_norm=0.1, exactly=False)
    add(zoo.scaled, 2, 2, "scalars, norm 1", max_grad_norm=0.1, grad_norm_type=1, exactly=False)
    add(zoo.mlp, 2, 3, "norm inf, clip", max_grad_norm=0.1, grad_norm_type="inf", exactly=False)
    add(zoo.tiny, 2, 2, "replicas", replicate=2, optimizer=SGD)
    add(zoo.mlp, 4, 2, "parts of 2", reshard_after_forward=2)
    add(zoo.mlp, 2, 2, "micro-batches, kept", gradient_accumulation_steps=3, reshard_after_forward=False, reshard_after_backward=False)
    add(zoo.gpt, 2, 2, "flat, last", bucket_layout="auto", gradient_accumulation_steps=2, gradient_sync="last")
    add(zoo.scaled, 2, 2, "ignored, factor", ignored_params="first.*", gradient_divide_factor=3.0)
    add(dropping, 2, 2, "draws")
    add(dropping, 1, 2, "draws, replicas", replicate=2)
    add(zoo.gpt, 2, 2, "gloo", backend="gloo", reshard_after_forward=True)
    run_cases(cases, arguments.only)


main()
