# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adapters over a frozen base that is held in blocks of codes, against the same arithmetic in PyTorch on whole tensors."""
import fnmatch
import json

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

import zoo
from harness import call, compare, compile_step, make_config, make_data, must_refuse, parse_arguments, reference, run_cases, train

BLOCK = 64
# Dettmers et al., "QLoRA", appendix E.
NF4 = torch.tensor([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])
# bitsandbytes' magnitudes, ascending, and their codes.
FP4 = torch.tensor([0, 0.0625, 2, 3, 4, 6, 8, 12]) / 12
FP4_CODES = torch.tensor([0, 1, 6, 7, 4, 5, 2, 3])
KINDS = ("nf4", "int8")
TOGETHER = 256  # coded scales of a row


def scale_numbers():
    """bitsandbytes' dynamic map, as a processor that contracts computes torch.linspace."""
    def narrow(x):
        return torch.tensor(x, dtype=torch.float64).float()
    above = []
    for decade in range(7):
        steps, end = 1 << decade, narrow(10.0 ** (decade - 6))
        step = ((narrow(1.0) - narrow(0.1)) / steps).double()
        borders = torch.stack([narrow(narrow(0.1).double() + step * i if i < (steps + 1) // 2 else 1 - step * (steps - i)) for i in range(steps + 1)])
        above.append((borders[1:] + borders[:-1]) / 2 * end)
    above = torch.cat(above)
    return torch.cat([-above.flip(0), torch.zeros(1), above, torch.ones(1)])


SCALES = scale_numbers()


def nearest(numbers, values):
    """Of ascending numbers; of two the lower."""
    return torch.searchsorted(((numbers.double()[1:] + numbers.double()[:-1]) / 2).float(), values)


def code(value, kind="nf4", block_size=BLOCK, double_quant=False, **_):
    """Codes (of 4 bits, or whole numbers), scales, and of coded scales (codes, what 256 share, what all are relative to)."""
    blocks = nn.functional.pad(value.float().flatten(), (0, -value.numel() % block_size)).view(-1, block_size)
    greatest = blocks.abs().amax(1, keepdim=True)
    scale = greatest / 127 if kind == "int8" else greatest
    ratio = blocks / scale.clamp(min=1e-38)
    if kind == "nf4":
        codes = nearest(NF4, ratio)
    elif kind == "fp4":
        codes = FP4_CODES[nearest(FP4, ratio.abs())] + 8 * (ratio < 0)
    else:
        codes = ratio.round()
    scale = scale.flatten()
    if not double_quant:
        return codes, scale, None
    offset = torch.tensor(sum(scale.tolist()) / len(scale)).float()
    groups = nn.functional.pad(scale - offset, (0, -len(scale) % TOGETHER)).view(-1, TOGETHER)
    shared = groups.abs().amax(1, keepdim=True)
    return codes, scale, (nearest(SCALES, groups / shared.clamp(min=1e-38)).flatten()[:len(scale)], shared.flatten(), offset)


def numbers_of(codes, scale, coded, kind, shape, dtype):
    """What they stand for."""
    if coded:
        scale_codes, shared, offset = coded
        scale = SCALES[scale_codes] * shared.repeat_interleave(TOGETHER)[:len(scale_codes)] + offset
    if kind == "nf4":
        codes = NF4[codes]
    elif kind == "fp4":
        codes = torch.cat([FP4[FP4_CODES.argsort()], -FP4[FP4_CODES.argsort()]])[codes]
    return (codes * scale.unsqueeze(1)).flatten()[:torch.Size(shape).numel()].view(shape).to(dtype)


def store(value, told):
    """What is read back of a tensor that was quantized."""
    return numbers_of(*code(value, **told), told.get("kind", "nf4"), value.shape, value.dtype)


def form_of(told):
    size = told.get("block_size", BLOCK)
    return told.get("kind", "nf4") + (f"-{size}" if size != BLOCK else "") + ("-double" if told.get("double_quant") else "")


def bytes_of(told, elements, ranks):
    """Of the rows of a tensor, of which all ranks have as many."""
    size = told.get("block_size", BLOCK)
    codes = size if told.get("kind") == "int8" else size // 2
    blocks = -(-elements // size)
    rows, bytes = (-(-blocks // TOGETHER), 8 + TOGETHER + TOGETHER * codes) if told.get("double_quant") else (blocks, 4 + codes)
    return -(-rows // ranks) * ranks * bytes


def chosen(model, told):
    """The parameters that a config's `quantize` is about: matrices of linear layers, and others that are named themselves."""
    def matches(name, patterns):
        return any(fnmatch.fnmatchcase(name, p) for p in ([patterns] if isinstance(patterns, str) else patterns))

    def is_in(name, patterns):
        while name := name.rpartition(".")[0]:
            if matches(name, patterns):
                return True
        return False
    layers = {f"{path}.weight" for path, m in model.named_modules() if isinstance(m, nn.Linear)}
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    modules, skip = told.get("modules", "*"), told.get("skip_modules", [])
    return {name: p for name, p in model.named_parameters() if not p.requires_grad and p.dim() > 1 and id(p) not in tables
            and not is_in(name, skip) and not matches(name, skip)
            and (name in layers if is_in(name, modules) else matches(name, modules))}


def wide():
    """Rows that are no whole blocks, one tensor of less than a block, one whose blocks no number of ranks divides."""
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(31, 48)
            self.blocks = nn.ModuleList(zoo.MlpBlock(48) for _ in range(2))
            self.position = nn.Parameter(0.1 * torch.randn(9, 48))
            self.small, self.head = nn.Linear(48, 1), nn.Linear(48, 31)

        def forward(self, x):
            h = self.embed(x) + self.position
            for block in self.blocks:
                h = block(h)
            return self.head(h * torch.sigmoid(self.small(h)))
    model = zoo.add_lora(Wide(), ("up", "down"))
    return zoo.Classifier(model), zoo.tokens()


def half_base():
    """A base in bfloat16, as it is loaded for training; adapters in float32."""
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(40, 96, bias=False), nn.Linear(96, 40, bias=False)
            self.into, self.out = nn.Linear(40, 4, bias=False), nn.Linear(4, 96, bias=False)
            for layer in (self.first, self.second):
                layer.to(torch.bfloat16).requires_grad_(False)

        def forward(self, x):
            h = self.first(x.bfloat16()).float() + self.out(self.into(x))
            return (self.second(torch.tanh(h).bfloat16()).float() - x).square().mean()
    return Half(), {"x": torch.randn(6, 40)}


def training_case(bin, world, factory=wide, kind="nf4", steps=3, backend="local", weights=None, **config):
    def case(folder):
        torch.manual_seed(5)
        model, inputs = factory()
        told = {"kind": kind, **config.pop("quantize", {})}
        settings = make_config(world, quantize=told, **config)
        data = make_data(inputs, world * steps * settings.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        tensors = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        if weights:                                                 # whole numbers of files, quantized as they are read
            save_file(tensors, folder / "first.safetensors")
            save_file({k: 0.9 * v for k, v in tensors.items()}, folder / "other.safetensors")
        compile_step(bin, folder, model, inputs, settings, options=["--report=report.json", *(["--weights=other.safetensors"] if weights == "compiled" else
                                                                                             ["--weights=first.safetensors"] if weights else [])])
        options = ["--weights=other.safetensors"] if weights == "given" else []
        if weights:
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(0.9 * tensors[name])
        rows, final = train(bin, folder, world, steps, backend, options=options)
        parameters = chosen(model, told)
        assert parameters, "the case tests nothing"
        plain = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        with torch.no_grad():
            for parameter in parameters.values():
                parameter.copy_(store(parameter, told))
        assert all(not torch.equal(p, plain[name]) for name, p in parameters.items()), "nothing was rounded: the case tests nothing"
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        want_rows, want, buffers = reference(model, inputs, data, world, steps, settings)
        if "mixed_precision" in settings["fsdp_config"] or any(p.dtype == torch.bfloat16 for p in parameters.values()):
            for row, (loss, norm) in zip(rows, want_rows):
                assert abs(row["loss"] - loss) <= 2e-2 * abs(loss), f"step {row['step']}: loss {row['loss']} instead of {loss}"
            for name in parameters:
                assert torch.equal(final[name], want[name]), f"{name} is frozen and has changed"
        else:
            compare(rows, final, want_rows, want, buffers, start)
        for row in rows:
            assert row["unplanned_bytes"] == 0, row
        casts = [each for each in json.loads((folder / "report.json").read_text())["casts"] if each["cause"] == "quantize"]
        assert [(each["name"], each["count"]) for each in casts] == [(kind, len(parameters))], casts
    return case


def bytes_case(bin, told):
    """Blocks are what a bucket's one gather moves beside numbers, and what ranks hold."""
    def case(folder):
        torch.manual_seed(5)
        model, inputs = wide()
        reports = {}
        for name, keys in {"plain": {}, "coded": {"quantize": told}}.items():
            compile_step(bin, folder, model, inputs, make_config(2, reshard_after_forward=True, **keys), options=["--report=report.json"])
            reports[name] = json.loads((folder / "report.json").read_text())
        gathers = {name: [c for c in report["collectives"] if c["kind"] == "all_gather"] for name, report in reports.items()}
        calls = {name: [(c["bucket"], c["count"]) for c in all] for name, all in gathers.items()}
        assert calls["plain"] == calls["coded"], f"other calls: {calls}"
        mixed = [c for c in gathers["coded"] if c["dtype"] == "mixed"]
        assert mixed and all({"u8", "f32"} == set(c["bytes_by_dtype"]) for c in mixed), gathers["coded"]
        bytes = {name: bytes_of(told, p.numel(), 2) for name, p in chosen(model, {}).items()}
        of_layers = sum(count for name, count in bytes.items() if "blocks." in name)
        # Twice each, but for the first of four: in front of it nothing wants a gradient.
        moved = sum(c["bytes_by_dtype"]["u8"] for c in mixed if c["bucket"].startswith("net.blocks"))
        assert moved == 2 * of_layers - of_layers // 4, f"{moved} bytes of {of_layers}"
        saved = reports["plain"]["memory"]["params"] - reports["coded"]["memory"]["params"]
        numbers = sum(p.numel() for p in chosen(model, {}).values())
        assert saved > 0.9 * (4 * numbers - sum(bytes.values())) / 2, f"{saved} bytes less"
        assert reports["coded"]["memory"]["peak"] < reports["plain"]["memory"]["peak"]
    return case


def moving_case(bin, form):
    """A checkpoint holds the blocks, which are those of any number of ranks, and goes on at another."""
    def case(folder):
        torch.manual_seed(8)
        model, inputs = wide()
        save_file({name: value.repeat(12, 1) for name, value in inputs.items()}, folder / "data.safetensors")
        told = {"quantize": form}
        stored = {}
        for world in (2, 3):
            compile_step(bin, folder, model, inputs, make_config(world, **told))
            train(bin, folder, world, 2, options=[f"--save=ck{world}"])
            stored[world] = {}
            for file in sorted((folder / f"ck{world}").rglob("*.safetensors")):
                for name, value in load_file(file).items():
                    if f".{form_of(form)}" in name:
                        stored[world].setdefault(name, []).append(value)
        whole, final = train(bin, folder, 3, 4)
        assert stored[2] and stored[2].keys() == stored[3].keys(), f"{stored[2].keys()} and {stored[3].keys()}"
        assert len(stored[2]) == len(chosen(model, {})), stored[2].keys()
        for name, pieces in stored[2].items():
            assert torch.equal(torch.cat(pieces), torch.cat(stored[3][name])) and pieces[0].dtype == torch.uint8, name
        compile_step(bin, folder, model, inputs, make_config(1, **told))
        rows, moved = train(bin, folder, 1, 4, options=["--load=ck2"])
        frozen = chosen(model, {})
        for name, value in frozen.items():
            assert torch.equal(moved[name], final[name]) and torch.equal(moved[name], store(value.detach(), form)), name
        for row, want in zip([row for row in rows if row["step"] >= 2][-2:], whole[-2:]):
            assert row["step"] == want["step"] and abs(row["loss"] - want["loss"]) <= 1e-4 * want["loss"], (row, want)
    return case


def plain_checkpoint_case(bin):
    """A checkpoint without blocks is refused by what it lacks."""
    def case(folder):
        torch.manual_seed(8)
        model, inputs = wide()
        save_file(make_data(inputs, 2), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(1))
        train(bin, folder, 1, 1, options=["--save=ck"])
        compile_step(bin, folder, model, inputs, make_config(1, quantize={}))
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=2", "--load=ck", cwd=folder)
        assert done.returncode and ".nf4'" in done.stderr and "--weights" in done.stderr, done.stderr
    return case


def adapter_case(bin):
    """The trained parameters alone, as they are among all."""
    def case(folder):
        torch.manual_seed(8)
        model, inputs = wide()
        save_file(make_data(inputs, 4), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(2, quantize={}))
        _, final = train(bin, folder, 2, 2, options=["--export-trained=adapter.safetensors"])
        adapter = load_file(folder / "adapter.safetensors")
        assert set(adapter) == {name for name, p in model.named_parameters() if p.requires_grad}, sorted(adapter)
        assert all(torch.equal(value, final[name]) for name, value in adapter.items())
    return case


def bad_numbers_case(bin):
    def case(folder):
        torch.manual_seed(8)
        model, inputs = wide()
        with torch.no_grad():
            model.net.head.weight[3, 5] = float("inf")
        save_file(make_data(inputs, 2), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(2, quantize={}))
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=1", cwd=folder)
        assert done.returncode and f"element {3 * 48 + 5} of 'net.head.weight' is inf, which has no code in nf4" in done.stderr, done.stderr
    return case


def axolotl_case(bin):
    """Axolotl's words give the artifact that `quantize` gives."""
    def case(folder):
        torch.manual_seed(8)
        model, inputs = wide()
        made = {}
        for name, told in {"nf4": {"quantize": {"kind": "nf4", "double_quant": True}}, "qlora": {"adapter": "qlora", "load_in_4bit": True},
                           "int8": {"quantize": {"kind": "int8"}}, "8bit": {"load_in_8bit": True, "adapter": "lora"}}.items():
            done = compile_step(bin, folder, model, inputs, make_config(2, **told), options=[])
            made[name] = (folder / "step.fsdp").read_bytes()
            assert name not in ("qlora", "8bit") or "is taken as quantize: {kind: " in done.stderr, done.stderr
        assert made["nf4"] == made["qlora"] and made["int8"] == made["8bit"] and made["nf4"] != made["int8"]
    return case


def grains_case(bin):
    """With grains the bits are those of any number of ranks."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = wide()
        save_file(make_data(inputs, 4 * 3), folder / "data.safetensors")
        found = []
        for world in (1, 2, 4):
            compile_step(bin, folder, model, inputs, make_config(world, quantize={"kind": "nf4"}, grains=4))
            rows, final = train(bin, folder, world, 3, tag=str(world))
            found.append(([row["loss"] for row in rows][-3:], final))
        for losses, final in found[1:]:
            assert losses == found[0][0], f"{losses} instead of {found[0][0]}"
            assert all(torch.equal(value, found[0][1][name]) for name, value in final.items()), "weights have other bits"
    return case


def refusals(bin):
    def case(folder):
        torch.manual_seed(9)
        model, inputs = wide()
        compile_step(bin, folder, model, inputs, make_config(1))
        must_refuse(bin, folder, {
            "the pattern 'net.block.*' of quantize's modules matches no parameter": {"quantize": {"modules": ["net.block.*"]}},
            "the pattern 'lm_head' of quantize's skip_modules matches no parameter": {"quantize": {"skip_modules": ["lm_head"]}},
            "but it is trained": {"quantize": {"modules": ["*.lora_A"]}},
            "but it is an embedding": {"quantize": {"modules": ["net.embed"]}},
            "that skip_modules leaves, found none": {"quantize": {"skip_modules": ["*"]}},
            "one of nf4, fp4, int8": {"quantize": {"kind": "int4"}},
            "power of two from 32 to 4096": {"quantize": {"block_size": 100}},
            "'quantize' is not supported with 'float8'": {"quantize": {}, "float8": {}},
            "expects to be cut along dim 0, in blocks of codes": {"quantize": {}, "mesh": {"dp_shard": 2}, "fsdp_config": {"shard_dims": {"net.head.weight": 1}}},
            "held in blocks of codes; write bucket_layout": {"quantize": {}, "mesh": {"dp_shard": 2}, "fsdp_config": {"bucket_layout": "flat"}}})
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}

    def add(name, world, often=False, **options):
        if arguments.all or often:
            cases[f"{name} world={world}"] = training_case(bin, world, **options)

    bf16 = {"mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}}
    for world in (1, 2, 3, 4):
        for kind in KINDS:
            add(f"{kind} zero3", world, often=world == (3 if kind == "nf4" else 2), kind=kind, reshard_after_forward=True)
            add(f"{kind} zero2", world, often=kind == "nf4" and world == 1, kind=kind, reshard_after_forward=False)
        add("over gloo", world, often=world == 2, backend="gloo")
        add("llama", world, factory=zoo.lora_llama)
        add("half base", world, often=world == 2, factory=half_base)
        add("weights files", world, often=world == 3, weights="compiled")
        add("other weights files", world, often=world == 2, weights="given", kind="int8")
    add("some", 2, often=True, kind="int8", quantize={"modules": ["net.blocks.*", "net.head", "*.position"], "skip_modules": "net.blocks.1"})
    add("bf16", 2, often=True, **bf16)
    add("parts", 4, often=True, reshard_after_forward=2)
    add("replicas", 4, replicate=2)
    add("flat beside", 3, often=True, bucket_layout="auto")
    add("as fsdp2", 3, bucket_layout="fsdp2")
    add("accumulated", 3, often=True, gradient_accumulation_steps=3)
    add("kept gathered", 2, often=True, gradient_accumulation_steps=2, reshard_after_backward=False, reshard_after_forward=False)
    add("recomputed", 3, often=True, activation_checkpointing=True)
    add("recomputed in part", 2, activation_checkpointing={"policy": "selective"})
    add("activations on the host", 2, activation_offloading=True)
    add("optimizer on the host", 2, offload_optimizer=True)
    add("all on the host", 2, often=True, offload_params=True)
    add("parts of sequences", 1, often=True, factory=zoo.lora_llama, mesh={"dp_shard": 1, "cp": 2})
    for shard in (1, 2):
        add(f"tensor parallel shard={shard}", shard, often=shard == 2, factory=zoo.lora_llama, mesh={"dp_shard": shard, "tp": 2}, tp_plan="auto")
    add("tensor parallel recomputed", 1, often=True, factory=zoo.lora_llama, mesh={"dp_shard": 1, "tp": 2}, tp_plan="auto", sequence_parallel=True,
        activation_checkpointing=True)
    add("tensor parallel over parts of sequences", 1, factory=zoo.lora_llama, mesh={"dp_shard": 1, "tp": 2, "cp": 2}, tp_plan="auto")
    add("whole on each rank", 2, ignored_params=["*head*"])
    forms = [{"kind": kind, "block_size": size, "double_quant": double} for kind in ("nf4", "fp4", "int8") for size in (32, 64, 512, 4096) for double in (False, True)]
    often = [{"kind": "nf4"}, {"kind": "nf4", "double_quant": True}]
    for told in often + [{"kind": "fp4", "block_size": 32}] + (forms if arguments.all else []):
        add(f"form {form_of(told)}", 2, often=True, kind=told["kind"], quantize=told)
    for told in often + ([{"kind": "int8"}, {"kind": "fp4", "block_size": 128}] if arguments.all else []):
        cases[f"bytes of {form_of(told)}"] = bytes_case(bin, told)
        cases[f"moving {form_of(told)}"] = moving_case(bin, told)
    cases["grains"] = grains_case(bin)
    cases["plain checkpoint"] = plain_checkpoint_case(bin)
    cases["adapter alone"] = adapter_case(bin)
    cases["bad numbers"] = bad_numbers_case(bin)
    cases["words of Axolotl"] = axolotl_case(bin)
    cases["refusals"] = refusals(bin)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
