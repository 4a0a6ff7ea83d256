# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W&B and MLflow, by their own libraries: what fsdp-run writes to its file of metrics is told to them while it runs."""
from __future__ import annotations

import importlib
import importlib.util
import json
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from . import errors

KEYS = ("report_to", "run_name", "use_tensorboard", "use_wandb", "wandb_project",
        "wandb_entity", "wandb_name", "wandb_run_id", "wandb_mode", "wandb_tags", "wandb_watch",
        "wandb_log_model", "use_mlflow", "mlflow_tracking_uri", "mlflow_experiment_name", "mlflow_run_name", "hf_mlflow_log_artifacts")
"""Keys of a file that say to whom and how."""

_POLL_SECONDS = 0.5
_KNOWN = ("wandb", "mlflow")

# What the file of metrics calls it, and what dashboards do: losses as transformers' callbacks, all else as fsdp-run's TensorBoard.
_TAGS = {"loss": "train/loss", "grad_norm": "train/grad_norm", "lr": "train/learning_rate", "eval_loss": "eval/loss", "step_time_s": "speed/step_time_s",
         "exposed_s": "speed/exposed_s", "samples_per_s": "speed/samples_per_s", "tokens_per_s": "speed/tokens_per_s",
         "flops_per_s": "speed/flops_per_s", "mfu": "speed/mfu", "peak_memory_bytes": "memory/peak_bytes"}


def wants_tensorboard(keys: Mapping[str, Any]) -> bool:
    """Which fsdp-run writes itself."""
    told = keys.get("report_to")
    return _is_on(keys.get("use_tensorboard")) or "tensorboard" in ([told] if isinstance(told, str) else told or [])


def _is_on(value: Any) -> bool:
    return value not in (None, "", [], "none", "None", "off", "false", "False", "no") and value is not False


def _targets(keys: Mapping[str, Any]) -> list[str]:
    """As Axolotl: a project or an experiment turns them on; or the Trainer's list."""
    told = keys.get("report_to")
    names = [told] if isinstance(told, str) else list(told or [])
    unknown = [name for name in names if name not in (*_KNOWN, "none", "all", "tensorboard", "")]
    if unknown:
        raise errors.make("E045", f"'report_to': expected wandb, mlflow, tensorboard or none, found '{unknown[0]}'; metrics.jsonl has all of it")
    found = {name for name in names if name in _KNOWN}
    if "all" in names:
        found |= {name for name in _KNOWN if importlib.util.find_spec(name)}
    if _is_on(keys.get("use_wandb")) or _is_on(keys.get("wandb_project")):
        found.add("wandb")
    if _is_on(keys.get("use_mlflow")) or _is_on(keys.get("mlflow_experiment_name")):
        found.add("mlflow")
    if keys.get("wandb_mode") == "disabled":
        found.discard("wandb")
    return [name for name in _KNOWN if name in found]


class _Wandb:
    def __init__(self, library: Any, keys: Mapping[str, Any], config: Mapping[str, Any], folder: pathlib.Path) -> None:
        given = {"project": keys.get("wandb_project"), "entity": keys.get("wandb_entity"), "name": keys.get("wandb_name") or keys.get("run_name"),
                 "id": keys.get("wandb_run_id"), "mode": keys.get("wandb_mode"), "tags": keys.get("wandb_tags")}
        # One run, however often it is called: a run that was interrupted goes on.
        note = folder / "wandb-run-id"
        if not given["id"] and note.exists():
            given["id"] = note.read_text().strip()
        self._run = library.init(config=dict(config), dir=str(folder), resume="allow", **{key: value for key, value in given.items() if value})
        note.write_text(str(self._run.id))

    def log(self, values: dict[str, float], step: int) -> None:
        self._run.log(values, step=step)

    def finish(self, done: bool) -> None:
        self._run.finish(exit_code=0 if done else 1)


class _Mlflow:
    def __init__(self, library: Any, keys: Mapping[str, Any], config: Mapping[str, Any], folder: pathlib.Path) -> None:
        self._library = library
        if keys.get("mlflow_tracking_uri"):
            library.set_tracking_uri(keys["mlflow_tracking_uri"])
        if keys.get("mlflow_experiment_name"):
            library.set_experiment(keys["mlflow_experiment_name"])
        note = folder / "mlflow-run-id"
        known = note.read_text().strip() if note.exists() else None
        run = library.start_run(run_id=known) if known else library.start_run(run_name=keys.get("mlflow_run_name") or keys.get("run_name") or None)
        note.write_text(str(run.info.run_id))
        if not known:
            # The library takes a hundred at once, and texts of 500 characters.
            told = [(key, str(value)[:500]) for key, value in config.items()]
            for begin in range(0, len(told), 100):
                library.log_params(dict(told[begin:begin + 100]))

    def log(self, values: dict[str, float], step: int) -> None:
        self._library.log_metrics(values, step=step)

    def finish(self, done: bool) -> None:
        self._library.end_run("FINISHED" if done else "FAILED")


_KINDS: dict[str, Callable[..., Any]] = {"wandb": _Wandb, "mlflow": _Mlflow}


def read(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The libraries that a file asks for. Raises errors.Error, before anything is done, for one that is not installed."""
    libraries = {}
    for name in _targets(keys):
        try:
            libraries[name] = importlib.import_module(name)
        except ImportError as error:
            key = next((key for key in (f"use_{name}", "wandb_project" if name == "wandb" else "mlflow_experiment_name") if _is_on(keys.get(key))), "report_to")
            raise errors.make("E045", f"'{key}' asks for {name}, which is not installed: pip install {name}, or leave the key empty; "
                                      "metrics.jsonl has the same numbers") from error
    for key, instead in (("wandb_watch", "metrics: {norms: [gradients, weights]} reports norms by module"),
                         ("wandb_log_model", "upload the folder of results afterwards"),
                         ("hf_mlflow_log_artifacts", "upload the folder of results afterwards")):
        if libraries and _is_on(keys.get(key)):
            raise errors.make("E045", f"'{key}' is not supported: {instead}")
    return libraries


def flatten(line: Mapping[str, Any]) -> dict[str, float]:
    """A line of metrics as numbers by tag."""
    values = {_TAGS[key]: float(value) for key, value in line.items() if key in _TAGS and isinstance(value, (int, float))}
    for section, prefix in (("outputs", "outputs/"), ("norms", "norm/")):
        values |= {prefix + key: float(value) for key, value in line.get(section, {}).items() if isinstance(value, (int, float))}
    return values


class Reports:
    """While it is open, lines that a run adds to its file of metrics go to the libraries. Those of steps that an earlier call has told do not again."""

    def __init__(self, libraries: Mapping[str, Any], keys: Mapping[str, Any], metrics: pathlib.Path) -> None:
        self._metrics = metrics
        self._told = max((line["step"] for line in self._lines(metrics.read_bytes() if metrics.exists() else b"") if "eval_loss" not in line), default=-1)
        self._open = [_KINDS[name](library, keys, {key: value for key, value in keys.items() if value is not None}, metrics.parent)
                      for name, library in libraries.items()]
        self._offset, self._last = 0, b""
        self._ends = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Reports:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self._ends.set()
        self._thread.join()
        for each in self._open:
            each.finish(kind is None)
        # What a dashboard is down for has not hurt the training.
        if self._failure is not None:
            print(f"fsdp-train: warning: reports ended early: {type(self._failure).__name__}: {self._failure}", flush=True)

    @staticmethod
    def _lines(text: bytes) -> list[dict[str, Any]]:
        lines = []
        for line in text.splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:  # cut off by an interruption
                continue
        return [line for line in lines if isinstance(line, dict) and isinstance(line.get("step"), int)]

    def _follow(self) -> None:
        try:
            while not self._ends.wait(_POLL_SECONDS):
                self._drain()
            self._drain()
        except BaseException as error:  # told at the end
            self._failure = error

    def _drain(self) -> None:
        if not self._metrics.exists():
            return
        with open(self._metrics, "rb") as file:
            # A run that goes on from a checkpoint cuts off what was behind it.
            file.seek(self._offset - len(self._last))
            if file.read(len(self._last)) != self._last:
                self._offset, self._last = 0, b""
                file.seek(0)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        if not whole:
            return
        self._offset += len(whole)
        self._last = whole[-200:]
        for line in self._lines(whole):
            # A validation has the number of steps that were made before it.
            step, is_step = line["step"] - ("eval_loss" in line), "eval_loss" not in line
            if step < self._told or (is_step and step == self._told):
                continue
            values = flatten(line)
            if values:
                for each in self._open:
                    each.log(values, step)
            if is_step:
                self._told = step
