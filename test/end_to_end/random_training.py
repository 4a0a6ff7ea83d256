# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models that draw random numbers train as PyTorch trains them with the same draws.

draws.py says which numbers a rank draws in a step; the reference runs the plain
model with them.
"""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

import zoo
from draws import Draws
from harness import batch_of, compile_step, make_config, make_data, must, parse_arguments, run_cases, train

SGD = {"name": "sgd", "lr": 0.5}


class Dropping(nn.Module):
    """Dropouts between layers, two of them on one tensor, one in place."""

    def __init__(self, p=0.3):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(19, 23), nn.Linear(23, 23), nn.Linear(23, 7)
        self.p = p

    def forward(self, x, y):
        h = F.dropout(torch.tanh(self.first(x)), self.p)
        h = F.dropout(h, self.p) + F.dropout(h, 0.1)
        h = F.dropout(torch.tanh(self.second(h)), 0.995)
        h = F.dropout(h * 2 + 1, 0.25, inplace=True)
        return F.cross_entropy(self.third(h), y)


def dropping():
    return Dropping(), {"x": torch.randn(6, 19), "y": torch.randint(0, 7, (6,))}


class Gpt(nn.Module):
    """The head shares the embedding's weight; attention drops scores, too."""

    def __init__(self, vocabulary=31, width=18, length=9, p=0.1):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.drop, self.p = nn.Dropout(p), p
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 37), nn.Linear(37, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x, y):
        h = self.drop(self.embed(x) + self.position)
        b, t, c = h.shape
        q, k, v = self.qkv(self.norms[0](h)).view(b, t, 3, 3, c // 3).permute(2, 0, 3, 1, 4)
        if torch.compiler.is_exporting():
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p)
        else:
            scores = (q @ k.transpose(-1, -2) * (c // 3) ** -0.5).masked_fill(torch.ones(t, t).triu(1).bool(), -torch.inf)
            a = F.dropout(scores.softmax(-1), self.p) @ v
        h = h + self.drop(self.out(a.transpose(1, 2).reshape(b, t, c)))
        h = h + self.drop(self.down(F.gelu(self.up(self.norms[1](h)))))
        return F.cross_entropy(self.head(self.norms[2](h)).flatten(0, 1), y.flatten())


def gpt():
    return Gpt(), {"x": torch.randint(0, 31, (2, 9)), "y": torch.randint(0, 31, (2, 9))}


def reference(model, inputs, data, world, steps, lr, seed):
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr)
    losses = []
    for step in range(steps):
        mean = 0.0
        for rank in range(world):
            with Draws(seed, step, rank).in_place_of_dropout():
                loss = model(**batch_of(data, inputs, step * world + rank))
            (loss / world).backward()
            mean += loss.item() / world
        optimizer.step()
        optimizer.zero_grad()
        losses.append(mean)
    return losses, {k: v.detach() for k, v in model.named_parameters(remove_duplicate=False)}


def prepare(bin, folder, factory, world, steps, **config):
    torch.manual_seed(11)
    model, inputs = factory()
    data = make_data(inputs, world * steps)
    save_file(data, folder / "data.safetensors")
    compile_step(bin, folder, model, inputs, make_config(world, SGD, **config))
    return model, inputs, data


def same_numbers(bin, factory, world, seed, backend="local"):
    """Masks, and with them losses and gradients, are those of the reference."""
    def case(folder):
        steps = 4
        model, inputs, data = prepare(bin, folder, factory, world, steps, seed=seed)
        rows, final = train(bin, folder, world, steps, backend)
        losses, parameters = reference(model, inputs, data, world, steps, SGD["lr"], seed)
        for row, loss in zip(rows, losses):
            assert abs(row["loss"] - loss) <= 2e-5 * max(1, abs(loss)), f"step {row['step']}: loss {row['loss']} instead of {loss}"
        for name, value in parameters.items():
            torch.testing.assert_close(final[name], value, rtol=1e-4, atol=1e-5, msg=lambda m: f"{name}: {m}")
    return case


class Probe(nn.Module):
    """The gradient of `probe` is what dropout multiplied it by; that of `noise` a sample."""

    def __init__(self, p, count=4096):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(count)), nn.Parameter(torch.zeros(count))
        self.p = p

    def forward(self, x):
        return (F.dropout(self.first, self.p) * x).sum() + (F.dropout(self.second, self.p) * x).sum()


def masks(bin, folder, seed, steps=1, tag=""):
    """By step: the two sites' masks on the only rank, which the weights have summed up."""
    must(bin / "fsdp-run", "step.fsdp", "--data=sample", "--steps=" + str(steps), f"--seed={seed}", f"--export=final{tag}.safetensors", cwd=folder)
    from safetensors.torch import load_file
    final = load_file(folder / f"final{tag}.safetensors")
    return [(-final[name] / SGD["lr"]).numpy() for name in ("first", "second")]


def independence(bin, p):
    """Means are right, and sites, steps, seeds and ranks independent, within five standard errors."""
    def case(folder):
        count = 4096
        inputs = {"x": torch.ones(count)}
        compile_step(bin, folder, Probe(p, count), inputs, make_config(1, SGD))
        drawn = {}
        for seed in (0, 1, 2**40):
            once, both = masks(bin, folder, seed), masks(bin, folder, seed, 2, "2")
            drawn |= {(seed, 0, site): once[site] for site in (0, 1)}
            # Two steps add up.
            drawn |= {(seed, 1, site): both[site] - once[site] for site in (0, 1)}
        scale = 1 / (1 - p)
        for key, mask in drawn.items():
            kept = mask != 0
            assert abs(mask[kept] - scale).max() < 1e-4 * scale, f"{key}: scaled by {set(mask[kept])}"
            assert abs(kept.mean() - (1 - p)) <= 5 * math.sqrt(p * (1 - p) / count), f"{key}: {kept.mean()} kept"
        keys = list(drawn)
        for i, a in enumerate(keys):
            for b in keys[:i]:
                x, y = ((drawn[k] != 0) - (1 - p) for k in (a, b))
                correlation = (x * y).mean() / (p * (1 - p))
                assert abs(correlation) <= 5 / math.sqrt(count), f"{a} and {b}: correlation {correlation}"
    return case


def repeats(bin, world):
    """The same seed gives the same bytes, whatever the threads; another seed others."""
    def case(folder):
        prepare(bin, folder, gpt, world, 3, seed=5)
        def run(tag, *flags):
            must(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=3", f"--export={tag}.safetensors", *flags, cwd=folder)
            return (folder / f"{tag}.safetensors").read_bytes()
        first = run("first")
        assert run("again") == first, "two runs differ"
        assert run("named", "--seed=5") == first, "--seed of the config's value changes the run"
        assert run("other", "--seed=6") != first, "another seed gives the same run"
    return case


class Sampler(nn.Module):
    """Draws from every distribution; what comes out of it moves the parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))

    def forward(self, x):
        w, positive = self.weight, x.abs() + 0.5
        parts = [
            torch.rand(64), torch.rand_like(x), torch.empty_like(x).uniform_(-1, 2), torch.randn(64), torch.randn_like(x),
            torch.normal(x, 0.5), torch.normal(x, positive), torch.empty_like(x).normal_(1, 2), torch.randint(3, 9, (64,)),
            torch.randint_like(x, 4), torch.empty_like(x).random_(7), torch.randperm(64), torch.bernoulli(torch.sigmoid(x)),
            torch.empty_like(x).bernoulli_(0.3), torch.empty_like(x).exponential_(2.0), torch.empty_like(x).geometric_(0.4),
            torch.empty_like(x).log_normal_(0.1, 0.2), torch.poisson(positive), torch.poisson(20 * positive),
            torch.binomial(torch.full((64,), 9.0), torch.sigmoid(x)), torch._standard_gamma(positive * w).clamp(max=9),
            torch.multinomial(positive, 8).sum().expand(64), torch.multinomial(positive, 200, replacement=True).sum().expand(64),
            F.gumbel_softmax(x * w, dim=0), F.rrelu(x * w, training=True), F.alpha_dropout(x * w, 0.2, training=True),
            F.dropout1d((x * w).view(1, 8, 8), 0.5).flatten(),
        ]
        return sum((part.float() * w).mean() / (1 + part.detach().float().abs().max()) for part in parts)


def samplers_train(bin):
    def case(folder):
        torch.manual_seed(2)
        save_file({"x": torch.randn(256)}, folder / "data.safetensors")
        compile_step(bin, folder, Sampler(), {"x": torch.randn(64)}, make_config(2, {"name": "sgd", "lr": 0.1}))
        rows, final = train(bin, folder, 2, 3)
        assert all(math.isfinite(row["loss"]) for row in rows), rows
        assert len({row["loss"] for row in rows}) == 3, f"steps draw the same: {rows}"
        assert torch.isfinite(final["weight"]).all()
    return case


def hugging_face(bin, build, draws):
    """A model of the library with its default dropouts learns a batch by heart."""
    def case(folder):
        torch.manual_seed(4)
        model, inputs = build()
        compile_step(bin, folder, model, inputs, make_config(2, {"name": "adamw", "lr": 3e-3}))
        save_file({k: torch.cat([v, v]) for k, v in inputs.items()}, folder / "data.safetensors")
        rows, _ = train(bin, folder, 2, 25)
        losses = [row["loss"] for row in rows]
        assert losses[-1] < 0.7 * losses[0], f"loss {losses[0]} to {losses[-1]}"
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        drawn = text.count(" = draw bernoulli with [0.9] ")
        assert drawn == draws, f"{drawn} dropouts instead of {draws}"
    return case


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_positions=16, n_embd=32, n_layer=2, n_head=4, use_cache=False, loss_type="ForCausalLM")).train()
    tokens = torch.randint(0, 97, (4, 16))
    return model, {"input_ids": tokens, "labels": tokens.clone()}


def bert():
    from transformers import BertConfig, BertForMaskedLM
    model = BertForMaskedLM(BertConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                       intermediate_size=64, max_position_embeddings=16)).train()
    tokens = torch.randint(0, 97, (4, 16))
    return model, {"input_ids": tokens, "labels": tokens.clone()}


def without_effect(bin):
    """Probability 0 and evaluation draw nothing: the program has no random state."""
    def case(folder):
        class Off(nn.Module):
            def __init__(self):
                super().__init__()
                self.net, self.drop = nn.Linear(5, 5), nn.Dropout(0.5).eval()

            def forward(self, x):
                return F.dropout(self.drop(self.net(x)), 0.0).square().mean()

        compile_step(bin, folder, Off(), {"x": torch.randn(3, 5)}, make_config(1))
        text = must(bin / "fsdp-opt", "step.fsdp", "-o", "-", cwd=folder).stdout
        assert "random/state" not in text, "a random state without draws"
    return case


def main():
    arguments = parse_arguments()
    bin = arguments.bin
    run_cases({
        "dropping world=1": same_numbers(bin, dropping, 1, 0),
        "dropping world=3": same_numbers(bin, dropping, 3, 2**33 + 7),
        "gpt world=2": same_numbers(bin, gpt, 2, 1),
        "dropping world=2 gloo": same_numbers(bin, dropping, 2, 9, "gloo"),
        "independence p=0.1": independence(bin, 0.1),
        "independence p=0.9": independence(bin, 0.9),
        "repeats world=2": repeats(bin, 2),
        "samplers": samplers_train(bin),
        "gpt2": hugging_face(bin, gpt2, 7),
        "bert": hugging_face(bin, bert, 7),
        "without effect": without_effect(bin),
    }, arguments.only)


if __name__ == "__main__":
    main()
