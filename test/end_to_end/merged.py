# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models whose adapters fsdp-run merges into the matrices beside them, against a merge in PyTorch of what it exports."""
import copy
import json

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

import zoo
from harness import batch_of, call, compile_step, make_config, make_data, parse_arguments, run_cases, train


class Lora(zoo.LoraLinear):
    """PEFT's layer with dropout, over linear layers and transformers' Conv1D, in any type."""

    def __init__(self, base, rank=3, alpha=6, dropout=0.0):
        is_linear = isinstance(base, nn.Linear)
        sizes = base.weight.shape if is_linear else base.weight.shape[::-1]
        super().__init__(nn.Linear(sizes[1], sizes[0], device="meta"), rank, alpha)
        self.base_layer, self.is_linear = base, is_linear
        self.lora_dropout["default"] = nn.Dropout(dropout)

    def forward(self, x):
        result = self.base_layer(x)
        down, up = self.lora_A["default"], self.lora_B["default"]
        x = self.lora_dropout["default"](x).to(down.weight.dtype)
        return (result + up(down(x)) * self.scaling["default"]).to(result.dtype)


def adapt(model, targets, **options):
    from transformers.pytorch_utils import Conv1D

    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        parent, _, leaf = name.rpartition(".")
        if isinstance(module, (nn.Linear, Conv1D)) and leaf in targets:
            setattr(model.get_submodule(parent), leaf, Lora(module, **options))
    return model


def conv1d():
    """transformers' Conv1D holds [in, out]; dropout in front of the adapters alone."""
    import transformers

    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=37, n_embd=16, n_layer=2, n_head=2, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = adapt(model, ("c_attn", "c_fc", "c_proj"), dropout=0.25)

        def forward(self, ids):
            return self.model(input_ids=ids, labels=ids, use_cache=False).loss
    return Loss(), zoo.tokens(37, 8, "ids")


def half():
    """A base in bfloat16 with adapters in float32."""
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(40, 96), nn.Linear(96, 40, bias=False)
            adapt(self, ("first", "second"), rank=5)
            for layer in (self.first, self.second):
                layer.base_layer.to(torch.bfloat16)

        def forward(self, x):
            return (self.second(torch.tanh(self.first(x.bfloat16()))).float() - x).square().mean()
    return Half(), {"x": torch.randn(6, 40)}


class Peft(nn.Module):
    """Names as a PeftModel's parameters have them, with a head that is trained itself."""
    class Head(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.original_module = copy.deepcopy(layer).requires_grad_(False)
            self.modules_to_save = nn.ModuleDict({"default": layer})

        def forward(self, x):
            return self.modules_to_save["default"](x)

    def __init__(self):
        super().__init__()
        self.base_model = nn.Module()
        self.base_model.model = adapt(zoo.Gpt(), ("qkv", "down"))
        self.base_model.model.head = self.Head(self.base_model.model.head.requires_grad_(True))

    def forward(self, x):
        return self.base_model.model(x)


def peft():
    return zoo.Classifier(Peft()), zoo.tokens()


def unload(model):
    """The model without adapters, as merge_and_unload leaves its modules."""
    model = copy.deepcopy(model)
    for name, module in list(model.named_modules()):
        parent, _, leaf = name.rpartition(".")
        if isinstance(module, zoo.LoraLinear):
            setattr(model.get_submodule(parent), leaf, module.base_layer)
        elif isinstance(module, Peft.Head):
            setattr(model.get_submodule(parent), leaf, module.modules_to_save["default"])
    for name, module in list(model.named_modules()):
        if isinstance(module, Peft):
            setattr(model, name, module.base_model.model)
    return model


def plain_name(name):
    """Of a parameter, in such a model."""
    for part in ("base_layer.", "base_model.model.", "modules_to_save.default."):
        name = name.replace(part, "")
    return name


def merge(model, tensors):
    """Each tensor of the model without adapters: in f32 what is merged, as it is what is not."""
    plain = {plain_name(name): value for name, value in tensors.items()
             if not any(part.startswith("lora_") or part == "original_module" for part in name.split("."))}
    merged = set()
    for path, module in model.named_modules():
        if isinstance(module, zoo.LoraLinear):
            up, down = (tensors[f"{path}.lora_{which}.default.weight"].float() for which in "BA")
            delta = up @ down * module.scaling["default"]
            name = plain_name(f"{path}.base_layer.weight")
            plain[name] = plain[name].float() + (delta if getattr(module, "is_linear", True) else delta.T)
            merged.add(name)
    return plain, merged


def merge_case(bin, world, factory=zoo.lora, backend="local", to="merged.safetensors", options=(), **config):
    def case(folder):
        torch.manual_seed(5)
        model, inputs = factory()
        data = make_data(inputs, world * 2 * config.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(world, **config), options=["--report=report.json"])
        rows, final = train(bin, folder, world, 2, backend, options=[f"--export-merged={to}", *options])
        files = sorted((folder / to).glob("*.safetensors")) if to.endswith("/") else [folder / to]
        assert not to.endswith("/") or len(files) > 1, files
        have = {name: value for file in files for name, value in load_file(file).items()}
        want, merged = merge(model, final)
        assert merged and set(have) == set(want), sorted(set(have) ^ set(want))
        for name, value in want.items():
            if name not in merged:
                assert torch.equal(have[name], value), f"{name} has changed"
                continue
            assert have[name].dtype == final_dtype(final, name) and have[name].shape == value.shape, f"{name} is {have[name].dtype}"
            unit = {torch.float32: 1e-6, torch.bfloat16: 2.0 ** -8}[have[name].dtype]
            off = (have[name].float() - value).abs() - unit * value.abs().clamp(min=1e-2 if unit < 1e-4 else 0)
            assert off.max() <= 0, f"{name} is off by {off.max()}"
            assert not torch.equal(have[name].float(), final_of(final, name).float()), f"{name}: the case merges nothing"
        # What both compute.
        adapted, plain = copy.deepcopy(model).eval(), unload(model).eval()
        adapted.load_state_dict({**adapted.state_dict(), **final})
        plain.load_state_dict(have)
        batch = batch_of(data, inputs, 0)
        with torch.no_grad():
            losses = [each(**batch).item() for each in (adapted, plain)]
        bound = 2e-2 if any(value.dtype == torch.bfloat16 for value in have.values()) else 1e-5
        assert abs(losses[0] - losses[1]) <= bound * losses[0], losses
        report = json.loads((folder / "report.json").read_text())["adapters"]
        assert len(report) == len(merged) and {row["scale"] for row in report} == {module.scaling["default"] for module in model.modules() if isinstance(module, zoo.LoraLinear)}, report
        for row in rows:
            assert row["unplanned_bytes"] == 0, row
    return case


def final_of(final, name):
    return next(value for own, value in final.items() if plain_name(own) == name and "lora_" not in own and "original_module" not in own)


def final_dtype(final, name):
    return final_of(final, name).dtype


def text_case(bin):
    """What the artifact says of them, and what --explain counts."""
    def case(folder):
        torch.manual_seed(5)
        model, inputs = conv1d()
        compile_step(bin, folder, model, inputs, make_config(2, quantize={}))
        text = call(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        block = "model.transformer.h.0.attn.c_attn"
        line = f'  "{block}.base_layer.weight" + 2 * "{block}.lora_B.default.weight" @ "{block}.lora_A.default.weight", transposed\n'
        assert "\nadapters\n" in text and line in text, text[:3000]
        said = call(bin / "fsdp-opt", "model.pt2", "--explain", "--config=fsdp.yaml", cwd=folder).stdout
        assert "\n8 adapters that --export-merged merges\n" in said, said
    return case


def refusals(bin):
    """Nothing is written of a model that would be merged in part."""
    class Embedding(nn.Module):
        """PEFT's layer over an embedding."""

        def __init__(self, base):
            super().__init__()
            self.base_layer = base
            self.lora_embedding_A = nn.ParameterDict({"default": torch.randn(3, base.num_embeddings)})
            self.lora_embedding_B = nn.ParameterDict({"default": torch.randn(base.embedding_dim, 3)})

        def forward(self, x):
            return self.base_layer(x) + nn.functional.embedding(x, self.lora_embedding_A["default"].T) @ self.lora_embedding_B["default"].T

    class Scaled(Lora):
        """A weight that is trained in front of the sum, as in DoRA."""

        def __init__(self, base):
            super().__init__(base)
            self.lora_magnitude_vector = nn.Parameter(torch.ones(base.out_features))

        def forward(self, x):
            return self.base_layer(x) * self.lora_magnitude_vector + self.lora_B["default"](self.lora_A["default"](x))

    def embedding():
        model, inputs = zoo.lora()
        model.net.embed = Embedding(model.net.embed)
        return model, inputs

    def scaled():
        model, inputs = zoo.lora()
        model.net.blocks[1].down = Scaled(model.net.blocks[1].down.base_layer)
        return model, inputs

    def colliding():
        model, inputs = zoo.lora()
        layer = model.net.blocks[1].down
        layer.register_buffer("weight", torch.ones(2))
        layer.register_forward_pre_hook(lambda layer, x: (x[0] * layer.weight.sum(),))
        return model, inputs

    def case(folder):
        for factory, words in ((zoo.mlp, "the artifact has none"), (embedding, "'net.embed.lora_embedding_A.default' cannot be merged"),
                               (scaled, "E076]: 'net.blocks.1.down.lora_"),
                               (colliding, "would be called 'net.blocks.1.down.weight'")):
            torch.manual_seed(5)
            model, inputs = factory()
            save_file(make_data(inputs, 2), folder / "data.safetensors")
            compile_step(bin, folder, model, inputs, make_config(2))
            done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=1", "--metrics=m.jsonl", "--export-merged=no.safetensors", cwd=folder)
            assert done.returncode == 2 and "E076" in done.stderr and words in done.stderr, done.stderr
            assert not (folder / "no.safetensors").exists() and not (folder / "m.jsonl").exists(), "it was trained before it was refused"
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}

    def add(name, world, often=True, **options):
        if arguments.all or often:
            cases[f"{name} world={world}"] = merge_case(bin, world, **options)

    for world in (1, 2, 3, 4):
        add("lora", world, often=world in (1, 3))
        add("nf4", world, often=world == 3, quantize={})
        add("int8", world, often=False, quantize={"kind": "int8"})
        add("conv1d", world, often=world == 2, factory=conv1d)
        add("half base", world, often=world == 1, factory=half)
        add("half nf4", world, often=world == 3, factory=half, quantize={})
    add("llama", 3, factory=zoo.lora_llama)
    add("llama nf4", 1, factory=zoo.lora_llama, quantize={})
    add("conv1d nf4", 3, often=False, factory=conv1d, quantize={})
    add("half, coded scales", 2, factory=half, quantize={"double_quant": True, "block_size": 32})
    add("flat", 3, bucket_layout="flat")
    add("flat beside", 2, factory=half, bucket_layout="auto", quantize={})
    add("columns", 3, shard_dims={"*.base_layer.weight": 1, "*.lora_*": 1})
    add("columns of conv1d", 2, often=False, factory=conv1d, shard_dims={"*.base_layer.weight": 1})
    add("whole on each rank", 2, often=False, ignored_params=["*.down.*"])
    add("replicas", 4, replicate=2)
    add("split", 2, factory=zoo.lora_llama, mesh={"dp_shard": 1, "tp": 2})
    add("split in shards", 4, often=False, factory=zoo.lora_llama, mesh={"dp_shard": 2, "tp": 2})
    add("over gloo", 2, backend="gloo", factory=conv1d)
    add("accumulated", 2, gradient_accumulation_steps=2, reshard_after_forward=False)
    add("recomputed", 2, activation_checkpointing=True)
    add("loss in chunks", 2, often=False, loss_chunks=2)
    add("mixed", 2, factory=zoo.lora_llama, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "float32"})
    add("folder", 2, to="merged/", options=["--export-shard-size=2000"])
    add("names of PEFT", 2, factory=peft)
    cases["text"] = text_case(bin)
    cases["refusals"] = refusals(bin)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
