# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses that are multiplied before they are differentiated (loss_scale): what torch.amp.GradScaler
does step by step, the same bits where a scale changes nothing, and gradients in float16 that live."""
import shutil

import torch
import torch.nn as nn
from safetensors.torch import save_file
from torch.testing import assert_close

import zoo
from harness import batch_of, call, compile_step, export, make_config, make_data, must, parse_arguments, reference, run_cases, run_step, train

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
FP16 = {"param_dtype": "float16", "reduce_dtype": "float16"}


class HalfInside(nn.Module):
    """Gradients go through float16 on their way, where they overflow from 65504 on."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x, y):
        hidden = torch.tanh(self.first(x)).half() * 2
        return nn.functional.mse_loss(self.last(hidden.float()), y)


def half_inside():
    return HalfInside(), {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}


class Faint(nn.Module):
    """Gradients are too small for float16."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))

    def forward(self, x, y):
        return nn.functional.mse_loss(self.net(x).float(), y.float()) * 1e-8


def faint():
    return Faint(), {"x": torch.randn(4, 5), "y": torch.randn(4, 3)}


def scale_of(row):
    return row.get("outputs", {}).get("loss_scale")


def prepare(bin, folder, factory, world, steps, **config):
    torch.manual_seed(7)
    model, inputs = factory()
    settings = make_config(world, **config)
    data = make_data(inputs, world * steps * settings.get("gradient_accumulation_steps", 1))
    save_file(data, folder / "data.safetensors")
    compile_step(bin, folder, model.train(), inputs, settings)
    return model, inputs, data, settings


def as_grad_scaler(bin, world, steps=12, **scale):
    """Scales, updates that are left out and the end are those of GradScaler."""
    def case(folder):
        settings = {"init": 2.0**22, "growth_interval": 3, **scale}
        model, inputs, data, _ = prepare(bin, folder, half_inside, world, steps, optimizer=SGD, loss_scale=settings)
        rows, final = train(bin, folder, world, steps)
        scaler = torch.amp.GradScaler("cpu", init_scale=settings["init"], growth_interval=settings["growth_interval"],
                                      growth_factor=settings.get("growth_factor", 2.0), backoff_factor=settings.get("backoff_factor", 0.5))
        optimizer = torch.optim.SGD(model.parameters(), lr=SGD["lr"], momentum=SGD["momentum"])
        skipped = 0
        for step, row in enumerate(rows):
            losses = []
            for rank in range(world):
                losses.append(model(**batch_of(data, inputs, step * world + rank)))
                scaler.scale(losses[-1]).backward()
            for parameter in model.parameters():
                parameter.grad /= world
            assert scale_of(row) == scaler.get_scale(), f"step {step}: scale {scale_of(row)} instead of {scaler.get_scale()}"
            loss = sum(losses).item() / world
            assert abs(row["loss"] - loss) <= 2e-5 * loss, f"step {step}: loss {row['loss']} instead of {loss}"
            before = [p.detach().clone() for p in model.parameters()]
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            skipped += all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
        assert 2 <= skipped < steps - 3, f"{skipped} of {steps} updates were left out: the case tests little"
        assert len({scale_of(row) for row in rows}) > 3, rows
        for name, value in model.named_parameters():
            assert torch.allclose(final[name], value, rtol=1e-4, atol=1e-6), f"{name} differs by {(final[name] - value).abs().max():.2e}"
    return case


def same_bits(bin, factory, world, steps=3, **config):
    """A power of two multiplies and divides without a trace. With kernels of our own it makes other groups, and with them updates that are
    LibTorch's or a kernel's, which round the end of a tensor in two ways."""
    def case(folder):
        results = []
        for scale in (None, 1024, {"init": 256, "growth_interval": 2}):
            *_, settings = prepare(bin, folder, factory, world, steps, **({"loss_scale": scale} if scale else {}), **config)
            rows, final = train(bin, folder, world, steps)
            results.append(([(row["loss"], row["grad_norm"]) for row in rows], final))
            assert [scale_of(row) for row in rows] == ([256, 256, 512] if isinstance(scale, dict) else [None] * steps), rows
        near = {"rtol": 1e-6, "atol": 1e-6} if settings["fsdp_config"].get("kernels") == "on" else {"rtol": 0, "atol": 0}
        for rows, final in results[1:]:
            assert_close(torch.tensor(rows, dtype=torch.float64), torch.tensor(results[0][0], dtype=torch.float64), **near)
            for name, value in final.items():
                assert_close(value, results[0][1][name], **near, msg=lambda words: f"{name}: {words}")
    return case


def vanishing(bin, world):
    def case(folder):
        moved = []
        for scale in (None, "dynamic"):
            model, *_ = prepare(bin, folder, faint, world, 4, optimizer={"name": "sgd", "lr": 1e7}, mixed_precision=FP16,
                                **({"loss_scale": scale} if scale else {}))
            _, final = train(bin, folder, world, 4)
            moved.append(max((final[name] - value).abs().max().item() for name, value in model.named_parameters()))
        assert moved[0] < 1e-2 * moved[1] and moved[1] > 1e-2, f"moved by {moved}"
    return case


def half_precision(bin, world, **config):
    """In float16 a model learns what it learns in float32."""
    def case(folder):
        model, inputs, data, settings = prepare(bin, folder, zoo.mlp, world, 6, optimizer=SGD, mixed_precision=FP16, loss_scale={"init": 1024}, **config)
        rows, _ = train(bin, folder, world, 6)
        want, _, _ = reference(model, inputs, data, world, 6, settings)
        for row, (loss, norm) in zip(rows, want):
            assert abs(row["loss"] - loss) <= 2e-2 * max(1, abs(loss)), f"step {row['step']}: loss {row['loss']} instead of {loss}"
            assert abs(row["grad_norm"] - norm) <= 5e-2 * norm, f"step {row['step']}: norm {row['grad_norm']} instead of {norm}"
    return case


def resumed(bin, world):
    """The scale and its count go on from a checkpoint."""
    def case(folder):
        prepare(bin, folder, half_inside, world, 12, optimizer=SGD, loss_scale={"init": 2.0**22, "growth_interval": 3})
        whole = run_step(bin, folder, world, "--steps=12", "--export=whole.safetensors")
        run_step(bin, folder, world, "--steps=7", "--save=ck")
        # Metrics of a run that goes on stand behind those before.
        both = run_step(bin, folder, world, "--steps=12", "--load=ck", "--export=rest.safetensors")
        keys = ("step", "loss", "grad_norm", "outputs")
        assert [[row[key] for key in keys] for row in both] == [[row[key] for key in keys] for row in whole], both
        assert (folder / "whole.safetensors").read_bytes() == (folder / "rest.safetensors").read_bytes()
    return case


def other_scale_refused(bin):
    def case(folder):
        model, inputs = half_inside()
        export(model, inputs, folder / "model.pt2")
        (folder / "a.yaml").write_text("{mesh: {dp_shard: 1}, loss_scale: dynamic}")
        (folder / "b.yaml").write_text("{mesh: {dp_shard: 1}}")
        must(bin / "fsdp-opt", "model.pt2", "--config=a.yaml", "--save-stages=stages", "-o", "a.fsdp", cwd=folder)
        must(bin / "fsdp-opt", "stages/1-captured.mlir", "--config=a.yaml", "-o", "again.fsdp", cwd=folder)
        done = call(bin / "fsdp-opt", "stages/1-captured.mlir", "--config=b.yaml", "-o", "b.fsdp", cwd=folder)
        assert done.returncode and "another first loss_scale" in done.stderr, done.stderr
        shutil.rmtree(folder / "stages")
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}
    for world in (1, 2, 4):
        cases[f"as GradScaler, world={world}"] = as_grad_scaler(bin, world)
    cases["as GradScaler, other factors"] = as_grad_scaler(bin, 2, growth_factor=4.0, backoff_factor=0.25, growth_interval=2)
    cases["same bits"] = same_bits(bin, zoo.mlp, 2)
    cases["same bits, clip, micro-batches"] = same_bits(bin, zoo.mlp, 2, max_grad_norm=0.1, gradient_accumulation_steps=2, gradient_division="optimizer")
    cases["same bits, replicas"] = same_bits(bin, zoo.gpt, 4, replicate=2, optimizer=SGD)
    cases["same bits, flat"] = same_bits(bin, zoo.mlp, 3, bucket_layout="flat")
    cases["kernels"] = same_bits(bin, zoo.mlp, 2, kernels="on")
    cases["vanishing gradients"] = vanishing(bin, 2)
    for world in (1, 2, 3):
        cases[f"float16, world={world}"] = half_precision(bin, world)
    cases["float16, micro-batches"] = half_precision(bin, 2, gradient_accumulation_steps=2)
    cases["resumed"] = resumed(bin, 2)
    cases["another scale is refused"] = other_scale_refused(bin)
    run_cases(cases, arguments.only)


main()
