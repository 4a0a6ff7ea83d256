# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models whose first output is the loss, with inputs for one rank.

Shapes are chosen so that no world size from 2 to 4 divides them all, and some
shards are empty.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Classifier(nn.Module):
    """Makes the loss the first output of a network."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        logits = self.net(x)
        return F.cross_entropy(logits.flatten(0, -2), y.flatten())


def mlp():
    net = nn.Sequential(nn.Linear(19, 23), nn.Tanh(), nn.LayerNorm(23), nn.Linear(23, 7))
    return Classifier(net), {"x": torch.randn(6, 19), "y": torch.randint(0, 7, (6,))}


def tiny():
    """Fewer rows than ranks: most shards are empty or all padding."""

    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(1, 3))
            self.first, self.second = nn.Linear(3, 2), nn.Linear(2, 1)

        def forward(self, x, y):
            return F.mse_loss(self.second(torch.sigmoid(self.first(x * self.gain))), y)

    return Tiny(), {"x": torch.randn(5, 3), "y": torch.randn(5, 1)}


def partial():
    """A layer that the loss does not depend on stays as it is, weight decay or not."""

    class Partial(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(5, 7), nn.Linear(5, 3)

        def forward(self, x, y):
            return F.mse_loss(self.used(x), y), self.unused(x)

    return Partial(), {"x": torch.randn(4, 5), "y": torch.randn(4, 7)}


def scaled():
    """A parameter without dims beside matrices, one of them with fewer rows than ranks."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.temperature = nn.Parameter(torch.tensor(0.7))
            self.first, self.norm, self.second = nn.Linear(7, 13), nn.LayerNorm(13), nn.Linear(13, 3)

        def forward(self, x, y):
            return F.cross_entropy(self.second(torch.tanh(self.norm(self.first(x)))) * self.temperature.exp(), y)

    return Scaled(), {"x": torch.randn(5, 7), "y": torch.randint(0, 3, (5,))}


def double():
    net = nn.Sequential(nn.Linear(9, 11), nn.GELU(), nn.Linear(11, 5)).double()
    return Classifier(net), {"x": torch.randn(4, 9, dtype=torch.float64), "y": torch.randint(0, 5, (4,))}


def convnet():
    """Buffers that change: running statistics and a counter of batches."""
    net = nn.Sequential(
        nn.Conv2d(2, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(5, 7, 3), nn.GroupNorm(7, 7), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(7, 3))
    return Classifier(net), {"x": torch.randn(4, 2, 10, 10), "y": torch.randint(0, 3, (4,))}


def tagger():
    """A recurrent network, which LibTorch decomposes step by step."""

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm, self.head = nn.Embedding(13, 6), nn.LSTM(6, 7, 2, batch_first=True), nn.Linear(7, 13)

        def forward(self, x):
            return self.head(self.lstm(self.embed(x))[0])

    return Classifier(Tagger()), {"x": torch.randint(0, 13, (2, 5)), "y": torch.randint(0, 13, (2, 5))}


class MlpBlock(nn.Module):
    """One of a deep stack that is as wide everywhere."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width + 1), nn.Linear(2 * width + 1, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """The head shares the embedding's weight."""

    def __init__(self, vocabulary=31, width=18, layers=2, length=9):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.ModuleList(GptBlock(width, 3) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x):
        h = self.embed(x) + self.position[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def tokens(vocabulary=31, length=9, *names):
    return {name: torch.randint(0, vocabulary, (2, length)) for name in names or ("x", "y")}


def gpt():
    """One norm and one bias are frozen."""
    model = Gpt()
    model.blocks[1].norm1.requires_grad_(False)
    model.blocks[0].up.bias.requires_grad_(False)
    return Classifier(model), tokens()


def looped():
    """Blocks that are used twice in one program: gradients of both uses add up."""

    class Looped(Gpt):
        def forward(self, x):
            h = self.embed(x) + self.position[: x.shape[1]]
            for block in [*self.blocks, *self.blocks]:
                h = block(h)
            return self.head(self.norm(h))

    return Classifier(Looped()), tokens()


def dpo():
    """Preference learning: a policy used twice and a frozen reference beside it."""

    class Dpo(nn.Module):
        def __init__(self, beta=0.02):
            super().__init__()
            self.policy, self.reference, self.beta = Gpt(), Gpt(), beta
            self.reference.requires_grad_(False)

        def forward(self, chosen, rejected):
            def score(model, ids):
                predicted = model(ids)[:, :-1].log_softmax(-1)
                return predicted.gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)

            def margin(model):
                return score(model, chosen) - score(model, rejected)

            return -F.logsigmoid(self.beta * (margin(self.policy) - margin(self.reference))).mean()

    return Dpo(), tokens(31, 9, "chosen", "rejected")


class LoraLinear(nn.Module):
    """As PEFT's: a frozen linear layer and a trained detour of low rank, by the adapter's name."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base_layer = base
        self.lora_dropout = nn.ModuleDict({"default": nn.Identity()})
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, base.out_features, bias=False)})
        self.scaling = {"default": alpha / rank}
        # PEFT starts B at zero; then A would not move in the first step.
        nn.init.normal_(self.lora_B["default"].weight, 0, 0.1)

    def forward(self, x):
        result = self.base_layer(x)
        for name, scale in self.scaling.items():
            result = result + self.lora_B[name](self.lora_A[name](self.lora_dropout[name](x))) * scale
        return result


def add_lora(model, targets, rank=3, alpha=6):
    model.requires_grad_(False)
    for name, module in list(model.named_modules()):
        parent, _, leaf = name.rpartition(".")
        if isinstance(module, nn.Linear) and leaf in targets:
            setattr(model.get_submodule(parent), leaf, LoraLinear(module, rank, alpha))
    return model


def lora():
    return Classifier(add_lora(Gpt(), ("qkv", "down"))), tokens()


def lora_llama():
    """Adapters on Hugging Face's Llama."""
    import transformers

    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=37, hidden_size=16, intermediate_size=22, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=16))

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = add_lora(model, ("q_proj", "v_proj", "down_proj"))

        def forward(self, ids):
            return self.model(input_ids=ids, labels=ids, use_cache=False).loss

    return Loss(), tokens(37, 8, "ids")


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups = heads, groups
        size = width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = nn.Linear(width, groups * size, bias=False), nn.Linear(width, groups * size, bias=False)
        self.gate, self.up = nn.Linear(width, 27, bias=False), nn.Linear(width, 27, bias=False)
        self.down = nn.Linear(27, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        h = self.norm1(x)
        q, k, v = (f(h).view(b, t, -1, x.shape[-1] // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        rotate = lambda z: z * cos + torch.cat((-z[..., z.shape[-1] // 2:], z[..., : z.shape[-1] // 2]), -1) * sin
        spread = lambda z: z.repeat_interleave(self.heads // self.groups, 1)
        a = F.scaled_dot_product_attention(rotate(q), spread(rotate(k)), spread(v), is_causal=True)
        x = x + self.o(a.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def llama(length=8):
    """Rotary positions, grouped heads, gated units, a constant that is no state."""

    class Llama(nn.Module):
        def __init__(self, vocabulary=29, width=16, layers=3, length=length):
            super().__init__()
            self.embed = nn.Embedding(vocabulary, width)
            self.layers = nn.ModuleList(LlamaBlock(width, 4, 2) for _ in range(layers))
            self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
            angles = torch.outer(torch.arange(length), 100.0 ** -(torch.arange(0, 4, 2) / 4)).repeat(1, 2)
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

        def forward(self, x):
            h, length = self.embed(x), x.shape[1]
            for layer in self.layers:
                h = layer(h, self.cos[:length], self.sin[:length])
            return self.head(self.norm(h))

    return Classifier(Llama()), {"x": torch.randint(0, 29, (2, 8)), "y": torch.randint(0, 29, (2, 8))}


def half():
    """A model in bfloat16."""
    model, inputs = llama()
    return model.to(torch.bfloat16), inputs


def grouped():
    """Attention that is told of fewer heads of keys and values than of queries."""

    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv = nn.Linear(16, 32), nn.Linear(16, 16)

        def forward(self, x):
            q, kv = (f(x).unflatten(-1, (-1, 8)).transpose(1, 2) for f in (self.q, self.kv))
            return F.scaled_dot_product_attention(q, kv, kv, is_causal=True, enable_gqa=True).square().mean()

    return Grouped(), {"x": torch.randn(2, 6, 16)}


def bert():
    """Hugging Face's, with an attention mask."""
    import transformers

    ids = torch.randint(0, 41, (2, 8))
    model = transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=41, hidden_size=16, intermediate_size=22, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=16))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def gpt2():
    """Hugging Face's, with dropout."""
    import transformers

    ids = torch.randint(0, 41, (2, 8))
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=41, n_embd=16, n_layer=2, n_head=4, n_positions=16))
    return model, {"input_ids": ids, "labels": ids.clone(), "use_cache": False}


def vit():
    """Hugging Face's: images cut into patches by a convolution."""
    import transformers

    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=16, intermediate_size=22, num_hidden_layers=2, num_attention_heads=4, image_size=16, patch_size=8))
    return model, {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.randint(0, 2, (2,))}


# Masks of attention that `forms` has layers of.
FORMS = ("causal", "window", "prefix", "chunks", "ranges", "all", "holes", "data")


class FormLayer(nn.Module):
    """Attention under a mask, with fewer heads of keys than of queries, which are repeated."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.q, self.kv, self.o = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, mask):
        b, t, c = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, t, 4, c // 4).transpose(1, 2)
        k, v = self.kv(h).view(b, t, 4, c // 4).transpose(1, 2).chunk(2, dim=1)
        k, v = (each[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape) for each in (k, v))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.o(a.transpose(1, 2).reshape(b, t, c))


class Forms(nn.Module):
    def __init__(self, names, width=64, vocab=64):
        super().__init__()
        self.names = names
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(FormLayer(width) for _ in names)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, x, y):
        at = torch.arange(x.shape[1], device=x.device)
        causal = at[None, :] <= at[:, None]
        near, chunk = at[None, :] > at[:, None] - 8, at // 16
        seen = {
            "causal": causal,
            "window": causal & near,
            "prefix": causal | (at < 9),
            "chunks": causal & (chunk[None, :] == chunk[:, None]),
            "ranges": chunk[None, :] == chunk[:, None],
            "all": (at >= 0).expand(x.shape[1], -1),
            "holes": causal & (at % 3 != 1),  # the first query sees the first key
            "data": causal & (x != 5)[:, None, None] | (at[None, :] == at[:, None]),
        }
        if "documents" in self.names:
            of, length = (x == 5).cumsum(-1), x.shape[1] // 3 + x[:, :1]
            seen["documents"] = causal & (of[:, None, :, None] == of[:, None, None, :])
            seen["padded right"] = (at < length)[:, None, None]
            seen["padded causal"] = causal & ((at < length) | (at == 0))[:, None, None]
            seen["padded left"] = causal & (at >= length)[:, None, None] | (at[None, :] == at[:, None])
        h = self.embed(x)
        for name, layer in zip(self.names, self.layers):
            h = layer(h, seen[name])
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


# What depends on data: documents packed into rows, padding.
DATA_FORMS = ("documents", "padded right", "padded causal", "padded left")


def forms(length=256, names=FORMS):
    tokens = torch.randint(0, 64, (2, length))
    return Forms(names), {"x": tokens, "y": tokens.clone()}
