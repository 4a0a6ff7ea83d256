# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adapters that the config asks for, against PyTorch with the same matrices beside the layers, and means over labels."""
import copy
import fnmatch
import json

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import zoo
from harness import batch_of, call, compile_step, make_config, make_data, make_optimizer, must_refuse, parse_arguments, reference, run_cases, run_step, train

SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}


def gpt2():
    """transformers' Conv1D holds [in, out]."""
    import transformers
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=37, n_embd=16, n_layer=2, n_head=2, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, tie_word_embeddings=False))
    return model, {"input_ids": torch.randint(0, 37, (2, 8)), "labels": torch.randint(0, 37, (2, 8)), "use_cache": False}


class Layers(nn.Module):
    """A convolution, an embedding and linear layers, one of them called twice."""

    def __init__(self, half=False):
        super().__init__()
        self.embed, self.conv = nn.Embedding(29, 12), nn.Conv1d(12, 16, 3, padding=1)
        self.twice, self.head = nn.Linear(16, 16), nn.Linear(16, 29)
        if half:
            self.to(torch.bfloat16)

    def forward(self, ids, labels):
        x = self.conv(self.embed(ids).mT).mT
        x = torch.tanh(self.twice(torch.tanh(self.twice(x))))
        return F.cross_entropy(self.head(x).float().flatten(0, 1), labels.flatten())


def layers(half=False):
    return Layers(half), {"ids": torch.randint(0, 29, (3, 7)), "labels": torch.randint(0, 29, (3, 7))}


def give(model, first, scale):
    """Freezes the model and gives the layers what `first` has for them, in PEFT's form."""
    from transformers.pytorch_utils import Conv1D
    model.requires_grad_(False)
    for path, layer in model.named_modules():
        kind = next((kind for kind in ("lora_A.weight", "lora_embedding_A") if f"{path}.{kind}" in first), None)
        if kind is None:
            continue
        down, up = (nn.Parameter(first[f"{path}.{kind.replace('_A', each)}"].clone()) for each in ("_A", "_B"))
        layer.down, layer.up = down, up

        def add(layer, args, out, kind=kind):
            x = args[0]
            if kind == "lora_embedding_A":
                delta = F.linear(F.embedding(x, layer.down.t()), layer.up)
            elif isinstance(layer, nn.Conv1d):
                delta = F.conv1d(F.conv1d(x.to(layer.down.dtype), layer.down, padding=layer.padding), layer.up)
            else:
                delta = F.linear(F.linear(x.to(layer.down.dtype), layer.down), layer.up)
            return (out + delta * scale).to(out.dtype)
        layer.register_forward_hook(add)
        layer.turned = isinstance(layer, (Conv1D, nn.Embedding))


def merge(model, scale):
    """Each tensor of the plain model, with the adapters in their weights."""
    found = {name: value.detach().clone() for name, value in model.state_dict().items()}
    for path, layer in model.named_modules():
        if isinstance(getattr(layer, "down", None), nn.Parameter):
            delta = layer.up.flatten(1) @ layer.down.flatten(1)
            weight = found[f"{path}.weight"]
            found[f"{path}.weight"] = (weight.float() + scale * (delta.T if layer.turned else delta).reshape(weight.shape)).to(weight.dtype).detach()
    return {name: value for name, value in found.items() if not name.endswith((".down", ".up"))}


def adapter_case(bin, world, factory, adapter, expected, form="exported", also=(), **config):
    """`expected`: patterns of the layers that get one, all of them; `also`: of parameters that are trained beside."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        told = make_config(world, adapter=adapter, **{"optimizer": SGD, **config})
        data = make_data(inputs, world * 3 * told.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, told, form)
        assert call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=0", "--export-trained=first.safetensors", cwd=folder).returncode == 0
        first = load_file(folder / "first.safetensors")
        rank, alpha = adapter.get("r", 8), adapter.get("alpha", 8)
        scale = alpha / (rank ** 0.5 if adapter.get("rslora") else rank)
        paths = {name.rpartition(".lora_")[0] for name in first if ".lora_" in name}
        wanted = {path for path, _ in model.named_modules() if any(fnmatch.fnmatch(path, each) for each in expected)}
        assert paths == wanted, sorted(paths ^ wanted)
        for name, value in first.items():
            if ".lora_" in name:
                assert (value.abs().max() > 0) == (name.endswith(("lora_A.weight", "lora_embedding_B"))), f"{name} does not begin as PEFT's"
                assert rank in value.shape[:2] and value.dtype == torch.float32, f"{name} is {value.dtype} {value.shape}"
        plain = {name: value.clone() for name, value in model.state_dict().items()}
        adapted = copy.deepcopy(model)
        give(adapted, first, scale)
        beside = [name for name, _ in model.named_parameters() if any(fnmatch.fnmatch(name, each) for each in also)]
        for name in beside:
            adapted.get_parameter(name).requires_grad_(True)
        assert set(first) - {name for name in first if ".lora_" in name} == set(beside), sorted(first)
        ratio = adapter.get("lr_b_ratio")
        spec = {**told, "optimizer": {**told["optimizer"], **({"groups": [{"params": ["*.up"], "lr": told["optimizer"]["lr"] * ratio}]} if ratio else {})}}
        want_rows, trained, _ = reference(adapted, inputs, data, world, 3, spec)
        rows, final = train(bin, folder, world, 3, options=["--export-trained=trained.safetensors"])
        half = any(value.dtype == torch.bfloat16 for value in plain.values())
        for row, (loss, norm) in zip(rows, want_rows):
            assert abs(row["loss"] - loss) <= (2e-2 if half else 2e-5) * loss, f"step {row['step']}: {row['loss']} instead of {loss}"
            assert abs(row["grad_norm"] - norm) <= (0.1 if half else 1e-3) * norm, f"step {row['step']}: norm {row['grad_norm']} instead of {norm}"
            assert row["unplanned_bytes"] == 0, row
        for name, value in adapted.named_parameters():
            value.data.copy_(trained[name])
        want = merge(adapted, scale)
        assert set(final) == set(want), sorted(set(final) ^ set(want))
        changed = 0
        for name, value in want.items():
            moved = (value.float() - plain[name].float()).abs().mean().item()
            assert final[name].dtype == plain[name].dtype and final[name].shape == plain[name].shape, name
            if name.rpartition(".")[0] not in paths and name not in beside:
                assert torch.equal(final[name], plain[name]), f"{name} has changed"
                continue
            changed += moved > 0
            off = (final[name].float() - value.float()).abs().mean().item()
            assert off <= (0.2 if half else 2e-2) * moved + 1e-6, f"{name}: off by {off:.2e} where it moved by {moved:.2e}"
        assert changed, "nothing was trained"
    return case


def same_first_case(bin):
    """First values are the seed's, whatever the number of ranks; another seed has others."""
    def case(folder):
        found = []
        for world, seed in ((1, 3), (3, 3), (1, 4)):
            torch.manual_seed(7)
            model, inputs = zoo.llama()
            compile_step(bin, folder, model, inputs, make_config(world, adapter={"r": 5}, seed=seed))
            call(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=0", "--export-trained=first.safetensors", cwd=folder)
            found.append(load_file(folder / "first.safetensors"))
        assert found[0] and all(torch.equal(value, found[1][name]) for name, value in found[0].items())
        assert not all(torch.equal(value, found[2][name]) for name, value in found[0].items())
        for name, value in found[0].items():
            if name.endswith("lora_A.weight"):
                bound = value.shape[1] ** -0.5
                assert 0.8 * bound < value.abs().max() <= bound, f"{name} is not uniform up to {bound}"
    return case


def folder_case(bin):
    """--export-trained=DIR/ is a folder of PEFT's, from which --weights goes on; dropout draws in training alone."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = zoo.llama()
        save_file(make_data(inputs, 6), folder / "data.safetensors")
        config = make_config(2, adapter={"r": 4, "alpha": 6, "dropout": 0.1, "modules": ["q", "v"], "also_train": "*norm*"}, optimizer=SGD)
        compile_step(bin, folder, model, inputs, config)
        run_step(bin, folder, 2, "--steps=2", "--export-trained=adapter/", "--export=merged.safetensors")
        told = json.loads((folder / "adapter/adapter_config.json").read_text())
        assert (told["peft_type"], told["r"], told["lora_alpha"], told["lora_dropout"], told["bias"]) == ("LORA", 4, 6, 0.1, "none"), told
        assert all(name.endswith((".q", ".v")) for name in told["target_modules"]) and told["target_modules"], told
        assert told["modules_to_save"] and all("norm" in name for name in told["modules_to_save"]), told
        trained = load_file(folder / "adapter/adapter_model.safetensors")
        assert all(name.startswith("base_model.model.") for name in trained), sorted(trained)
        save_file(dict(model.state_dict()), folder / "base.safetensors")
        compile_step(bin, folder, model, inputs, config, options=["--weights=adapter/", "--weights=base.safetensors"])
        call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=0", "--export-trained=again.safetensors", "--export=again_merged.safetensors", cwd=folder)
        # A run takes them as well, for an artifact that was compiled without.
        compile_step(bin, folder, model, inputs, config)
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=0", "--weights=adapter/", "--export-trained=given.safetensors", cwd=folder)
        assert done.returncode == 0, done.stderr
        given = load_file(folder / "given.safetensors")
        assert all(torch.equal(value, trained[f"base_model.model.{name}"]) for name, value in given.items()), "the run began anew"
        again = load_file(folder / "again.safetensors")
        assert {f"base_model.model.{name}" for name in again} == set(trained)
        assert all(torch.equal(value, trained[f"base_model.model.{name}"]) for name, value in again.items()), "it did not go on"
        for name, value in load_file(folder / "merged.safetensors").items():
            assert torch.equal(value, load_file(folder / "again_merged.safetensors")[name]), name
    return case


def labels_case(bin, world, factory=zoo.llama, **config):
    """Every label that counts counts as much, whichever rank and micro-batch it is in; a batch may have none."""
    def case(folder):
        torch.manual_seed(11)
        model, inputs = factory()
        told = make_config(world, loss_normalization="tokens", **{"optimizer": SGD, **config})
        batches = world * told.get("gradient_accumulation_steps", 1)
        data = make_data(inputs, batches * 3)
        keep = torch.rand(len(data["labels"]), 1)
        data["labels"] = torch.where(torch.rand(data["labels"].shape) < keep, data["labels"], -100)
        rows_each = len(inputs["labels"])
        data["labels"][:rows_each] = -100  # of the first batch nothing counts
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, told)
        rows = run_step(bin, folder, world, "--steps=3", "--export=final.safetensors")
        model = copy.deepcopy(model)
        shifts = factory is zoo.llama and "use_cache" in inputs
        optimizer = make_optimizer(model, told["optimizer"])
        for step in range(3):
            each = [batch_of(data, inputs, step * batches + number) for number in range(batches)]
            counts = [(batch["labels"][:, 1:] if shifts else batch["labels"]).ne(-100).sum().item() for batch in each]
            total = 0.0
            for batch, count in zip(each, counts):
                if not count:
                    continue
                out = model(**batch)
                loss = out if torch.is_tensor(out) else out[0] if isinstance(out, tuple) else out["loss"]
                (loss * count / sum(counts)).backward()
                total += loss.item() * count / sum(counts)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), told.get("max_grad_norm", float("inf"))).item()
            optimizer.step()
            optimizer.zero_grad()
            assert abs(rows[step]["loss"] - total) <= 2e-5 * total, f"step {step}: {rows[step]['loss']} instead of {total}"
            assert abs(rows[step]["grad_norm"] - norm) <= 1e-3 * norm, f"step {step}: norm {rows[step]['grad_norm']} instead of {norm}"
        final = load_file(folder / "final.safetensors")
        for name, value in model.state_dict().items():
            assert torch.allclose(final[name], value, rtol=1e-4, atol=1e-5), f"{name} is off by {(final[name] - value).abs().max()}"
    return case


def validation_case(bin):
    """The validation's loss is the mean over all labels of its batches, too."""
    def case(folder):
        torch.manual_seed(11)
        model, inputs = layers()
        data = make_data(inputs, 5)
        data["labels"] = torch.where(torch.rand(data["labels"].shape) < torch.rand(len(data["labels"]), 1), data["labels"], -100)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(2, loss_normalization="tokens", eval={}))
        done = run_step(bin, folder, 2, "--eval-data=data.safetensors", "--eval-only")
        found = next(row["eval_loss"] for row in done if "eval_loss" in row)
        used = len(data["labels"]) // 6 * 6
        want = model(data["ids"][:used], data["labels"][:used]).item()
        assert abs(found - want) <= 1e-5 * want, f"{found} instead of {want}"
    return case


def refusals(bin):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(29, 12), nn.Linear(12, 29, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids, labels):
            return F.cross_entropy(self.head(self.embed(ids)).flatten(0, 1), labels.flatten())

    class Twice(Layers):
        def forward(self, ids, labels):
            return super().forward(ids, labels) + self.twice.weight.square().mean()

    def case(folder):
        inputs = {"ids": torch.randint(0, 29, (3, 7)), "labels": torch.randint(0, 29, (3, 7))}
        for model, configs in (
                (Layers(), {"none of the model's layers is meant": {"adapter": {"modules": "nothing.*"}},
                            "is lora here": {"adapter": {"name": "vera"}},
                            "counts the labels": {"loss_normalization": "tokens", "data": {"label_count": "ids", "shifts_labels": True}}}),
                (Tied(), {"which is also": {"adapter": {"modules": "head"}}}),
                (Twice(), {"reads as well": {"adapter": {"modules": "twice"}}, }),
                (zoo.lora()[0], {"has some already": {"adapter": {}}}),
                (zoo.tiny()[0], {"computed from none": {"loss_normalization": "tokens"}})):
            own = inputs if isinstance(model, (Layers, Tied)) else (zoo.lora() if any("lora" in name for name, _ in model.named_parameters()) else zoo.tiny())[1]
            torch.export.save(torch.export.export(model, (), own, strict=False), folder / "model.pt2")
            must_refuse(bin, folder, configs)
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    lora = {"r": 4, "alpha": 6}
    projections = ["*.q", "*.v", "*.up"]
    cases = {
        "llama world=1": adapter_case(bin, 1, zoo.llama, {**lora, "modules": "re:.*[.](q|v|up)"}, projections),
        "llama world=3 adamw": adapter_case(bin, 3, zoo.llama, {**lora, "rslora": True, "modules": ["o", "*.down"]}, ["*.o", "*.down"],
                                            optimizer={"name": "adamw", "lr": 1e-2, "eps": 1e-3}),
        "all-linear world=2 accumulate": adapter_case(bin, 2, layers, lora, ["twice"], gradient_accumulation_steps=2),
        "every kind world=2": adapter_case(bin, 2, layers, {**lora, "modules": ["embed", "conv", "twice", "head"]}, ["embed", "conv", "twice", "head"]),
        "biases world=2": adapter_case(bin, 2, layers, {**lora, "modules": ["twice"], "bias": "lora_only", "also_train": ["head"]}, ["twice"],
                                       also=["twice.bias", "head.*"]),
        "lora+ world=2": adapter_case(bin, 2, layers, {**lora, "modules": ["twice", "embed"], "lr_b_ratio": 4}, ["twice", "embed"]),
        "gaussian traced world=2": adapter_case(bin, 2, layers, {**lora, "modules": ["twice", "conv"], "init": "gaussian"}, ["twice", "conv"], form="traced"),
        "half base world=2": adapter_case(bin, 2, lambda: layers(True), {**lora, "modules": ["twice", "conv"]}, ["twice", "conv"]),
        "conv1d world=2": adapter_case(bin, 2, gpt2, lora, ["*c_attn", "*c_fc", "*c_proj"]),
        "first values": same_first_case(bin),
        "folder": folder_case(bin),
        "labels world=2": labels_case(bin, 2, layers),
        "labels world=2 accumulate clip": labels_case(bin, 2, layers, gradient_accumulation_steps=3, max_grad_norm=0.1),
        "labels kernels": labels_case(bin, 2, layers, kernels="on"),
        "labels chunks": labels_case(bin, 1, layers, loss_chunks=3, gradient_accumulation_steps=2),
        "labels validation": validation_case(bin),
        "refusals": refusals(bin),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
