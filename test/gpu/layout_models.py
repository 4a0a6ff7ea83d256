# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models whose plans for a GPU are most unlike those for a CPU: attention of PyTorch's own modules, in both orders of batch and sequence, with masks of all kinds."""
import pathlib
import sys

import torch
import torch.nn as nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end"))
import zoo  # noqa: E402

WIDTH, HEADS, ROWS, LENGTH = 16, 2, 2, 6


class Attention(nn.Module):
    """nn.MultiheadAttention, of itself or of another sequence, its mask expanded or not."""

    def __init__(self, batch_first, masked):
        super().__init__()
        self.batch_first, self.masked = batch_first, masked
        self.own, self.cross = (nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first) for _ in range(2))

    def forward(self, x, other):
        length = x.shape[1 if self.batch_first else 0]
        mask = nn.Transformer.generate_square_subsequent_mask(length) if self.masked else None
        x = x + self.own(x, x, x, attn_mask=mask, need_weights=False)[0]
        x = x + self.cross(x, other, other, need_weights=False)[0]
        return x.square().mean()


class Transformer(nn.Module):
    """Encoder and decoder, as PyTorch has them."""

    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.net = nn.Transformer(WIDTH, HEADS, 2, 2, 24, dropout=0.0, batch_first=batch_first, norm_first=not batch_first)

    def forward(self, x, other):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1 if self.batch_first else 0])
        return self.net(other, x, tgt_mask=mask, tgt_is_causal=True).square().mean()


def sequences(batch_first):
    sizes = [(ROWS, n, WIDTH) if batch_first else (n, ROWS, WIDTH) for n in (LENGTH, LENGTH + 2)]
    return dict(zip(("x", "other"), map(torch.randn, sizes)))


def t5():
    import transformers

    ids = torch.randint(0, 41, (2, 8))
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=41, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, dropout_rate=0.0, decoder_start_token_id=0))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone(), "use_cache": False}


def deberta():
    import transformers

    ids = torch.randint(0, 41, (2, 8))
    model = transformers.DebertaV2ForMaskedLM(transformers.DebertaV2Config(
        vocab_size=41, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, relative_attention=True, pos_att_type=["p2c", "c2p"]))
    return model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


def experts(name):
    import transformers

    kind = {"mixtral": (transformers.MixtralForCausalLM, transformers.MixtralConfig, {"num_local_experts": 4}),
            "qwen3_moe": (transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig, {"num_experts": 4, "moe_intermediate_size": 24, "head_dim": 8})}[name]
    model, config, own = kind
    ids = torch.randint(0, 41, (2, 8))
    made = model(config(vocab_size=41, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
                        num_experts_per_tok=2, max_position_embeddings=16, **own))
    return made, {"input_ids": ids, "labels": ids.clone(), "use_cache": False}


def even():
    """Linear layers of which all products are of multiples of 32."""
    net = nn.Sequential(nn.Embedding(64, 32), *(zoo.MlpBlock(32) for _ in range(2)), nn.Linear(32, 64))
    return zoo.Classifier(net), {"x": torch.randint(0, 64, (2, 32)), "y": torch.randint(0, 64, (2, 32))}


MODELS = {
    **{f"transformer_{order}": lambda first=first: (Transformer(first), sequences(first)) for order, first in (("batch_first", True), ("sequence_first", False))},
    **{f"attention_{order}{'_masked' * masked}": lambda first=first, masked=masked: (Attention(first, masked), sequences(first))
       for order, first in (("batch_first", True), ("sequence_first", False)) for masked in (False, True)},
    "even": even,
    "grouped": zoo.grouped,
    "forms": zoo.forms,
    "packed": lambda: zoo.forms(192, ("window", *zoo.DATA_FORMS)),
    "t5": t5,
    "deberta": deberta,
    **{name: lambda name=name: experts(name) for name in ("mixtral", "qwen3_moe")},
}
