# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that random chains are made of (chains.py): each takes a tensor and where it is from, and gives another one.

`c` is the chain at hand: `c.random` draws, the same each time; `c.leaf(shape, low, high)` is a tensor of the module with a
gradient; `c.like(x)` is one of its shape or of one that broadcasts, in any floating type; `c.earlier(x)` a result from before, or one of these.
"""
import torch
import torch.nn.functional as F


def bounded(x, most):
    """Within numbers whose exponentials and powers are finite in halves, too."""
    return x.clamp(-most, most)


def positive(x):
    return x.abs() + 0.25


def away(x):
    """Not near 0."""
    return torch.where(x < 0, x - 0.5, x + 0.5)


UNARY = {
    "neg": lambda c, x: -x, "abs": lambda c, x: x.abs(), "exp": lambda c, x: bounded(x, 4).exp(), "log": lambda c, x: positive(x).log(),
    "erf": lambda c, x: x.erf(), "sqrt": lambda c, x: positive(x).sqrt(), "square": lambda c, x: bounded(x, 8).square(),
    "reciprocal": lambda c, x: away(x).reciprocal(), "floor": lambda c, x: x.floor() + x, "ceil": lambda c, x: x.ceil() - x,
    "trunc": lambda c, x: x.trunc() + x, "round": lambda c, x: x.round() - x, "rsqrt": lambda c, x: positive(x).rsqrt(),
    "pow": lambda c, x: positive(bounded(x, 6)) ** c.random.choice([2, 3, 0.5, -0.5, -1, -2, 1, 0]), "relu": lambda c, x: x.relu(),
    "pow_any": lambda c, x: positive(bounded(x, 4)) ** c.random.choice([1.7, -0.3]), "sin": lambda c, x: x.sin(), "sign": lambda c, x: x.sign() * x,
    "clamp": lambda c, x: x.clamp(-0.7, 0.9), "clamp_min": lambda c, x: x.clamp_min(-0.4), "clamp_max": lambda c, x: x.clamp_max(0.6),
    "hardtanh": lambda c, x: F.hardtanh(x, -0.5, 0.75), "relu6": lambda c, x: F.relu6(x), "hardswish": lambda c, x: F.hardswish(x),
    "sigmoid": lambda c, x: x.sigmoid(), "silu": lambda c, x: F.silu(x), "tanh": lambda c, x: x.tanh(), "gelu": lambda c, x: F.gelu(x),
    "gelu_tanh": lambda c, x: F.gelu(x, approximate="tanh"), "softplus": lambda c, x: F.softplus(x, beta=c.random.choice([1, 2]), threshold=3),
    "elu": lambda c, x: F.elu(x, 0.7), "leaky_relu": lambda c, x: F.leaky_relu(x, 0.1), "logsigmoid": lambda c, x: F.logsigmoid(x),
    "mish": lambda c, x: F.mish(x), "quick_gelu": lambda c, x: x * torch.sigmoid(1.702 * x),
    "new_gelu": lambda c, x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * bounded(x, 8) ** 3))),
    "scale": lambda c, x: x * c.random.choice([0.5, 1.5, -0.7]), "shift": lambda c, x: 1 - x, "over": lambda c, x: x / 3,
    "threshold": lambda c, x: F.threshold(x, 0.1, -0.3),
}

BINARY = {
    "add": lambda c, x: x + c.earlier(x), "sub": lambda c, x: c.earlier(x) - x, "mul": lambda c, x: x * c.earlier(x),
    "div": lambda c, x: x / away(c.earlier(x)), "add_alpha": lambda c, x: torch.add(x, c.earlier(x), alpha=0.3), "rsub": lambda c, x: torch.rsub(x, c.earlier(x)),
    "maximum": lambda c, x: torch.maximum(x, c.like(x)), "minimum": lambda c, x: torch.minimum(x, c.like(x)),
    "addcmul": lambda c, x: torch.addcmul(x, c.same(x), c.same(x), value=0.7), "addcdiv": lambda c, x: torch.addcdiv(x, c.same(x), positive(c.same(x)), value=0.3),
    "lerp": lambda c, x: torch.lerp(x, c.same(x), c.random.choice([lambda: 0.3, lambda: 0.8, lambda: c.same(x)])()),
    "where": lambda c, x: torch.where(x < c.earlier(x), x, c.earlier(x)), "masked_fill": lambda c, x: x.masked_fill(x > 0.5, -0.25),
    "and": lambda c, x: torch.where((x > -1) & (c.same(x) <= 0.5) | x.isnan(), x, -x), "xor": lambda c, x: torch.where((x >= 0) ^ (c.same(x) != 0), x, 2 * x),
    "swiglu": lambda c, x: F.silu(x) * c.earlier(x), "square_mean": lambda c, x: x * x * c.like(x),
}

NORMS = {
    "layer_norm": lambda c, x: F.layer_norm(x, x.shape[-1:], c.cast(c.leaf(x.shape[-1:], 0.5, 1.5), x), c.cast(c.leaf(x.shape[-1:]), x)),
    "plain_norm": lambda c, x: F.layer_norm(x, x.shape[-1:]), "wide_norm": lambda c, x: F.layer_norm(x, x.shape[-2:]),
    "rms_norm": lambda c, x: F.rms_norm(x, x.shape[-1:], c.cast(c.leaf(x.shape[-1:], 0.5, 1.5), x), 1e-5),
    "written_norm": lambda c, x: c.cast(c.leaf(x.shape[-1:], 0.5, 1.5), x) * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype),
    "softmax": lambda c, x: x.softmax(-1), "log_softmax": lambda c, x: x.log_softmax(-1), "float_softmax": lambda c, x: x.softmax(-1, dtype=torch.float32).to(x.dtype),
    "other_softmax": lambda c, x: x.softmax(0), "masked_softmax": lambda c, x: x.masked_fill(c.same(x) > 0.8, -1e4).softmax(-1),
    "logsumexp": lambda c, x: x - x.logsumexp(-1, keepdim=True), "normalize": lambda c, x: F.normalize(x + 0.5, dim=-1),
}

REDUCTIONS = {
    "sum": lambda c, x: x * x.sum(-1, keepdim=True), "mean": lambda c, x: x - x.mean(-1, keepdim=True), "amax": lambda c, x: x - x.amax(-1, keepdim=True),
    "amin": lambda c, x: x + x.amin(-1, keepdim=True), "sum_away": lambda c, x: x.sum(-1), "sum_rows": lambda c, x: x + x.sum(0, keepdim=True),
    "sum_all": lambda c, x: x + x.sum(), "mean_all": lambda c, x: x * x.mean(), "sum_rows_away": lambda c, x: x.sum(tuple(range(x.dim() - 1))),
    "mean_wide": lambda c, x: x - x.mean((-2, -1), keepdim=True), "var": lambda c, x: (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 0.5).sqrt() if x.shape[-1] > 1 else -x,
    "float_sum": lambda c, x: x * x.sum(-1, keepdim=True, dtype=torch.float32).to(x.dtype), "std_all": lambda c, x: x / (x.std() + 0.5),
    "sum_to": lambda c, x: x.sum(0) + x[0],
}


def classes(c, x):
    count = x.shape[:-1].numel()
    targets = c.numbers(count, x.shape[-1])
    return x.reshape(count, x.shape[-1]), targets


LOSSES = {
    "cross_entropy": lambda c, x: F.cross_entropy(*classes(c, x)), "cross_entropy_sum": lambda c, x: F.cross_entropy(*classes(c, x), reduction="sum", ignore_index=1),
    "cross_entropy_each": lambda c, x: F.cross_entropy(*classes(c, x), reduction="none"), "cross_entropy_float": lambda c, x: F.cross_entropy(classes(c, x)[0].float(), classes(c, x)[1]),
    "smoothed": lambda c, x: F.cross_entropy(*classes(c, x), label_smoothing=0.1), "nll": lambda c, x: F.nll_loss(*classes(c, x)),
    "mse": lambda c, x: F.mse_loss(x, c.same(x)), "mse_sum": lambda c, x: F.mse_loss(x, c.same(x), reduction="sum"), "mse_each": lambda c, x: F.mse_loss(x, c.same(x), reduction="none"),
    "l1": lambda c, x: F.l1_loss(x, c.same(x)), "smooth_l1": lambda c, x: F.smooth_l1_loss(x, c.same(x)), "huber": lambda c, x: F.huber_loss(x, c.same(x)),
    "bce": lambda c, x: F.binary_cross_entropy_with_logits(x, c.same(x).sigmoid()), "kl": lambda c, x: F.kl_div(x.log_softmax(-1), c.same(x).softmax(-1), reduction="batchmean"),
    "z_loss": lambda c, x: x.logsumexp(-1).square().mean(),
}

CASTS = {
    "bf16": lambda c, x: x.to(torch.bfloat16), "f16": lambda c, x: bounded(x, 1000).to(torch.float16), "f32": lambda c, x: x.to(torch.float32),
    "back_bf16": lambda c, x: x.to(torch.bfloat16).to(x.dtype), "back_f32": lambda c, x: (x.float() * 1.25).to(x.dtype), "truth": lambda c, x: (x > 0).to(x.dtype) * x,
}


def halves(x):
    return x[..., :x.shape[-1] // 2], x[..., x.shape[-1] // 2:]


def rotated(c, x):
    if x.shape[-1] % 2:
        return x + 1
    a, b = halves(x)
    angle = c.leaf(x.shape[-1:], -3, 3)
    return x * angle.cos().to(x.dtype) + torch.cat((-b, a), -1) * angle.sin().to(x.dtype)


COLUMNS = {
    "halves": lambda c, x: torch.cat(tuple(reversed(halves(x))), -1) if x.shape[-1] > 1 else -x, "rotated": rotated,
    "gate": lambda c, x: halves(x)[0] * halves(x)[1].sigmoid() if x.shape[-1] % 2 == 0 else x.sigmoid(), "slice": lambda c, x: x[..., 1:] * 2 if x.shape[-1] > 1 else -x,
    "select": lambda c, x: x * x[..., :1], "stack": lambda c, x: torch.stack((x, -x), -1).flatten(-2), "unbind": lambda c, x: x + x.unbind(-1)[0].unsqueeze(-1),
    "view": lambda c, x: x.reshape(-1, x.shape[-1]) + 1, "flatten": lambda c, x: -x.reshape(-1), "transpose": lambda c, x: -x.transpose(0, -1), "expand": lambda c, x: x.unsqueeze(0).expand(2, *x.shape) * c.leaf((2,) + (1,) * x.dim()),
    "permuted": lambda c, x: (x.transpose(0, -1).contiguous() * 2).transpose(0, -1), "pad": lambda c, x: F.pad(x, (1, 2)), "other_cat": lambda c, x: torch.cat((x, c.like(x).expand_as(x).to(x.dtype)), 0),
    "select_row": lambda c, x: x - x[0], "strided": lambda c, x: x[..., ::2] - 1,
}

FAMILIES = {"unary": UNARY, "binary": BINARY, "norms": NORMS, "reductions": REDUCTIONS, "losses": LOSSES, "casts": CASTS, "columns": COLUMNS}
OPS = {name: op for family in FAMILIES.values() for name, op in family.items()}
