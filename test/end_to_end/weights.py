# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models exported without data, trained from weights files or from initialisers.

Weights that come from files give, bit for bit, what the same model gives when
it is exported with them. Initialisers give every world size the same weights.
"""
import json
import re
import struct

import torch
import yaml
from safetensors.torch import load_file, save_file
from torch._subclasses.fake_tensor import FakeTensorMode

import zoo
from harness import call, export, flat, make_config, make_data, must, parse_arguments, run_cases

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
STEPS = 2


def with_data(factory):
    torch.manual_seed(7)
    return factory()


def on_meta(factory):
    with torch.device("meta"):
        return factory()


def export_fake(factory, path, device):
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
        export(*factory(), path)


def hf_names(model):
    """The state dict as Hugging Face writes it: of tied tensors the first alone."""
    out, seen = {}, set()
    for name, value in model.state_dict().items():
        if value.data_ptr() not in seen:
            seen.add(value.data_ptr())
            out[name] = value.contiguous()
    return out


def volatile(model):
    persistent = model.state_dict()
    return {k: v.contiguous() for k, v in model.named_buffers() if k not in persistent}


def save_shards(tensors, folder, count):
    folder.mkdir()
    names = sorted(tensors)
    files = {name: f"model-{i % count + 1:05}-of-{count:05}.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        save_file({n: tensors[n] for n in names if files[n] == file}, folder / file, metadata={"format": "pt"})
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


class Weights:
    def __init__(self, bin):
        self.bin = bin

    def compile(self, folder, file, world, *flags, seed=0, **config):
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(world, optimizer=SGD, seed=seed, **config), sort_keys=False))
        return call(self.bin / "fsdp-opt", file, "--config=fsdp.yaml", *flags, "-o", "step.fsdp", cwd=folder)

    def run(self, folder, *flags, steps=STEPS):
        """Losses and exported tensors."""
        must(self.bin / "fsdp-run", "step.fsdp", f"--steps={steps}", "--data=data.safetensors", "--metrics=m.jsonl",
             "--export=final.safetensors", *flags, cwd=folder)
        rows = [json.loads(line) for line in (folder / "m.jsonl").read_text().splitlines()]
        return [row["loss"] for row in rows], load_file(folder / "final.safetensors")

    def reference(self, folder, factory, world, change=None, **config):
        """The model trained from its own data, and what a bare export needs."""
        model, inputs = with_data(factory)
        if change:
            change(model)
        save_file(make_data(inputs, world * STEPS), folder / "data.safetensors")
        export(model, inputs, folder / "model.pt2")
        assert self.compile(folder, "model.pt2", world, **config).returncode == 0
        result = self.run(folder)
        export(*on_meta(factory), folder / "bare.pt2")
        return model, result

    def same(self, found, expected):
        assert found[0] == expected[0], f"losses {found[0]} instead of {expected[0]}"
        assert set(found[1]) == set(expected[1]), sorted(set(found[1]) ^ set(expected[1]))
        for name, value in expected[1].items():
            assert torch.equal(found[1][name], value), f"{name} differs"

    def good(self, done):
        assert done.returncode == 0, done.stderr[-1500:]
        return done.stderr

    def refused(self, done, error, *patterns):
        assert done.returncode in (1, 2) and done.stderr.startswith(f"error[fsdp-{error}]: "), f"{done.returncode}: {done.stderr[-900:]}"
        for pattern in patterns:
            assert re.search(pattern, done.stderr), f"{pattern!r} is not in: {done.stderr[-900:]}"

    # Weights files.

    @flat
    def one_file(self, folder):
        model, expected = self.reference(folder, zoo.llama, 3)
        save_file({**hf_names(model), "other.weight": torch.ones(2)}, folder / "model.safetensors")
        save_file(volatile(model), folder / "buffers.safetensors")
        notes = self.good(self.compile(folder, "bare.pt2", 3, "--weights=model.safetensors", "--weights=buffers.safetensors"))
        assert "1 tensor ('other.weight')" in notes, notes
        (folder / "bare.pt2").unlink()                             # not needed any more
        self.same(self.run(folder), expected)

    @flat
    def shards_with_index(self, folder):
        model, expected = self.reference(folder, zoo.llama, 2, reshard_after_forward=True)
        save_shards({**hf_names(model), **volatile(model)}, folder / "hf", 3)
        for path in ("hf", "hf/model.safetensors.index.json"):
            self.good(self.compile(folder, "bare.pt2", 2, f"--weights={path}", reshard_after_forward=True))
            self.same(self.run(folder), expected)

    @flat
    def renamed_and_narrow(self, folder):
        """Other names, and bfloat16 in the file: the values are rounded, once."""
        def narrow(model):
            with torch.no_grad():
                for value in model.parameters():
                    value.copy_(value.bfloat16())
        model, expected = self.reference(folder, zoo.mlp, 2, change=narrow)
        tensors = {k.replace("net.", "transformer.h.").replace("weight", "w"): v.bfloat16() for k, v in hf_names(model).items()}
        save_file(tensors, folder / "model.safetensors")
        rules = [{"from": r"^net\.(.*)\.weight$", "to": "transformer.h.$1.w"}, {"from": r"^net\.", "to": "transformer.h."}]
        notes = self.good(self.compile(folder, "bare.pt2", 2, "--weights=model.safetensors", weights={"rename": rules}))
        assert "converted from bf16 to f32" in notes, notes
        self.same(self.run(folder), expected)
        self.refused(self.compile(folder, "bare.pt2", 2, "--weights=model.safetensors"), "E009", "net.0.weight", "rename")

    @flat
    def tied(self, folder):
        """The head is the embedding: neither archive nor file says so."""
        model, expected = self.reference(folder, zoo.gpt, 2)
        save_file(hf_names(model), folder / "model.safetensors")
        ties = [["net.embed.weight", "net.head.weight"]]
        self.good(self.compile(folder, "bare.pt2", 2, "--weights=model.safetensors", tied=ties))
        self.same(self.run(folder), expected)
        hint = r"tied: \[\[net.embed.weight, net.head.weight\]\]"
        self.refused(self.compile(folder, "bare.pt2", 2, "--weights=model.safetensors"), "E009", "'net.head.weight'", hint)
        self.refused(self.compile(folder, "bare.pt2", 2, tied=[["net.embed.weight", "net.hed.weight"]]), "E044", "net.head.weight")
        self.refused(self.compile(folder, "bare.pt2", 2, tied=[["net.embed.weight", "net.position"]]), "E007", "differ in shape")

    @flat
    def fake_exports(self, folder):
        """FakeTensorMode, on the CPU and on a CUDA device that is not there."""
        model, expected = self.reference(folder, zoo.mlp, 2)
        save_file(hf_names(model), folder / "model.safetensors")
        for device in ("cpu", "cuda"):
            export_fake(zoo.mlp, folder / "fake.pt2", device)
            self.good(self.compile(folder, "fake.pt2", 2, "--weights=model.safetensors"))
            self.same(self.run(folder), expected)

    def weights_at_the_run(self, folder):
        model, expected = self.reference(folder, zoo.gpt, 2)
        ties = [["net.embed.weight", "net.head.weight"]]
        notes = self.good(self.compile(folder, "bare.pt2", 2, tied=ties))
        assert "no first value" in notes and '"*.weight": normal(0, 0.02)' in notes, notes
        run = [self.bin / "fsdp-run", "step.fsdp", "--steps=1", "--data=data.safetensors"]
        self.refused(call(*run, cwd=folder), "E012", "'net.position'", "--weights", r'\n  "\*.norm1.weight": ones')
        must(*run, "--backend=fake", cwd=folder)                  # nobody looks at its numbers
        save_shards(hf_names(model), folder / "hf", 2)
        self.same(self.run(folder, "--weights=hf"), expected)
        few = hf_names(model)
        few["net.blocks.0.qkv.wight"] = few.pop("net.blocks.0.qkv.weight")
        save_file(few, folder / "few.safetensors")
        self.refused(call(*run, "--weights=few.safetensors", cwd=folder), "E009", "1 tensor", "net.blocks.0.qkv.wight")
        few["net.blocks.0.qkv.weight"] = few["net.blocks.0.qkv.wight"].T.contiguous()
        save_file(few, folder / "turned.safetensors")
        self.refused(call(*run, "--weights=turned.safetensors", cwd=folder), "E010", r"\[18, 54\].*\[54, 18\]")

    @flat
    def files_that_changed(self, folder):
        model, expected = self.reference(folder, zoo.mlp, 2)
        (folder / "here").mkdir()
        save_file(hf_names(model), folder / "here" / "a.safetensors")
        self.good(self.compile(folder, "bare.pt2", 2, "--weights=here"))
        run = [self.bin / "fsdp-run", "step.fsdp", "--steps=1", "--data=data.safetensors"]
        (folder / "here").rename(folder / "there")
        self.refused(call(*run, cwd=folder), "E001", "--weights")
        self.same(self.run(folder, "--weights=there"), expected)
        (folder / "there").rename(folder / "here")
        save_file({k: v.double() for k, v in hf_names(model).items()}, folder / "here" / "a.safetensors")
        self.refused(call(*run, cwd=folder), "E011", "here/a.safetensors")

    def damaged_files(self, folder):
        model, _ = self.reference(folder, zoo.mlp, 1)
        tensors = hf_names(model)
        save_file(tensors, folder / "a.safetensors")
        whole = (folder / "a.safetensors").read_bytes()
        for part in (0, 7, 40, len(whole) - 1):
            (folder / "a.safetensors").write_bytes(whole[:part])
            self.refused(self.compile(folder, "bare.pt2", 1, "--weights=a.safetensors"), "E008", "a.safetensors")
        self.refused(self.compile(folder, "bare.pt2", 1, "--weights=none.safetensors"), "E001", "none.safetensors")
        (folder / "empty").mkdir()
        self.refused(self.compile(folder, "bare.pt2", 1, "--weights=empty"), "E008", "model.safetensors.index.json")
        save_shards(tensors, folder / "hf", 2)
        index = folder / "hf" / "model.safetensors.index.json"
        good = json.loads(index.read_text())
        for weight_map in ({**good["weight_map"], "net.9.weight": "model-00001-of-00002.safetensors"},
                           {**good["weight_map"], "net.0.weight": "../a.safetensors"}, ["no map"]):
            index.write_text(json.dumps({"weight_map": weight_map}))
            self.refused(self.compile(folder, "bare.pt2", 1, "--weights=hf"), "E008", "index.json")
        length = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + length])
        header["net.0.bias"]["data_offsets"] = [4 * 19, 4 * (19 + 23)]           # inside of another
        text = json.dumps(header).encode()
        (folder / "a.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length:])
        self.refused(self.compile(folder, "bare.pt2", 1, "--weights=a.safetensors"), "E008", "also those of")

    def data_and_weights(self, folder):
        """A model with data: files replace it, wholly or, on request, in part; rules replace both."""
        model, expected = self.reference(folder, zoo.mlp, 2)
        torch.manual_seed(8)
        other, inputs = zoo.mlp()
        export(other, inputs, folder / "other.pt2")
        tensors = hf_names(model)
        save_file(tensors, folder / "all.safetensors")
        self.good(self.compile(folder, "other.pt2", 2, "--weights=all.safetensors"))
        self.same(self.run(folder), expected)
        del tensors["net.3.bias"]
        save_file(tensors, folder / "most.safetensors")
        self.refused(self.compile(folder, "other.pt2", 2, "--weights=most.safetensors"), "E009", "net.3.bias", "strict")
        loose = {"strict": False, "ignore": ["net.0.*"]}
        self.good(self.compile(folder, "other.pt2", 2, "--weights=most.safetensors", weights=loose, init={"net.2.*": 0.5}))
        _, start = self.run(folder, steps=0)
        for name, value in start.items():
            own = other if name in ("net.3.bias", "net.0.weight", "net.0.bias") else model
            want = torch.full_like(value, 0.5) if name.startswith("net.2.") else own.state_dict()[name]
            assert torch.equal(value, want), name

    # Initialisers.

    @flat
    def from_scratch(self, folder):
        """All world sizes start from the same weights, and so from the same loss."""
        export(*on_meta(zoo.gpt), folder / "bare.pt2")
        torch.manual_seed(1)
        _, inputs = zoo.gpt()
        save_file({k: v[:1] for k, v in make_data(inputs, 1).items()}, folder / "data.safetensors")      # for all ranks
        config = {"tied": [["net.embed.weight", "net.head.weight"]],
                  "init": {"*": "normal(0, 0.02)", "*.bias": "zeros", "*norm*.weight": "ones", "*.position": "trunc_normal(std=0.5, a=-1, b=1)",
                           "*.qkv.weight": "xavier_uniform", "*.down.weight": "kaiming_normal(nonlinearity=relu)"}}
        starts, losses = [], []
        for world in (1, 2, 3, 4):
            self.good(self.compile(folder, "bare.pt2", world, seed=5, **config))
            starts.append(self.run(folder, "--threads=2" if world == 2 else "--threads=1", steps=0)[1])
            losses.append(self.run(folder, steps=1)[0][0])
        for start in starts[1:]:
            assert start.keys() == starts[0].keys()
            for name, value in start.items():
                assert torch.equal(value, starts[0][name]), f"{name} depends on the world size"
        assert max(losses) - min(losses) < 1e-5, losses
        first = starts[0]
        assert torch.equal(first["net.head.weight"], first["net.embed.weight"])
        assert torch.equal(first["net.norm.weight"], torch.ones(18)) and not first["net.blocks.0.up.bias"].any()
        assert abs(first["net.embed.weight"].std().item() / 0.02 - 1) < 0.15
        assert not torch.equal(first["net.blocks.0.qkv.weight"], first["net.blocks.1.qkv.weight"])
        bound = (6 / (18 + 54)) ** 0.5
        assert 0.9 * bound < first["net.blocks.0.qkv.weight"].abs().max() <= bound
        assert 0.8 < first["net.position"].abs().max() <= 1
        self.good(self.compile(folder, "bare.pt2", 2, seed=6, **config))
        assert not torch.equal(self.run(folder, steps=0)[1]["net.embed.weight"], first["net.embed.weight"])

    def flow_style(self, folder):
        """The commas of arguments are YAML's, too; and the last rule counts."""
        export(*on_meta(zoo.mlp), folder / "bare.pt2")
        _, inputs = with_data(zoo.mlp)
        save_file(make_data(inputs, 1), folder / "data.safetensors")
        text = 'mesh: {dp_shard: 1}\ninit: {"*.weight": normal(0, 0.02), "*.bias": uniform(1, 2), "net.2.*": ones, nothing: zeros}\n'
        (folder / "fsdp.yaml").write_text(text)
        done = must(self.bin / "fsdp-opt", "bare.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
        assert "'nothing' has no effect" in done.stderr, done.stderr
        start = self.run(folder, steps=0)[1]
        assert torch.equal(start["net.2.bias"], torch.ones(23)) and torch.equal(start["net.2.weight"], torch.ones(23))
        assert start["net.0.weight"].abs().max() < 0.1 and 1 <= start["net.0.bias"].min() <= start["net.0.bias"].max() <= 2

    def rules_that_do_not_fit(self, folder):
        export(*on_meta(zoo.convnet), folder / "bare.pt2")
        for rule, pattern in ((("*.weight", "kaiming_uniform"), "net.1.weight.*two or more dims"), (("*.weight", "eye"), "net.0.weight.*matrix"),
                              (("*", "norml(0, 1)"), "'normal'"), (("*", "normal(0, -1)"), "from 0"), (("*", "normal(0, 1, 2)"), "at most 2"),
                              (("*", "normal(0, x)"), "number for 'std'"), (("*", "constant"), "'val'"), (("*", "normal(0"), r"closing '\)'")):
            self.refused(self.compile(folder, "bare.pt2", 1, init=dict([rule])), "E044", pattern)
        # Random numbers are not for buffers, which then have no value.
        notes = self.good(self.compile(folder, "bare.pt2", 1, init={"*": "normal"}))
        assert "3 tensors ('net.1.running_mean'" in notes and "running_var" in notes, notes

    def hugging_face(self, folder):
        """Rotary frequencies are in no file; a rule computes them."""
        import transformers
        sizes = {"vocab_size": 37, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
                 "num_key_value_heads": 2, "max_position_embeddings": 16, "tie_word_embeddings": True}

        def llama():
            model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
            ids = torch.zeros(2, 8, dtype=torch.int64)
            return model, {"input_ids": ids, "labels": ids.clone(), "use_cache": False}

        torch.manual_seed(3)
        model, inputs = llama()
        model.save_pretrained(folder / "hf")
        rows = torch.randint(0, 37, (4, 8))
        save_file({"input_ids": rows, "labels": rows.clone()}, folder / "data.safetensors")
        export(model, inputs, folder / "model.pt2")
        export(*on_meta(llama), folder / "bare.pt2")
        layer = {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "LlamaDecoderLayer"}
        self.good(self.compile(folder, "model.pt2", 2, **layer))
        expected = self.run(folder)
        ties = [["model.embed_tokens.weight", "lm_head.weight"]]
        self.good(self.compile(folder, "bare.pt2", 2, "--weights=hf", tied=ties, init={"*.inv_freq": "rope(10000)"}, **layer))
        found = self.run(folder)
        assert torch.allclose(torch.tensor(found[0]), torch.tensor(expected[0]), rtol=1e-6), (found[0], expected[0])
        for name, value in expected[1].items():
            assert torch.allclose(found[1][name], value, rtol=1e-4, atol=1e-6), name
        self.refused(self.compile(folder, "bare.pt2", 2, "--weights=hf", tied=ties, **layer), "E009", "inv_freq", "rope")


def main():
    arguments = parse_arguments()
    weights = Weights(arguments.bin)
    names = ["one_file", "shards_with_index", "renamed_and_narrow", "tied", "fake_exports", "weights_at_the_run", "files_that_changed",
             "damaged_files", "data_and_weights", "from_scratch", "flow_style", "rules_that_do_not_fit", "hugging_face"]
    run_cases({name.replace("_", " "): getattr(weights, name) for name in names}, arguments.only)


main()
