# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of an FSDP2 run, and back: folders of torch.distributed.checkpoint.

An FSDP2 run saves `{"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer)}` by
`dcp.save`; nested optimizer states and flattened ones (`flatten_optimizer_state_dict=True`) are understood. No ranks
take part here: under a launcher one process converts, and the others wait.
"""
from __future__ import annotations

import json
import os
import pathlib
import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from . import _native, errors
from .tensor_file import DTYPES

Path = Union[str, "os.PathLike[str]"]

_MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")
_PREFIX = "optimizer."


def from_dcp(source: Path, checkpoints: Path, artifact: Path, *, step: int | None = None, rows: int = 0, model_key: str = "model",
             optimizer_key: str = "optim") -> str:
    """Makes a checkpoint of ours of an FSDP2 run's folder; returns its path, `step_N` in `checkpoints`.

    `Session(artifact, load=…)` and `fsdp-run --load` continue from it. Parameters, buffers and the optimizer's
    states are the folder's; random sequences begin at the artifact's seed.

    Args:
        source: the folder that `dcp.save` wrote.
        artifact: the compiled step that is to go on, of the same model and optimizer.
        step: steps that were made; by default the optimizer's own count (Adam's).
        rows: rows of the data that all ranks read for them, if the run reads files itself.
        model_key, optimizer_key: names under which the run saved its state dicts; "" if it saved the model's at the top.

    Raises:
        errors.CheckpointError: E102 if names, shapes or types are not the artifact's, E100 if `source` is no such folder.
    """
    plan = _native.describe_artifact(os.fspath(artifact))
    stored = _metadata(source)
    tensors: dict[str, tuple[str, torch.dtype]] = {}
    counts: list[str] = []
    problems: list[str] = []
    for names, role, dtype, shape, may_lack in plan["states"]:
        if role == "step":
            continue
        candidates = _stored_names(names, role, plan, model_key, optimizer_key)
        found = next((name for name in candidates if isinstance(stored.get(name), TensorStorageMetadata)), None)
        if found is None:
            if not may_lack:
                problems.append(f"it has no '{candidates[0] if candidates else names[0]}'")
            continue
        size = list(stored[found].size)
        if size != list(shape):
            problems.append(f"'{found}' has shape {size}, expected {list(shape)}")
        tensors[names[0]] = (found, DTYPES[dtype])
        if role == "optimizer":
            count = found.rsplit(".", 1)[0] + ".step"
            if count in stored and count not in counts:
                counts.append(count)
    known = {name for name, _ in tensors.values()}
    prefix = f"{model_key}." if model_key else ""
    problems += [f"the artifact has no '{name}'" for name in stored if prefix and name.startswith(prefix) and name not in known
                 and isinstance(stored[name], TensorStorageMetadata) and not _is_tied(name.removeprefix(prefix), plan)]
    _refuse(source, problems)
    values = _load(source, stored, {name for name, _ in tensors.values()} | set(counts))
    taken = _count_steps(source, {name: values.pop(name) for name in counts})
    if step is None and taken is None:
        raise errors.make("E040", f"step: '{os.fspath(source)}' does not say how many steps were made; expected a number")
    made = taken if step is None else step
    given = {}
    for name, (found, dtype_of) in tensors.items():
        value = values[found]
        if value.dtype != dtype_of and not (value.is_floating_point() and dtype_of.is_floating_point):
            raise errors.make("E102", f"'{os.fspath(source)}' has '{found}' as {value.dtype}, expected {dtype_of}")
        given[name] = value.to(dtype_of).contiguous()
    for names, role, dtype, shape, _ in plan["states"]:
        if role == "step":
            given[names[0]] = torch.full(shape, float(taken if taken is not None else made or 0)).to(DTYPES[dtype])
    return _native.write_checkpoint(os.fspath(artifact), os.fspath(checkpoints), int(made or 0), rows, given)


def to_dcp(checkpoint: Path, target: Path, artifact: Path, *, model_key: str = "model", optimizer_key: str = "optim", flatten: bool = False,
           param_groups: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Writes a checkpoint of ours as a folder that an FSDP2 run continues from.

        state = {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer)}
        dcp.load(state, checkpoint_id=target)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])

    Args:
        checkpoint: a folder `step_N`.
        target: the folder to write; made if it is not there.
        artifact: the compiled step that wrote the checkpoint.
        flatten: whether the run takes its optimizer's states with `flatten_optimizer_state_dict=True`.
        param_groups: as `get_optimizer_state_dict` has them, with the rates of the next step; by default one for each group of
            the artifact, in the order of their first parameters, with `initial_lr`, too.

    Raises:
        errors.CheckpointError: the checkpoint is not the artifact's.
        errors.UsageError: E040 if the rates of the next step are not known without `param_groups`.
    """
    folder = pathlib.Path(checkpoint)
    manifest = _read_manifest(folder)
    plan = _native.describe_artifact(os.fspath(artifact))
    states = [state for state in plan["states"] if state[1] != "random"]
    template = {names[0]: torch.empty(shape, dtype=DTYPES[dtype]) for names, _, dtype, shape, _ in states}
    have = {state["name"] for state in manifest["states"]}
    _refuse(checkpoint, [f"it has no '{name}'" for name in template if name not in have])
    dcp.load(template, storage_reader=dcp.HuggingFaceStorageReader(os.fspath(folder)), no_dist=True)
    flat: dict[str, Any] = {}
    prefix = f"{model_key}." if model_key else ""
    moments: dict[str, dict[str, torch.Tensor]] = {}
    count = torch.tensor(float(manifest["step"]))
    trained = {names[0]: names for names, role, _, _, _ in states if role == "parameter"}
    for names, role, _, _, may_lack in states:
        value = template[names[0]]
        if role in ("parameter", "frozen") or role == "buffer" and not may_lack:
            for name in names:
                flat[prefix + name] = value
        elif role == "optimizer":
            kind, name = _moment(names[0], trained)
            moments.setdefault(name, {})[kind] = value
        elif role == "step":
            count = value.reshape(()).to(torch.float32)
    groups = [dict(group) for group in param_groups] if param_groups is not None else _groups(os.fspath(artifact), plan, manifest)
    start = f"{optimizer_key}." if optimizer_key else ""
    for name, own in moments.items():
        for kind, value in own.items():
            flat[f"{start}state.{name}.{kind}"] = value
        if "exp_avg" in own:
            flat[f"{start}state.{name}.step"] = count
    for number, group in enumerate(groups):
        for key, value in group.items():
            if not flatten:
                flat[f"{start}param_groups.{number}.{key}"] = value
            elif key != "params":
                flat.update({f"{start}param_groups.{name}.{key}": value for name in group["params"]})
    os.makedirs(target, exist_ok=True)
    dcp.save(flat, storage_writer=dcp.FileSystemWriter(os.fspath(target)), no_dist=True)


def _metadata(source: Path) -> dict[str, Any]:
    try:
        metadata = dcp.FileSystemReader(os.fspath(source)).read_metadata()
    except (OSError, pickle.UnpicklingError, EOFError) as error:
        raise errors.make("E100", f"'{os.fspath(source)}' is no folder of torch.distributed.checkpoint: {error}") from error
    return dict(metadata.state_dict_metadata)


def _stored_names(names: Sequence[str], role: str, plan: Mapping[str, Any], model_key: str, optimizer_key: str) -> list[str]:
    """What a state may be called in the folder."""
    if role != "optimizer":
        return [f"{model_key}.{name}" if model_key else name for name in names]
    parameters = {each[0][0]: each[0] for each in plan["states"] if each[1] == "parameter"}
    kind, name = _moment(names[0], parameters)
    start = f"{optimizer_key}." if optimizer_key else ""
    return [f"{start}state.{alias}.{kind}" for alias in parameters[name]]


def _moment(name: str, parameters: Mapping[str, Any]) -> tuple[str, str]:
    """("exp_avg", parameter) of "optimizer.exp_avg.PARAMETER"."""
    kind, _, parameter = name.removeprefix(_PREFIX).partition(".")
    if kind not in _MOMENTS or parameter not in parameters:
        raise errors.make("E102", f"the artifact's checkpoints have '{name}', which torch.optim's optimizers do not; compile the model without "
                                  "optimizer: {state_dtype: …} of 8 bits")
    return kind, parameter


def _is_tied(name: str, plan: Mapping[str, Any]) -> bool:
    return any(name in names for names, *_ in plan["states"])


def _load(source: Path, stored: Mapping[str, Any], names: Iterable[str]) -> dict[str, torch.Tensor]:
    values = {name: torch.empty(stored[name].size, dtype=stored[name].properties.dtype) for name in names}
    dcp.load(values, storage_reader=dcp.FileSystemReader(os.fspath(source)), no_dist=True)
    return values


def _count_steps(source: Path, counts: Mapping[str, torch.Tensor]) -> int | None:
    found = {int(value.item()) for value in counts.values()}
    if len(found) > 1:
        raise errors.make("E102", f"'{os.fspath(source)}': expected parameters that were updated equally often, found {sorted(found)} steps")
    return next(iter(found), None)


def _refuse(path: Path, problems: list[str]) -> None:
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise errors.make("E102", f"'{os.fspath(path)}' is no checkpoint of this model and optimizer: {'; '.join(problems[:3])}{more}; give the "
                                  "artifact that was compiled of both")


def _read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    try:
        return json.loads((folder / "manifest.json").read_text())
    except OSError as error:
        raise errors.make("E100", f"'{folder}' holds no checkpoint: expected a folder step_N with manifest.json") from error


def _groups(artifact: str, plan: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As torch.optim's class has them, in front of the next step."""
    factor = _native.rate_factor(artifact, manifest["step"])
    if manifest["lr_schedule"] != plan["lr_schedule"] or factor is None:
        raise errors.make("E040", f"param_groups: the run's rate followed '{manifest['lr_schedule']}', of which the artifact does not say where it "
                                  "stands; expected the groups as get_optimizer_state_dict has them")
    ratio = manifest["lr"] / plan["lr"] if plan["lr"] else 1.0
    groups = []
    for own in plan["groups"]:
        group = dict(own)
        kind = getattr(torch.optim, group.pop("optimizer"))
        names = group.pop("params")
        group["lr"] *= ratio
        defaults = {key: value for key, value in kind([torch.zeros(1)], **group).param_groups[0].items() if key != "params"}
        groups.append({**defaults, "initial_lr": group["lr"], "lr": group["lr"] * factor, "params": names})
    return groups
