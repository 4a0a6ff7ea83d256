# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixed precision trains as PyTorch does that casts in the same places."""
import copy
import fnmatch
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

import zoo
from harness import OPTIMIZERS, batch_of, compile_step, flat, make_config, make_data, must, parse_arguments, run_cases, train

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


def dtype_of(name, default=None):
    return getattr(torch, name) if name else default


def policy_of(fsdp, module):
    """The policy of the module with that path, and whether an override makes it."""
    parts = module.split(".") if module else []
    paths = [".".join(parts[:i]) for i in range(len(parts) + 1)]
    for override in reversed(fsdp.get("overrides", [])):
        patterns = override["modules"] if isinstance(override["modules"], list) else [override["modules"]]
        if any(fnmatch.fnmatchcase(path, pattern) for path in paths for pattern in patterns):
            return override["mixed_precision"], True
    return fsdp.get("mixed_precision", {}), False


def lower(model, fsdp):
    """A copy that computes in the dtypes of the policies."""
    low = copy.deepcopy(model)
    for path, module in low.named_modules():
        for parameter in module.parameters(recurse=False):
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype_of(policy_of(fsdp, path)[0].get("param_dtype"), parameter.dtype))
        # With overrides, dtypes meet: each layer takes its input in its own.
        own = next(module.parameters(recurse=False), None)
        if fsdp.get("overrides") and own is not None:
            dtype = own.dtype
            module.register_forward_pre_hook(
                lambda _, args, dtype=dtype: tuple(a.to(dtype) if torch.is_tensor(a) and a.is_floating_point() else a for a in args))
    return low


def send(gradients, wire, ranks):
    """What gradients in float32, one of each rank, are when they have travelled among so many ranks."""
    if wire is None or gradients[0].dtype != torch.float32:
        return [g.float() for g in gradients]
    if wire == "bfloat16":
        return [g.bfloat16().float() for g in gradients]
    sent = []
    for first in range(0, len(gradients), ranks):
        together = gradients[first:first + ranks]
        scale = torch.exp2(torch.floor(torch.log2(448 / max(g.abs().max() for g in together))))
        sent += [(g * scale).to(torch.float8_e4m3fn).float() / scale for g in together]
    return sent


def reference(model, inputs, data, world, steps, config):
    """As harness.reference, with a lowered copy for each rank and gradients reduced in their dtype, in each micro-batch."""
    micro_batches = config.get("gradient_accumulation_steps", 1)
    model, fsdp = copy.deepcopy(model), config["fsdp_config"]
    options = dict(config["optimizer"])
    optimizer = OPTIMIZERS[options.pop("name")]([p for p in model.parameters() if p.requires_grad], **options)
    cast = dtype_of(fsdp.get("mixed_precision", {}).get("param_dtype"))
    if not fsdp.get("mixed_precision", {}).get("cast_forward_inputs", True):
        cast = None
    reduce_of = {}
    for path, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            reduce_of.setdefault(parameter, dtype_of(policy_of(fsdp, path)[0].get("reduce_dtype"), parameter.dtype))
    buffers = dict(model.named_buffers())
    own = [{k: v.clone() for k, v in buffers.items()} for _ in range(world)]
    rows = []
    for step in range(steps):
        loss_sum, gradients = 0.0, {}
        for number in range(world * micro_batches):
            rank = number % world
            for name, value in buffers.items():
                value.data.copy_(own[rank][name])
            low = lower(model, fsdp)
            batch = {k: v.to(cast) if cast and v.is_floating_point() else v for k, v in batch_of(data, inputs, step * world * micro_batches + number).items()}
            out = low(**batch)
            loss = out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out
            loss.backward()
            loss_sum += loss.item() / world / micro_batches
            for high, short in zip(model.parameters(), low.parameters()):
                if short.grad is not None:
                    gradients.setdefault(high, []).append(short.grad.to(reduce_of[high]))
            own[rank] = {k: v.clone() for k, v in low.named_buffers()}
        for parameter, each in gradients.items():
            each = send(each, fsdp.get("reduce_wire_dtype"), world // config["mesh"].get("dp_replicate", 1))
            mean = sum(each) / (fsdp.get("gradient_divide_factor") or world) / micro_batches
            parameter.grad = mean.to(reduce_of[parameter]).to(parameter.dtype)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.get("max_grad_norm", float("inf")))
        optimizer.step()
        optimizer.zero_grad()
        rows.append((loss_sum, norm.item()))
    return rows, {k: v.detach() for k, v in model.named_parameters(remove_duplicate=False)}


def compare(rows, final, want_rows, want, start, trained, accuracy):
    for row, (loss, norm) in zip(rows, want_rows, strict=True):
        assert abs(row["loss"] - loss) <= accuracy * max(1, abs(loss)), f"step {row['step']}: loss {row['loss']} instead of {loss}"
        assert abs(row["grad_norm"] - norm) <= 3 * accuracy * norm, f"step {row['step']}: grad_norm {row['grad_norm']} instead of {norm}"
    moved = {k: (want[k].float() - start[k].float()).abs().mean().item() for k in want}
    furthest = max(moved.values())
    assert furthest > 1e-4, "nothing moved: the case tests nothing"
    for name, value in want.items():
        have = final[name]
        assert have.dtype == value.dtype and have.shape == value.shape, f"{name} is {have.dtype} {tuple(have.shape)}"
        assert name in trained or torch.equal(have, value), f"{name} is frozen and has changed"
        error = (have.float() - value.float()).abs().mean().item()
        assert error <= accuracy * (moved[name] + 0.1 * furthest), f"{name}: mean error {error:.2e}, moved by {moved[name]:.2e}"


def precision_case(bin, factory, world, accuracy, form="exported", steps=3, lowers=True, micro_batches=1, **fsdp):
    """A case for `run_cases`. `lowers`: a run in full precision must differ."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        model.train()
        config = make_config(world, SGD, gradient_accumulation_steps=micro_batches)
        config["fsdp_config"].update(fsdp)
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        trained = {k for k, v in model.named_parameters(remove_duplicate=False) if v.requires_grad}
        data = make_data(inputs, world * steps * micro_batches)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, config, form)
        rows, final = train(bin, folder, world, steps)
        want_rows, want = reference(model, inputs, data, world, steps, config)
        compare(rows, final, want_rows, want, start, trained, accuracy)
        if lowers:
            _, full = reference(model, inputs, data, world, steps, make_config(world, SGD, gradient_accumulation_steps=micro_batches))
            distance = lambda a: sum((a[k].float() - full[k].float()).abs().mean().item() for k in trained)
            assert distance(final) >= 0.1 * distance(want) > 0, "the weights are those of a run in full precision"
    return case


def wire_case(bin, factory, world, accuracy=2e-4, backend="local", narrow="bfloat16", **extra):
    """Gradients that travel in fewer bytes and are summed in float32: half the bytes, or a quarter, and what comes out is not rounded again."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        model.train()
        replicate, steps = extra.get("replicate", 1), 3
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        trained = {k for k, v in model.named_parameters(remove_duplicate=False) if v.requires_grad}
        data = make_data(inputs, world * steps)
        save_file(data, folder / "data.safetensors")
        scattered = []
        for wire in (None, narrow):
            config = make_config(world, SGD, **extra)
            config["fsdp_config"].update({"reduce_wire_dtype": wire} if wire else {})
            compile_step(bin, folder, model, inputs, config, options=["--report=report.json", "--save-stages=stages"])
            report = json.loads((folder / "report.json").read_text())
            scattered.append(sum(c["bytes"] * c["count"] for c in report["collectives"] if c["kind"] == "reduce_scatter"))
        assert 0 < scattered[1] == scattered[0] / (4 if narrow == "float8" else 2), scattered
        casts = [each for each in report["casts"] if each["cause"] == "wire"]
        assert len(casts) == 1 and casts[0]["from"] == "f32" and casts[0]["count"] > 0, casts
        rows, final = train(bin, folder, world, steps, backend, options=["--poison"])
        want_rows, want = reference(model, inputs, data, world, steps, config)
        compare(rows, final, want_rows, want, start, trained, accuracy)
        _, full = reference(model, inputs, data, world, steps, make_config(world, SGD, **extra))
        distance = lambda a: sum((a[k].float() - full[k].float()).abs().mean().item() for k in trained)
        assert distance(final) >= 0.5 * distance(want) > 0, "the weights are those of a run in full precision"
        # As on GPUs: parts are exchanged, and summed behind it.
        must(bin / "fsdp-opt", "stages/3-scheduled.mlir", "--fsdp-plan-pipeline=exchange-wires=true", "-o", "planned.mlirbc", cwd=folder)
        must(bin / "fsdp-opt", "planned.mlirbc", "-o", "step.fsdp", cwd=folder)
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        assert "all_to_all.start" in text and "sum_parts" in text and "reduce_scatter.start" not in text, "nothing is exchanged"
        again, same = train(bin, folder, world, steps, backend, options=["--poison"])
        assert [(row["loss"], row["grad_norm"]) for row in again] == [(row["loss"], row["grad_norm"]) for row in rows], "an exchange and a sum give other losses"
        assert all(torch.equal(same[k], final[k]) for k in final), "an exchange and a sum give other weights"
    return case


def wires_by_bucket(bin):
    """An override says in what type the gradients of a bucket travel."""
    def case(folder):
        model, inputs = zoo.gpt()
        reduced = {}
        for name, overrides in {"all": [], "blocks alone": [{"modules": "root", "reduce_wire_dtype": "float32"}]}.items():
            config = make_config(2, SGD)
            config["fsdp_config"].update({"reduce_wire_dtype": "float8", "overrides": overrides})
            compile_step(bin, folder, model.train(), inputs, config, options=["--report=report.json"])
            calls = json.loads((folder / "report.json").read_text())["collectives"]
            reduced[name] = {c["bucket"]: c["bytes"] for c in calls if c["kind"] == "reduce_scatter"}
        assert reduced["blocks alone"].pop("root") == 4 * reduced["all"].pop("root") and reduced["blocks alone"] == reduced["all"] != {}, reduced
    return case


def low_model():
    """A model that was exported in bfloat16."""
    model, inputs = zoo.mlp()
    return model.bfloat16(), {k: v.bfloat16() if v.is_floating_point() else v for k, v in inputs.items()}


class Masked(nn.Module):
    """Attention whose mask holds the least number of the type that scores are computed in, and rows in which nothing else is."""
    LENGTH = 8

    def __init__(self, kinds):
        super().__init__()
        self.kinds, self.embed, self.q, self.head = kinds, nn.Embedding(53, 16), nn.Linear(16, 16), nn.Linear(16, 53)

    def mask(self, kind, scores, keep):
        dtype, low = scores.dtype, torch.finfo(scores.dtype).min
        if kind == "masked_fill":
            return scores.masked_fill(~keep, low)
        if kind == "masked_fill_":
            return scores.clone().masked_fill_(~keep, low)
        if kind == "where":
            return torch.where(keep, scores, low)
        if kind == "where of a tensor":
            return torch.where(keep, scores, torch.tensor(low, dtype=dtype))
        if kind == "full":
            return torch.where(keep, scores, torch.full((self.LENGTH, self.LENGTH), low, dtype=dtype))
        if kind == "full_like":
            return torch.where(keep, scores, torch.full_like(scores, low))
        if kind == "new_full":
            return torch.where(keep, scores, scores.new_full((1,), low))
        if kind == "greatest":
            return torch.where(keep, scores, -torch.finfo(dtype).max)
        if kind == "added":
            return scores + torch.zeros_like(keep, dtype=dtype).masked_fill(~keep, low)
        if kind == "added in place":
            scores = scores.clone()
            scores += torch.full((self.LENGTH, self.LENGTH), low, dtype=dtype).triu(1).expand_as(scores)
            return scores.masked_fill(~keep, low)
        if kind == "scaled":
            return scores.clone().add_((1.0 - keep.to(dtype)) * low)
        if kind == "clamp":
            return torch.where(keep, scores, float("-inf")).clamp(min=low)
        raise AssertionError(kind)

    def look(self, kind, h, keep):
        if kind == "fused":
            low = torch.zeros(keep.shape, dtype=h.dtype).masked_fill(~keep, torch.finfo(h.dtype).min)
            return F.scaled_dot_product_attention(self.q(h)[:, None], h[:, None], h[:, None], attn_mask=low[:, None])[:, 0]
        return self.mask(kind, self.q(h) @ h.transpose(1, 2) / 4, keep).softmax(-1) @ h

    def forward(self, x, start, y):
        h = self.embed(x)
        place = torch.arange(self.LENGTH)
        keep = (place <= place[:, None])[None] & (place >= start[:, None, None])
        labels = y.masked_fill(place < start[:, None], -100)
        losses = [F.cross_entropy(self.head(h + self.look(kind, h, keep)).float().flatten(0, 1), labels.flatten()) for kind in self.kinds]
        return torch.stack(losses).mean()


LEAST = ("masked_fill", "masked_fill_", "where", "where of a tensor", "full", "full_like", "new_full", "greatest", "added", "added in place", "scaled", "clamp", "fused")


def least(*kinds):
    def factory():
        length = Masked.LENGTH
        return Masked(kinds), {"x": torch.randint(0, 53, (2, length)), "start": torch.tensor([0, 3]), "y": torch.randint(0, 53, (2, length))}
    return factory


def least_is_told(bin):
    """--explain and the report list numbers that became those of another type; without mixed precision there are none."""
    def case(folder):
        model, inputs = least("masked_fill")()
        for policy, told in ((BF16, [("limit", "aten::masked_fill.Scalar", "f32", "bf16", 1)]), ({}, [])):
            config = make_config(1, SGD)
            config["fsdp_config"]["mixed_precision"] = policy
            compile_step(bin, folder, model.train(), inputs, config, options=["--report=report.json"])
            rows = json.loads((folder / "report.json").read_text())["casts"]
            assert [tuple(r[k] for k in ("cause", "name", "from", "to", "count")) for r in rows if r["cause"] == "limit"] == told, rows
    return case


def refused_statistics(bin):
    def case(folder):
        model, inputs = zoo.convnet()
        config = make_config(2, SGD)
        config["fsdp_config"]["mixed_precision"] = BF16
        try:
            compile_step(bin, folder, model, inputs, config)
        except AssertionError as error:
            assert "running statistics of Float" in str(error) and "overrides: [{modules:" in str(error), error
        else:
            raise AssertionError("batch norm with statistics of another dtype was accepted")
    return case


def expanded_mask(bin):
    """A mask that is expanded along its rows does not cost the fused attention."""
    def case(folder):
        model, inputs = zoo.vit()
        compile_step(bin, folder, model.train(), inputs, make_config(2, SGD), options=["--save-stages=stages"])
        text = (folder / "stages" / "1-captured.mlir").read_text()
        assert text.count("aten._scaled_dot_product_flash_attention_for_cpu(") == 2 and "_safe_softmax" not in text
    return case


def main():
    arguments = parse_arguments()
    cases = {"statistics are refused": refused_statistics(arguments.bin), "expanded mask": expanded_mask(arguments.bin), "wires by bucket": wires_by_bucket(arguments.bin),
             "least number is told": least_is_told(arguments.bin)}

    def add(factory, world, label, accuracy=1e-2, also_flat=False, **options):
        cases[f"{factory.__name__} world={world} {label}"] = flat(precision_case(arguments.bin, factory, world, accuracy, **options), also_flat)

    for world in (1, 2, 3, 4) if arguments.all else (1, 3):
        add(zoo.mlp, world, "bf16", also_flat=world > 1, mixed_precision=BF16)
    add(zoo.mlp, 3, "bf16 reduced", also_flat=True, mixed_precision={**BF16, "reduce_dtype": "bfloat16"}, reshard_after_forward=True)
    add(zoo.mlp, 2, "default reduce_dtype", mixed_precision={"param_dtype": "bfloat16"})
    add(zoo.mlp, 2, "reduce_dtype alone", mixed_precision={"reduce_dtype": "bfloat16"})
    add(zoo.mlp, 2, "output_dtype", mixed_precision={**BF16, "output_dtype": "float32"})
    for world in (2, 3, 4) if arguments.all else (4,):
        add(zoo.mlp, world, "fp16", also_flat=True, mixed_precision={"param_dtype": "float16", "reduce_dtype": "float16"})
    add(zoo.mlp, 3, "divided by 2", mixed_precision=BF16, gradient_divide_factor=2)
    add(zoo.mlp, 3, "sums alone", mixed_precision=BF16, force_sum_reduction=True)
    add(zoo.mlp, 2, "norm in float32", also_flat=True, mixed_precision=BF16, overrides=[{"modules": "net.2", "mixed_precision": {"param_dtype": "float32"}}])
    for dtype in ("float16", "bfloat16"):
        add(zoo.mlp, 2, f"{dtype} on one submodule", also_flat=True, overrides=[{"modules": "net.0", "mixed_precision": {"param_dtype": dtype}}])
    add(low_model, 3, "bf16 model", also_flat=True, mixed_precision={"reduce_dtype": "float32"}, lowers=False)
    add(low_model, 2, "in float32", also_flat=True, mixed_precision={"param_dtype": "float32"})
    add(zoo.tiny, 4, "bf16", also_flat=True, mixed_precision=BF16)
    add(zoo.convnet, 2, "norms in float32", also_flat=True, accuracy=5e-2, mixed_precision=BF16,
        overrides=[{"modules": "net.1", "mixed_precision": {}}, {"modules": ["net.5"], "mixed_precision": {"param_dtype": "float32"}}])
    add(zoo.tagger, 2, "bf16", accuracy=5e-2, mixed_precision=BF16)
    for factory, world in ((zoo.gpt, 3), (zoo.lora, 2), (zoo.lora_llama, 2), *(((zoo.gpt, 2), (zoo.lora, 3)) if arguments.all else ())):
        add(factory, world, "bf16", also_flat=True, accuracy=0.1, mixed_precision=BF16, reshard_after_forward=True)
    for sync in ("each", "last"):
        add(zoo.mlp, 2, f"3 micro-batches, exchanged in {sync}", mixed_precision=BF16, gradient_sync=sync, micro_batches=3)
        add(zoo.gpt, 3, f"2 micro-batches, bf16 sums, exchanged in {sync}", also_flat=True, accuracy=0.1, gradient_sync=sync, micro_batches=2,
            mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "bfloat16"})
    for dtype in ("bfloat16", "float16"):
        policy = {"param_dtype": dtype, "reduce_dtype": "float32"}
        for kinds in ((LEAST, *((kind,) for kind in LEAST)) if arguments.all else (LEAST,)):
            label = kinds[0] if len(kinds) == 1 else "all ways"
            cases[f"least number, {label}, {dtype}"] = precision_case(arguments.bin, least(*kinds), 1, 2e-2, steps=2, mixed_precision=policy)
    cases["least number, traced"] = precision_case(arguments.bin, least("masked_fill", "where"), 2, 2e-2, steps=2, mixed_precision=BF16, form="traced")

    def add_wire(factory, world, label, **options):
        cases[f"{factory.__name__} world={world} wire {label}"] = wire_case(arguments.bin, factory, world, **options)

    add_wire(zoo.mlp, 3, "uneven rows")
    add_wire(zoo.mlp, 4, "replicas, gloo", replicate=2, backend="gloo")
    add_wire(zoo.gpt, 2, "flat", bucket_layout="flat", reshard_after_forward=True)
    add_wire(zoo.gpt, 2, "rows of dim 1", bucket_layout="rows", shard_dims={"*.head.weight": 1})
    add_wire(zoo.gpt, 3, "fsdp2", bucket_layout="fsdp2")
    # Sums of few bits have roundings that a last bit of a gradient decides: models that compute each in one order.
    add_wire(zoo.mlp, 2, "float8", narrow="float8", accuracy=2e-3)
    add_wire(zoo.mlp, 3, "float8, uneven rows, gloo", narrow="float8", backend="gloo", accuracy=2e-3)
    add_wire(zoo.mlp, 4, "float8, replicas", narrow="float8", replicate=2, accuracy=2e-3)
    add_wire(zoo.gpt, 2, "float8, reshards", narrow="float8", reshard_after_forward=True, accuracy=1e-2)
    add_wire(zoo.gpt, 3, "float8, other dims", narrow="float8", bucket_layout="rows", shard_dims={"*.head.weight": 1}, accuracy=1e-2)
    for form in ("traced", "scripted"):
        add(zoo.mlp, 2, form, form=form, mixed_precision=BF16)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
