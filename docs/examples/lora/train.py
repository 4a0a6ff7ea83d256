# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Low-rank adapters on a causal language model, by PEFT (pip install peft), trained with a compiled step.

    python train.py --axolotl=lora.yaml --rows=rows.safetensors out     # base_model and lora_* as Axolotl has them
    python train.py out                                                 # a small model and rows of its own, nothing is downloaded
    torchrun --nproc-per-node=2 train.py …                              # on two ranks

Adapters are part of what is exported: they are applied first, and what is frozen then stays frozen. `out` is an
adapter's folder in the end, as PEFT writes it, and `out/merged` a model without adapters.
"""
import argparse
import pathlib

import peft
import torch
import transformers
import yaml
from safetensors.torch import load_file

from fsdp_opt.transformers import FsdpTrainer

SMALL = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128, "max_position_embeddings": 64}


def make_model(settings):
    """The base, with adapters as the settings say. Those have no dropout unless it is asked for."""
    torch.manual_seed(settings.get("seed", 7))
    base = settings.get("base_model")
    model = (transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32) if base
             else transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL)))
    targets = "all-linear" if settings.get("lora_target_linear") else settings.get("lora_target_modules", ["q_proj", "v_proj"])
    return peft.get_peft_model(model, peft.LoraConfig(
        task_type="CAUSAL_LM", target_modules=targets, r=settings.get("lora_r", 8), lora_alpha=settings.get("lora_alpha", 16),
        lora_dropout=settings.get("lora_dropout", 0.0), modules_to_save=settings.get("lora_modules_to_save")))


def read_rows(path):
    """Rows of one length: a file of fsdp_opt.data.write_rows, or sequences that count."""
    if path is None:
        ids = (torch.arange(64)[:, None] * 7 + torch.arange(32)) % 128
        return [{"input_ids": row, "labels": row.clone()} for row in ids]
    columns = load_file(path)
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--axolotl", type=pathlib.Path, help="its yaml, of which base_model, lora_*, learning_rate, micro_batch_size, "
                                                             "gradient_accumulation_steps, num_epochs, max_steps and seed are read")
    parser.add_argument("--rows", type=pathlib.Path, help="safetensors file with input_ids and labels")
    parser.add_argument("--world", type=int, help="ranks, threads of this process")
    options = parser.parse_args()
    settings = yaml.safe_load(options.axolotl.read_text()) if options.axolotl else {}
    args = transformers.TrainingArguments(
        str(options.folder), per_device_train_batch_size=settings.get("micro_batch_size", 4), report_to="none", use_cpu=True,
        gradient_accumulation_steps=settings.get("gradient_accumulation_steps", 1), learning_rate=float(settings.get("learning_rate", 1e-2)),
        num_train_epochs=settings.get("num_epochs", 3), max_steps=settings.get("max_steps", -1), logging_steps=4, save_strategy="no")
    trainer = FsdpTrainer(make_model(settings), args, train_dataset=read_rows(options.rows), world=options.world)
    trainer.train()
    trainer.save_model(str(options.folder))
    if trainer.is_world_process_zero():
        trainer.model.merge_and_unload().save_pretrained(options.folder / "merged")
    trainer.close()


if __name__ == "__main__":
    main()
