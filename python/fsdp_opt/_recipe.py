# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What fsdp-train itself reads of a file: the model, the data, where results go. All else is fsdp-opt's, from the same file."""
from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import _reporting, _sources, errors
from ._recipe_distillation import OWN as OF_TEACHERS
from ._recipe_distillation import Distillation
from ._recipe_distillation import read as read_distillation
from ._recipe_losses import LOSSES, Preference

# Keys that fsdp-train itself does what they say. The others are fsdp-opt's.
_OWN = ("base_model", "model_name_or_path", "datasets", "test_datasets", "sample_packing", "packing", "val_set_size", "output_dir", "rl", "save_steps",
        "save_total_limit", "eval_steps", "merge_lora", "label_smoothing_factor", "lora_model_dir", "adapter_name_or_path", *OF_TEACHERS, *_reporting.KEYS)
# The same beside "rl".
_OF_LOSSES = ("rl_beta", "dpo_beta", "beta", "orpo_alpha", "simpo_gamma", "loss_type", "dpo_loss_type", "loss_weights", "dpo_loss_weights", "label_smoothing",
              "dpo_label_smoothing", "desirable_weight", "kto_desirable_weight", "undesirable_weight", "kto_undesirable_weight",
              "reference", "ref_model")

# What changes a loss and is not done. Off, it asks for nothing.
_NOT_DONE = ("rpo_alpha", "dpo_use_weighting", "use_weighting", "dpo_norm_loss", "cpo_alpha", "ld_alpha", "f_divergence_type", "f_alpha_divergence_coef", "discopop_tau",
             "reference_free", "sync_ref_model", "ref_adapter_name")

# Axolotl's types of data sets, by the form that they have here.
_TYPES = {"completion": "completion", "alpaca": "alpaca", "chat_template": "chat", "chat": "chat", "sharegpt": "chat", "rows": "rows",
          "prompt_completion": "prompt_completion"}


@dataclass
class DataSet:
    """One of `datasets`."""

    path: str
    form: str
    column: str
    split: str
    train_on: tuple[str, ...]
    kind: Any = None  # its `type`, of rows of answers


@dataclass
class Recipe:
    """A file, as far as fsdp-train reads it."""

    path: pathlib.Path
    text: str
    keys: dict[str, Any]
    base_model: str
    output: pathlib.Path
    length: int
    rows: int  # of a rank's micro-batch
    micro_batches: int
    packs: bool
    epochs: float
    steps: int | None
    seed: int
    loss: Preference | None
    teacher: Distillation | None
    deepspeed: pathlib.Path | None
    reference: str | None  # the folder or name of another model than the base
    begun: pathlib.Path | None  # the folder of adapters that go on
    save_every: int | None
    keep: int | None
    eval_every: int | None
    validation: float  # a share, or a number from 1 on
    half: bool  # the model is loaded in bfloat16
    has_adapter: bool
    merges: bool
    smoothing: float = 0  # of labels
    reports: dict[str, Any] = field(default_factory=dict)  # libraries that metrics are told to, by name
    datasets: list[DataSet] = field(default_factory=list)
    test_datasets: list[DataSet] = field(default_factory=list)


def _refuse(path: pathlib.Path, message: str, error: str = "E044") -> errors.Error:
    return errors.make(error, f"{path}: {message}")


class _Reader:
    def __init__(self, path: pathlib.Path, keys: Mapping[str, Any]) -> None:
        self.path, self.keys = path, keys

    def first(self, *names: str) -> tuple[str, Any]:
        return next(((name, self.keys[name]) for name in names if self.keys.get(name) is not None), (names[0], None))

    def number(self, names: tuple[str, ...], default: float | None, least: float = 0) -> Any:
        name, value = self.first(*names)
        if value is None:
            if default is None:
                raise _refuse(self.path, f"fsdp-train needs '{name}', a number", "E046")
            return default
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise _refuse(self.path, f"'{name}': expected a number, found {value!r}", "E043") from None
        if number < least:
            raise _refuse(self.path, f"'{name}': expected a number from {least:g}, found {value}")
        return int(number) if number == int(number) else number

    def whole(self, names: tuple[str, ...], default: float | None, least: int = 1) -> int:
        number = self.number(names, default, least)
        if number != int(number):
            raise _refuse(self.path, f"'{names[0]}': expected a whole number, found {number}", "E043")
        return int(number)

    def maybe(self, *names: str) -> int | None:
        _, value = self.first(*names)
        return None if value is None or value in (0, -1) else self.whole(names, None)

    def text(self, *names: str) -> str | None:
        name, value = self.first(*names)
        if value is not None and not isinstance(value, str):
            raise _refuse(self.path, f"'{name}': expected a text, found {value!r}", "E043")
        return value

    def flag(self, *names: str) -> bool:
        return str(self.first(*names)[1]).lower() in ("true", "yes", "on", "auto", "full", "1")

    def texts(self, names: tuple[str, ...], default: str) -> list[str]:
        """A text, or a list of some."""
        name, value = self.first(*names)
        value = default if value is None else value
        found = value if isinstance(value, list) else [value]
        if not found or not all(isinstance(each, str) for each in found):
            raise _refuse(self.path, f"'{name}': expected a text or a list of texts, found {value!r}", "E043")
        return found

    def preference(self) -> Preference | None:
        kind = self.text("rl")
        if not kind:
            return None
        if kind not in LOSSES:
            raise _refuse(self.path, f"'rl': expected one of {', '.join(LOSSES)}, found '{kind}'", "E045")
        known = LOSSES[kind]
        other = next((name for name in _NOT_DONE if self.keys.get(name)), None)
        if other:
            raise _refuse(self.path, f"'{other}' is not done with 'rl: {kind}'; leave it out (losses add up by loss_type: [sigmoid, sft], loss_weights: [1, 0.5])", "E045")
        if kind != "simpo" and self.keys.get("simpo_gamma") is not None:
            raise _refuse(self.path, f"'simpo_gamma' has no effect with 'rl: {kind}'; leave it out", "E045")
        types = self.texts(("dpo_loss_type", "loss_type"), next(iter(known)))
        unknown = [each for each in types if each not in known]
        if unknown or len(set(types)) < len(types):
            raise _refuse(self.path, f"'loss_type': expected one or several of {', '.join(known)} with 'rl: {kind}', found '{', '.join(unknown or types)}'", "E045")
        name, given = self.first("dpo_loss_weights", "loss_weights")
        weights = given if isinstance(given, list) else [given] if given is not None else [1] * len(types)
        if len(weights) != len(types) or not all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in weights):
            raise _refuse(self.path, f"'{name}': expected a number for each of {', '.join(types)}, found {given!r}", "E043")
        smoothing = self.number(("dpo_label_smoothing", "label_smoothing"), 0)
        if smoothing and not any(known[each].smooths for each in types):
            raise _refuse(self.path, f"'label_smoothing': '{', '.join(types)}' has none, in TRL neither; expected it with loss_type: "
                                     + (", ".join(each for each, loss in known.items() if loss.smooths) or "of rl: dpo"), "E045")
        if smoothing >= 0.5:
            raise _refuse(self.path, f"'label_smoothing': expected less than 0.5, found {smoothing}")
        unpaired = {name: self.number((f"kto_{name}_weight", f"{name}_weight"), 1) for name in ("desirable", "undesirable")}
        if kind != "kto" and any(value != 1 for value in unpaired.values()):
            raise _refuse(self.path, f"'desirable_weight' and 'undesirable_weight' have no effect with 'rl: {kind}'; leave them out", "E045")
        return Preference(kind, tuple(zip(types, map(float, weights))), self.number(("rl_beta", "dpo_beta", "beta", "orpo_alpha"), known[types[0]].beta),
                          self.number(("simpo_gamma",), 0.5), smoothing, **unpaired)

    def datasets(self, name: str, loss: Preference | None) -> list[DataSet]:
        given = self.keys.get(name) or []
        if not isinstance(given, list):
            raise _refuse(self.path, f"'{name}': expected a list such as [{{path: chats.jsonl, type: chat_template}}], found {type(given).__name__}", "E043")
        return [self.dataset(each, name, loss) for each in given]

    def dataset(self, given: Any, name: str, loss: Preference | None) -> DataSet:
        if not isinstance(given, Mapping) or not isinstance(given.get("path"), str):
            raise _refuse(self.path, f"'{name}': expected maps with 'path', found {given!r:.60}", "E043")
        kind = given.get("type")
        if isinstance(kind, Mapping) and not (loss and loss.is_unpaired):
            raise _refuse(self.path, f"'{name}': a 'type' of fields and formats is not supported; write rows with fsdp_opt.data.write_rows, and give "
                                     "{path: rows.jsonl, type: rows}, or one of " + ", ".join(_TYPES), "E045")
        if loss:
            form = "preference"
        else:
            form = _TYPES.get(str(kind if kind is not None else "chat").partition(".")[0].partition(":")[0], "")
            if not form:
                raise _refuse(self.path, f"'{name}': expected a type out of {', '.join(_TYPES)}, found '{kind}'", "E045")
        train_on = given.get("roles_to_train") or ["assistant"]
        path = given["path"]
        files = given.get("data_files")
        if files:
            path = files if isinstance(files, str) else files[0]
            if not isinstance(files, str) and len(files) > 1:
                raise _refuse(self.path, f"'{name}': expected one of data_files, or a pattern, found {len(files)}", "E045")
        return DataSet(self.find(path, name), form, str(given.get("field_messages") or given.get("field") or ""), str(given.get("split") or "train"),
                       tuple("assistant" if each in ("gpt", "model") else str(each) for each in train_on),
                       kind if loss else None)

    def find(self, path: str, name: str) -> str:
        """A file beside the one that names it, or from here, or a dataset of the hub."""
        beside = self.path.parent / path
        for each in (beside, pathlib.Path(path)):
            if each.exists():
                return str(each)
        if any(mark in path for mark in "*?["):
            return str(beside)
        if path.count("/") == 1 and not pathlib.Path(path).suffix:
            return f"hf:{path}"
        raise _refuse(self.path, f"'{name}': '{path}' is not there; expected a file, a folder or a pattern of files, beside this one or from here, or "
                                 "OWNER/NAME of a dataset on the hub", "E080")


def read(given: str | os.PathLike[str]) -> Recipe:
    """Raises errors.Error: E041 to E046."""
    yaml = _sources.need("yaml", "fsdp-train")
    path = pathlib.Path(given)
    try:
        text = path.read_text()
        keys = yaml.safe_load(text)
    except OSError as error:
        raise errors.make("E041", f"'{path}' cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise errors.make("E041", f"'{path}' is no valid YAML: {error}") from error
    if not isinstance(keys, dict):
        raise errors.make("E041", f"'{path}': expected a map of keys, found {type(keys).__name__}")
    read = _Reader(path, keys)
    base = read.text("base_model", "model_name_or_path")
    if not base:
        raise _refuse(path, "fsdp-train needs 'base_model', the folder or name of a Hugging Face model", "E046")

    def find(name: str) -> str:
        return str(path.parent / name) if (path.parent / name).is_dir() else name
    loss = read.preference()
    teacher = read_distillation(keys, lambda message, error: _refuse(path, message, error))
    if teacher and loss:
        raise _refuse(path, "'kd' is not supported with 'rl'; leave one of them out", "E045")
    reference = read.text("reference", "ref_model") if loss else None
    if loss and reference and not loss.is_compared:
        raise _refuse(path, f"'reference' has no effect with 'rl: {loss.kind}', which has none; leave it out", "E045")
    deepspeed, theirs = _read_deepspeed(path, keys)
    # What is left to the Trainer's arguments there, stands here.
    read.keys = {**{own: value for other, own in _OF_DEEPSPEED.items() if isinstance(value := theirs.get(other), int)}, **keys}
    adapter = keys.get("adapter")
    output = read.text("output_dir") or "model-out"
    recipe = Recipe(
        path=path, text=text, keys=keys, base_model=find(base), output=pathlib.Path(output),
        length=read.whole(("sequence_len", "max_seq_length", "max_length", "cutoff_len"), None, 2),
        rows=read.whole(("micro_batch_size", "per_device_train_batch_size"), 1), micro_batches=read.whole(("gradient_accumulation_steps",), 1),
        packs=read.flag("sample_packing", "packing"), epochs=read.number(("num_epochs", "num_train_epochs"), 1),
        steps=read.maybe("max_steps"), seed=read.whole(("seed",), 0, 0), loss=loss, teacher=replace(teacher, teacher=find(teacher.teacher)) if teacher else None,
        deepspeed=deepspeed, reference=find(reference) if reference else None, begun=_find_adapter(path, read),
        save_every=read.maybe("save_steps"), keep=read.maybe("save_total_limit"), eval_every=read.maybe("eval_steps"),
        validation=read.number(("val_set_size",), 0), half=read.flag("bf16"), has_adapter=adapter not in (None, "", False),
        merges=read.flag("merge_lora"), smoothing=read.number(("label_smoothing_factor",), 0), reports=_reporting.read(keys))
    if recipe.smoothing > 1:
        raise _refuse(path, f"'label_smoothing_factor': expected a number from 0 to 1, found {recipe.smoothing}")
    if recipe.loss and recipe.smoothing:
        raise _refuse(path, "'label_smoothing_factor' is not supported with 'rl', whose losses compare two answers; leave one of them out", "E045")
    if recipe.teacher and recipe.smoothing:
        raise _refuse(path, "'label_smoothing_factor' is not supported with 'kd', which compares with what a teacher says; leave one of them out", "E045")
    if recipe.loss and recipe.packs:
        raise _refuse(path, "'sample_packing' is not supported with 'rl', whose rows are pairs; leave one of them out", "E045")
    if recipe.loss and "mismatched" in recipe.loss.answers:
        _check_order(recipe)
    recipe.datasets, recipe.test_datasets = read.datasets("datasets", loss), read.datasets("test_datasets", loss)
    if not recipe.datasets:
        raise _refuse(path, "fsdp-train needs 'datasets', such as [{path: chats.jsonl, type: chat_template}]", "E046")
    return recipe


# What PEFT's folders say of their adapters, and the keys of which one says so here.
_OF_ADAPTERS = {"r": ("lora_r", "lora_rank"), "lora_alpha": ("lora_alpha",), "lora_dropout": ("lora_dropout",), "use_rslora": ("peft_use_rslora", "use_rslora"),
                "use_dora": ("peft_use_dora", "use_dora", "lora_use_dora"), "target_parameters": ("lora_target_parameters",),
                "target_modules": ("lora_target_modules", "lora_target", "lora_target_linear"), "modules_to_save": ("lora_modules_to_save", "additional_target")}


def _find_adapter(path: pathlib.Path, read: _Reader) -> pathlib.Path | None:
    name, given = read.first("lora_model_dir", "adapter_name_or_path")
    if not given:
        return None
    if not read.keys.get("adapter") and read.keys.get("finetuning_type") != "lora":
        raise _refuse(path, f"'{name}': adapters go on with 'adapter: lora' or qlora; write it, or leave '{name}' out", "E045")
    found = next((each for each in (path.parent / str(given), pathlib.Path(str(given))) if (each / "adapter_config.json").is_file()), None)
    if found is None:
        raise _refuse(path, f"'{name}': expected a folder with PEFT's adapter_config.json, beside this file or from here, found '{given}'", "E041")
    return found.resolve()


def read_adapter(recipe: Recipe) -> dict[str, Any]:
    """What the folder says of its adapters and the file does not; refuses another rank."""
    assert recipe.begun
    if isinstance(recipe.keys.get("adapter"), Mapping):
        return {}
    file = recipe.begun / "adapter_config.json"
    try:
        told = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise errors.make("E041", f"'{file}' is no valid JSON: {error}") from error
    added = {}
    for theirs, own in _OF_ADAPTERS.items():
        value, said = told.get(theirs), next((name for name in own if recipe.keys.get(name) is not None), None)
        if said is None and value not in (None, False, []):
            added[own[0]] = value
        elif theirs == "r" and said is not None and value != recipe.keys[said]:
            raise _refuse(recipe.path, f"'{said}': the adapters of '{recipe.begun}' have rank {value}, expected the same, found {recipe.keys[said]}; leave it out")
    return added


# What fsdp-train reads of DeepSpeed's files, and its own word for it.
_OF_DEEPSPEED = {"gradient_accumulation_steps": "gradient_accumulation_steps", "train_micro_batch_size_per_gpu": "micro_batch_size"}


def _read_deepspeed(path: pathlib.Path, keys: Mapping[str, Any]) -> tuple[pathlib.Path | None, dict[str, Any]]:
    """The file that is named, and what it holds; fsdp-opt says what is wrong with it."""
    named = keys.get("deepspeed")
    if not isinstance(named, str) or not named:
        return None, named if isinstance(named, dict) else {}
    found = next((each for each in (path.parent / named, pathlib.Path(named)) if each.exists()), None)
    if found is None:
        raise _refuse(path, f"'deepspeed': '{named}' is not there; expected a file of DeepSpeed's, beside this one or from here", "E041")
    try:
        held = json.loads(found.read_text())
    except (OSError, ValueError) as error:
        raise errors.make("E041", f"'{found}' is no valid JSON: {error}") from error
    return found, held if isinstance(held, dict) else {}


def _check_order(recipe: Recipe) -> None:
    """Answers are mismatched among the rows of a micro-batch, which have to be read together."""
    if recipe.rows < 2:
        raise _refuse(recipe.path, "'micro_batch_size': expected 2 rows or more with 'rl: kto', which compares each answer with that of another row, found 1; "
                                   "'loss_type: apo_zero_unpaired' does without")
    order = recipe.keys.get("data")
    if isinstance(order, Mapping) and any(order.get(name) for name in ("shuffle", "length_pool")):
        raise _refuse(recipe.path, "'data': 'rl: kto' reads rows in the order of the file, since each is compared with the one in front of it; leave out "
                                   "'shuffle' and 'length_pool'", "E045")


def without_own(recipe: Recipe, *others: str) -> str:
    """The file's text without what is done here, and without other keys; its other lines stay where they are, for the places in errors."""
    yaml = _sources.need("yaml", "fsdp-train")
    root = yaml.compose(recipe.text)
    own = (*_OWN, *(_OF_LOSSES if recipe.loss else ()), *others)
    if root.flow_style:
        return str(yaml.safe_dump({key: value for key, value in recipe.keys.items() if key not in own}))
    lines = recipe.text.splitlines()
    begins = [key.start_mark.line for key, _ in root.value] + [len(lines)]
    for (key, _), begin, end in zip(root.value, begins, begins[1:]):
        if key.value in own:
            lines[begin:end] = [f"# {line}" for line in lines[begin:end]]
    return "\n".join(lines) + "\n"
