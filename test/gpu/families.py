# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Families of models beyond this project's own, small: PyTorch's transformers and, where transformers is there, Hugging Face's.

Each is a function that returns a module whose first output is the loss, and its inputs
for one rank. Nothing is drawn: no model has dropout. An ImportError says what is not there.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

import zoo

VOCABULARY, WIDTH, HEADS, LENGTH = 41, 16, 4, 8


class Translator(nn.Module):
    """nn.Transformer with both halves, its mask and a loss."""

    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.source, self.target = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.both = nn.Transformer(WIDTH, HEADS, 1, 2, 24, dropout=0.0, batch_first=batch_first)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, x, y):
        source, target = self.source(x), self.target(y)
        if not self.batch_first:
            source, target = source.transpose(0, 1), target.transpose(0, 1)
        made = self.both(source, target, tgt_mask=self.mask, tgt_is_causal=True)
        made = made if self.batch_first else made.transpose(0, 1)
        return F.cross_entropy(self.head(made).flatten(0, 1), y.flatten())


class Encoder(nn.Module):
    """nn.TransformerEncoder, norms first."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.embed, self.body = nn.Embedding(VOCABULARY, WIDTH), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        return self.head(self.body(self.embed(x)))


class Attending(nn.Module):
    """nn.MultiheadAttention alone, whose weights nobody asks for."""

    def __init__(self, batch_first):
        super().__init__()
        self.batch_first = batch_first
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)

    def forward(self, x):
        h = self.embed(x)
        h = h if self.batch_first else h.transpose(0, 1)
        made, _ = self.attention(h, h, h, need_weights=False)
        return self.head(made if self.batch_first else made.transpose(0, 1))


def transformer():
    return Translator(True), zoo.tokens(VOCABULARY, LENGTH)


def transformer_rows():
    """Sequence first, as is nn.Transformer's default."""
    return Translator(False), zoo.tokens(VOCABULARY, LENGTH)


def encoder():
    return zoo.Classifier(Encoder()), zoo.tokens(VOCABULARY, LENGTH)


def attention():
    return zoo.Classifier(Attending(True)), zoo.tokens(VOCABULARY, LENGTH)


def attention_rows():
    return zoo.Classifier(Attending(False)), zoo.tokens(VOCABULARY, LENGTH)


def tokens():
    return torch.randint(0, VOCABULARY, (2, LENGTH))


def decoder(kind, ends="ForCausalLM", **options):
    """A causal model of transformers by its name there."""
    def make():
        import transformers
        ids = tokens()
        config = getattr(transformers, kind + "Config")(vocab_size=VOCABULARY, **options)
        return getattr(transformers, kind + ends)(config), {"input_ids": ids, "labels": ids.clone(), "use_cache": False}
    return make


def masked(kind, **options):
    """A model of transformers that reads both ways, with a mask of its input."""
    def make():
        import transformers
        ids = tokens()
        config = getattr(transformers, kind + "Config")(vocab_size=VOCABULARY, **options)
        return getattr(transformers, kind + "ForMaskedLM")(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    return make


def translator(kind, **options):
    """Encoder and decoder of transformers."""
    def make():
        import transformers
        config = getattr(transformers, kind + "Config")(vocab_size=VOCABULARY, decoder_start_token_id=0, **options)
        return getattr(transformers, kind + "ForConditionalGeneration")(config), {"input_ids": tokens(), "labels": tokens(), "use_cache": False}
    return make


def images(kind, **options):
    def make():
        import transformers
        return getattr(transformers, kind + "ForImageClassification")(getattr(transformers, kind + "Config")(**options)), {
            "pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 2, (2,))}
    return make


ROTARY = {"hidden_size": WIDTH, "intermediate_size": 22, "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": 2, "max_position_embeddings": 16}
BOTH_WAYS = {"hidden_size": WIDTH, "intermediate_size": 22, "num_hidden_layers": 2, "num_attention_heads": HEADS, "max_position_embeddings": 16,
             "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# The most telling first.
FAMILIES = {
    "transformer": transformer,
    "transformer_rows": transformer_rows,
    "attention": attention,
    "attention_rows": attention_rows,
    "encoder": encoder,
    "t5": translator("T5", d_model=WIDTH, d_kv=4, d_ff=22, num_layers=2, num_heads=HEADS, dropout_rate=0.0),
    "gpt2": decoder("GPT2", "LMHeadModel", n_embd=WIDTH, n_layer=2, n_head=HEADS, n_positions=16, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "hf_llama": decoder("Llama", **ROTARY),
    "qwen3": decoder("Qwen3", **ROTARY, head_dim=4),
    "gemma2": decoder("Gemma2", **ROTARY, head_dim=4),
    "mixtral": decoder("Mixtral", **{**ROTARY, "intermediate_size": 24}, num_local_experts=3, num_experts_per_tok=2),
    "phi": decoder("Phi", **ROTARY, resid_pdrop=0.0, embd_pdrop=0.0, attention_dropout=0.0),
    "gpt_neox": decoder("GPTNeoX", hidden_size=WIDTH, intermediate_size=22, num_hidden_layers=2, num_attention_heads=HEADS, max_position_embeddings=16,
                        hidden_dropout=0.0, attention_dropout=0.0),
    "roberta": masked("Roberta", **BOTH_WAYS),
    "electra": masked("Electra", **BOTH_WAYS, embedding_size=12),
    "resnet": images("ResNet", embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic"),
    "convnext": images("ConvNext", hidden_sizes=[8, 12], depths=[1, 1], num_stages=2, patch_size=4),
    "swin": images("Swin", image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[2, 4], window_size=4, hidden_dropout_prob=0.0,
                   attention_probs_dropout_prob=0.0, drop_path_rate=0.0),
}
