# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adapters that the config asks for, beside those that PEFT gives the same model: norms of their own (DoRA), first values out of the base, experts."""
import copy
import json

import torch
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file

import zoo
from adapters import SGD, gpt2, layers
from experts import mixtral
from harness import call, compile_step, make_config, make_data, must_refuse, parse_arguments, reference, run_cases, run_step, train


def wrap(model, inputs, told, first=None):
    """PEFT's model of the same adapters, beginning with `first` of a folder's tensors, in training."""
    lora = {"r": 8, "lora_alpha": 8, "lora_dropout": 0.0, **{"lora_" + key if key in ("alpha", "dropout") else key: value for key, value in told.items()}}
    renamed = {"modules": "target_modules", "rslora": "use_rslora", "dora": "use_dora", "init": "init_lora_weights", "layers": "layers_to_transform",
               "parameters": "target_parameters"}
    peft = get_peft_model(copy.deepcopy(model), LoraConfig(**{renamed.get(key, key): value for key, value in lora.items()}))
    if first is not None:
        left = set_peft_model_state_dict(peft, first)
        assert not left.unexpected_keys, left.unexpected_keys[:4]
        assert not [name for name in left.missing_keys if "lora_" in name], left.missing_keys[:4]
    return peft.train(model.training)


def start(bin, folder, *options):
    """What a run begins with."""
    done = call(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=0", *options, cwd=folder)
    assert done.returncode == 0, done.stderr


def check(rows, want_rows, final, want, model, tolerance=2e-5):
    for row, (loss, norm) in zip(rows, want_rows):
        assert abs(row["loss"] - loss) <= tolerance * loss, f"step {row['step']}: {row['loss']} instead of {loss}"
        assert abs(row["grad_norm"] - norm) <= 50 * tolerance * norm, f"step {row['step']}: norm {row['grad_norm']} instead of {norm}"
        assert row["unplanned_bytes"] == 0, row
    plain = model.state_dict()
    moved = {name: (value - plain[name]).abs().mean().item() for name, value in want.items()}
    assert set(final) == set(want), sorted(set(final) ^ set(want))
    assert sum(value > 1e-7 for value in moved.values()) >= 1, "nothing was trained"
    for name, value in want.items():
        off = (final[name] - value).abs().mean().item()
        assert off <= 2e-2 * moved[name] + 1e-6, f"{name}: off by {off:.2e} where it moved by {moved[name]:.2e}"


def peft_case(bin, world, factory, adapter, form="exported", same_first=True, **config):
    """Trained beside PEFT's model; what is written is loaded by it, and what it writes goes on here."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        told = make_config(world, adapter=adapter, **{"optimizer": SGD, **config})
        data = make_data(inputs, world * 3 * told.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        save_file({name: value.clone() for name, value in model.state_dict().items()}, folder / "base.safetensors")
        compile_step(bin, folder, model, inputs, told, form)
        run_step(bin, folder, world, "--steps=0", "--export-trained=first/", "--export=start.safetensors")
        # At the start the model is what it was.
        for name, value in load_file(folder / "start.safetensors").items():
            assert torch.allclose(value, model.state_dict()[name], rtol=1e-4, atol=1e-6), name
        first = load_file(folder / "first/adapter_model.safetensors")
        peft = wrap(model, inputs, adapter, first if same_first else None)
        want_rows, trained, _ = reference(peft, inputs, data, world, 3, told)
        rows, final = train(bin, folder, world, 3, options=["--export-trained=trained/"])
        for name, value in peft.named_parameters():
            value.data.copy_(trained[name])
        batch = {name: value[:len(inputs[name])] if torch.is_tensor(value) else value for name, value in {**inputs, **data}.items()}
        peft.eval()
        want_loss = peft(**batch)
        peft.save_pretrained(folder / "theirs")
        check(rows, want_rows, final, peft.merge_and_unload().state_dict(), model)
        # Theirs of ours: the same function of the model as it was.
        loaded = PeftModel.from_pretrained(copy.deepcopy(model), folder / "trained").eval()
        pick = lambda out: out if torch.is_tensor(out) else out[0] if isinstance(out, tuple) else out["loss"]
        found, want = pick(loaded(**batch)).item(), pick(want_loss).item()
        assert abs(found - want) <= 5e-5 * want, f"PEFT computes {found} of our adapters, and {want} of its own"
        if not same_first:
            return
        # Ours of theirs.
        compile_step(bin, folder, model, inputs, told, form, options=["--weights=theirs/", "--weights=base.safetensors"])
        run_step(bin, folder, world, "--steps=0", "--export=again.safetensors")
        for name, value in load_file(folder / "again.safetensors").items():
            assert torch.allclose(value, final[name], rtol=1e-3, atol=2e-5), f"{name} of PEFT's adapters is off by {(value - final[name]).abs().max()}"
    return case


def pissa_case(bin, adapter, exact, factory=zoo.llama, world=2):
    """The product that a base begins without is its largest singular vectors', and the same on any number of ranks."""
    def case(folder):
        starts = {}
        for ranks in (1, world):
            torch.manual_seed(7)
            model, inputs = factory()
            compile_step(bin, folder, model, inputs, make_config(ranks, adapter=adapter))
            start(bin, folder, "--export-trained=first/")
            starts[ranks] = load_file(folder / "first/adapter_model.safetensors")
        config = json.loads((folder / "first/adapter_config.json").read_text())
        rank = adapter["r"]
        assert config["r"] == 2 * rank and config["lora_alpha"] == 2 * adapter["alpha"], config
        seen = 0
        for name, value in starts[1].items():
            assert torch.equal(value, starts[world][name]), name
            if not name.endswith("lora_A.weight"):
                continue
            seen += 1
            down, up = value[:rank], starts[1][name.replace("lora_A", "lora_B")][:, :rank]
            assert torch.equal(value[rank:], down) and torch.equal(starts[1][name.replace("lora_A", "lora_B")][:, rank:], -up), name
            weight = model.get_parameter(name.removeprefix("base_model.model.").replace("lora_A.", ""))
            left, values, right = torch.linalg.svd(weight.detach())
            best = (left[:, :rank] * values[:rank]) @ right[:rank]
            found = adapter["alpha"] / rank * up @ down
            rest, least = (weight - found).norm().item(), (weight - best).norm().item()
            assert rest <= (1 + (1e-5 if exact else 0.05)) * least, f"{name}: {rest} is left, {least} can be"
            assert torch.allclose(down @ down.T, torch.diag((down @ down.T).diag()), atol=1e-4), f"{name}: rows are not orthogonal"
        assert seen
    return case


def going_on_case(bin):
    """A run that goes on from a checkpoint, without the weights it began with, on other ranks and over codes, has what it began with all the same."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = zoo.llama()
        save_file(make_data(inputs, 2 * 4), folder / "data.safetensors")
        found = {}
        for name, ranks, options in (("whole", 2, ["--steps=4"]), ("half", 2, ["--steps=2", "--save=ck"]), ("rest", 1, ["--load=ck", "--steps=4"])):
            told = make_config(ranks, adapter={"r": 3, "alpha": 6, "init": "pissa", "dora": True, "modules": ["q", "down"]}, quantize={"kind": "int8", "modules": "*"},
                               optimizer=SGD, **({"gradient_accumulation_steps": 2} if ranks == 1 else {}))
            compile_step(bin, folder, model, inputs, told)
            run_step(bin, folder, ranks, *options, f"--export-trained={name}/", f"--export={name}.safetensors")
            found[name] = {**load_file(folder / f"{name}/adapter_model.safetensors"), **load_file(folder / f"{name}.safetensors")}
        assert found["whole"] and not all(torch.equal(value, found["half"][name]) for name, value in found["whole"].items())
        for name, value in found["whole"].items():
            other = found["rest"][name]
            if name.endswith("lora_A.weight"):
                assert torch.equal(value[3:], other[3:]), f"{name} began otherwise"
            assert torch.allclose(value, other, rtol=1e-4, atol=1e-5), f"{name} is off by {(value - other).abs().max()}"
    return case


def loftq_case(bin):
    """With what is lost of the base, its codes and the adapter are nearer to it than its codes alone."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = zoo.llama()
        told = make_config(2, adapter={"r": 4, "alpha": 8, "init": "loftq", "modules": ["q", "v", "down"]}, quantize={"kind": "nf4", "modules": "*"}, optimizer=SGD)
        compile_step(bin, folder, model, inputs, told)
        start(bin, folder, "--export-trained=first/", "--export=start.safetensors")
        first, held = load_file(folder / "first/adapter_model.safetensors"), load_file(folder / "start.safetensors")
        seen = 0
        for name, down in first.items():
            if not name.endswith("lora_A.weight"):
                continue
            seen += 1
            own = name.removeprefix("base_model.model.").replace("lora_A.", "")
            weight, up = model.get_parameter(own).detach(), first[name.replace("lora_A", "lora_B")]
            delta = 2 * up @ down
            lost = weight - (held[own] - delta)  # the export is merged
            left, values, right = torch.linalg.svd(lost)
            best = (left[:, :4] * values[:4]) @ right[:4]
            assert torch.allclose(delta, best, atol=1e-5), f"{name} is off by {(delta - best).abs().max()}"
            assert (weight - held[own]).norm() < 0.95 * lost.norm(), f"{own}: {(weight - held[own]).norm()} is left of {lost.norm()}"
        assert seen == 9, seen
        data = make_data(inputs, 2 * 2)
        save_file(data, folder / "data.safetensors")
        rows = run_step(bin, folder, 2, "--steps=2")
        assert rows[1]["loss"] < rows[0]["loss"] * 1.05
    return case


def refusals(bin):
    def case(folder):
        model, inputs = layers()
        torch.export.save(torch.export.export(model, (), inputs, strict=False), folder / "model.pt2")
        must_refuse(bin, folder, {
            "begins with what quantize loses": {"adapter": {"init": "loftq"}},
            "which is not quantized": {"adapter": {"init": "loftq"}, "quantize": {"kind": "nf4", "skip_modules": "twice"}},
            "has no singular vectors": {"adapter": {"init": "pissa", "modules": "conv"}},
            "means no frozen parameter": {"adapter": {"parameters": "nothing"}},
            "neither dora nor init": {"adapter": {"parameters": "twice.weight", "dora": True}},
            "nothing can be dropped": {"adapter": {"parameters": "twice.weight", "dropout": 0.1}},
            "none of the model's layers is meant": {"adapter": {"layers": [3]}},
            "expected one of": {"adapter": {"init": "eva"}}})
        torch.manual_seed(7)
        model, inputs = zoo.llama()
        config = make_config(1, adapter={"r": 4, "modules": ["q"]})
        compile_step(bin, folder, model, inputs, config)
        start(bin, folder, "--export-trained=adapter/")
        save_file({name: value.clone() for name, value in model.state_dict().items()}, folder / "base.safetensors")
        config["adapter"]["init"] = "pissa"
        (folder / "fsdp.yaml").write_text(json.dumps(config))
        done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--weights=adapter/", "--weights=base.safetensors", "-o", "no.fsdp", cwd=folder)
        assert done.returncode and "to go on from an adapter" in done.stderr, done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    lora = {"r": 4, "alpha": 6}
    dora = {**lora, "dora": True}
    every = ["embed", "conv", "twice", "head"]
    cases = {
        "dora llama world=2": peft_case(bin, 2, zoo.llama, {**dora, "modules": ["q", "v", "down"]}),
        "dora every kind world=3": peft_case(bin, 3, layers, {**dora, "modules": every, "rslora": True}),
        # Nothing is dropped, and still the layer reads what could have been.
        "dora dropout world=1 accumulate": peft_case(bin, 1, layers, {**dora, "modules": every, "dropout": 1e-12}, gradient_accumulation_steps=2),
        "dora conv1d world=2": peft_case(bin, 2, gpt2, {**dora, "modules": ["c_attn", "c_proj"]}),
        "dora traced kernels": peft_case(bin, 2, layers, {**dora, "modules": ["twice", "conv"]}, form="traced", kernels="on"),
        "pissa world=2": peft_case(bin, 2, zoo.llama, {**lora, "modules": ["q", "v", "down"], "init": "pissa"}, same_first=False),
        "pissa dora world=3": peft_case(bin, 3, layers, {**dora, "modules": ["twice", "head"], "init": "pissa"}, same_first=False),
        "pissa first values": pissa_case(bin, {**lora, "init": "pissa", "modules": ["q", "up"]}, exact=True),
        "pissa iterations": pissa_case(bin, {**lora, "init": "pissa_niter_8", "modules": ["q", "up"]}, exact=False, world=3),
        "pissa going on": going_on_case(bin),
        "loftq": loftq_case(bin),
        "experts world=2": peft_case(bin, 2, mixtral, {**lora, "modules": ["q_proj"], "parameters": ["experts.gate_up_proj", "experts.down_proj"]}),
        "layers world=2": peft_case(bin, 2, gpt2, {**lora, "modules": ["c_attn"], "layers": [1]}),
        "refusals": refusals(bin),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
