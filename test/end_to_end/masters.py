# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models in bfloat16 whose parameters, or whose optimizer's states alone, are held in float32, against PyTorch with copies of its own."""
import copy

import torch
from safetensors.torch import load_file, save_file

import zoo
from harness import batch_of, compile_step, make_config, make_data, parse_arguments, run_cases, run_step

ADAMW = {"name": "adamw", "lr": 2e-3, "eps": 1e-6, "weight_decay": 0.1}


def with_masters(model, inputs, data, world, steps, told):
    """Losses, and the model at the end."""
    model = copy.deepcopy(model)
    masters = [parameter.detach().float().requires_grad_(True) for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(masters, **{key: value for key, value in told["optimizer"].items() if key != "name"})
    losses = []
    for step in range(steps):
        total = 0.0
        for rank in range(world):
            out = model(**batch_of(data, inputs, step * world + rank))
            loss = out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out
            loss.backward()
            total += loss.item() / world
        for master, parameter in zip(masters, model.parameters()):
            master.grad = parameter.grad.float() / world
            parameter.grad = None
        optimizer.step()
        for master, parameter in zip(masters, model.parameters()):
            parameter.data.copy_(master)
        losses.append(total)
    return losses, model


def masters_case(bin, world, factory=zoo.half, bound=0.05, **config):
    """`bound`: of what a parameter may be off by, of how far it moved; ranks that add up in bfloat16 round otherwise."""
    def case(folder):
        torch.manual_seed(5)
        model, inputs = factory()
        told = make_config(world, optimizer={**ADAMW, "master_dtype": "float32"}, **config)
        data = make_data(inputs, world * 6)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, told)
        rows = run_step(bin, folder, world, "--steps=6", "--export=final.safetensors")
        run_step(bin, folder, world, "--steps=3", "--save=ck")
        again = run_step(bin, folder, world, "--steps=6", "--load=ck", "--export=again.safetensors")
        assert [row["loss"] for row in again if row["step"] >= 3][-3:] == [row["loss"] for row in rows[3:]], "it did not go on with what it had"
        losses, trained = with_masters(model, inputs, data, world, 6, {"optimizer": ADAMW})
        for row, loss in zip(rows, losses):
            assert abs(row["loss"] - loss) <= 1e-2 * abs(loss), f"step {row['step']}: {row['loss']} instead of {loss}"
        final, start = load_file(folder / "final.safetensors"), model.state_dict()
        assert set(final) == set(start)
        for name, value in trained.state_dict().items():
            assert final[name].dtype == start[name].dtype, f"{name} is exported as {final[name].dtype}"
            assert torch.equal(final[name], load_file(folder / "again.safetensors")[name]), name
            if not value.is_floating_point():
                continue
            moved = (value.float() - start[name].float()).abs().mean()
            off = (final[name].float() - value.float()).abs().mean()
            assert off <= bound * moved + 1e-5, f"{name}: off by {off:.2e} where it moved by {moved:.2e}"
    return case


def small_updates_case(bin):
    """What bfloat16 loses in each step, float32 keeps."""
    def case(folder):
        torch.manual_seed(5)
        model, inputs = zoo.half()
        data = make_data(inputs, 2 * 12)
        save_file(data, folder / "data.safetensors")
        moved = {}
        for name, extra in (("none", {}), ("states", {"state_dtype": "float32"}), ("masters", {"master_dtype": "float32"})):
            told = make_config(2, optimizer={"name": "adamw", "lr": 1e-5, "weight_decay": 0, **extra})
            compile_step(bin, folder, model, inputs, told)
            run_step(bin, folder, 2, "--steps=12", "--export=final.safetensors")
            final = load_file(folder / "final.safetensors")
            moved[name] = sum((final[each].float() - value.float()).abs().sum().item() for each, value in model.state_dict().items() if value.is_floating_point())
        assert moved["masters"] > 2 * moved["none"] and moved["masters"] > 2 * moved["states"], moved
    return case


def states_case(bin, world):
    """Moments of float32 beside parameters of bfloat16: the update in float32, the new parameter rounded to nearest."""
    def case(folder):
        torch.manual_seed(5)
        model, inputs = zoo.half()
        told = make_config(world, optimizer={**ADAMW, "state_dtype": "float32"})
        data = make_data(inputs, world * 4)
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, told)
        rows = run_step(bin, folder, world, "--steps=4", "--export=final.safetensors")
        own = copy.deepcopy(model)
        first, second = ([torch.zeros_like(p, dtype=torch.float32) for p in own.parameters()] for _ in range(2))
        for step in range(4):
            total = 0.0
            for rank in range(world):
                out = own(**batch_of(data, inputs, step * world + rank))
                out.backward()
                total += out.item() / world
            assert abs(rows[step]["loss"] - total) <= 1e-2 * total, f"step {step}: {rows[step]['loss']} instead of {total}"
            for p, m, v in zip(own.parameters(), first, second):
                grad, p.grad = p.grad.float() / world, None
                m.lerp_(grad, 0.1)
                v.mul_(0.999).addcmul_(grad, grad, value=0.001)
                wide = p.data.float() * (1 - 2e-3 * 0.1)
                wide -= 2e-3 / (1 - 0.9 ** (step + 1)) * m / (v.sqrt() / (1 - 0.999 ** (step + 1)) ** 0.5 + 1e-6)
                p.data.copy_(wide)
        final = load_file(folder / "final.safetensors")
        for name, value in own.named_parameters():
            moved = (value.float() - model.get_parameter(name).float()).abs().mean()
            off = (final[name].float() - value.float()).abs().mean()
            assert off <= 0.05 * moved + 1e-5, f"{name}: off by {off:.2e} where it moved by {moved:.2e}"
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    cases = {
        "masters world=1": masters_case(bin, 1),
        "masters world=3": masters_case(bin, 3),
        "masters flat world=2": masters_case(bin, 2, bucket_layout="flat"),
        "masters kernels world=2": masters_case(bin, 2, kernels="on"),
        "masters tp": masters_case(bin, 1, bound=0.1, mesh={"dp_shard": 1, "tp": 2}),
        "masters recompute world=2": masters_case(bin, 2, activation_checkpointing=True),
        "small updates": small_updates_case(bin),
        "states world=2": states_case(bin, 2),
    }
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
