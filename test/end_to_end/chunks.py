# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A loss in chunks of its rows trains as PyTorch does with all rows at once, and its logits never exist whole."""
import json
import re

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml
from safetensors.torch import save_file

from harness import ADAMW, batch_of, call, compare, compile_step, export, make_config, make_data, must, parse_arguments, reference, run_cases, train

VOCAB, WIDTH, BATCH, LENGTH = 37, 12, 3, 7
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}


class Decoder(nn.Module):
    """An embedding, a layer and a head; `loss` makes a loss of the logits [BATCH, LENGTH, VOCAB] and the labels."""

    def __init__(self, loss, bias=False, tied=False, vocab=VOCAB, width=WIDTH):
        super().__init__()
        self.embed, self.body = nn.Embedding(vocab, width), nn.Linear(width, width)
        self.head = nn.Linear(width, vocab, bias=bias)
        self.scale = nn.Parameter(torch.tensor(1.3))
        self.register_buffer("weights", torch.rand(vocab) + 0.5)
        self.loss = loss
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x, y):
        hidden = self.embed(x) + torch.tanh(self.body(self.embed(x)))
        return self.loss(self, self.head(hidden), y, hidden) + 0 * self.scale


def flat(logits, labels, **options):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), **options)


def hole(labels):
    """Some labels are ignored, unevenly over the chunks."""
    return torch.where((labels % 5 == 0) | (torch.arange(LENGTH) > 4), -100, labels)


def padded(labels):
    """The shift of Hugging Face's losses: labels move, and one that is ignored comes behind them."""
    return F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()


def masked(model, logits, labels, hidden):
    """A mean of the user's own over the rows that count."""
    mask = (labels.reshape(-1) % 3 != 0).float()
    return (flat(logits, labels, reduction="none") * mask).sum() / mask.sum()


def z_loss(model, logits, labels, hidden):
    return flat(logits, hole(labels)) + 1e-2 * torch.logsumexp(logits, -1).square().mean()


def shifted(model, logits, labels, hidden):
    kept = logits.float()[..., :-1, :].contiguous()
    return F.cross_entropy(kept.view(-1, kept.shape[-1]), labels[..., 1:].contiguous().view(-1))


def shifted_and_capped(model, logits, labels, hidden):
    logits = 5 * torch.tanh(logits / 5)
    return flat(logits[:, :-1], labels[:, 1:], label_smoothing=0.1)


def two_losses(model, logits, labels, hidden):
    """Both heads are chunked; the second reads the first one's weight."""
    second = F.linear(torch.sin(hidden), model.head.weight)
    return flat(logits, labels) + 0.3 * flat(second, padded(labels))


LOSSES = {
    "mean": lambda m, logits, y, h: flat(logits, y),
    "ignored labels": lambda m, logits, y, h: flat(logits, hole(y)),
    "label smoothing": lambda m, logits, y, h: flat(logits, hole(y), label_smoothing=0.1),
    "weights of classes": lambda m, logits, y, h: flat(logits, hole(y), weight=m.weights),
    "scaled logits": lambda m, logits, y, h: flat(logits * 0.25, y),
    "divided and capped": lambda m, logits, y, h: flat(3 * torch.tanh(logits / 2 / 3), y),
    "trained scale": lambda m, logits, y, h: flat(logits * m.scale.exp(), y),
    "padded labels": lambda m, logits, y, h: flat(logits.float(), padded(y)),
    "sum over a number of items": lambda m, logits, y, h: flat(logits, hole(y), reduction="sum") / 11,
    "masked": masked,
    "z-loss": z_loss,
    "sliced logits": shifted,
    "sliced, capped and smoothed": shifted_and_capped,
    "two losses": two_losses,
}


def whole_logits(text, rows=BATCH * LENGTH):
    """The ops of the step that make a tensor of all rows and classes; one that repeats a column is a view."""
    step = text.split('func.func @"reference')[0]
    wide = re.compile(rf"-> \(?tensor<(?:{rows}x{VOCAB}|{BATCH}x{LENGTH}x{VOCAB}|{BATCH}x{LENGTH - 1}x{VOCAB}|{BATCH * (LENGTH - 1)}x{VOCAB})x")
    return [line.strip() for line in step.splitlines() if wide.search(line) and "aten." in line and "aten.expand" not in line]


def equal_case(bin, loss, world, chunks=4, steps=2, **options):
    def case(folder):
        torch.manual_seed(7)
        heads = {key: options.pop(key) for key in ("bias", "tied") if key in options}
        model = Decoder(LOSSES[loss], **heads)
        inputs = {name: torch.randint(0, VOCAB, (BATCH, LENGTH)) for name in "xy"}
        config = make_config(world, SGD, **options)
        config["fsdp_config"]["loss_chunks"] = chunks
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        data = make_data(inputs, world * steps * config.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, config, options=["--save-stages=stages"])
        sharded = (folder / "stages/2-sharded.mlir").read_text()
        found = whole_logits(sharded)
        assert not found, f"all rows at once: {found[:3]}"
        assert whole_logits((folder / "stages/1-captured.mlir").read_text()), "the captured logits have another shape: the case tests nothing"
        rows, final = train(bin, folder, world, steps)
        compare(rows, final, *reference(model, inputs, data, world, steps, config), start)
        assert all(row["unplanned_bytes"] == 0 for row in rows), rows
    return case


def half_case(bin, reduce_dtype):
    """In bf16: near the run with all rows at once, which is the same but for roundings."""
    def case(folder):
        torch.manual_seed(7)
        model = Decoder(LOSSES["ignored labels"], bias=True)
        inputs = {name: torch.randint(0, VOCAB, (BATCH, LENGTH)) for name in "xy"}
        save_file(make_data(inputs, 6), folder / "data.safetensors")
        start = {k: v.detach().clone() for k, v in model.named_parameters()}
        finals = []
        for chunks in (1, 4):
            config = make_config(2, SGD, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": reduce_dtype}, loss_chunks=chunks)
            compile_step(bin, folder, model, inputs, config, options=["--save-stages=stages"])
            finals.append(train(bin, folder, 2, 3))
        sums = re.findall(r"aten\.(addmm|add\.Tensor)\(.*-> tensor<37x12x(\w+)>", (folder / "stages/2-sharded.mlir").read_text())
        assert ("addmm", "bf16") in sums if reduce_dtype == "bfloat16" else ("add.Tensor", "f32") in sums, f"parts of the gradient are summed by {set(sums)}"
        (rows, whole), (others, chunked) = finals
        for row, other in zip(rows, others, strict=True):
            assert abs(row["loss"] - other["loss"]) <= 1e-2 * row["loss"], (row["loss"], other["loss"])
        for name, value in whole.items():
            if name in start and (moved := (value - start[name]).abs().mean().item()):
                error = (value - chunked[name]).abs().mean().item()
                assert error <= 3e-2 * moved, f"{name}: mean difference {error:.2e}, moved by {moved:.2e}"
    return case


def peak_case(bin):
    """The planned peak falls by the logits' bytes at least, and `auto` chunks what is large."""
    def case(folder):
        torch.manual_seed(7)
        tokens, vocab = 2048, 16384
        model = Decoder(LOSSES["mean"], vocab=vocab, width=16)
        inputs = {name: torch.randint(0, vocab, (1, tokens)) for name in "xy"}
        peaks = {}
        for chunks in (1, 4, "auto"):
            compile_step(bin, folder, model, inputs, make_config(1, loss_chunks=chunks), options=["--report=report.json"])
            peaks[chunks] = json.loads((folder / "report.json").read_text())["memory"]["peak"]
        logits = tokens * vocab * 4
        assert peaks[1] - peaks[4] >= logits, peaks
        assert peaks["auto"] < peaks[1] - 0.9 * logits, peaks
    return case


def refusal_case(bin):
    """A program without such a loss is refused with what was found; with auto it is compiled whole."""
    def case(folder):
        model = nn.Sequential(nn.Linear(5, 3))
        model.forward = lambda x: torch.tanh(model[0](x)).sum()
        export(model, {"x": torch.randn(4, 5)}, folder / "model.pt2")
        for chunks, status in ((4, 1), ("auto", 0)):
            (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(1, loss_chunks=chunks)))
            done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
            assert done.returncode == status, (chunks, done.returncode, done.stderr)
            if status:
                assert "no cross-entropy" in done.stderr and "loss_chunks" in done.stderr, done.stderr
        # Logits that are asked for are kept, all of them.
        decoder = Decoder(lambda m, logits, y, h: {"loss": flat(logits, y), "logits": logits}["loss"])
        decoder.forward = lambda x, y: {"loss": flat(decoder.head(decoder.embed(x)), y), "logits": decoder.head(decoder.embed(x))}
        export(decoder, {name: torch.randint(0, VOCAB, (BATCH, LENGTH)) for name in "xy"}, folder / "model.pt2")
        (folder / "fsdp.yaml").write_text(yaml.safe_dump(make_config(1, loss_chunks=4)))
        done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "--output=logits", "-o", "step.fsdp", cwd=folder)
        assert done.returncode == 1 and "logits" in done.stderr, done.stderr
        must(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "step.fsdp", cwd=folder)
    return case


def validation_case(bin):
    """The program that validates is chunked, too, and computes what the model does."""
    def case(folder):
        torch.manual_seed(7)
        model = Decoder(LOSSES["ignored labels"])
        inputs = {name: torch.randint(0, VOCAB, (BATCH, LENGTH)) for name in "xy"}
        data = make_data(inputs, 2)
        save_file(data, folder / "data.safetensors")
        save_file({k: v[:BATCH] for k, v in data.items()}, folder / "held.safetensors")
        config = make_config(1, ADAMW, loss_chunks=4, eval={"data": "held.safetensors"})
        compile_step(bin, folder, model, inputs, config, options=["--save-stages=stages"])
        text = (folder / "stages/2-sharded.mlir").read_text()
        program = text.split('func.func @"eval/step"')[1].split("func.func")[0]
        assert program.count("aten._log_softmax(") == 4 and "nll_loss_backward" not in program, "validation is not the chunks' forward"
        with torch.no_grad():
            want = model(**batch_of(data, inputs, 0)).item()
        done = must(bin / "fsdp-run", "step.fsdp", "--data=data.safetensors", "--eval-only", "--metrics=metrics.jsonl", cwd=folder)
        found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        losses = [row["eval_loss"] for row in found if "eval_loss" in row]
        assert losses and abs(losses[0] - want) < 1e-5, (losses, want, done.stdout)
    return case


def main():
    arguments = parse_arguments()
    bin, cases = arguments.bin, {}
    for number, loss in enumerate(LOSSES):
        world = 1 + number % 3
        cases[f"{loss}, world {world}"] = equal_case(bin, loss, world, bias=number % 2 == 1, tied=number % 4 == 2)
    cases["3 micro-batches, resharded"] = equal_case(bin, "padded labels", 2, gradient_accumulation_steps=3, reshard_after_forward=True)
    cases["more chunks than rows"] = equal_case(bin, "mean", 2, chunks=50)
    for dtype in ("float32", "bfloat16"):
        cases[f"bf16, reduced in {dtype}"] = half_case(bin, dtype)
    cases["validation"] = validation_case(bin)
    cases["peak"] = peak_case(bin)
    cases["refusals"] = refusal_case(bin)
    run_cases(cases, arguments.only)


main()
