# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fsdp-train with `rl`: losses of some steps beside the formulas in PyTorch and, where it is installed, beside TRL's trainers."""
import contextlib
import copy
import importlib
import importlib.util
import io
import json

import torch
import transformers
from safetensors.torch import load_file

import fsdp_opt
from fsdp_opt import _recipe, _recipe_data
from harness import parse_arguments, run_cases
from recipes import begin, load, losses, run, write

F = torch.nn.functional
STEPS, ROWS, RATE = 2, 4, 0.05
PLAIN = dict(adapter=None, load_in_4bit=None, lora_r=None, lora_alpha=None, lora_target_linear=None, rl_beta=None, learning_rate=None, lr_scheduler=None, num_epochs=None,
             data={"shuffle": False}, mesh={"dp_shard": 1}, micro_batch_size=ROWS, max_steps=STEPS)


def rate(name):
    return RATES.get(name, RATE)


# By name what a file says; the weights of good and bad answers are those of `kto` below.
KINDS = {"dpo": dict(rl="dpo"), "ipo": dict(rl="ipo"), "orpo": dict(rl="orpo"), "simpo": dict(rl="simpo"),
         "kto": dict(rl="kto", rl_beta=0.3, kto_desirable_weight=1.5, kto_undesirable_weight=0.7),
         "apo_zero_unpaired": dict(rl="kto", loss_type="apo_zero_unpaired", desirable_weight=1.5, undesirable_weight=0.7),
         **{name: dict(rl="dpo", loss_type=name) for name in ("hinge", "nca_pair", "bco_pair", "sigmoid_norm", "sppo_hard", "apo_zero", "apo_down")},
         "robust": dict(rl="dpo", dpo_loss_type="robust", dpo_label_smoothing=0.1),
         "sigmoid and sft": dict(rl="dpo", dpo_loss_type=["sigmoid", "sft"], dpo_loss_weights=[1.0, 0.5])}
RATES = {"sppo_hard": 1e-4}  # or it explodes
UNPAIRED = ("kto", "apo_zero_unpaired")


def is_unpaired(keys):
    return keys["rl"] == "kto"


def prepare(folder):
    """Beside the pairs, each second one's better and each other one's worse answer by itself."""
    begin(folder)
    pairs = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    answers = [{"prompt": pair["prompt"], "completion": pair["chosen" if number % 3 else "rejected"], "label": bool(number % 3)} for number, pair in enumerate(pairs)]
    texts = [{"prompt": pair["prompt"][0]["content"], **{name: " " + pair[name][0]["content"] for name in ("chosen", "rejected")}} for pair in pairs]
    (folder / "texts.jsonl").write_text("".join(json.dumps(each) + "\n" for each in texts))
    (folder / "answers.jsonl").write_text("".join(json.dumps(each) + "\n" for each in answers))


def train(folder, name, **keys):
    """Trains by a file, and gives its losses and rows."""
    path = "answers.jsonl" if keys["rl"] == "kto" else "pairs.jsonl"
    write(folder, name, "dpo.yaml", **{**PLAIN, "optimizer": {"name": "sgd", "lr": rate(name)}, "datasets": [{"path": path, "type": "chat_template"}], **keys})
    run(folder, f"{name}.yaml")
    rows = load_file(next(each for each in (folder / name / "data").glob("train-*.safetensors") if "reference" not in each.name))
    return losses(folder, name), rows


def rows_of(folder, name, **keys):
    """Without training."""
    write(folder, name, "dpo.yaml", **{**PLAIN, **keys})
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        recipe = _recipe.read(f"{name}.yaml")
        return load_file(_recipe_data.prepare(recipe, transformers.AutoTokenizer.from_pretrained("base")).train)


def logps(model, ids, labels):
    logits = model(ids).logits[:, :-1].log_softmax(-1)
    counts = labels[:, 1:] != -100
    each = logits.gather(-1, labels[:, 1:].clamp(min=0)[..., None])[..., 0] * counts
    return each.sum(1), counts.sum(1)


divergences = []  # KTO's, of each step


def formula(name, model, reference, batch):
    """As papers have them, by themselves."""
    def ratio(answer):
        ids, labels = batch[f"{answer}_ids"], batch[f"{answer}_labels"]
        found, count = logps(model, ids, labels)
        with torch.no_grad():
            old = logps(reference, ids, labels)[0]
        return found, count, found - old
    if name in UNPAIRED:
        good = batch["desirable"].bool()
        if name == "kto":
            divergence = ratio("mismatched")[2].mean().detach().clamp(min=0)
            divergences.append(divergence.item())
            each = [1.5 * (1 - torch.sigmoid(0.3 * (r - divergence))) if g else 0.7 * (1 - torch.sigmoid(0.3 * (divergence - r))) for r, g in zip(ratio("answer")[2], good)]
        else:
            each = [1.5 * (1 - torch.sigmoid(0.1 * r)) if g else 0.7 * torch.sigmoid(0.1 * r) for r, g in zip(ratio("answer")[2], good)]
        return torch.stack(each).mean()
    (chosen, n, better), (rejected, m, worse) = ratio("chosen"), ratio("rejected")
    difference, beta = better - worse, 0.1
    chosen_mean, rejected_mean = chosen / n, rejected / m
    nll = -chosen.sum() / n.sum()
    if name == "orpo":
        there = torch.arange(batch["chosen_ids"].shape[1]) < batch["chosen_tokens"][:, None]
        whole, count = logps(model, batch["chosen_ids"], torch.where(there, batch["chosen_ids"], -100))
        nll = -whole.sum() / count.sum()
    odds = (chosen_mean - rejected_mean) - (torch.log1p(-chosen_mean.exp()) - torch.log1p(-rejected_mean.exp()))
    log = F.logsigmoid
    return {
        "dpo": lambda: -log(beta * difference), "hinge": lambda: (1 - beta * difference).clamp(min=0), "ipo": lambda: (better / n - worse / m - 5) ** 2,
        "robust": lambda: (-0.9 * log(beta * difference) + 0.1 * log(-beta * difference)) / 0.8,
        "nca_pair": lambda: -log(beta * better) - 0.5 * (log(-beta * better) + log(-beta * worse)), "bco_pair": lambda: -log(beta * better) - log(-beta * worse),
        "sigmoid_norm": lambda: -log(beta * (better / n - worse / m)), "sppo_hard": lambda: (better - 5) ** 2 + (worse + 5) ** 2,
        "apo_zero": lambda: 1 - torch.sigmoid(beta * better) + torch.sigmoid(beta * worse),
        "apo_down": lambda: torch.sigmoid(beta * better) + 1 - torch.sigmoid(beta * difference), "sigmoid and sft": lambda: -log(beta * difference) + 0.5 * nll,
        "simpo": lambda: -log(2.0 * (chosen_mean - rejected_mean) - 0.5), "orpo": lambda: nll - 0.1 * log(odds)}[name]().mean()


def as_formulas(folder, names):
    """The first steps' losses and gradients, which the next loss shows."""
    prepare(folder)
    for name in names:
        steps = 4 if name == "kto" else STEPS
        found, rows = train(folder, name.replace(" ", "_"), **{**KINDS[name], "max_steps": steps})
        model = load(folder / "base")
        reference = copy.deepcopy(model)
        optimizer = torch.optim.SGD(model.parameters(), rate(name))
        for step, have in enumerate(found):
            loss = formula(name, model, reference, {key: value[ROWS * step:ROWS * step + ROWS] for key, value in rows.items()})
            assert abs(have - loss.item()) < 5e-5 * max(1, abs(loss.item())), f"{name}, step {step}: {have} instead of {loss.item()}"
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert len(found) == steps, found
        assert name != "kto" or max(divergences) > 0.01, f"its divergence is 0 in all steps: {divergences}"


def forms(folder):
    """Rows of several forms are the same rows; KTO's number is a micro-batch's, whatever ranks there are; another model is the reference."""
    prepare(folder)
    chats = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    shapes = {"ultra": ("llama3.ultra", [{"prompt": each["prompt"][0]["content"], "completion": each["completion"][0]["content"], "label": int(each["label"])} for each in chats]),
              "argilla_chat": ("chatml.argilla_chat", [{"completion": each["prompt"] + each["completion"], "label": each["label"]} for each in chats]),
              "fields": ({"field_prompt": "q", "field_completion": "a", "field_label": "good", "prompt_format": "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n",
                          "completion_format": "{completion}"},
                         [{"q": each["prompt"][0]["content"], "a": each["completion"][0]["content"], "good": each["label"]} for each in chats])}
    whole, rows = train(folder, "messages", **KINDS["kto"], gradient_accumulation_steps=2)
    for name, (kind, documents) in shapes.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
        other = rows_of(folder, name, **KINDS["kto"], datasets=[{"path": f"{name}.jsonl", "type": kind}])
        for key, value in rows.items():
            # Texts end with the tokenizer's end, and no line break.
            fits = (value != other[key]).sum(-1) == 1 if name == "fields" and value.dim() > 1 else value == other[key]
            assert fits.all(), f"{name}: other {key}"
    two, _ = train(folder, "two", **{**KINDS["kto"], "mesh": {"dp_shard": 2}})
    assert all(abs(one - other) < 1e-5 for one, other in zip(whole, two)), f"{whole} on one rank, {two} on two"
    # A micro-batch of one model's answers, of another one's reference.
    model = load(folder / "base")
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1.01)
    model.save_pretrained(folder / "other")
    for each in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (folder / "base" / each).exists():
            (folder / "other" / each).write_bytes((folder / "base" / each).read_bytes())
    found, rows = train(folder, "referred", rl="dpo", reference="other", max_steps=1)
    want = formula("dpo", load(folder / "base"), load(folder / "other"), {key: value[:ROWS] for key, value in rows.items()}).item()
    assert abs(found[0] - want) < 5e-5 and abs(want - 0.6931) > 1e-3, f"{found} instead of {want}"
    again, _ = train(folder, "referred", rl="dpo", max_steps=2)
    assert len(again) == 2, "the reference of another run is not the model's own"


def held_out(folder):
    """A validation has a reference as well; its loss is that of the model as it then is."""
    prepare(folder)
    for name in ("kto",):
        _, rows = train(folder, name, **KINDS[name], val_set_size=0.06, eval_steps=1)
        model = load(folder / "base")
        reference = copy.deepcopy(model)
        kept = load_file(next(each for each in (folder / name / "data").glob("validation-*.safetensors") if "reference" not in each.name))
        found = [row["eval_loss"] for row in map(json.loads, (folder / name / "metrics.jsonl").read_text().splitlines()) if "eval_loss" in row]
        count = len(next(iter(kept.values()))) // ROWS
        assert count > 1 and len(found) == STEPS, f"{count} batches, {found}"
        optimizer = torch.optim.SGD(model.parameters(), rate(name))
        for step, have in enumerate(found):
            optimizer.zero_grad()
            formula(name, model, reference, {key: value[ROWS * step:ROWS * step + ROWS] for key, value in rows.items()}).backward()
            optimizer.step()
            with torch.no_grad():
                batches = [{key: value[ROWS * at:ROWS * at + ROWS] for key, value in kept.items()} for at in range(count)]
                want = sum(formula(name, model, reference, batch).item() for batch in batches) / count
            assert abs(have - want) < 5e-5 * max(1, abs(want)), f"{name}, step {step}: {have} instead of {want}"


def refusals(folder):
    begin(folder)
    (folder / "some.jsonl").write_text(json.dumps({"prompt": "a", "completion": "b", "label": "yes"}) + "\n")
    small = json.loads((folder / "base/config.json").read_text())
    (folder / "smaller").mkdir()
    (folder / "smaller/config.json").write_text(json.dumps({**small, "vocab_size": 300}))
    for each in ("tokenizer.json", "tokenizer_config.json"):
        (folder / "smaller" / each).write_bytes((folder / "base" / each).read_bytes())
    for keys, words in ((dict(rl="kto", micro_batch_size=1), "expected 2 rows or more"), (dict(rl="kto", data={"shuffle": True}), "in the order of the file"),
                        (dict(rl="kto", loss_type="hinge"), "expected one or several of kto, apo_zero_unpaired"), (dict(rl="kto"), "expected 'label'"),
                        (dict(rl="kto", datasets=[{"path": "some.jsonl"}]), "expected true or false"), (dict(rl="dpo", label_smoothing=0.1), "has none"),
                        (dict(rl="dpo", loss_type="robust", label_smoothing=0.5), "less than 0.5"), (dict(rl="dpo", desirable_weight=2), "have no effect"),
                        (dict(rl="dpo", loss_type=["sigmoid", "sft"], loss_weights=[1]), "a number for each"), (dict(rl="orpo", reference="base"), "has none"),
                        (dict(rl="dpo", rpo_alpha=1.0), "'rpo_alpha' is not done"), (dict(rl="dpo", simpo_gamma=0.5), "'simpo_gamma' has no effect"),
                        (dict(rl="dpo", datasets=[{"path": "pairs.jsonl", "type": {"field_prompt": "q"}}]), "fields and formats"),
                        (dict(rl="dpo", reference="smaller"), "expected a model of 384 tokens")):
        write(folder, "no", "dpo.yaml", **{**PLAIN, **keys})
        try:
            run(folder, "no.yaml")
        except fsdp_opt.Error as error:
            assert words in str(error), f"{words}: {error}"
        else:
            raise AssertionError(f"{keys} is taken")


# TRL's name of each that it has: trainer, its config, and what the config says.
TRL = {name: ("trl", "DPO", dict(loss_type=[name])) for name in ("hinge", "nca_pair", "bco_pair", "sigmoid_norm", "sppo_hard", "apo_zero", "apo_down", "ipo")} | {
    "dpo": ("trl", "DPO", {}), "robust": ("trl", "DPO", dict(loss_type=["robust"], label_smoothing=0.1)),
    "sigmoid and sft": ("trl", "DPO", dict(loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.5])),
    "orpo": ("trl.experimental.orpo", "ORPO", {}), "simpo": ("trl.experimental.cpo", "CPO", dict(loss_type="simpo", cpo_alpha=0.0, beta=2.0, simpo_gamma=0.5)),
    "kto": ("trl", "KTO", dict(beta=0.3, desirable_weight=1.5, undesirable_weight=0.7)),
    "apo_zero_unpaired": ("trl", "KTO", dict(loss_type="apo_zero_unpaired", desirable_weight=1.5, undesirable_weight=0.7))}


def train_with_trl(folder, name, path, steps):
    """The losses of TRL's own trainer over the same documents."""
    import datasets
    module, trainer, keys = TRL[name]
    module = importlib.import_module(module)
    rows = datasets.Dataset.from_json(str(folder / path), cache_dir=str(folder / "cache"))
    arguments = getattr(module, f"{trainer}Config")(
        output_dir=str(folder / "trl"), per_device_train_batch_size=ROWS, max_steps=steps, learning_rate=rate(name), lr_scheduler_type="constant", optim="sgd", logging_steps=1,
        max_grad_norm=0.0, bf16=False, gradient_checkpointing=False, use_cpu=True, report_to=[], save_strategy="no", max_length=96, disable_tqdm=True, disable_dropout=True,
        train_sampling_strategy="sequential", **keys)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "base")
    made = getattr(module, f"{trainer}Trainer")(model=load(folder / "base"), args=arguments, train_dataset=rows, processing_class=tokenizer)
    made.train()
    return [row["loss"] for row in made.state.log_history if "loss" in row]


def as_trl(folder, names, steps=6):
    """TRL logs losses with four digits at most; what is here is compared with what its trainer had."""
    if not importlib.util.find_spec("trl"):
        print("      trl is not installed: its part is left out")
        return
    prepare(folder)
    for name in names:
        # The older trainers put another end behind what a template wrote.
        path = "texts.jsonl" if name in ("orpo", "simpo") else "answers.jsonl" if name in UNPAIRED else "pairs.jsonl"
        have, _ = train(folder, name.replace(" ", "_"), **{**KINDS[name], "max_steps": steps, "datasets": [{"path": path}]})
        want = train_with_trl(folder, name, path, steps)
        print(f"      {name}: ours {' '.join(f'{each:.5f}' for each in have)}, TRL's {' '.join(f'{each:.5f}' for each in want)}")
        assert len(have) == len(want) == steps
        for step, (ours, theirs) in enumerate(zip(have, want)):
            assert abs(ours - theirs) < 2e-4 * max(1, abs(theirs)), f"{name}, step {step}: {ours} instead of {theirs}"


def main():
    arguments = parse_arguments()
    names = list(KINDS) if arguments.all else ["dpo", "orpo", "kto", "sigmoid and sft"]
    run_cases({"formulas": lambda folder: as_formulas(folder, names), "forms": forms, "held out": held_out, "refusals": refusals,
               "TRL": lambda folder: as_trl(folder, list(KINDS))}, arguments.only)


if __name__ == "__main__":
    main()
