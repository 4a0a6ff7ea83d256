# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small Llama, trained with transformers.Trainer or with FsdpTrainer; nothing is downloaded.

    python train.py --trainer=transformers out          # one process
    python train.py out                                 # the same with a compiled step
    python train.py --world=2 out                       # on two ranks, threads of this process
    torchrun --nproc-per-node=2 train.py out            # on two ranks, processes
    torchrun --nproc-per-node=2 train.py --trainer=transformers out    # FSDP2
"""
import argparse
import os

import torch
import transformers


def make_model():
    torch.manual_seed(7)
    config = transformers.LlamaConfig(hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                      vocab_size=128, max_position_embeddings=64)
    return transformers.LlamaForCausalLM(config)


def make_rows(count, length=32):
    """Sequences that count upwards, each in steps of its own, of lengths of their own."""
    rows = []
    for row in range(count):
        ids = (row * 7 + torch.arange(length) * (1 + row % 5)) % 128
        labels = torch.where(torch.arange(length) < length - row % 9, ids, -100)
        rows.append({"input_ids": ids, "labels": labels})
    return rows


def make_arguments(folder, **others):
    sharded = {"fsdp": True, "fsdp_config": {"reshard_after_forward": True}} if int(os.environ.get("WORLD_SIZE", 1)) > 1 else {}
    return transformers.TrainingArguments(**{
        "output_dir": folder, "per_device_train_batch_size": 4, "per_device_eval_batch_size": 4, "gradient_accumulation_steps": 2,
        "num_train_epochs": 3, "learning_rate": 3e-3, "lr_scheduler_type": "cosine", "warmup_steps": 3, "weight_decay": 0.1, "logging_steps": 1,
        "eval_strategy": "epoch", "save_strategy": "epoch", "report_to": "none", "use_cpu": True, **sharded, **others})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--trainer", choices=["fsdp_opt", "transformers"], default="fsdp_opt")
    parser.add_argument("--world", type=int, help="ranks, threads of this process")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in the folder")
    options = parser.parse_args()
    data = {"train_dataset": make_rows(42), "eval_dataset": make_rows(16)}
    if options.trainer == "fsdp_opt":
        from fsdp_opt.transformers import FsdpTrainer
        trainer = FsdpTrainer(make_model(), make_arguments(options.folder), **data, world=options.world)
    else:
        trainer = transformers.Trainer(make_model(), make_arguments(options.folder), **data)
    trainer.train(resume_from_checkpoint=options.resume)
    trainer.save_model(options.folder)
    if trainer.is_world_process_zero():
        trainer.state.save_to_json(os.path.join(options.folder, "trainer_state.json"))


if __name__ == "__main__":
    main()
