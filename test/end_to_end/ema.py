# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Averages of the weights (ema) are PyTorch's torch.optim.swa_utils.AveragedModel of the weights that a run had, bit by bit, however these are cut, held
and updated; and with diffusers' warm-ups what its formula says."""
import copy
import json
import math

import torch
from safetensors.torch import load_file, save_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import zoo
from harness import ADAMW, batch_of, call, compile_step, make_config, make_data, make_optimizer, must, parse_arguments, run_cases, run_step

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
DECAY = {"decay": 0.9}


class Weights(torch.nn.Module):
    """What AveragedModel averages: tensors by numbers, since their names have dots."""

    def __init__(self, values):
        super().__init__()
        self.all = torch.nn.ParameterList([torch.nn.Parameter(value.clone(), requires_grad=False) for value in values])


def wide():
    """Large enough for kernels that update and average."""
    model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.Tanh(), torch.nn.Linear(64, 48))

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, y):
            return torch.nn.functional.mse_loss(self.model(x), y)

    return Loss(), {"x": torch.randn(3, 48), "y": torch.randn(3, 48)}


class ByFormula:
    """diffusers.training_utils.EMAModel, in torch's lerp."""

    def __init__(self, rule, values):
        self.rule, self.all = rule, [value.clone() for value in values]

    def update(self, number, values):
        every = self.rule.get("every", 1)
        if number % every:
            return
        t, decay = (number - self.rule.get("update_after_step", 0)) / every - 1, 0.0
        if t > 0:
            warmup, most = self.rule.get("warmup", "none"), self.rule["decay"]
            least = {"none": 1.0, "ratio": (1 + t) / (10 + t),
                     "power": 1 - (1 + t / self.rule.get("warmup_gamma", 1)) ** -self.rule.get("warmup_power", 2 / 3)}[warmup]
            decay = min(most, least)
        for own, value in zip(self.all, values):
            own.lerp_(value.to(own.dtype), 1 - decay)


def averages(rule, first, later):
    """Of lists of tensors: what they begin as, and are behind each update."""
    if set(rule) - {"dtype"} == {"decay"}:
        model = Weights(first)
        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(rule["decay"]))
        for values in later:
            for own, value in zip(model.all, values):
                own.data.copy_(value)
            averaged.update_parameters(model)
        return [value.data for value in averaged.module.all]
    own = ByFormula(rule, first)
    for number, values in enumerate(later, start=1):
        own.update(number, values)
    return own.all


def check_bits(bin, folder, names, world, steps, rule, wide, options=()):
    """Runs to each step; the averages at the end are those of the weights in between. `wide`: type of the averages, or their own."""
    held = []
    for step in range(steps + 1):
        rows = run_step(bin, folder, world, f"--steps={step}", f"--export=at{step}.safetensors", *([f"--export-ema=ema{step}.safetensors"] if step in (0, steps) else []),
                        *options)
        held.append(load_file(folder / f"at{step}.safetensors"))
    start, final = load_file(folder / "ema0.safetensors"), load_file(folder / f"ema{steps}.safetensors")
    assert set(start) == set(final) == set(held[0]), sorted(set(final) ^ set(held[0]))
    for name, value in held[0].items():
        assert torch.equal(start[name], value), f"{name} does not begin as the parameter"
    widened = [[state[name].to(wide) if wide and state[name].dtype != torch.float64 else state[name] for name in names] for state in held]
    wanted = averages(rule, widened[0], widened[1:])
    for name, want in zip(names, wanted):
        own = held[-1][name]
        assert final[name].dtype == own.dtype, f"{name} is {final[name].dtype}, and its parameter {own.dtype}"
        assert torch.equal(final[name], want.to(own.dtype)), f"{name}: off by {(final[name].double() - want.double()).abs().max():.2e}"
        assert not torch.equal(final[name], own), f"{name} is no average"
    for name in set(final) - set(names):
        assert torch.equal(final[name], held[-1][name]), f"{name} is not trained, and is another"
    return rows


def bits_case(bin, factory, world, rule=None, steps=4, wide=None, readers=None, options=(), **config):
    rule = rule or DECAY

    def case(folder):
        torch.manual_seed(9)
        model, inputs = factory()
        model.train()
        settings = make_config(world, ema=rule, **config)
        save_file(make_data(inputs, (readers or world) * steps * settings.get("gradient_accumulation_steps", 1)), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings)
        trained = [name for name, value in model.named_parameters() if value.requires_grad]
        tied = {name: first for first, value in model.named_parameters() for name, other in model.named_parameters(remove_duplicate=False)
                if other is value and name != first}
        ranks = math.prod(settings["mesh"].values())
        check_bits(bin, folder, [*trained, *(name for name in tied if tied[name] in trained)], ranks, steps, rule, wide, options)
    return case


def pytorch_case(bin, factory, world, steps=5, **config):
    """Training and averaging in PyTorch, from the first value to the last."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = factory()
        model.train()
        settings = make_config(world, ema=DECAY, **config)
        data = make_data(inputs, world * steps)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings)
        run_step(bin, folder, world, f"--steps={steps}", "--export-ema=averaged/")
        found = load_file(folder / "averaged" / "model.safetensors")
        own = copy.deepcopy(model)
        averaged = AveragedModel(own, multi_avg_fn=get_ema_multi_avg_fn(DECAY["decay"]))
        optimizer = make_optimizer(own, settings["optimizer"])
        for step in range(steps):
            for rank in range(world):
                out = own(**batch_of(data, inputs, step * world + rank))
                loss = out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out
                (loss / world).backward()
            optimizer.step()
            optimizer.zero_grad()
            averaged.update_parameters(own)
        for name, want in averaged.module.named_parameters():
            moved = (want - model.get_parameter(name)).abs().mean().item()
            assert (found[name] - want).abs().mean().item() <= 2e-3 * moved + 3e-6, name
    return case


def masters_case(bin):
    """Of parameters that are held in float32, in it; exports are of the model's type."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = zoo.half()
        save_file(make_data(inputs, 2 * 4), folder / "data.safetensors")
        for decay in (0.0, 0.9):
            compile_step(bin, folder, model, inputs, make_config(2, optimizer={**ADAMW, "eps": 1e-6, "master_dtype": "float32"}, ema=decay))
            held = []
            for step in range(5):
                run_step(bin, folder, 2, f"--steps={step}", "--export=at.safetensors", "--export-ema=ema.safetensors")
                held.append(load_file(folder / "at.safetensors"))
            found = load_file(folder / "ema.safetensors")
            names = [name for name, _ in model.named_parameters()]
            wanted = averages({"decay": decay}, *(lambda all: (all[0], all[1:]))([[state[name].float() for name in names] for state in held]))
            for name, want in zip(names, wanted):
                assert found[name].dtype == held[0][name].dtype
                # What was exported in between was rounded.
                assert (found[name].float() - want).abs().max() <= (0 if decay == 0 else 2 ** -7 * want.abs().max()), (decay, name)
    return case


def elastic_case(bin):
    """Saved by 2 ranks, gone on with by 3; and a checkpoint without averages, which begin as the weights."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = zoo.mlp()
        plain = {"optimizer": ADAMW, "grains": 6}
        save_file(make_data(inputs, 36), folder / "data.safetensors")
        for world in (2, 3):
            compile_step(bin, folder, model, inputs, make_config(world, ema=DECAY, **plain))
            (folder / "step.fsdp").rename(folder / f"step{world}.fsdp")
        compile_step(bin, folder, model, inputs, make_config(2, **plain))
        (folder / "step.fsdp").rename(folder / "plain.fsdp")
        run_step(bin, folder, 2, "--steps=6", "--export-ema=want.safetensors", artifact="step2.fsdp")
        run_step(bin, folder, 2, "--steps=2", "--save=ck", artifact="step2.fsdp")
        run_step(bin, folder, 3, "--steps=6", "--load=ck", "--export-ema=have.safetensors", artifact="step3.fsdp")
        want, have = (load_file(folder / f"{name}.safetensors") for name in ("want", "have"))
        for name, value in want.items():
            assert torch.equal(value, have[name]), f"{name} is another average behind a checkpoint"
        # Weights that nobody averaged.
        run_step(bin, folder, 2, "--steps=3", "--save=without", "--export=at3.safetensors", artifact="plain.fsdp")
        run_step(bin, folder, 3, "--steps=3", "--load=without", "--export-ema=from3.safetensors", artifact="step3.fsdp")
        run_step(bin, folder, 3, "--steps=4", "--load=without", "--export=at4.safetensors", "--export-ema=from4.safetensors", artifact="step3.fsdp")
        at3, from3, at4, from4 = (load_file(folder / f"{name}.safetensors") for name in ("at3", "from3", "at4", "from4"))
        for name, value in at3.items():
            assert torch.equal(from3[name], value), f"{name} does not begin as the checkpoint's"
            assert torch.equal(from4[name], value.lerp(at4[name], 1 - DECAY["decay"])), name
    return case


def same_bits_case(bin):
    """With grains an average has the same bits on any number of ranks, in any layout."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = zoo.gpt()
        save_file(make_data(inputs, 4 * 3), folder / "data.safetensors")
        found = []
        for world, layout in ((1, "rows"), (2, "rows"), (3, "flat"), (4, "auto")):
            compile_step(bin, folder, model, inputs, make_config(world, optimizer=ADAMW, ema={"decay": 0.9, "warmup": "ratio"}, grains=4, bucket_layout=layout))
            run_step(bin, folder, world, "--steps=3", "--export-ema=ema.safetensors")
            found.append(load_file(folder / "ema.safetensors"))
        for other in found[1:]:
            for name, value in found[0].items():
                assert torch.equal(value, other[name]), name
    return case


class Powers(torch.nn.Module):
    """Leaves float32 where its input is large."""

    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.linspace(0.5, 1, 7))

    def forward(self, x):
        return (torch.exp(x) * self.gain).square().mean()


def skipped_case(bin, **config):
    """A step whose update is left out averages nothing, and counts for nothing."""
    def case(folder):
        model, inputs = Powers(), {"x": torch.rand(3, 7)}
        torch.manual_seed(9)
        rows = torch.rand(2 * 3 * 6, 7)
        rows[6 * 2:6 * 3] = 200.0  # step 2 of 2 ranks
        rule = {"decay": 0.5, "update_after_step": 1}
        save_file({"x": rows}, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(2, optimizer={"name": "sgd", "lr": 0.01}, on_nonfinite="skip", ema=rule, **config))
        held, found = [], []
        for step in range(6):
            done = run_step(bin, folder, 2, f"--steps={step}", "--export=at.safetensors", "--export-ema=ema.safetensors")
            held.append(load_file(folder / "at.safetensors")["gain"])
            found.append(load_file(folder / "ema.safetensors")["gain"])
        assert done[2]["skipped"], done[2]
        assert torch.equal(held[3], held[2]) and torch.equal(found[3], found[2]), "a step that is skipped changed something"
        own = ByFormula(rule, [held[0]])
        for number, value in enumerate([held[1], held[2], held[4], held[5]], start=1):
            own.update(number, [value])
            assert torch.equal(own.all[0], found[[1, 2, 4, 5][number - 1]]), f"update {number}"
    return case


def adapters_case(bin):
    """Of adapters that the config asked for, what is trained is averaged, and written merged."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = zoo.llama()
        told = make_config(2, optimizer=SGD, ema=DECAY, adapter={"r": 3, "alpha": 6, "modules": ["*.q", "*.v"]})
        save_file(make_data(inputs, 2 * 4), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, told)
        held = []
        for step in range(5):
            run_step(bin, folder, 2, f"--steps={step}", "--export-trained=at.safetensors", "--export-ema=ema.safetensors", "--export=merged.safetensors")
            held.append(load_file(folder / "at.safetensors"))
        names = sorted(held[0])
        own = dict(zip(names, averages(DECAY, *(lambda all: (all[0], all[1:]))([[state[name] for name in names] for state in held]))))
        found, plain = load_file(folder / "ema.safetensors"), model.state_dict()
        assert set(found) == set(load_file(folder / "merged.safetensors"))
        changed = 0
        for name, value in found.items():
            path = name.removesuffix(".weight")
            want = plain[name]
            if f"{path}.lora_A.weight" in own:
                want, changed = want + 2.0 * own[f"{path}.lora_B.weight"] @ own[f"{path}.lora_A.weight"], changed + 1
            assert (value - want).abs().max() <= 1e-6, f"{name} is off by {(value - want).abs().max():.1e}"
        assert changed == len(names) // 2 > 0, names
    return case


def validation_case(bin, **config):
    """eval: {weights: ema}: the loss of the averages, behind which training goes on as without."""
    def case(folder):
        torch.manual_seed(9)
        model, inputs = zoo.mlp()
        settings = dict(optimizer=ADAMW, ema=DECAY, **config)
        save_file(make_data(inputs, 2 * 4), folder / "data.safetensors")
        save_file(make_data(inputs, 2 * 2), folder / "held.safetensors")
        losses, finals = {}, {}
        for weights in ("trained", "ema"):
            compile_step(bin, folder, model, inputs, make_config(2, eval={"data": "held.safetensors", "every": 2, "weights": weights}, **settings))
            rows = run_step(bin, folder, 2, "--steps=4", "--export=at.safetensors", "--export-ema=ema.safetensors")
            losses[weights] = [row["eval_loss"] for row in rows if "eval_loss" in row]
            finals[weights] = load_file(folder / "at.safetensors")
        for name, value in finals["trained"].items():
            assert torch.equal(value, finals["ema"][name]), f"{name}: validation changed training"
        assert len(losses["ema"]) == 2 and losses["ema"] != losses["trained"], losses
        model.load_state_dict(load_file(folder / "ema.safetensors"))
        compile_step(bin, folder, model, inputs, make_config(2, eval={"data": "held.safetensors"}, **settings))
        must(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--eval-only", "--metrics=m.jsonl", cwd=folder)
        own = [json.loads(line)["eval_loss"] for line in (folder / "m.jsonl").read_text().splitlines()][-1]
        assert own == losses["ema"][-1], (own, losses)
    return case


def refused_case(bin):
    def case(folder):
        model, inputs = zoo.mlp()
        save_file(make_data(inputs, 2), folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, make_config(1))
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=1", "--export-ema=no.safetensors", cwd=folder)
        assert done.returncode and "keeps no averages" in done.stderr and not (folder / "no.safetensors").exists(), done.stderr
        (folder / "fsdp.yaml").write_text(json.dumps(make_config(1, eval={"weights": "ema"})))
        done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "other.fsdp", cwd=folder)
        assert done.returncode and "ema" in done.stderr, done.stderr
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    half = {"optimizer": {**ADAMW, "eps": 1e-6}}
    cases = {
        "pytorch world=2": pytorch_case(bin, zoo.mlp, 2),
        "uneven rows world=3": bits_case(bin, zoo.mlp, 3, optimizer=SGD),
        "tied world=4": bits_case(bin, zoo.gpt, 4),
        "frozen world=2": bits_case(bin, zoo.lora, 2),
        "flat world=3": bits_case(bin, zoo.mlp, 3, bucket_layout="flat"),
        "replicas and micro-batches": bits_case(bin, zoo.mlp, 4, replicate=2, gradient_accumulation_steps=2),
        "tp": bits_case(bin, zoo.llama, 2, mesh={"dp_shard": 2, "tp": 2}, readers=2),
        "optimizer on the host": bits_case(bin, zoo.mlp, 2, offload_optimizer=True),
        "kernels": bits_case(bin, wide, 2, kernels="on"),
        "masters": masters_case(bin),
        "bfloat16 in float32": bits_case(bin, zoo.half, 2, wide=torch.float32, **half),
        "bfloat16 in its type": bits_case(bin, zoo.half, 2, rule={"decay": 0.9, "dtype": "parameter"}, **half),
        "warm-up by ratio": bits_case(bin, zoo.mlp, 2, steps=6, rule={"decay": 0.3, "warmup": "ratio"}),
        "later, and not each": bits_case(bin, zoo.mlp, 2, steps=6, rule={"decay": 0.9, "every": 2, "update_after_step": 1}),
        "elastic": elastic_case(bin),
        "same bits": same_bits_case(bin),
        "skipped": skipped_case(bin),
        "adapters": adapters_case(bin),
        "validation": validation_case(bin),
        "refused": refused_case(bin),
    }
    if arguments.all:
        cases |= {
            "world=1": bits_case(bin, zoo.mlp, 1),
            "double world=2": bits_case(bin, zoo.double, 2),
            "cp": bits_case(bin, zoo.llama, 2, mesh={"dp_shard": 1, "cp": 2}, readers=1),
            "all on the host": bits_case(bin, zoo.mlp, 2, offload_params=True),
            "clipped": bits_case(bin, zoo.mlp, 2, max_grad_norm=0.1),
            "states of 8 bits": bits_case(bin, zoo.llama, 2, optimizer={"name": "adamw", "lr": 1e-2, "state_dtype": "int8"}),
            "bfloat16 flat": bits_case(bin, zoo.half, 3, wide=torch.float32, bucket_layout="flat", **half),
            "warm-up by power": bits_case(bin, zoo.mlp, 2, steps=6, rule={"decay": 0.9, "warmup": "power", "warmup_gamma": 2.0, "warmup_power": 0.5}),
            "fsdp2 world=2": bits_case(bin, zoo.gpt, 2, bucket_layout="fsdp2"),
            "skipped kernels": skipped_case(bin, kernels="on"),
            "validation offloaded": validation_case(bin, offload_params=True),
        }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
