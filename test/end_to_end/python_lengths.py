# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of any length from Python: a session and FsdpTrainer pad them to the next program, and compute what PyTorch and transformers.Trainer do.

As a program of its own (`--rank FOLDER`) it is one rank under torchrun.
"""
import copy
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from torch.export import Dim
from torch.utils.data import DataLoader

import fsdp_opt
import warm
import zoo
from fsdp_opt.transformers import FsdpTrainer
from harness import compare, make_config, make_optimizer, must, parse_arguments, run_cases
from ranks import end_rank
from row_order import by_length
from trainer import compare as compare_logs
from trainer import example

SIZES = [8, 16, 32]
PAD = {"x": 0, "y": -100}
POOL = {"pool": 16, "group": 8, "seed": 3}
STEPS = 7
GROUPED = {"train_sampling_strategy": "group_by_length", "num_train_epochs": 1}


def make_rows(count=41, longest=32):
    torch.manual_seed(11)
    lengths = [longest, *(1 + torch.randint(0, longest, (count - 1,)) * torch.rand(count - 1)).int().tolist()]
    return [torch.randint(0, 29, (length,)) for length in lengths]


def make_artifact(folder, world, **config):
    torch.manual_seed(7)
    model, _ = zoo.llama(length=max(SIZES))
    inputs = {name: torch.zeros(2, 8, dtype=torch.int64) for name in PAD}
    artifact = fsdp_opt.compile(copy.deepcopy(model), kwargs=inputs, config=make_config(world, **config), out=folder / "step.fsdp",
                                dynamic_shapes={name: {1: Dim.AUTO} for name in inputs}, dims=["x.1=" + ",".join(map(str, SIZES))])
    return model, artifact


def as_lists(rows):
    return {"x": rows, "y": rows}


def loader(step, rows):
    sampler = fsdp_opt.LengthSampler(map(len, rows), step.batch_rows, step.num_replicas, step.replica, **POOL)
    return sampler, DataLoader(rows, step.batch_rows, sampler=sampler, collate_fn=as_lists)


def train(step, rows, steps=STEPS):
    """Over as many epochs as it takes, from wherever the session is."""
    sampler, batches = loader(step, rows)
    made = []
    while step.steps_done < steps:
        sampler.go_on(step.steps_done)
        for batch in batches:
            out = step(**batch)
            made.append({"step": out.step, "loss": out.loss.item(), "grad_norm": out.grad_norm.item()})
            if step.steps_done == steps:
                break
    return made


def reference(model, rows, settings, steps, world, parts):
    """Each step's rows follow one another; each batch of a rank has two."""
    model, optimizer = copy.deepcopy(model), None
    optimizer = make_optimizer(model, settings["optimizer"])
    of_step = 2 * world * parts
    per_epoch = len(rows) // of_step
    order = by_length([len(row) for row in rows], 1 + steps // per_epoch, POOL["pool"], POOL["group"], True, POOL["seed"])
    made = []
    for step in range(steps):
        begin = step // per_epoch * len(rows) + step % per_epoch * of_step
        own = [rows[row] for row in order[begin:begin + of_step]]
        size = next(size for size in SIZES if size >= max(map(len, own)))
        total = 0.0
        for first in range(0, of_step, 2):
            x, y = (torch.stack([torch.nn.functional.pad(row, (0, size - len(row)), value=PAD[name]) for row in own[first:first + 2]]) for name in PAD)
            loss = model(x, y) / (world * parts)
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        optimizer.step()
        optimizer.zero_grad()
        made.append((total, norm.item()))
    return made, {k: v.detach() for k, v in model.named_parameters(remove_duplicate=False)}


def session(world, parts=1):
    """Ranks as threads, with lists of rows; a run that goes on in the middle is the same."""
    def case(folder):
        rows = make_rows()
        model, artifact = make_artifact(folder, world, gradient_accumulation_steps=parts)
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        with fsdp_opt.Session(artifact, pad=PAD, threads=1) as step:
            assert step.padding.lengths == SIZES
            made = train(step, rows, 4)
            step.save(folder / "ck")
            made += train(step, rows)
            final = step.state_dict()
        with fsdp_opt.Session(artifact, pad=PAD, threads=1, load=folder / "ck") as step:
            assert train(step, rows) == made[4:]
            again = step.state_dict()
        same_as_files(folder, artifact, rows[:40])
        assert all(torch.equal(final[name], again[name]) for name in final)
        compare(made, final, *reference(model, rows, {"optimizer": make_config(world)["optimizer"]}, STEPS, world, parts), {}, start)
    return case


def same_as_files(folder, artifact, rows):
    """Steps without batches choose their program by the file's lengths; the sampler gives the same rows."""
    flat = torch.cat(rows)
    save_file({"x": flat, "y": flat.clone(), "row_offsets": torch.tensor([0] + [len(row) for row in rows]).cumsum(0)}, folder / "rows.safetensors")
    options = f"shuffle=true,seed={POOL['seed']},length_pool={POOL['pool']},length_group={POOL['group']},pad=x:0+y:-100"
    with fsdp_opt.Session(artifact, data=folder / "rows.safetensors", data_options=options, threads=1) as step, \
            fsdp_opt.Session(artifact, pad=PAD, threads=1) as other:
        # Of the first epoch, whose last rows fill no step.
        count = loader(other, rows)[0].steps_of_epoch
        found = [step().loss.item() for _ in range(count)]
        want = [row["loss"] for row in train(other, rows, count)]
        assert all(abs(a - b) < 1e-6 for a, b in zip(found, want, strict=True)), (found, want)


def run_rank(folder):
    """A session and a trainer on one of two processes, which read rows of other lengths."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    with fsdp_opt.Session(folder / "step.fsdp", pad=PAD, threads=1) as step:
        made = train(step, make_rows())
        tall = [torch.zeros(20 if step.rank else 4, dtype=torch.int64)] * 2
        assert torch.isfinite(step(x=tall, y=tall).loss), "processes pad to the longest of them"
        refused("E088", "a row of another process has 40 tokens" if step.rank else "row 1 of 'x' has 40 tokens",
                lambda: step(**as_lists([torch.zeros(4, dtype=torch.int64), torch.zeros(4 if step.rank else 40, dtype=torch.int64)])))
    ours = trained(FsdpTrainer, folder / "ours", **GROUPED)
    if step.rank == 0:
        torch.save((made, ours.state.log_history), folder / "result.pt")
    ours.close()
    end_rank()


def processes(folder):
    """Two processes compute what two threads do."""
    model, artifact = make_artifact(folder, 2)
    must(*warm.torchrun(2), pathlib.Path(__file__).resolve(), "--rank", folder, cwd=folder)
    made, log = torch.load(folder / "result.pt", weights_only=False)
    want, _ = reference(model, make_rows(), {"optimizer": make_config(2)["optimizer"]}, STEPS, 2, 1)
    for row, (loss, _) in zip(made, want, strict=True):
        assert abs(row["loss"] - loss) <= 2e-5 * loss, (row, loss)
    threads = trained(FsdpTrainer, folder / "threads", world=2, **GROUPED)
    compare_logs(threads.state.log_history, log)
    threads.close()


def pad_alike(features):
    """A collator as scripts have them: to the longest row of the batch."""
    pad = torch.nn.utils.rnn.pad_sequence
    rows = {name: [torch.as_tensor(each[name]) for each in features] for name in ("input_ids", "labels")}
    return {"input_ids": pad(rows["input_ids"], batch_first=True), "labels": pad(rows["labels"], batch_first=True, padding_value=-100),
            "attention_mask": pad([torch.ones_like(row) for row in rows["input_ids"]], batch_first=True)}


def dataset(count=42):
    """Of two tokens at least: a row of one has no label, and an epoch's last step may have no other rows."""
    rows = [torch.cat([row, row[:1]])[:32] + 1 for row in make_rows(count)]
    return [{"input_ids": row, "labels": row.clone()} for row in rows]


def trained(kind, folder, collator=None, resume=None, world=None, rows=42, lengths=SIZES, **others):
    folder.mkdir(exist_ok=True)
    others = {"disable_tqdm": True, "save_strategy": "no", "logging_steps": 1, "num_train_epochs": 2, **others}
    own = {"world": world, "threads": 1, **({"lengths": lengths, "pad": {"input_ids": 0}} if lengths else {})} if kind is FsdpTrainer else {}
    trainer = kind(example.make_model(), example.make_arguments(str(folder), **others), train_dataset=dataset(rows), eval_dataset=dataset(16),
                   data_collator=collator or (pad_alike if kind is transformers.Trainer else None), **own)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def parity(own_collator, **others):
    """FsdpTrainer pads further than transformers.Trainer, and its losses, norms and weights are the same."""
    def case(folder):
        ours = trained(FsdpTrainer, folder / "ours", pad_alike if own_collator else None, **others)
        theirs = trained(transformers.Trainer, folder / "theirs", **others)
        compare_logs(ours.state.log_history, theirs.state.log_history)
        for (name, a), (_, b) in zip(ours.model.named_parameters(), theirs.model.named_parameters()):
            assert torch.allclose(a, b, atol=2e-4), f"{name} differs by {(a - b).abs().max()}"
        assert ours.session.padding.lengths == SIZES
        ours.close()
    return case


def chosen(folder):
    """Nothing is said: a script whose collator pads to the longest row trains as it does with transformers.Trainer."""
    options = {"num_train_epochs": 2, "gradient_accumulation_steps": 1}
    ours = trained(FsdpTrainer, folder / "ours", pad_alike, lengths=None, **options)
    theirs = trained(transformers.Trainer, folder / "theirs", **options)
    compare_logs(ours.state.log_history, theirs.state.log_history)
    for (name, a), (_, b) in zip(ours.model.named_parameters(), theirs.model.named_parameters()):
        assert torch.allclose(a, b, atol=2e-4), f"{name} differs by {(a - b).abs().max()}"
    longest = max(len(row["input_ids"]) for row in dataset())
    lengths = ours.session.padding.lengths
    assert 1 < len(lengths) <= 4 and longest <= lengths[-1] < longest + 8, lengths
    ours.close()
    two = trained(FsdpTrainer, folder / "two", pad_alike, lengths=None, world=2, per_device_train_batch_size=1, **options)
    compare_logs([entry for entry in two.state.log_history if "loss" in entry], [entry for entry in trained(
        FsdpTrainer, folder / "one", pad_alike, world=2, per_device_train_batch_size=1, **options).state.log_history if "loss" in entry])
    two.close()

    def no_mask(features):
        return {name: value for name, value in pad_alike(features).items() if name != "attention_mask"}
    trained(FsdpTrainer, folder / "causal", no_mask, lengths=None, max_steps=2, warmup_steps=0, eval_strategy="no").close()

    def alike(features):
        return {name: torch.nn.functional.pad(value, (0, 32 - value.shape[1]), value=-100 if name == "labels" else 0) for name, value in pad_alike(features).items()}
    whole = trained(FsdpTrainer, folder / "alike", alike, lengths=None, max_steps=2, warmup_steps=0, eval_strategy="no")
    assert whole.session.padding is None, "batches of one length need one program"
    whole.close()


def grouped(folder):
    """Rows of like length make shorter steps, each row once; a run that goes on is the same."""
    sizes, options = {}, {"world": 2, "rows": 100, "num_train_epochs": 1, "gradient_accumulation_steps": 1, "eval_strategy": "no"}
    for strategy in ("random", "group_by_length"):
        seen, call = [], fsdp_opt.Session.__call__

        def spy(self, *args, **kwargs):
            seen.append(kwargs["input_ids"])
            return call(self, *args, **kwargs)
        fsdp_opt.Session.__call__ = spy
        try:
            trainer = trained(FsdpTrainer, folder / strategy, train_sampling_strategy=strategy, save_strategy="steps", save_steps=5, **options)
        finally:
            fsdp_opt.Session.__call__ = call
        sizes[strategy] = [next(size for size in SIZES if size >= each.shape[1]) for each in seen]
        # The last step is filled up.
        assert sum(int(each.ne(0).sum()) for each in seen[:-1]) + int(seen[-1][:4].ne(0).sum()) == sum(len(row["input_ids"]) for row in dataset(100))
        trainer.close()
    assert sum(sizes["group_by_length"]) < sum(sizes["random"]), sizes
    again = trained(FsdpTrainer, folder / "group_by_length", resume=str(folder / "group_by_length" / "checkpoint-5"), save_strategy="no",
                    train_sampling_strategy="group_by_length", **options)
    assert [e["loss"] for e in again.state.log_history if "loss" in e] == [e["loss"] for e in trainer.state.log_history if "loss" in e]
    again.close()


def refused(id, part, call):
    try:
        call()
    except fsdp_opt.Error as error:
        assert error.id == id and part in str(error), f"{error.id} {error}"
        return
    raise AssertionError(f"{id} was not raised")


def refusals(folder):
    model, artifact = make_artifact(folder, 1)
    rows = make_rows()
    refused("E087", "input 'y' has rows of several lengths, and nothing says", lambda: fsdp_opt.Session(artifact, pad={"x": 0}))
    refused("E040", "found 'z'", lambda: fsdp_opt.Session(artifact, pad={**PAD, "z": 0}))
    one = fsdp_opt.compile(copy.deepcopy(model), kwargs={name: torch.zeros(2, 8, dtype=torch.int64) for name in PAD}, config=make_config(1),
                           out=folder / "one.fsdp")
    refused("E040", "found one for rows of one", lambda: fsdp_opt.Session(one, pad=PAD))
    with fsdp_opt.Session(artifact, pad=PAD, threads=1) as step:
        refused("E081", "found other ones from row 1 on in 'x' and 'y'", lambda: step(x=rows[1:3], y=[rows[1], rows[0]]))
        refused("E088", "row 1 of 'x' has 33 tokens, and the longest program takes 32", lambda: step(**as_lists([rows[1], torch.zeros(33)])))
        refused("E081", "was expected", lambda: step(**as_lists(rows[1:4])))
        # Tensors that have rows already, by position.
        short = torch.stack([rows[0][:5], rows[0][:5]])
        with torch.no_grad():
            want = model(short, short).item()
        assert abs(step(short, short).loss - want) < 2e-5 * want
    with fsdp_opt.Session(artifact, threads=1) as step:
        refused("E081", "was expected", lambda: step(x=short, y=short))
    equal = [{name: value[:2] for name, value in row.items()} for row in dataset()]
    arguments = example.make_arguments(str(folder))
    refused("E040", "no effect where batches have one length", lambda: FsdpTrainer(example.make_model(), arguments, train_dataset=equal, pad={"input_ids": 0}).train())
    bidirectional = transformers.BertForTokenClassification(transformers.BertConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))
    refused("E040", "without 'attention_mask'", lambda: FsdpTrainer(bidirectional, example.make_arguments(str(folder), eval_strategy="no"), train_dataset=dataset(),
                                                                    data_collator=lambda rows: {"input_ids": pad_alike(rows)["input_ids"], "labels": pad_alike(rows)["labels"]}).train())
    refused("E040", "two numbers of tokens or more", lambda: FsdpTrainer(example.make_model(), arguments, train_dataset=dataset(), lengths=[8]))
    sampler = {"pool": 16, "group": 8}
    refused("E040", "expected a multiple of group=8, found 12", lambda: fsdp_opt.LengthSampler([1, 2], 1, pool=12, group=8))
    refused("E040", "expected rows for a step of 4", lambda: fsdp_opt.LengthSampler([1, 2], 4, **sampler))
    refused("E040", "expected a replica of 2", lambda: fsdp_opt.LengthSampler([1, 2], 1, 2, 2, **sampler))


def main():
    if "--rank" in sys.argv:
        return run_rank(pathlib.Path(sys.argv[-1]))
    arguments = parse_arguments()
    torch.set_num_threads(1)
    cases = {"a session, world=3": session(3), "a trainer": parity(False), "lengths that nobody says": chosen, "processes": processes, "refusals": refusals}
    if arguments.all:
        cases |= {"grouped": grouped, "a session, world=1 micro-batches=2": session(1, 2),
                  "a trainer and a collator": parity(True, gradient_accumulation_steps=1, max_steps=5, per_device_eval_batch_size=8)}
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
