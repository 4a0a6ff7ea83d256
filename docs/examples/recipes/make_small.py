# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model small enough for any machine, with what fine-tuning needs: a Llama's folder with its tokenizer, 1,000 chats, 400 pairs of answers.

The model has learnt the language of the chats for some seconds, and other answers: what is tuned then is something.

    python make_small.py FOLDER
"""
import json
import pathlib
import random
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

COLORS, THINGS = ("red", "green", "blue", "white", "black"), ("cat", "dog", "house", "tree", "car")
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def make_chats(draw):
    for _ in range(1000):
        color, thing = draw.choice(COLORS), draw.choice(THINGS)
        chat = [{"role": "user", "content": f"what is the {color} {thing}?"},
                {"role": "assistant", "content": f"the {color} {thing} is a {thing} that is {color}."}]
        if draw.random() < 0.5:
            chat += [{"role": "user", "content": "and its color?"}, {"role": "assistant", "content": f"it is {color}."}]
        yield chat


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    chats = list(make_chats(draw))
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    pairs = [{"prompt": chat[:1], "chosen": chat[1:2], "rejected": [{"role": "assistant", "content": f"no idea, perhaps {draw.choice(COLORS)}."}]}
             for chat in chats[:400]]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))

    words = Tokenizer(models.BPE())
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    words.train_from_iterator((message["content"] for chat in chats for message in chat), trainers.BpeTrainer(
        vocab_size=384, special_tokens=["<|im_start|>", "<|im_end|>", "<pad>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|im_end|>", pad_token="<pad>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder / "base")

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=384, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                         max_position_embeddings=256, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None))
    learn(model, tokenizer, chats, draw)
    model.save_pretrained(folder / "base")


def learn(model, tokenizer, chats, draw):
    """The same questions, and answers that say less."""
    other = [[{**message, "content": f"a thing, {draw.choice(COLORS)} or {draw.choice(COLORS)}."} if message["role"] == "assistant" else message
              for message in chat] for chat in chats]
    rows = tokenizer.apply_chat_template(other, tokenize=True, padding=True, return_dict=True, return_tensors="pt")
    labels = rows["input_ids"].masked_fill(rows["attention_mask"] == 0, -100)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(150):
        at = torch.arange(step * 16, step * 16 + 16) % len(labels)
        loss = model(rows["input_ids"][at], attention_mask=rows["attention_mask"][at], labels=labels[at]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
