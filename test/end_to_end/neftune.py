# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""NEFTune's noise: where it is, how large, that training goes on from it, and that validation has none."""
import json

import torch
import torch.nn as nn
from safetensors.torch import load_file, save_file

import zoo
from harness import call, compile_step, make_config, make_data, parse_arguments, run_cases, run_step

SGD = {"name": "sgd", "lr": 0.1}
ALPHA, ROWS, TOKENS, WIDTH = 5.0, 4, 32, 16
MOST = ALPHA / (TOKENS * WIDTH) ** 0.5


class Embedded(nn.Module):
    """Gives what it has embedded; positions are no tokens."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places, self.kinds = nn.Embedding(40, WIDTH), nn.Embedding(TOKENS, WIDTH), nn.Embedding(2, WIDTH)
        self.weigh = nn.Linear(WIDTH, 1)

    def forward(self, ids):
        found = self.tokens(ids)
        places = self.places(torch.arange(ids.shape[1]))
        kinds = self.kinds(torch.zeros_like(ids))
        return {"loss": self.weigh(found + places + kinds).square().mean(), "found": found, "places": places.clone(), "kinds": kinds.clone()}


def make():
    torch.manual_seed(3)
    return Embedded().train(), {"ids": torch.randint(0, 40, (ROWS, TOKENS))}


def compile_here(bin, folder, world, model, inputs, outputs=("found", "places", "kinds"), **config):
    compile_step(bin, folder, model, inputs, make_config(world, optimizer=SGD, neftune_noise_alpha=ALPHA, **config), options=[f"--output={each}" for each in outputs])


def magnitude(bin):
    """Uniform up to alpha / sqrt(L d), of tokens alone, other noise in each step and rank; an update by the gradients of what was disturbed."""
    def case(folder):
        model, inputs = make()
        data = {"ids": torch.randint(0, 40, (4 * ROWS, TOKENS))}
        save_file(data, folder / "data.safetensors")
        compile_here(bin, folder, 2, model, inputs)
        run_step(bin, folder, 2, "--steps=2", "--outputs=out.safetensors", "--export=final.safetensors")
        out = load_file(folder / "out.safetensors")
        first = out["found"][:2 * ROWS] - model.tokens(data["ids"][:2 * ROWS]).detach()
        assert first.abs().max() <= MOST * (1 + 1e-5) and first.abs().max() > 0.98 * MOST, f"{first.abs().max()} instead of {MOST}"
        assert abs(first.mean()) < 0.04 * MOST and abs(first.std() / (MOST / 3 ** 0.5) - 1) < 0.02, f"{first.mean()}, {first.std()}"
        assert not torch.allclose(first[:ROWS], first[ROWS:]), "ranks draw alike"
        assert torch.equal(out["kinds"][0], model.kinds(torch.zeros(TOKENS, dtype=torch.int64)).detach())
        # By hand: two steps of SGD with the noise that was.
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2):
            rows = slice(2 * ROWS * step, 2 * ROWS * (step + 1))
            ids = data["ids"][rows]
            found = model.tokens(ids)
            noise = (out["found"][rows] - found).detach()
            assert noise.abs().max() <= MOST * (1 + 1e-4)
            model.weigh(found + noise + model.places(torch.arange(TOKENS)) + model.kinds(torch.zeros_like(ids))).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        final = load_file(folder / "final.safetensors")
        for name, value in model.named_parameters():
            torch.testing.assert_close(final[name], value.detach(), rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    return case


def validation(bin):
    """As the model without noise."""
    def case(folder):
        model, inputs = make()
        data = {"ids": torch.randint(0, 40, (2 * ROWS, TOKENS))}
        save_file(data, folder / "data.safetensors")
        compile_here(bin, folder, 2, model, inputs, outputs=(), eval={}, lr_scheduler=None, max_grad_norm=1.0)
        metrics = folder / "metrics.jsonl"
        done = call(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--eval-data=data.safetensors", "--steps=1", "--lr=0", "--eval-every=1",
                    f"--metrics={metrics}", cwd=folder)
        assert not done.returncode, done.stderr
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        want = model(data["ids"])["loss"].item()
        found = [line["eval_loss"] for line in lines if "eval_loss" in line]
        assert found and all(abs(each - want) < 1e-5 * abs(want) for each in found), f"{found} instead of {want}"
        assert abs(lines[0]["loss"] - want) > 1e-3 * want, "training has no noise either"
    return case


def same_bits(bin):
    """With grains, on any number of ranks."""
    def case(folder):
        model, inputs = make()
        save_file(make_data(inputs, 12), folder / "data.safetensors")
        seen = []
        for world in (1, 2, 4):
            compile_here(bin, folder, world, model, inputs, outputs=(), grains=4)
            rows = run_step(bin, folder, world, "--steps=3", f"--export=final{world}.safetensors")
            seen.append(([row["loss"] for row in rows], load_file(folder / f"final{world}.safetensors")))
        for losses, states in seen[1:]:
            assert losses == seen[0][0], f"{losses} and {seen[0][0]}"
            assert all(torch.equal(states[name], value) for name, value in seen[0][1].items())
    return case


def language_models(bin):
    """With adapters on the embedding and beside it, with kernels, recomputed: it trains, and not as without noise."""
    def case(folder):
        for name, config in (("plain", {}), ("adapters", {"adapter": {"name": "lora", "r": 2, "modules": ["*"]}}),
                             ("kernels", {"kernels": "on", "activation_checkpointing": True}), ("tp", {"mesh": {"dp_shard": 1, "tp": 2}})):
            losses = []
            for alpha in (0, 8.0):
                torch.manual_seed(5)
                model, inputs = zoo.llama()
                save_file(make_data(inputs, 4), folder / "data.safetensors")
                compile_step(bin, folder, model.train(), inputs, make_config(2, optimizer=SGD, neftune_noise_alpha=alpha, **config))
                losses.append([row["loss"] for row in run_step(bin, folder, 2, "--steps=2")])
            assert all(abs(a - b) > 1e-6 and abs(a - b) < 0.5 for a, b in zip(*losses)), f"{name}: {losses}"
    return case


def refused(bin):
    def case(folder):
        for factory, words in ((zoo.mlp, "found none"), (lambda: larger(), "has fewer rows than 'kinds.weight'")):
            model, inputs = factory()
            try:
                compile_step(bin, folder, model.train(), inputs, make_config(1, neftune_noise_alpha=5))
            except AssertionError as error:
                assert "'neftune_noise_alpha'" in str(error) and words in str(error), error
            else:
                raise AssertionError("compiled")
    return case


def larger():
    model, inputs = make()
    model.kinds = nn.Embedding(50, WIDTH)
    return model, inputs


bin = parse_arguments().bin
run_cases({"magnitude": magnitude(bin), "validation": validation(bin), "same bits": same_bits(bin), "language models": language_models(bin),
           "refused": refused(bin)}, parse_arguments().only)
