# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that compute one step together (mesh: {tp: N} and {cp: N}) train as PyTorch does alone: parameters split by an automatic plan, by one of the user's,
along the sequence, tokens of a sequence cut over ranks, with FSDP and replicas around them. The report says that parts were computed: a plan that splits
nothing would pass otherwise.
"""
import functools
import json
import math
import re
import subprocess

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file

import zoo
from harness import compare, compile_step, make_config, make_data, parse_arguments, reference, run_cases, train

SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}


class Heads(nn.Module):
    """Attention of its own making: products of batches of matrices, softmax, masks."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(self.norm(x)).view(b, t, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        return x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Masked(Heads):
    """Fused attention under a mask of the model's."""

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(self.norm(x)).view(b, t, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        near = torch.arange(t).view(-1, 1) - torch.arange(t) < 3
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=near)
        return x + self.o(a.transpose(1, 2).reshape(b, t, c))


class Both(Heads):
    """Fused attention that reads tokens before and behind."""
    causal = False

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(self.norm(x)).view(b, t, self.heads, c // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return x + self.o(a.transpose(1, 2).reshape(b, t, c))


class Fused(Both):
    causal = True


class Packed(Fused):
    """One matrix for queries, keys and values, and one for both factors of a gate."""

    def __init__(self, width=16, heads=4):
        super().__init__(width, heads)
        del self.q, self.k, self.v
        self.qkv = nn.Linear(width, 3 * width)
        self.norm2, self.gate_up, self.down = nn.LayerNorm(width), nn.Linear(width, 48, bias=False), nn.Linear(24, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(self.norm(x)).split(c, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, c))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Retyped(nn.Module):
    """A part of each row as elements of another type: complex numbers, as rotary positions have it, and bits."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.embed, self.head = kind, nn.Embedding(29, 16), nn.Linear(8, 29)

    def forward(self, x):
        part = self.embed(x)[..., :8]
        if self.kind == "complex":
            turn = torch.polar(torch.ones(8, 4), torch.arange(32.0).view(8, 4))
            return self.head(torch.view_as_real(torch.view_as_complex(part.unflatten(-1, (4, 2))) * turn).flatten(-2))
        return self.head(part + 0.001 * (part.detach().view(torch.int16 if self.kind == "bits" else torch.int32) & 3).float().unflatten(-1, (8, -1)).sum(-1))


def retyped_complex():
    return zoo.Classifier(Retyped("complex")), zoo.tokens(29, 8)


def retyped_bits():
    return zoo.Classifier(Retyped("bits")), zoo.tokens(29, 8)


class Diagonals(nn.Module):
    """Views that no rule cuts, of a part of each row."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(29, 16), nn.Linear(4, 29)

    def forward(self, x):
        part = self.embed(x)[..., 4:12]
        return self.head(part.unflatten(-1, (2, 4)).unfold(-1, 2, 2).diagonal(0, -3, -1).flatten(-2))


def diagonals():
    return zoo.Classifier(Diagonals()), zoo.tokens(29, 8)


class Own(nn.Module):
    def __init__(self, attention=Heads, classes=29, padding=None, tied=False):
        super().__init__()
        self.embed = nn.Embedding(classes, 16, padding_idx=padding)
        self.blocks = nn.ModuleList([attention(), zoo.MlpBlock(16), attention(), zoo.MlpBlock(16)])
        self.head = nn.Linear(16, classes, bias=not tied)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def own():
    return zoo.Classifier(Own()), zoo.tokens(29, 8)


def even():
    """Classes that ranks divide."""
    return zoo.Classifier(Own(classes=32)), zoo.tokens(32, 8)


def tied():
    """The output layer is the embedding's matrix."""
    return zoo.Classifier(Own(classes=32, tied=True)), zoo.tokens(32, 8)


def padded():
    """A row whose gradient is left out, which one of the ranks has."""
    return zoo.Classifier(Own(classes=32, padding=21)), zoo.tokens(32, 8)


def masked():
    return zoo.Classifier(Own(Masked)), zoo.tokens(29, 8)


def windowed(window=3, length=8):
    """Hugging Face's, of which each token sees a window of those before it, itself among them."""
    import transformers
    config = transformers.MistralConfig(vocab_size=29, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                        max_position_embeddings=32, sliding_window=window, use_cache=False)
    return transformers.MistralForCausalLM(config), {"input_ids": torch.randint(0, 29, (2, length)), "labels": torch.randint(0, 29, (2, length))}


def alternating(window=3, length=24):
    """Hugging Face's, of whose layers some see a window and some all tokens before: balanced pieces."""
    import transformers
    config = transformers.Gemma3TextConfig(vocab_size=29, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=4,
                                           max_position_embeddings=32, sliding_window=window, use_cache=False, query_pre_attn_scalar=4,
                                           layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    config._attn_implementation = "sdpa"
    return transformers.Gemma3ForCausalLM(config), {"input_ids": torch.randint(0, 29, (2, length)), "labels": torch.randint(0, 29, (2, length))}


def both():
    return zoo.Classifier(Own(Both)), zoo.tokens(29, 8)


def fused():
    return zoo.Classifier(Own(Fused)), zoo.tokens(29, 8)


def packed():
    return zoo.Classifier(Own(Packed)), zoo.tokens(29, 8)


def columns():
    """Hugging Face's: linear layers whose matrices lie the other way round."""
    import transformers

    config = transformers.GPT2Config(vocab_size=41, n_embd=16, n_layer=2, n_head=4, n_positions=16, use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    ids = torch.randint(0, 41, (2, 8))
    return transformers.GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids.clone()}


def adapters():
    """Weights in bfloat16, gradients reduced in float32: those of adapters are computed in parts, gathered, cast, and reduced."""
    model, inputs = zoo.llama()
    zoo.add_lora(model.net, ("q", "k", "v", "o", "gate", "up", "down"), rank=4)
    return model.to(torch.bfloat16), inputs


def ignoring():
    """Ranks have unlike numbers of tokens that count: the mean is no mean of means."""
    return ignore(*zoo.llama())


def even_ignoring():
    return ignore(*even())


def ignore(model, inputs):
    class Ignoring(nn.Module):
        def __init__(self, net):
            super().__init__()
            self.net = net

        def forward(self, x, y):
            return self.net(x, y.where(torch.arange(y.shape[1]) < 3, -100))

    return Ignoring(model), inputs


def parallel_case(bin, factory, tp=1, cp=1, shard=1, replicate=1, backend="local", splits=True, most=None, gathers=None, rotates=0, by_rows=(), blocks=(), **config):
    """`most`: all-reduces over tp in a step, at most; `gathers`, `rotates`: gathers and steps of rings over cp in a step, None: some, of either; `by_rows`: modules of embeddings and classes whose rows
    ranks have parts of; `blocks`: how parameters are split that give several tensors, "qkv.weight dim 0 in 3"."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        model.train()
        readers, steps = shard * replicate, 3
        settings = make_config(readers, replicate=replicate, **config)
        settings["mesh"].update(tp=tp, cp=cp)
        if tp > 1:
            settings.setdefault("tp_plan", "auto")
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        data = make_data(inputs, readers * steps * settings.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings, options=["--report=report.json"])
        rows, final = train(bin, folder, readers * tp * cp, steps, backend, options=["--poison"])
        compare(rows, final, *reference(model, inputs, data, readers, steps, settings), start)
        report = json.loads((folder / "report.json").read_text())
        sums = sum(c["count"] for c in report["collectives"] if c["group"] == "tp" and c["kind"] in ("all_reduce", "reduce_scatter"))
        text = subprocess.run([bin / "fsdp-opt", "step.fsdp", "-o", "-"], cwd=folder, capture_output=True, text=True, check=True).stdout
        assert (" split dim " in text) == (splits and tp > 1), "parameters are split, or not, otherwise than expected"
        for module in by_rows:
            assert re.search(rf"{re.escape(module)}\.weight.* split dim 0", text), f"ranks have all rows of {module}"
        for each in blocks:
            name, _, cut = each.partition(" ")
            assert re.search(rf"{re.escape(name)}\".* split {cut} over tp", text), f"{name} is not split along {cut}"
        assert most is None or 0 < sums <= most, report["collectives"]
        along = lambda kind: sum(c["count"] for c in report["collectives"] if c["group"] == "cp" and c["kind"] == kind)
        met = along("all_gather") if rotates is not None else along("all_gather") + along("rotate")
        assert cp == 1 or (met > 0 if gathers is None else along("all_gather") == gathers), report["collectives"]
        assert rotates is None or along("rotate") == rotates, report["collectives"]
    return case


def rounded_case(bin, factory, mesh, shard, **config):
    """In half precision sums are rounded otherwise on each number of ranks: the losses are nearly those of one."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        model.train()
        save_file(make_data(inputs, shard * 4), folder / "data.safetensors")
        losses = []
        for axes in ({}, mesh):
            settings = make_config(shard, **json.loads(json.dumps(config)))
            settings["mesh"].update(axes)
            compile_step(bin, folder, model, inputs, settings)
            rows, _ = train(bin, folder, shard * math.prod(axes.values()), 4, tag=str(len(losses)), options=["--poison"])
            losses.append([row["loss"] for row in rows])
        assert losses[0][0] != losses[0][-1], "nothing moved: the case tests nothing"
        for alone, together in zip(*losses, strict=True):
            assert abs(alone - together) <= 1e-2 * abs(alone), losses
    return case


def moving_case(bin):
    """Checkpoints hold whole tensors, also of what is split in blocks: what 2 tensor parallel ranks saved goes on on 4, and on 1, as on 2."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = packed()
        save_file(make_data(inputs, 4), folder / "data.safetensors")
        finals = []
        for number, tp in enumerate((2, 4, 1, 2)):
            compile_step(bin, folder, model, inputs, {**make_config(1, optimizer=SGD), "mesh": {"dp_shard": 1, "tp": tp}})
            if number == 0:
                train(bin, folder, tp, 2, options=["--save=ck"])
            rows, final = train(bin, folder, tp, 4, tag=str(number), options=["--load=ck"] if number else [])
            finals.append(final)
            assert rows[-1]["step"] == 3, rows
        for other in finals[1:]:
            for name, want in finals[0].items():
                torch.testing.assert_close(other[name], want, rtol=1e-5, atol=1e-6, msg=lambda m: f"{name}: {m}")
    return case


def strange_case(bin):
    """An index of no row at all is refused, though each rank has but a part of them: zeros for it would be a wrong number without a word."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = padded()
        compile_step(bin, folder, model, inputs, {**make_config(1), "mesh": {"dp_shard": 1, "tp": 2}, "tp_plan": {"*embed": "rowwise"}})
        for strange in (-1, 32):
            data = make_data(inputs, 1)
            data["x"].view(-1)[3] = strange
            save_file(data, folder / "data.safetensors")
            ended = subprocess.run([bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--steps=1", "--backend=local"],
                                   cwd=folder, capture_output=True, text=True)
            assert ended.returncode != 0 and f"'x', row 0 of 'data.safetensors': {strange} of 32: aten::embedding" in ended.stderr, (strange, ended.stderr)
    return case


def main():
    arguments = parse_arguments()
    cases = {}

    def add(factory, tp, label, **config):
        cases[f"{factory.__name__} tp={tp} {label}"] = parallel_case(arguments.bin, factory, tp, **config)

    add(zoo.llama, 2, "alone", most=4 * 3 + 2)                   # four a block, and those of the loss and the norm
    add(zoo.llama, 2, "zero3, clip", shard=2, max_grad_norm=0.1, reshard_after_forward=True)
    add(zoo.llama, 4, "groups that 4 do not divide")
    add(own, 2, "own attention", shard=2)
    add(own, 4, "own attention")
    add(own, 2, "replicas, micro-batches", replicate=2, shard=1, gradient_accumulation_steps=2)
    add(own, 2, "flat", shard=2, bucket_layout="auto", optimizer=SGD)
    add(own, 2, "recompute, offload", shard=2, activation_checkpointing=True, offload_params=True)
    add(own, 2, "sequence", shard=2, sequence_parallel=True)
    add(even, 2, "classes", shard=2, by_rows=("net.embed", "net.head"), most=4 * 2 + 2 + 5)    # three numbers a token, the gradient of what the layer reads, and the look-up
    add(even_ignoring, 2, "labels left out", by_rows=("net.net.embed", "net.net.head"))
    add(even, 4, "classes, sequence", sequence_parallel=True, by_rows=("net.embed", "net.head"), max_grad_norm=0.1)
    add(even, 2, "classes by hand, micro-batches", tp_plan={"net.head": "colwise_rep"}, by_rows=("net.head",), gradient_accumulation_steps=2)
    add(tied, 2, "rows and classes", shard=2, by_rows=("net.embed",), most=4 * 2 + 2 + 5, max_grad_norm=0.1)
    add(tied, 4, "rows and classes by hand, sequence", sequence_parallel=True, by_rows=("net.embed",), tp_plan={"net.embed": "rowwise", "net.head": "colwise"})
    add(padded, 2, "a padding row, recompute", shard=2, by_rows=("net.embed",), activation_checkpointing=True)
    add(padded, 2, "rows by hand", by_rows=("net.embed",), tp_plan={"*embed": "rowwise"})
    add(zoo.llama, 4, "sequence, micro-batches kept", sequence_parallel=True, gradient_accumulation_steps=2, reshard_after_forward=False)
    add(own, 2, "sequence, recompute", shard=2, sequence_parallel=True, activation_checkpointing={"policy": "selective"})
    add(own, 2, "chunks", loss_chunks=2)
    half = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    cases["own tp=2 bf16"] = rounded_case(arguments.bin, own, {"tp": 2}, 2, optimizer=SGD, mixed_precision=half)
    cases["adapters tp=2 bf16"] = rounded_case(arguments.bin, adapters, {"tp": 2}, 2, optimizer=SGD, tp_plan="auto", mixed_precision=half)
    cases["llama cp=2 bf16"] = rounded_case(arguments.bin, zoo.llama, {"cp": 2}, 2, optimizer=SGD, mixed_precision=half)
    add(own, 2, "auto", shard=2, schedule="auto")
    add(own, 2, "shard_dims", shard=2, shard_dims={"*.up.weight": 1, "*.down.weight": 0, "*.q.weight": 1})
    add(own, 2, "gloo", shard=2, backend="gloo")
    add(own, 2, "by hand", tp_plan={"*.q": "colwise", "*.k": "colwise", "*.v": "colwise", "*.o": "rowwise", "*.up": "colwise", "*.down": "rowwise", "*embed": "colwise", "*head": "rowwise"})
    cases["packed tp=2 checkpoints move"] = moving_case(arguments.bin)
    cases["a token of no row tp=2"] = strange_case(arguments.bin)

    def add_context(factory, cp, label, tp=1, **config):
        cases[f"{factory.__name__} cp={cp} tp={tp} {label}"] = parallel_case(arguments.bin, factory, tp, cp, **config)

    add_context(zoo.llama, 2, "alone", gathers=4 * 3)            # keys and values of a block, in forward and again in backward
    add_context(zoo.llama, 4, "zero3, clip", max_grad_norm=0.1, reshard_after_forward=True)
    add_context(zoo.llama, 2, "replicas, micro-batches", replicate=2, gradient_accumulation_steps=2)
    add_context(zoo.llama, 2, "recompute, offload", shard=2, activation_checkpointing=True, offload_params=True)
    add_context(zoo.llama, 2, "tp", tp=2, shard=2)
    add_context(tied, 2, "rows and classes", tp=2, by_rows=("net.embed",))
    add_context(zoo.llama, 2, "tp, gloo", tp=2, backend="gloo")
    add_context(own, 2, "own attention, flat", shard=2, bucket_layout="auto", optimizer=SGD)
    add_context(ignoring, 2, "labels left out")
    add_context(masked, 2, "mask")
    # A window passes ends of keys and values on, again in backward, and their gradients back: over all ranks but for these, with 4 ranks.
    def add_windows(factory, cp, label, gathers=0, rotates=None, tp=1, **config):
        cases[f"{label} cp={cp}"] = parallel_case(arguments.bin, factory, tp, cp, gathers=gathers, rotates=rotates, **config)

    def of(factory, *sizes):
        return functools.partial(factory, *sizes)

    add_windows(windowed, 2, "a window's neighbours", rotates=2 * 3)
    add_windows(of(windowed, 9, 24), 3, "a window as long as a part and itself, micro-batches", rotates=2 * 2 * 4, gradient_accumulation_steps=2)
    add_windows(of(windowed, 6, 24), 4, "a window, ring, clip", rotates=2 * 2, max_grad_norm=0.1, reshard_after_forward=True, context_parallel_rotate_method="ring")
    add_windows(of(windowed, 12, 24), 4, "a window longer than a part", gathers=4 * 2, rotates=0)
    add_windows(of(windowed, 3, 24), 2, "a window, tp, recompute", rotates=2 * 4, tp=2, shard=2, activation_checkpointing=True)
    add_windows(of(windowed, 1, 8), 2, "a window of oneself", rotates=0)
    add_windows(alternating, 2, "windows and all", gathers=4, rotates=2 * 6)
    add_windows(of(alternating, 5), 3, "windows as long as a piece and itself, and all", gathers=4, rotates=2 * (3 * 3), context_parallel_rotate_method="allgather")
    add_windows(of(alternating, 4), 4, "windows and all, ring", gathers=0, rotates=(3 * 4 - 2) + 2 * 3, context_parallel_rotate_method="ring")
    add_windows(of(alternating, 9), 4, "windows longer than two pieces, and all", gathers=4 * 3, rotates=0, shard=1)
    add_windows(of(alternating, 3), 2, "windows and all, tp, gloo", gathers=4, rotates=2 * 6, tp=2, backend="gloo")
    cases["windows and all cp=4 bf16"] = rounded_case(arguments.bin, alternating, {"cp": 4}, 1, optimizer=SGD, mixed_precision=half)
    add_context(retyped_complex, 2, "part of each row", gathers=0, optimizer=SGD)
    add_context(retyped_bits, 2, "part of each row", gathers=0, optimizer=SGD)
    add_context(diagonals, 2, "part of each row", gathers=None, optimizer=SGD)
    add_context(zoo.llama, 2, "auto", shard=2, gathers=None, rotates=None, schedule="auto")

    # A block's ring of n ranks: n - 1 steps in forward, in backward as many with keys and values, and n with gradients.
    def add_ring(factory, cp, label, layers=3, gathers=0, **config):
        add_context(factory, cp, f"ring, {label}", gathers=gathers, rotates=layers and layers * (3 * cp - 2), context_parallel_rotate_method="ring", **config)

    add_ring(zoo.llama, 2, "alone")
    add_ring(zoo.llama, 4, "zero3, clip", max_grad_norm=0.1, reshard_after_forward=True)
    add_ring(zoo.llama, 2, "tp, gloo", tp=2, backend="gloo")
    add_ring(fused, 2, "flat, recompute", layers=None, shard=2, bucket_layout="auto", optimizer=SGD, activation_checkpointing=True)
    add_context(own, 2, "ring, attention that is not fused gathers", context_parallel_rotate_method="ring")
    add_ring(both, 2, "no mask", layers=2, shard=2)
    add_ring(both, 4, "no mask", layers=2)
    cases["llama cp=2 ring bf16"] = rounded_case(arguments.bin, zoo.llama, {"cp": 2}, 2, optimizer=SGD, mixed_precision=half, context_parallel_rotate_method="ring")
    several = ("qkv.weight dim 0 in 3", "qkv.bias dim 0 in 3", "gate_up.weight dim 0 in 2", "down.weight dim 1")
    add(packed, 2, "packed", shard=2, blocks=several, most=2 * (4 + 2) + 2)
    add(packed, 4, "packed, zero3, recompute", blocks=several, reshard_after_forward=True, activation_checkpointing=True, max_grad_norm=0.1)
    add(packed, 2, "packed, flat, sequence", shard=2, blocks=several, bucket_layout="auto", sequence_parallel=True)
    add(columns, 2, "packed columns", shard=2, blocks=("c_attn.weight dim 1 in 3", "c_attn.bias dim 0 in 3", "c_proj.weight dim 0"))
    add(zoo.gpt, 3, "packed heads", blocks=("qkv.weight dim 0 in 3",))
    add_ring(packed, 2, "packed", layers=2, tp=2)
    add(zoo.gpt, 2, "packed heads that 2 do not divide", splits=False)
    add(zoo.convnet, 2, "no rules", splits=False, optimizer=SGD)
    add(zoo.tagger, 2, "no rules", splits=False)
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
