# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports models below: models.py FOLDER NAME... writes FOLDER/NAME.pt2."""
import pathlib
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.LayerNorm(7), nn.Linear(7, 3))

    def forward(self, x, y):
        return F.cross_entropy(self.net(x), y)


def mlp():
    return Mlp(), {"x": torch.randn(4, 5), "y": torch.randint(0, 3, (4,))}


def double():
    return Mlp().double(), {"x": torch.randn(4, 5).double(), "y": torch.randint(0, 3, (4,))}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, turn):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q * turn, k * turn, v, is_causal=True)
        x = x + a.transpose(1, 2).reshape(b, t, c)
        return x + self.down(F.silu(self.up(x)))


class Decoder(nn.Module):
    """Tied, frozen and unused parameters, a buffer outside the state dict, a region without gradients."""

    def __init__(self, width=8, words=11):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.blocks[1].norm.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(3))
        self.register_buffer("speed", torch.rand(width // 2), persistent=False)

    def forward(self, tokens, flag=False):
        with torch.no_grad():
            turn = torch.cos(torch.arange(tokens.shape[1], device=tokens.device)[:, None] * self.speed)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, turn)
        logits = self.head(self.norm(x))
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
        return {"loss": loss, "logits": logits}


def decoder():
    return Decoder(), {"tokens": torch.randint(0, 11, (2, 6)), "flag": False}


def meta():
    """A model without data, as large ones are exported."""
    with torch.device("meta"):
        return Decoder(), {"tokens": torch.zeros(2, 6, dtype=torch.long), "flag": False}


class Statistics(nn.Module):
    """Buffers that the forward pass changes."""

    def __init__(self):
        super().__init__()
        self.conv, self.batch_norm, self.group_norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GroupNorm(2, 4)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.batch_norm(self.conv(x))), 2)
        self.mean.mul_(0.9).add_(0.1 * h.detach().mean(dim=(0, 2, 3)))
        return (self.group_norm(h) * self.mean[None, :, None, None].clone()).square().mean()


def statistics():
    return Statistics(), {"x": torch.randn(2, 3, 8, 8)}


class Operators(nn.Module):
    """Writes in place, numbers in the place of tensors, lists, indices, constants of the program."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(6))
        self.c = nn.Parameter(torch.randn(6))

    def forward(self, x, index):
        h = (1.0 - x) * 2 / self.a + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        h = h.clone()
        h[1:3].add_(self.b)
        h[index, 0] = 0.5
        left, right = h.split([2, 4], dim=1)
        rows = torch.stack(torch.cat([left, right.flip(1)], dim=1).unbind(0))
        rows = torch.where(rows > 0, rows, 0.1 * rows) ** 2
        rows = rows.masked_fill(rows > 4, 1.0)[index]
        return rows.mean() + (self.b + self.c).sum() + rows.std() + torch.zeros(2).fill_(3.0).sum()


def operators():
    return Operators(), {"x": torch.randn(4, 6), "index": torch.tensor([0, 3, 1])}


class MaskedWrites(nn.Module):
    """Writes one number where a mask is true: of all dims, of the first, of the last, and a number that is computed."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 6))
        self.register_buffer("level", torch.tensor(0.5))

    def forward(self, x, rows, columns):
        h = x * self.a
        h[h > 0.5] = 0.25
        h[rows] = 0.0
        h[:, columns] = -1.0
        h = h.masked_fill(rows.unsqueeze(1), self.level.square())
        return (h * self.a).sum()


def masked_writes():
    return MaskedWrites(), {"x": torch.randn(4, 6), "rows": torch.tensor([True, False, False, True]),
                      "columns": torch.tensor([False, True, False, False, False, True])}


class Solving(nn.Module):
    """Operators within which the host waits for a GPU."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        values = torch.linalg.eigvalsh(self.a @ self.a.T + x)
        return values.sum() + torch.nanmedian(self.a)


def solving():
    return Solving(), {"x": torch.eye(4)}


class Grouped(nn.Module):
    """Products of groups that end at `ends`: of rows by a matrix each, or of each matrix by columns. The second group has none."""

    def __init__(self, left, right, ends):
        super().__init__()
        self.left, self.right = (nn.Parameter(torch.randn(*sizes).bfloat16()) for sizes in (left, right))
        self.register_buffer("ends", torch.tensor(ends, dtype=torch.int32))

    def forward(self, x):
        return (torch._grouped_mm(self.left * x, self.right, offs=self.ends).float() * 0.5).square().sum()


def grouped_rows():
    return Grouped((6, 16), (3, 16, 24), [2, 2, 6]), {"x": torch.ones(16).bfloat16()}


def grouped_columns():
    return Grouped((3, 8, 16), (16, 24), [8, 8, 24]), {"x": torch.ones(16).bfloat16()}


def grouped_large():
    return Grouped((2 ** 12, 128), (16, 128, 128), [2 ** 8 * (i + 1) for i in range(16)]), {"x": torch.ones(128).bfloat16()}


class SoftmaxGradient(nn.Module):
    """The gradient's operator itself, of a parameter and a buffer, which mixed precision leaves as it is."""

    def __init__(self):
        super().__init__()
        self.gradient = nn.Parameter(torch.randn(5))
        self.register_buffer("result", torch.softmax(torch.randn(5), 0))

    def forward(self, x):
        return (torch._softmax_backward_data(self.gradient, self.result, 0, torch.float32) * x).sum()


def softmax_gradient():
    return SoftmaxGradient(), {"x": torch.randn(5)}


class Permuted(nn.Module):
    """A convolution of one dimension whose weight has its channels last, and a transform whose input lies by columns."""

    def __init__(self):
        super().__init__()
        self.weight, self.waves = nn.Parameter(torch.randn(4, 2, 3)), nn.Parameter(torch.randn(7, 6, 5, 2))

    def forward(self, x):
        made = F.conv1d(x, self.weight.transpose(1, 2))
        return made.square().sum() + torch.fft.irfft(torch.view_as_complex(self.waves).permute(2, 1, 0), dim=1).square().sum()


def permuted():
    return Permuted(), {"x": torch.randn(2, 3, 6)}


class Equal(nn.Module):
    """Two parameters whose gradients are one value."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(3)), nn.Parameter(torch.randn(3))

    def forward(self, x):
        return ((self.a + self.b) * x).sum()


def equal():
    return Equal(), {"x": torch.randn(3)}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 5, 2, batch_first=True), nn.Linear(5, 4)

    def forward(self, x):
        return F.mse_loss(self.head(self.lstm(x)[0]), x)


def recurrent():
    return Recurrent(), {"x": torch.randn(2, 3, 4)}


class Returns(nn.Module):
    """A linear layer and what `pack` returns of its loss and its result."""

    def __init__(self, pack):
        super().__init__()
        self.proj, self.pack = nn.Linear(4, 3), pack

    def forward(self, x):
        h = self.proj(x)
        return self.pack(h.square().mean(), h)


def keys():
    """A dict: its first entry is the loss, not the one called so; a value twice, a list, a view."""
    return Returns(lambda loss, h: {
        "total": loss, "logits": h, "loss": loss * 2, "grad_norm": h.norm(), "hidden": [torch.sin(h), (torch.cos(h), h.t())],
        "again": h}), {"x": torch.randn(2, 4)}


def positions():
    """A tuple with values that are no tensors; an input and a parameter given back."""
    model = Returns(None)
    model.pack = lambda loss, h: (loss, h, None, 3, h[0], model.proj.bias, loss)
    return model, {"x": torch.randn(2, 4)}


def logits_first():
    """Two scalars behind an output that is none."""
    return Returns(lambda loss, h: {"logits": h, "loss": loss * 2, "aux": h.norm()}), {"x": torch.randn(2, 4)}


def logits():
    """No loss."""
    return nn.Linear(4, 3), {"input": torch.randn(2, 4)}


def fields():
    """A class of transformers."""
    from transformers.modeling_outputs import CausalLMOutputWithPast
    return Returns(lambda loss, h: CausalLMOutputWithPast(loss=loss, logits=h, hidden_states=(h * 2, h * 3))), {"x": torch.randn(2, 4)}


class Dropping(nn.Module):
    """One dropout of each kind, two of them alike, and some that drop nothing."""

    def __init__(self, dtype=torch.float32, p=0.25, much=0.995):
        super().__init__()
        self.first, self.second = (nn.Linear(8, 8, dtype=dtype) for _ in range(2))
        self.drop, self.none, self.p, self.much = nn.Dropout(p), nn.Dropout(0.0), p, much

    def forward(self, x):
        h = self.drop(self.drop(torch.tanh(self.first(x))))
        h = F.dropout(F.dropout(self.none(h), 0.5, training=False) * 2, self.much) + F.alpha_dropout(h, 0.5, training=True) + F.dropout1d(h, 0.5)
        h = F.dropout(self.second(h), self.p, inplace=True)
        return h.float().square().sum() + F.dropout(h, 1.0).float().sum()


def dropping():
    return Dropping(), {"x": torch.randn(6, 8)}


def dropping_bf16():
    # Scales that bfloat16 holds: LibTorch rounds them on the CPU.
    return Dropping(torch.bfloat16, p=0.5, much=0.875), {"x": torch.randn(6, 8).bfloat16()}


def native():
    """With the operators that run_decompositions writes."""
    return dropping()


class Drawing(nn.Module):
    """Operators that draw: factories, in place, with parameters that need a gradient."""

    def __init__(self):
        super().__init__()
        self.weight, self.table = nn.Parameter(torch.rand(24) + 0.5), nn.Parameter(torch.randn(9, 3))

    def forward(self, x):
        w, empty = self.weight, torch.empty_like(x)
        rows = self.table[torch.multinomial(x[:9], 5, replacement=True)] + self.table[torch.randint(0, 9, (5,))]
        drawn = [
            torch.rand(24), torch.rand_like(x, dtype=torch.float64), torch.randn(24), torch.randn_like(w), torch.normal(w, 0.5),
            torch.normal(w, x), torch.normal(1.0, w), empty.uniform_(-1, 2), torch.empty(24).normal_(1, 2), torch.randn(24, dtype=torch.complex64).abs(),
            torch.empty(24).exponential_(2.0), torch.empty(24).cauchy_(1, 2).atan(), torch.empty(24).log_normal_(0.1, 0.2),
            torch.empty(24).geometric_(0.4), torch.empty(24).random_(), torch.empty(24).random_(9), torch.randint_like(x, 2, 5),
            torch.bernoulli(x), torch.bernoulli(x, 0.3), torch.empty(24).bernoulli_(x), torch.poisson(3 * x), torch.poisson(30 * x),
            torch.binomial(torch.full((24,), 9.0), x), torch._standard_gamma(w), torch._sample_dirichlet(x + 1),
            F.gumbel_softmax(w, dim=0), F.rrelu(w - 1, training=True), F.rrelu(w - 1, training=False),
            torch.empty(4, 6).t().uniform_().flatten(), torch.rand_like(x.view(4, 6).t()).flatten(),
        ]
        steps = torch.arange(24.0) / 24
        return rows.sum() + sum((torch.tanh(d.float() / 4) * w * steps).sum() for d in drawn)


def drawing():
    return Drawing(), {"x": torch.rand(24)}


class Of(nn.Module):
    """A linear layer `proj` and what `loss` makes of it."""

    def __init__(self, loss, trained=True):
        super().__init__()
        self.proj = nn.Linear(4, 4).requires_grad_(trained)
        self.loss = loss

    def forward(self, x):
        return self.loss(self.proj, x)


def lost_casts():
    """Casts that do nothing in float32: a norm in the wider type and back, beside a residual; one whose module returns it; to a device; several on a line."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

        def forward(self, x):
            input_dtype = x.dtype
            wide = x.to(torch.float32)
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * wide.to(input_dtype)

    class OnALine(nn.Module):
        def forward(self, x):
            return F.layer_norm(x.to(dtype=torch.float32), (8,)).to(x.dtype)

    class Widen(nn.Module):
        def forward(self, x):
            return x.float()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
            self.norm, self.line, self.widen = Norm(), OnALine(), Widen()

        def forward(self, x):
            h = self.first(x)
            h = h + self.second(self.norm(h))
            h = h + self.third(self.line(h)).neg()
            h = self.widen(h).sin()
            h = h.to(x.device).cos()
            return h.float().square().mean()

    return Model(), {"x": torch.randn(4, 8)}


def least():
    """A number at the limit of float32, in operators that compute in the parameters' type, in those that do not, and on its way to them."""

    class Least(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(5, 6)

        def forward(self, x):
            y, low = self.net(x), torch.finfo(torch.float32).min
            own = y.masked_fill(y > 1, low).softmax(-1)
            mask = torch.full((6, 6), low, dtype=y.dtype).triu(2)[None, None, :4, :4]
            seen = F.scaled_dot_product_attention(*3 * (y[None, None],), attn_mask=mask)
            # The last: torch.export takes y for its own copy from here on.
            wide = y.float().masked_fill(own > 2, low).logsumexp(-1)
            return own.mean() + wide.mean() + seen.mean()

    return Least(), {"x": torch.randn(4, 5)}


class Kept(nn.Module):
    """Operators that keep for the backward pass what depends on the device."""

    def __init__(self):
        super().__init__()
        self.norm, self.lookup = nn.LayerNorm(6), nn.EmbeddingBag(9, 6, mode="sum")
        self.batch, self.still = nn.BatchNorm1d(6), nn.BatchNorm1d(6).eval()

    def train(self, mode=True):
        super().train(mode)
        self.still.eval()
        return self

    def forward(self, rows, offsets):
        h = self.norm(self.lookup(rows, offsets))
        return F.logsigmoid(self.still(self.batch(h))).float().sum()


def kept():
    return Kept().bfloat16(), {"rows": torch.tensor([0, 3, 8, 1, 1]), "offsets": torch.tensor([0, 2, 3])}


class Rms(nn.Module):
    """Norms with and without eps, over one dim and two, and without a weight."""

    def __init__(self):
        super().__init__()
        self.first, self.proj = nn.RMSNorm(6), nn.Linear(6, 8)
        self.two, self.bare = nn.RMSNorm((4, 8), eps=1e-5), nn.RMSNorm(8, elementwise_affine=False)

    def forward(self, x):
        h = self.two(self.proj(self.first(x)))
        return self.bare(h.transpose(0, 1)).float().sigmoid().sum()


def rms():
    return Rms(), {"x": torch.randn(2, 4, 6)}


class Spelled(nn.Module):
    """One norm in front of a layer, as `spell` writes it; its weight is called `weight`."""

    def __init__(self, spell):
        super().__init__()
        self.weight, self.spell = nn.Parameter(torch.rand(8)), spell

    def forward(self, x):
        return self.spell(x, self.weight)


def _root(wide, eps=1e-6):
    return torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)


def _llama(x, w):
    wide = x.to(torch.float32)
    return w * (wide * _root(wide)).to(x.dtype)


def _olmo(x, w):
    wide = x.to(torch.float32)
    return (w * (wide * _root(wide))).to(x.dtype)


def _gemma(x, w):
    wide = x.float()
    return (wide * _root(wide) * (1.0 + w.float())).type_as(x)


def _gemma3n(x, w):
    wide = x.float()
    return (wide * torch.pow(wide.pow(2).mean(-1, keepdim=True) + 1e-5, -0.5) * w.float()).type_as(x)


def _llama4(x, w):
    wide = x.float()
    return (wide * _root(wide)).type_as(x) * w


def _bare(x, w):
    wide = x.float()
    return (wide * _root(wide)).type_as(x)


def _t5(x, w):
    return w * (x * _root(x.to(torch.float32)))


def _other_dim(x, w):
    return w * (x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6))


def _eps_outside(x, w):
    return w * (x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-6))


def _no_mean(x, w):
    return w * (x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6))


def _cubes(x, w):
    return w * (x * torch.rsqrt(x.pow(3).abs().mean(-1, keepdim=True) + 1e-6))


def _another(x, w):
    return w * (x.tanh() * _root(x))


def _twice(x, w):
    root = _root(x)
    return w * (x * root) + root


def _variance(x, w):
    """No norm, but what would be one on the way."""
    return x.pow(2).mean(-1, keepdim=True) * w + x


class Spellings(nn.Module):
    def __init__(self, spellings):
        super().__init__()
        self.norms = nn.ModuleDict({spell.__name__[1:]: Spelled(spell) for spell in spellings})
        self.proj = nn.Linear(8, 8, bias=False)

    def forward(self, x):
        for norm in self.norms.values():
            x = x + norm(self.proj(x))
        return x.float().tanh().sum()


def written_norms():
    return Spellings([_llama, _olmo, _gemma, _gemma3n, _llama4, _bare, _t5]), {"x": torch.rand(2, 3, 8)}


def half_norms():
    model, inputs = written_norms()
    return model.bfloat16(), {"x": inputs["x"].bfloat16()}


def unlike_norms():
    return Spellings([_other_dim, _eps_outside, _no_mean, _cubes, _another, _twice, _variance]), {"x": torch.rand(2, 3, 8)}


def refused(loss, **options):
    return lambda: (Of(loss, **options), {"x": torch.randn(2, 4)})


@torch.library.custom_op("mylib::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Doubled(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        return twice(self.proj(x))


def layers():
    """The same operator of a library in each layer."""

    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.head = nn.ModuleList(Doubled() for _ in range(3)), nn.Linear(4, 1)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x).mean()

    return Layers(), {"x": torch.randn(2, 4)}


def _autocast(proj, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return proj(proj(x)).float().sum()


def casts():
    """A weight that is used twice."""
    return Of(_autocast), {"x": torch.randn(2, 4)}


def _autocast_cuda(proj, x):
    with torch.autocast("cuda", dtype=torch.float16):
        return torch.exp(proj(x)).sum()


def cuda_casts():
    return Of(_autocast_cuda), {"x": torch.randn(2, 4)}


def _write_parameter(proj, x):
    with torch.no_grad():
        proj.weight.mul_(0.9)
    return proj(x).sum()


class Frozen(nn.Module):
    """A frozen parameter that is written, a constant that is, and an input."""

    def __init__(self):
        super().__init__()
        self.proj, self.target = nn.Linear(4, 4), nn.Parameter(torch.zeros(4), requires_grad=False)
        self.register_buffer("both", torch.zeros(4))
        self.register_buffer("part", self.both[1:3])

    def forward(self, x):
        with torch.no_grad():
            self.target.mul_(0.9).add_(x.mean(0))
        x.add_(1)
        return (self.proj(x) * self.target + self.both).sum() + self.part.sum()


def written():
    return Frozen(), {"x": torch.randn(2, 4)}


class OverlapWritten(Frozen):
    def forward(self, x):
        self.part.add_(1)
        return (self.proj(x) * self.both).sum()


def overlap_written():
    return OverlapWritten(), {"x": torch.randn(2, 4)}


def _region(proj, x):
    run = lambda h, w: torch.tanh(h) @ w
    return torch._higher_order_ops.hints_wrapper(run, (proj(x), proj.weight), {}, hints={"any": 1}).sum()


def hinted():
    return Of(_region), {"x": torch.randn(2, 4)}


def _loop(proj, x):
    body = lambda i, h: (i + 1, h * 2)
    return torch._higher_order_ops.while_loop(lambda i, h: i < 3, body, (torch.tensor(0), proj(x)))[1].sum()


def _scan(proj, x):
    return torch._higher_order_ops.scan(lambda c, z: (c + z, c * z), torch.zeros(4), proj(x))[1].sum()


class Overlap(nn.Module):
    def __init__(self):
        super().__init__()
        data = torch.randn(6)
        self.a, self.b = nn.Parameter(data[:4]), nn.Parameter(data[2:])

    def forward(self, x):
        return (self.a * self.b * x).sum()


def overlap():
    return Overlap(), {"x": torch.randn(4)}


REFUSED = {
    "custom": refused(lambda proj, x: (proj(x) + twice(x)).sum()),
    "masked": refused(lambda proj, x: proj(x)[x > 0].sum()),
    "cond": refused(lambda proj, x: torch.cond(x.sum() > 0, lambda h: h * 2, lambda h: h * 3, (proj(x),)).sum()),
    "loop": refused(_loop),
    "scan": refused(_scan),
    "map": refused(lambda proj, x: torch._higher_order_ops.map(lambda z: z * 2, proj(x)).sum()),
    "vector": refused(lambda proj, x: proj(x).sum(0)),
    "integer": refused(lambda proj, x: proj(x).argmax()),
    "frozen": refused(lambda proj, x: proj(x).sum(), trained=False),
    "detached": refused(lambda proj, x: proj(x).detach().sum()),
    "writes_parameter": refused(_write_parameter),
    "no_shapes": refused(lambda proj, x: torch._int_mm(x.char(), x.char().t()).sum() + proj(x).sum()),
    "bags": refused(lambda proj, x: F.embedding_bag(
        x[0].long().abs() % 3, proj.weight, x[0, :2].long() * 0, mode="sum", sparse=True).sum()),
    "billion": refused(lambda proj, x: proj(x).masked_fill(proj(x) > 0, -1e9).softmax(-1).square().mean()),
    "several": refused(lambda proj, x: (torch.cond(x.sum() > 0, lambda h: h * 2, lambda h: h * 3, (proj(x),)) + twice(x)).sum()),
}


def main(folder, *names):
    for name in names:
        torch.manual_seed(0)
        options = {}
        if name == "decomposed":
            model, inputs = statistics()
        elif name == "dynamic":
            model, inputs = mlp()
            batch = torch.export.Dim("batch", min=2)
            options = {"dynamic_shapes": {"x": {0: batch}, "y": {0: batch}}}
        else:
            model, inputs = (REFUSED.get(name) or globals()[name])()
        program = torch.export.export(model.train(), (), inputs, strict=name == "cuda_casts", **options)
        if name in ("decomposed", "native"):
            program = program.run_decompositions({})
        torch.export.save(program, str(pathlib.Path(folder) / f"{name}.pt2"))


main(*sys.argv[1:])
