# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a bucket in one flat state promises, beside training as PyTorch does (see --layout).

Ranks never exchange more bytes than FSDP2's formulas say, which gather a whole
bucket again for backward: per bucket of W ranks and S = sum of ceil(d0 / W) * rest
elements, W * S are received by each gather and sent into each reduction. A bucket
that is trained alike is one tensor. Weights and exports speak of parameters.
"""
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

import zoo
from harness import call, compile_step, make_config, make_data, parse_arguments, run_cases, train
from report import FLOAT, Adapted, Pairs, Stack, counted, make_report, padded


class Shapes(nn.Module):
    """No row divides: a matrix, a row, a column, single numbers, a parameter under two names, one that is frozen."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(7, 13), nn.Linear(13, 7, bias=False)
        self.scale, self.shift = nn.Parameter(torch.randn(1)), nn.Parameter(torch.randn(1, 7))
        self.column = nn.Parameter(torch.randn(7, 1))
        self.tied = nn.Linear(7, 13)
        self.tied.weight = self.up.weight
        self.fixed = nn.Parameter(torch.randn(5, 7), requires_grad=False)

    def forward(self, x, y):
        x = self.down(torch.tanh(self.up(x) + self.tied(x))) * self.scale + self.shift
        return F.mse_loss(x + self.column.t() * self.fixed.sum(0), y)


def shapes():
    return Shapes(), {"x": torch.randn(4, 7), "y": torch.randn(4, 7)}


def bucket_members(model, buckets):
    """Bucket -> parameters, in which a module that is no bucket's belongs to the root."""
    members = {}
    for name, parameter in model.named_parameters():
        home = next((b for b in buckets if name.startswith(b + ".")), "root")
        members.setdefault(home, []).append(parameter)
    return members


def bytes_case(bin, factory, buckets, world, **config):
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        report = make_report(bin, folder, model, inputs, world, reshard_after_forward=True, bucket_layout="flat", **config)
        members = bucket_members(model, buckets)
        limit = {name: padded(each, world) for name, each in members.items()}
        trained = {name: padded([p for p in each if p.requires_grad], world) for name, each in members.items()}
        gathers = {}
        for row in report["collectives"]:
            kinds = {p.requires_grad for p in members[row["bucket"]]}
            if row["kind"] == "all_gather":
                gathers[row["bucket"]] = gathers.get(row["bucket"], 0) + row["count"]
                assert row["bytes"] <= limit[row["bucket"]], (row, limit)
                assert row["tensors"] <= len(kinds), row
            else:
                assert row["kind"] == "reduce_scatter" and row["bytes"] <= trained[row["bucket"]], (row, trained)
                assert row["tensors"] == 1 and row["members"] == sum(p.requires_grad for p in members[row["bucket"]]), row
        assert set(gathers) == set(members) and max(gathers.values()) <= 2, gathers
        traffic = {}
        for row in report["collectives"]:
            calls, size = traffic.get((row["kind"], row["group"]), (0, 0))
            traffic[row["kind"], row["group"]] = (calls + row["count"], size + row["count"] * row["bytes"])
        assert counted(bin, folder, world, inputs) == traffic, traffic
    return case


def kept_case(bin, factory, world, backend="local", **config):
    """What was read comes out again, bit by bit, after a step that changes nothing."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        save_file(make_data(inputs, world), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(world, {"name": "sgd", "lr": 0.0}, bucket_layout="flat", **config))
        _, final = train(bin, folder, world, 1, backend)
        want = {k: v.detach() for k, v in model.named_parameters(remove_duplicate=False)}
        for name, value in want.items():
            assert torch.equal(final[name], value), f"{name} has changed"
        assert set(want) <= set(final)
    return case


def parts_case(bin):
    """Of a bucket that k ranks keep between forward and backward they gather the flat tensor again, and nobody else."""
    def case(folder):
        report = make_report(bin, folder, Pairs(), {"x": torch.randn(4, 6), "y": torch.randn(4, 2)}, 4, reshard_after_forward=2, bucket_layout="flat")
        first = {row["bucket"]: row for row in report["collectives"] if row["kind"] == "all_gather" and row["group"] == "dp_shard"}
        again = {row["bucket"]: row for row in report["collectives"] if row["kind"] == "all_gather" and row["group"] == "dp_inner_2"}
        assert set(first) == set(again) == {"blocks.0", "blocks.1", "root"}, report["collectives"]
        for name, row in again.items():
            assert row["tensors"] == 1 and row["bytes"] == first[name]["bytes"] and row["members"] == first[name]["members"] == 4, (row, first[name])
    return case


def same_draws(bin):
    """First values that are drawn do not depend on the layout."""
    def case(folder):
        model, inputs = zoo.mlp()
        save_file(make_data(inputs, 3), folder / "data.safetensors")
        found = []
        for layout in ("rows", "flat"):
            config = make_config(3, {"name": "sgd", "lr": 0.0}, bucket_layout=layout, seed=5, init={"*": "normal(0, 0.5)"})
            compile_step(bin, folder, model, inputs, config)
            found.append(train(bin, folder, 3, 1)[1])
        assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
        assert any(found[0][name].abs().sum() > 0 for name in found[0])
    return case


def memory_case(bin):
    """A rank's states are an equal part of each bucket: no more than a row of 128 bytes above it."""
    def case(folder):
        model, inputs = zoo.llama()
        sizes = {}
        for layout in ("rows", "flat"):
            sizes[layout] = make_report(bin, folder, model, inputs, 4, bucket_layout=layout)["memory"]
        assert sizes["flat"]["states"] < sizes["rows"]["states"], sizes
        ideal = sum(p.numel() for p in model.parameters()) * FLOAT / 4
        assert ideal <= sizes["flat"]["params"] <= 1.02 * ideal, (ideal, sizes)
    return case


def refused_case(bin):
    """By name, a bucket that cannot be flat is an error; auto leaves in rows what cannot be."""
    def case(folder):
        from harness import export
        import yaml
        model, inputs = zoo.mlp()
        export(model, inputs, folder / "model.pt2")
        for layout, reason in (("flat", "is no dim 0, which 'bucket_layout: flat' needs"), ("auto", None)):
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(2, bucket_layout=layout, shard_dims={"net.0.weight": 1})))
            done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--report=report.json", "-o", "step.fsdp", cwd=folder)
            assert done.returncode == (2 if reason else 0) and (reason or "") in done.stderr, done.stderr
        rows = json.loads((folder / "report.json").read_text())["collectives"]
        assert any(row["tensors"] < row["members"] for row in rows) and any(row["tensors"] > 1 for row in rows), rows
    return case


def override_case(bin):
    """One bucket in rows, the others flat."""
    def case(folder):
        report = make_report(bin, folder, Pairs(), {"x": torch.randn(4, 6), "y": torch.randn(4, 2)}, 2, bucket_layout="flat",
                             overrides=[{"modules": "blocks.0", "bucket_layout": "rows"}])
        tensors = {row["bucket"]: row["tensors"] for row in report["collectives"] if row["kind"] == "reduce_scatter"}
        assert tensors == {"blocks.0": 4, "blocks.1": 1, "root": 1}, tensors
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}
    linear = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "Linear"}
    stack = lambda: (Stack(), {"x": torch.randn(4, 17), "y": torch.randn(4, 3)})
    pairs = lambda: (Pairs(), {"x": torch.randn(4, 6), "y": torch.randn(4, 2)})
    adapted = lambda: (Adapted(), {"x": torch.randn(4, 9), "y": torch.randn(4, 9)})
    for world in (2, 3, 4, 7):
        cases[f"bytes of a stack, world={world}"] = bytes_case(bin, stack, ["layers.0", "layers.1", "layers.2"], world, **linear)
        cases[f"bytes of pairs, world={world}"] = bytes_case(bin, pairs, ["blocks.0", "blocks.1"], world)
        cases[f"bytes of odd shapes, world={world}"] = bytes_case(bin, shapes, [], world)
        cases[f"odd shapes are kept, world={world}"] = kept_case(bin, shapes, world)
    cases["bytes of lora"] = bytes_case(bin, adapted, ["blocks.0", "blocks.1"], 2)
    cases["odd shapes are kept, gloo"] = kept_case(bin, shapes, 2, "gloo")
    cases["odd shapes are kept, replicas"] = kept_case(bin, shapes, 4, replicate=2)
    cases["a decoder is kept"] = kept_case(bin, zoo.llama, 3)
    cases["odd shapes are kept, parts of 2"] = kept_case(bin, shapes, 4, reshard_after_forward=2)
    cases["parts of 2"] = parts_case(bin)
    cases["draws"] = same_draws(bin)
    cases["memory"] = memory_case(bin)
    cases["refused"] = refused_case(bin)
    cases["override"] = override_case(bin)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
