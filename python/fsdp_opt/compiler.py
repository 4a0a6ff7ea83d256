# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling from Python: exports the model and runs fsdp-opt, which stays a process of its own."""
from __future__ import annotations

import json
import logging
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

import torch
from torch.utils._pytree import tree_map

from . import _flex, _hooks, errors, tools
from .explanation import Explanation

Path = Union[str, "os.PathLike[str]"]
Model = Union[torch.nn.Module, "torch.export.ExportedProgram", Path]

_log = logging.getLogger("fsdp_opt")


class Artifact:
    """A compiled step: a path (`os.fspath`), and what the compiler says of it."""

    path: pathlib.Path
    report: dict[str, Any]
    """fsdp-opt's --report: collectives and memory, in bytes and elements; of several plans `plans`, a list of them."""
    notes: list[str]
    """What the compiler wants its user to know, one sentence each."""

    def __init__(self, path: pathlib.Path, report: dict[str, Any], notes: list[str]) -> None:
        self.path, self.report, self.notes = path, report, notes

    @property
    def peak_bytes(self) -> int:
        """Planned memory of a rank, without the operators' temporaries; of several plans, of the one that needs most."""
        return max(int(plan["memory"]["peak"]) for plan in self.report.get("plans", [self.report]))

    @property
    def worlds(self) -> list[int]:
        """Numbers of ranks that it has plans for, if it was compiled for several; else empty."""
        return [int(plan["world"]) for plan in self.report.get("plans", [])]

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"Artifact('{self.path}', {self.peak_bytes:,} bytes a rank)"


def compile(model: Model, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, config: Path | Mapping[str, Any] | None = None,
            world: int | Sequence[int] | None = None, out: Path = "step.fsdp", dynamic_shapes: Any = None, strict: bool = False, outputs: Iterable[str] = (),
            loss: str | None = None, weights: Iterable[Path] = (), dims: Iterable[str] = (), cluster: str | None = None) -> Artifact:
    """Compiles a training step, or one for inference.

    Args:
        model: a module, whose first output is the loss unless `loss` names another one; or what
            `torch.export` returned; or the path of a .pt2, .pt or .mlir file.
        args, kwargs: what the module is called with, with the shapes of one rank's micro-batch.
        config: the config file, or its keys as a mapping (docs/Config.md), whose paths are then
            relative to the working directory.
        world: number of ranks, which completes the config's mesh; or several, for one artifact that
            runs on any of them (docs/SameBits.md).
        out: the artifact. A module is exported to a .pt2 of that name beside it, which stays: the
            artifact has its first values from there.
        dynamic_shapes, strict: as `torch.export.export` takes them.
        outputs: names of the model's outputs that are kept beside the loss.
        loss: the output that is the loss.
        weights: safetensors files or folders to start from in place of the model's values.
        dims: sizes of dynamic dimensions, "x.0=4,8".
        cluster: hardware that `schedule: auto` decides for.

    Raises:
        fsdp_opt.Error: with the compiler's id; errors.ModelError for what is not supported.
        What `torch.export.export` raises.
    """
    target = pathlib.Path(out)
    if target.suffix != ".fsdp":
        raise errors.make("E040", f"out: expected a name that ends with .fsdp, found '{target}'")
    target.parent.mkdir(parents=True, exist_ok=True)
    source = _export(model, args, kwargs, dynamic_shapes, strict, target.with_suffix(".pt2"))
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        done = _run(source, config, folder, [f"--report={report}", *_options(world, outputs, loss, weights, dims, cluster), "-o", str(target)])
        notes = [line for line in done.stderr.splitlines() if line.strip()]
        for note in notes:
            _log.log(logging.WARNING if note.startswith("warning") else logging.INFO, "%s", note)
        return Artifact(target, json.loads(report.read_text()), notes)


def explain(model: Model, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, config: Path | Mapping[str, Any] | None = None,
            world: int | None = None, dynamic_shapes: Any = None, strict: bool = False, outputs: Iterable[str] = (), loss: str | None = None,
            weights: Iterable[Path] = (), dims: Iterable[str] = (), cluster: str | None = None) -> Explanation:
    """What a model holds, what it costs, and what is not supported; arguments as of `compile`.

    Nothing is kept. In a notebook the result shows itself as tables. A model that is not
    supported is no error here: `Explanation.unsupported` says why.

    Raises:
        fsdp_opt.Error: if there is nothing to explain: the file or the config cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        inside = pathlib.Path(folder)
        source = _export(model, args, kwargs, dynamic_shapes, strict, inside / "model.pt2")
        options = _options(world, outputs, loss, weights, dims, cluster)
        # With it, fsdp-opt predicts for that hardware, and else for the CPU.
        told = _run(source, config, folder, ["--explain", *options], accepts=(0, 1))
        error = errors.find(told.stderr)
        if told.returncode and not told.stdout.strip():
            raise error or RuntimeError(told.stderr)
        if told.returncode:
            return Explanation(told.stdout, str(error or told.stderr.strip()), {}, {})
        report, prediction = inside / "report.json", inside / "prediction.json"
        given = config if config is not None or world is not None else {"mesh": {"dp_shard": 1}}
        _run(source, given, folder, [f"--report={report}", f"--print-plan={prediction}", *options, "-o", str(inside / "step.fsdp")])
        return Explanation(told.stdout, None, json.loads(report.read_text()), json.loads(prediction.read_text()))


def export(model: torch.nn.Module | torch.export.ExportedProgram, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *,
           out: Path = "model.pt2", dynamic_shapes: Any = None, strict: bool = False) -> pathlib.Path:
    """Writes the .pt2 file that fsdp-opt compiles, as `compile` does on the way.

    Beside what torch.export.save writes, it holds hooks on gradients, so that they are errors, and
    calls of flex_attention, which torch.export.save refuses.

    Args:
        model: a module, which is exported; or what `torch.export` returned.
        args, kwargs: what the module is called with, with the shapes of one rank's micro-batch.
        out: the file.
        dynamic_shapes, strict: as `torch.export.export` takes them.

    Returns:
        The file.

    Raises:
        fsdp_opt.Error: for flex_attention with functions that are not supported.
        What `torch.export.export` and `torch.export.save` raise.
    """
    if isinstance(model, (str, os.PathLike)):
        raise errors.make("E040", f"model: expected a module or an ExportedProgram, found the path '{model}'")
    return pathlib.Path(_export(model, args, kwargs, dynamic_shapes, strict, pathlib.Path(out)))


def _options(world: int | Sequence[int] | None, outputs: Iterable[str], loss: str | None, weights: Iterable[Path], dims: Iterable[str],
             cluster: str | None) -> list[str]:
    worlds = [] if world is None else [world] if isinstance(world, int) else list(world)
    if world is not None and not worlds:
        raise errors.make("E040", "world: expected a number of ranks, or several, found none")
    return [*([f"--world={','.join(map(str, worlds))}"] if worlds else []), *([f"--loss={loss}"] if loss else []),
            *([f"--cluster={cluster}"] if cluster else []), *(f"--output={name}" for name in _several("outputs", outputs)),
            *(f"--weights={os.fspath(path)}" for path in _several("weights", weights)), *(f"--dim={dim}" for dim in _several("dims", dims))]


def _several(name: str, values: Iterable[Any]) -> list[Any]:
    if isinstance(values, (str, os.PathLike)):
        raise errors.make("E040", f"{name}: expected a list, found '{values}'")
    return list(values)


def _export(model: Model, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any, strict: bool, to: pathlib.Path) -> str:
    if isinstance(model, (str, os.PathLike)):
        if args or kwargs or dynamic_shapes:
            raise errors.make("E040", f"args, kwargs and dynamic_shapes say how a module is exported, and '{model}' is a file; leave them out")
        return os.fspath(model)
    if isinstance(model, torch.nn.Module):
        args, kwargs = part_tensors((tuple(args), dict(kwargs or {})))
        model = _hooks.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    if not isinstance(model, torch.export.ExportedProgram):
        raise errors.make("E040", f"model: expected a module, an ExportedProgram or a path, found {type(model).__name__}")
    _flex.make_writable(model)
    torch.export.save(model, to, extra_files=_hooks.extra_files(model))
    return str(to)


def part_tensors(inputs: Any) -> Any:
    """The same inputs, each a tensor of its own: of one that is given for several, an export reads the last input for all of them."""
    seen: set[int] = set()

    def part(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in seen:
            return value.detach().clone().requires_grad_(value.requires_grad)
        seen.add(id(value))
        return value
    return tree_map(part, inputs)


def _run(source: str, config: Path | Mapping[str, Any] | None, folder: str, options: list[str],
         accepts: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    command = [tools.path("fsdp-opt"), source, *options]
    written: str | None = None
    try:
        if isinstance(config, Mapping):
            # Where its paths are relative to. JSON is YAML.
            handle, written = tempfile.mkstemp(prefix=".fsdp-config-", suffix=".yaml", dir=".")
            with os.fdopen(handle, "w") as file:
                json.dump(config, file)
            command.append(f"--config={written}")
        elif config is not None:
            command.append(f"--config={os.fspath(config)}")
        elif "--explain" not in options:
            written = os.path.join(folder, "config.yaml")
            pathlib.Path(written).write_text("{}\n")
            command.append(f"--config={written}")
        done = subprocess.run(command, env=tools.environment(), capture_output=True, text=True)
    finally:
        if written:
            pathlib.Path(written).unlink(missing_ok=True)
    if written:
        # Nobody knows the file.
        shown = os.path.abspath(written)
        done.stdout, done.stderr = (text.replace(shown, "config") for text in (done.stdout, done.stderr))
    if done.returncode not in accepts:
        raise errors.find(done.stderr) or RuntimeError(f"fsdp-opt ended with status {done.returncode}: {done.stderr.strip()}")
    return done
