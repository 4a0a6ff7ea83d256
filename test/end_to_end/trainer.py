# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FsdpTrainer trains as transformers.Trainer does, from one script; what it cannot do it refuses by name.

As a program of its own (`--rank FOLDER`) it is one rank under torchrun, where both train.
"""
import dataclasses
import json
import logging
import os
import pathlib
import sys

import torch
import transformers

import fsdp_opt
import warm
from fsdp_opt import _training_arguments
from fsdp_opt.transformers import FsdpTrainer
from harness import must, parse_arguments, run_cases
from ranks import end_rank

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "examples" / "transformers"
sys.path.insert(0, str(EXAMPLE))
import train as example  # noqa: E402

QUIET = {"disable_tqdm": True, "save_strategy": "no", "logging_steps": 1}


class Silent(transformers.TrainerCallback):
    """What callbacks see."""

    def __init__(self):
        self.events = []

    def __getattribute__(self, name):
        if name.startswith("on_") and name not in ("on_pre_optimizer_step", "on_optimizer_step", "on_substep_end"):
            object.__getattribute__(self, "events").append(name)
        return object.__getattribute__(self, name)


def train(kind, folder, rows=42, evals=16, resume=None, callbacks=None, world=None, config=None, **others):
    """The trainer after its training, and seconds of a step."""
    folder.mkdir(exist_ok=True)
    args = example.make_arguments(str(folder), **{**QUIET, **others})
    own = {"world": world, "config": config, "threads": 1} if kind is FsdpTrainer else {}
    trainer = kind(example.make_model(), args, train_dataset=example.make_rows(rows), eval_dataset=example.make_rows(evals) if evals else None,
                   callbacks=callbacks, **own)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def compare(ours, theirs, loss=2e-5, norm=2e-4):
    """Two log_histories."""
    assert len(ours) == len(theirs), f"{len(ours)} entries instead of {len(theirs)}"
    for a, b in zip(ours, theirs):
        for key in ("loss", "eval_loss", "train_loss"):
            assert (key in a) == (key in b), f"{a} has not what {b} has"
            if key in a:
                assert abs(a[key] - b[key]) <= loss * max(1, abs(b[key])), f"step {a['step']}: {key} {a[key]} instead of {b[key]}"
        if "grad_norm" in b:
            assert abs(a["grad_norm"] - b["grad_norm"]) <= norm * b["grad_norm"], f"step {a['step']}: norm {a['grad_norm']}, not {b['grad_norm']}"
        for key in ("learning_rate", "epoch", "step"):
            assert (key in a) == (key in b) and abs(a.get(key, 0) - b.get(key, 0)) <= 1e-6 * max(abs(b.get(key, 0)), 1e-3), f"{key}: {a} and {b}"


def parity(**others):
    """One process."""
    def case(folder):
        with_ours = train(FsdpTrainer, folder / "ours", **others)
        theirs = train(transformers.Trainer, folder / "theirs", **{k: v for k, v in others.items() if k != "config"})
        compare(with_ours.state.log_history, theirs.state.log_history, **({"loss": 2e-2, "norm": 5e-2} if others.get("bf16") else {}))
        if not others.get("bf16"):
            for (name, a), (_, b) in zip(with_ours.model.named_parameters(), theirs.model.named_parameters()):
                assert torch.allclose(a, b, atol=2e-4), f"{name} differs by {(a - b).abs().max()}"
        with_ours.close()
    return case


def noisy(folder):
    """Other numbers are drawn than there; validation has none in either."""
    ours, theirs, quiet = (train(kind, folder / name, max_steps=3, eval_strategy="no", eval_on_start=True, neftune_noise_alpha=alpha)
                           for kind, name, alpha in ((FsdpTrainer, "ours", 8.0), (transformers.Trainer, "theirs", 8.0), (FsdpTrainer, "quiet", None)))
    first = [next(entry["eval_loss"] for entry in each.state.log_history if "eval_loss" in entry) for each in (ours, theirs, quiet)]
    assert max(first) - min(first) < 1e-5, first
    losses = [[entry["loss"] for entry in each.state.log_history if "loss" in entry] for each in (ours, theirs, quiet)]
    norms = train(FsdpTrainer, folder / "norms", max_steps=1, warmup_steps=0, eval_strategy="no", config={"metrics": {"norms": ["gradients"]}})
    entry = norms.state.log_history[0]
    assert abs(sum(value ** 2 for key, value in entry.items() if key.startswith("norm/grad/")) ** 0.5 - entry["grad_norm"]) < 1e-4 * entry["grad_norm"], entry
    norms.close()
    assert all(abs(a - c) > 1e-6 and abs(a - b) < 0.1 * b for a, b, c in zip(*losses)), losses
    ours.close()
    quiet.close()


def count_right(prediction):
    predictions, labels = prediction.predictions, prediction.label_ids
    right = (predictions[:, :-1] == labels[:, 1:])[labels[:, 1:] != -100]
    return {"accuracy": right.mean(), "rows": len(labels), "inputs": float(prediction.inputs.sum()), "eval_first": float(labels[0].sum())}


def measured(folder):
    """Predictions and labels are transformers.Trainer's, in the dataset's order, whatever does not fill the ranks; the best is kept by them."""
    logs = []
    for kind, world in ((transformers.Trainer, None), (FsdpTrainer, 1), (FsdpTrainer, 2)):
        where = folder / f"{kind.__name__}{world}"
        args = example.make_arguments(str(where), **{**QUIET, "max_steps": 4, "eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 8 // (world or 1),
                                                     "include_for_metrics": ["inputs"], "per_device_train_batch_size": 4 // (world or 1)})
        trainer = kind(example.make_model(), args, train_dataset=example.make_rows(42), eval_dataset=example.make_rows(13), compute_metrics=count_right,
                       preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1), **({"world": world, "threads": 1} if world else {}))
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
        logs.append([{key: value for key, value in entry.items() if key in ("eval_accuracy", "eval_rows", "eval_inputs", "eval_first", "eval_loss", "step")}
                     for entry in trainer.state.log_history if "eval_loss" in entry])
        if kind is FsdpTrainer:
            trainer.close()
            assert not (where / "predicting.safetensors").exists()
    assert len(logs[0]) == 2 and logs[0][0]["eval_rows"] == 13, logs
    for other in logs[1:]:
        for a, b in zip(other, logs[0], strict=True):
            assert a.keys() == b.keys() and all(abs(a[key] - b[key]) <= (0.03 if key == "eval_accuracy" else 2e-5 * abs(b[key])) for key in a), f"{a} instead of {b}"


def narrow(folder):
    """States of bitsandbytes' names: near what whole ones give, in 8 bits, or on the host."""
    theirs = train(transformers.Trainer, folder / "theirs", max_steps=4, eval_strategy="no")
    for word in ("adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit"):
        ours = train(FsdpTrainer, folder / word, max_steps=4, eval_strategy="no", optim=word)
        compare(ours.state.log_history, theirs.state.log_history, loss=2e-2, norm=5e-2)
        ours.close()


def run_rank(folder):
    """Both trainers on one of two processes, FSDP2 first."""
    torch.set_num_threads(1)
    for name, kind in (("theirs", transformers.Trainer), ("ours", FsdpTrainer)):
        trainer = train(kind, folder / name, save_strategy="epoch", num_train_epochs=2)
        trainer.save_model(str(folder / name))
        if int(os.environ["RANK"]) == 0:
            (folder / f"{name}.json").write_text(json.dumps(trainer.state.log_history, default=float))
        if kind is FsdpTrainer:
            spread = [None, None]
            own = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
            torch.distributed.all_gather_object(spread, own)
            assert torch.equal(*spread), "ranks have other models after the training"
            trainer.close()
            again = train(kind, folder / name, num_train_epochs=2, resume=str(folder / name / "checkpoint-3"), save_strategy="epoch")
            assert [e["loss"] for e in again.state.log_history if "loss" in e] == [e["loss"] for e in trainer.state.log_history if "loss" in e]
            again.close()
    end_rank()


def processes(folder):
    """Two processes: both trainers, FSDP2 over gloo; two threads: the same; both folders are read by from_pretrained."""
    must(*warm.torchrun(2), pathlib.Path(__file__).resolve(), "--rank", folder, cwd=folder)
    theirs, ours = (json.loads((folder / f"{name}.json").read_text()) for name in ("theirs", "ours"))
    compare(ours, theirs)
    threads = train(FsdpTrainer, folder / "threads", world=2, num_train_epochs=2)
    compare(threads.state.log_history, theirs)
    models = [transformers.AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float32) for name in ("theirs", "ours")]
    batch = {key: torch.stack([row[key] for row in example.make_rows(8)]) for key in ("input_ids", "labels")}
    with torch.no_grad():
        a, b = (model.eval()(**batch).loss for model in models)
        c = threads.model.eval()(**batch).loss
    assert abs(a - b) < 1e-4 and abs(a - c) < 1e-4 and a < 4.6, (a, b, c)
    threads.close()


def resumed(folder):
    """A training that stops goes on with the same bits; the limit of checkpoints and the best of them are kept."""
    options = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2, "save_total_limit": 2,
               "load_best_model_at_end": True, "num_train_epochs": 2}

    class Stops(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **others):
            control.should_training_stop = state.global_step == 5

    whole = train(FsdpTrainer, folder / "whole", **options)
    begun = train(FsdpTrainer, folder / "parts", callbacks=[Stops], **options)
    assert begun.state.global_step == 5, begun.state.global_step
    begun.close()
    ended = train(FsdpTrainer, folder / "parts", resume=True, **options)
    after = {e["step"]: e["loss"] for e in whole.state.log_history if "loss" in e}
    again = {e["step"]: e["loss"] for e in ended.state.log_history if "loss" in e}
    assert again == after, f"{again} instead of {after}"
    for (name, a), (_, b) in zip(whole.model.named_parameters(), ended.model.named_parameters()):
        assert torch.equal(a, b), f"{name} is another one"
    kept = sorted(each.name for each in (folder / "parts").glob("checkpoint-*"))
    best = pathlib.Path(ended.state.best_model_checkpoint)
    assert len(kept) == 2 and best.name in kept, (kept, best)
    own = [after[step] for step in sorted(after) if step > 4]
    (summary,) = [e for e in ended.state.log_history[-1:] if "train_loss" in e]
    assert abs(summary["train_loss"] - sum(own) / len(own)) < 1e-6, f"{summary}: not the mean of the steps since the checkpoint, {own}"
    read = transformers.AutoModelForCausalLM.from_pretrained(best)
    assert all(torch.equal(a, b) for a, b in zip(read.state_dict().values(), ended.model.state_dict().values())), "the best was not loaded"
    whole.close()
    ended.close()


def seen(folder):
    """Callbacks get the events of transformers.Trainer's steps, and stop a training."""
    ours, theirs = Silent(), Silent()
    train(FsdpTrainer, folder / "ours", callbacks=[ours], max_steps=3, rows=16).close()
    train(transformers.Trainer, folder / "theirs", callbacks=[theirs], max_steps=3, rows=16)
    assert ours.events == theirs.events, f"{ours.events} instead of {theirs.events}"


def messages(level=logging.WARNING):
    """What the package logs from here on, as a list that grows."""
    said = []

    class Keeps(logging.Handler):
        def emit(self, record):
            said.append(record.getMessage())
    logging.getLogger("fsdp_opt").handlers = [Keeps(level)]
    return said


def overwritten(folder):
    """A second training in a folder overwrites the first one's checkpoints, as transformers.Trainer does, and says so before its first step."""
    options = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "no", "world": 2}
    first = train(FsdpTrainer, folder, max_steps=6, **options)
    first.close()
    said = messages()
    second = train(FsdpTrainer, folder, max_steps=4, seed=11, data_seed=12, save_total_limit=1, **options)
    assert any("checkpoint-2, checkpoint-4, checkpoint-6 of another training" in each for each in said), said
    kept = sorted(each.name for each in folder.glob("checkpoint-*"))
    assert kept == ["checkpoint-4"], f"{kept}: the limit spares another training's"
    saved = transformers.AutoModelForCausalLM.from_pretrained(folder / "checkpoint-4").state_dict()
    assert all(torch.equal(saved[name], value) for name, value in second.model.state_dict().items()), "the checkpoint is not the second training's"
    second.close()
    again = train(FsdpTrainer, folder, max_steps=6, seed=11, data_seed=12, resume=True, **options)
    assert again.state.global_step == 6 and [e["step"] for e in again.state.log_history if "loss" in e] == [1, 2, 3, 4, 5, 6], again.state.log_history
    again.close()


def nothing_left(folder):
    """A training that has taken all of its steps says so, and gives no numbers of steps that it did not take."""
    options = {"save_strategy": "steps", "save_steps": 2, "eval_strategy": "no", "max_steps": 4}
    train(FsdpTrainer, folder, **options).close()
    said = messages()
    ended = train(FsdpTrainer, folder, resume=True, **options)
    assert [each for each in said if each.startswith("nothing to do: the training has 4 steps") and "checkpoint-4" in each], said
    last = ended.state.log_history[-1]
    assert "train_runtime" in last and not {"train_loss", "train_samples_per_second", "train_steps_per_second"} & last.keys(), last
    ended.close()


class Tagger(torch.nn.Module):
    """A label for each token."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16)

    def forward(self, input_ids, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.head(self.embed(input_ids)).flatten(0, 1), labels.flatten())}


def one_tensor(folder):
    """A collator that gives one tensor as input_ids and labels: the step still reads each from its own."""
    def collate(rows):
        ids = torch.stack(rows)
        return {"input_ids": ids, "labels": ids}
    torch.manual_seed(3)
    model = Tagger()
    rows = torch.randint(0, 16, (8, 6))
    args = transformers.TrainingArguments(str(folder), per_device_train_batch_size=4, report_to="none", use_cpu=True, max_steps=2, remove_unused_columns=False,
                                          **QUIET)
    trainer = FsdpTrainer(model, args, data_collator=collate, train_dataset=list(rows))
    assert not [note for note in trainer.artifact.notes if "read by nothing" in note], trainer.artifact.notes
    with torch.no_grad():
        want = model(rows[:4], rows[4:])["loss"]
    assert abs(trainer.session(input_ids=rows[:4], labels=rows[4:]).loss - want) < 1e-5, "input_ids are not what is looked up"
    trainer.close()


class Plain(torch.nn.Module):
    """A loss that takes no number of items."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.cross_entropy(self.layer(x), labels)}


def plain(folder):
    """A model of one's own: mean losses; rows that do not fill a step are refused."""
    rows = [{"x": torch.randn(8), "labels": torch.tensor(row % 4)} for row in range(26)]

    def make(kind, count, **others):
        torch.manual_seed(3)
        args = transformers.TrainingArguments(str(folder / kind.__name__), per_device_train_batch_size=4, report_to="none", use_cpu=True,
                                              num_train_epochs=2, learning_rate=1e-2, **{**QUIET, **others})
        return kind(Plain(), args, train_dataset=rows[:count])
    logs = []
    for kind in (FsdpTrainer, transformers.Trainer):
        trainer = make(kind, 24, gradient_accumulation_steps=2)
        trainer.train()
        logs.append(trainer.state.log_history)
    compare(*logs)
    refused("dataloader_drop_last", lambda: make(FsdpTrainer, 26))
    refused("gradient_accumulation_steps", lambda: make(FsdpTrainer, 20, gradient_accumulation_steps=2))
    make(FsdpTrainer, 26, dataloader_drop_last=True)


def streams(folder):
    """A dataset without a length, in its own order."""
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(example.make_rows(40))
    logs = []
    for kind in (FsdpTrainer, transformers.Trainer):
        args = example.make_arguments(str(folder / kind.__name__), **{**QUIET, "max_steps": 8, "eval_strategy": "no"})
        trainer = kind(example.make_model(), args, train_dataset=Stream())
        trainer.train()
        logs.append([entry for entry in trainer.state.log_history if "loss" in entry])
    compare(*logs)
    refused("max_steps", lambda: FsdpTrainer(example.make_model(), example.make_arguments(str(folder), eval_strategy="no"), train_dataset=Stream()))


def refused(name, call):
    try:
        call()
    except fsdp_opt.Error as error:
        assert error.id == "E040" and name in str(error), error
        return
    raise AssertionError(f"{name} was not refused")


# A value other than the default of each argument that is refused whatever its value.
OTHERS = {"optim_args": "a=1", "optim_target_modules": "all-linear", "fp16": True, "bf16_full_eval": True,
          "fp16_full_eval": True, "use_liger_kernel": True, "liger_kernel_config": {"rope": True}, "use_cache": True,
          "auto_find_batch_size": True, "batch_eval_metrics": True, "save_on_each_node": True,
          "enable_jit_checkpoint": True, "push_to_hub": True, "ignore_data_skip": True, "restore_callback_states_from_checkpoint": True,
          "parallelism_config": object(), "deepspeed": {"stage": 3}, "debug": ["underflow_overflow"], "skip_memory_metrics": False}
# Of arguments that take some values alone, others.
VALUES = {"lr_scheduler_type": "reduce_lr_on_plateau", "include_for_metrics": ["loss"], "optim": "adafactor", "train_sampling_strategy": "batch_rebalance",
          "include_num_input_tokens_seen": "non_padding", "label_names": ["start_positions"], "metric_for_best_model": "accuracy",
          "lr_scheduler_kwargs": {"power": 2}, "gradient_checkpointing_kwargs": {"offload": True}, "fsdp_config": {"version": 1}}


def table(folder):
    """Each field of TrainingArguments is read, without effect, or refused by its name."""
    fields = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    kinds = [_training_arguments.HONOURED, set(_training_arguments.HARMLESS), set(_training_arguments.REFUSED)]
    assert set().union(*kinds) == fields, f"of no kind or unknown: {sorted(set().union(*kinds) ^ fields)}"
    assert sum(map(len, kinds)) == len(fields), "a field is of two kinds"
    assert OTHERS.keys() == _training_arguments.REFUSED.keys(), sorted(OTHERS.keys() ^ _training_arguments.REFUSED.keys())
    args = transformers.TrainingArguments(str(folder), use_cpu=True, report_to="none")
    _training_arguments.check(args, 2)
    for name, value in {**OTHERS, **VALUES}.items():
        before = getattr(args, name)
        setattr(args, name, value)
        refused(name, lambda: _training_arguments.check(args, 2))
        setattr(args, name, before)
    args.average_tokens_across_devices = False
    _training_arguments.check(args, 1)
    refused("average_tokens_across_devices", lambda: _training_arguments.check(args, 2))
    args.average_tokens_across_devices = True
    args.fsdp_config = {"fsdp_reshard_after_forward": False, "limit_all_gathers": True, "xla": False, "sharding": 1}
    refused("fsdp_config['sharding']", lambda: _training_arguments.check(args, 2))
    args.fsdp_config = None
    model = example.make_model()
    assert "deterministic" not in _training_arguments.make_config(args, model, 1, False, {})
    args.full_determinism = True
    assert _training_arguments.make_config(args, model, 1, False, {})["deterministic"] is True
    refused("config['deterministic']", lambda: _training_arguments.make_config(args, model, 1, False, {"deterministic": False}))
    args.full_determinism = False
    for word, states, section in (("adamw_8bit", "int8", None), ("adamw_bnb_8bit", "int8", None), ("paged_adamw_8bit", "int8", True),
                                  ("paged_adamw_32bit", None, True), ("adamw_torch", None, None)):
        args.optim = word
        _training_arguments.check(args, 2)
        config = _training_arguments.make_config(args, model, 1, False, {})
        assert config["optimizer"]["name"] == "adamw" and config["optimizer"].get("state_dtype") == states, config
        assert config["fsdp_config"].get("offload_optimizer") == section, config
    args.metric_for_best_model = "accuracy"
    _training_arguments.check(args, 2, measures=True)
    args.metric_for_best_model = None
    args.neftune_noise_alpha = 5.0
    assert _training_arguments.make_config(args, model, 1, False, {})["neftune_noise_alpha"] == 5.0
    args.neftune_noise_alpha = None
    for kind, arguments, rule in (("polynomial", {"power": 2.0, "lr_end": 1e-6}, {"power": 2.0, "min_lr": 1e-6}), ("inverse_sqrt", {"timescale": 9}, {"timescale": 9}),
                                  ("warmup_stable_decay", {"num_decay_steps": 3, "min_lr_ratio": 0.1}, {"num_decay_steps": 3, "min_lr_ratio": 0.1}),
                                  ("cosine_with_min_lr", {"min_lr_rate": 0.1}, {"min_lr_ratio": 0.1})):
        args.lr_scheduler_type, args.lr_scheduler_kwargs = kind, arguments
        _training_arguments.check(args, 2)
        made = _training_arguments.make_config(args, model, 7, False, {})["lr_scheduler"]
        assert made.items() >= {"name": kind, **rule}.items() and ("total_steps" in made) == (kind != "inverse_sqrt"), made
    args.lr_scheduler_type, args.lr_scheduler_kwargs = "linear", None
    for name in ("compute_loss_func", "optimizer_cls_and_kwargs"):
        refused(name, lambda: FsdpTrainer(example.make_model(), args, train_dataset=example.make_rows(8), **{name: print}))
    refused("optimizers", lambda: FsdpTrainer(example.make_model(), args, train_dataset=example.make_rows(8), optimizers=(1, 2)))

    class Inside(transformers.TrainerCallback):
        def on_optimizer_step(self, *others, **more):
            pass
    refused("on_optimizer_step", lambda: FsdpTrainer(example.make_model(), args, train_dataset=example.make_rows(8), callbacks=[Inside]))
    refused("config['seed']", lambda: FsdpTrainer(example.make_model(), args, train_dataset=example.make_rows(8), config={"seed": 1}).artifact)
    dropping = example.make_model()
    dropping.config.attention_dropout = 0.1
    for layer in dropping.model.layers:
        layer.self_attn.attention_dropout = 0.1
    refused("eval_dataset", lambda: FsdpTrainer(dropping, args, train_dataset=example.make_rows(8), eval_dataset=example.make_rows(8)).artifact)


def main():
    if "--rank" in sys.argv:
        return run_rank(pathlib.Path(sys.argv[-1]))
    args = parse_arguments()
    torch.set_num_threads(1)
    run_cases({
        "every argument": table,
        "one rank": parity(num_train_epochs=2, data_seed=5, logging_steps=2, logging_first_step=True),
        "one rank, other settings": parity(num_train_epochs=1, optim="sgd", max_grad_norm=0, lr_scheduler_type="constant_with_warmup",
                                           train_sampling_strategy="sequential", dataloader_drop_last=True, eval_on_start=True,
                                           per_device_eval_batch_size=8, gradient_checkpointing=True, include_num_input_tokens_seen="all"),
        "labels smoothed, polynomial": parity(num_train_epochs=1, label_smoothing_factor=0.2, lr_scheduler_type="polynomial",
                                              lr_scheduler_kwargs={"power": 2.0}, per_device_eval_batch_size=8),
        "noise on embeddings": noisy,
        "metrics of one's own": measured,
        "one rank bf16": parity(max_steps=6, bf16=True, eval_strategy="no"),
        "states of eight bits": narrow,
        "two ranks": processes,
        "resumed": resumed,
        "another training's folder": overwritten,
        "nothing left to do": nothing_left,
        "one tensor for two inputs": one_tensor,
        "callbacks": seen,
        "a model of one's own": plain,
        "a stream": streams,
    }, args.only)


if __name__ == "__main__":
    sys.exit(main())
