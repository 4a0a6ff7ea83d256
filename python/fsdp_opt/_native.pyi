# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Bytes, rows and shapes are as python/native/Door.h says; errors are fsdp_opt.Error.
import os
from collections.abc import Iterable
from typing import Any, Literal, TypedDict, Union

from torch import Tensor

_Path = Union[str, os.PathLike[str]]

class SessionOptions(TypedDict, total=False):
    """As docs/CommandLine.md has them."""

    # Options of a run, by `ninja options-doc`:
    steps: int | None
    data: _Path | None
    data_options: str | None
    eval_data: _Path | None
    eval_batches: int | None
    model: _Path | None
    trusted: bool | None
    program: str | None
    weights: _Path | Iterable[_Path] | None
    world: int | None
    backend: str | None
    rendezvous: str | None
    threads: int | None
    pin: Literal["none", "cores", "threads"] | None
    cuda_graph: Literal["auto", "on", "off"] | None
    seed: int | None
    matmul: Literal["auto", "blas", "onednn"] | None
    on_nonfinite: str | None
    debug_nan: bool | None
    debug_index: bool | None
    poison: bool | None
    lr: float | None
    lr_schedule: str | None
    deadline: float | None
    load: _Path | None
    flight_records: _Path | None
    # End of options.

class Door:
    """An artifact on its ranks; what fsdp_opt.Session is made of."""

    def __init__(self, artifact: str, options: SessionOptions) -> None: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def data_parallel(self) -> int: ...
    @property
    def data_parallel_here(self) -> int: ...
    @property
    def data_rank(self) -> int: ...
    @property
    def micro_batches(self) -> int: ...
    @property
    def is_training(self) -> bool: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def steps_done(self) -> int: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def inputs(self) -> list[tuple[str, str, list[list[int]]]]: ...
    @property
    def states(self) -> list[tuple[list[str], str, list[int]]]: ...
    @property
    def memory(self) -> dict[str, int | None]: ...
    def step(self, batch: dict[str, Tensor]) -> tuple[int, float | None, float | None, float | None, bool, dict[str, float], dict[str, Tensor]]: ...
    def evaluate(self, batch: dict[str, Tensor]) -> float: ...
    def evaluate_files(self) -> tuple[float, int, int]: ...
    def find_greatest(self, number: int) -> int: ...
    def hold(self, name: str, tensor: Tensor) -> None: ...
    def save(self, folder: str, keep: int, wait: bool) -> str: ...
    def load(self, path: str, is_own: bool) -> None: ...
    def export_weights(self, path: str, shard_bytes: int, what: str = "all") -> None: ...
    def close(self, reason: str) -> None: ...

class EventFile:
    """What fsdp_opt.EventFile is made of."""

    def __init__(self, folder: str, first: int) -> None: ...
    @property
    def path(self) -> str: ...
    def write(self, step: int, values: dict[str, float]) -> None: ...

def list_errors() -> list[tuple[str, str, str, int]]:
    """(id, title, what to do, exit status) of each."""

def session_options() -> list[str]:
    """Names of SessionOptions, in their order."""

def describe_artifact(path: str) -> dict[str, Any]:
    """What its checkpoints hold, as KeptArtifact of python/native/WholeCheckpoint.h: `states` as (names, role, type, shape, may be
    lacking), `groups` of the optimizer as mappings, `micro_batches`, `seed`, `lr`, `lr_schedule`."""

def order_by_length(lengths: list[int], epoch: int, pool: int, group: int, shuffle: bool, seed: int) -> list[int]:
    """The rows of an epoch, as runtime/data/LengthPools.h orders them; `pool` is a multiple of `group`."""

def schedules() -> dict[str, tuple[bool, bool, list[str]]]:
    """Names of the shapes of a learning rate; whether a warm-up has a meaning, whether it ends with the run, and names of numbers of its own."""

def why_no_schedule(name: str) -> str:
    """Of another tool's that cannot be had; empty for all others."""

def rate_factors(schedule: str, lr: float, steps: int) -> list[float]:
    """What each step of a run multiplies its rates by; `schedule` as fsdp-run's --lr-schedule."""

def rate_factor(artifact: str, step: int) -> float | None:
    """What the artifact's schedule multiplies rates by; None if that depends on the run's length."""

def write_checkpoint(artifact: str, folder: str, step: int, rows: int, tensors: dict[str, Tensor]) -> str:
    """Writes `step_N` in `folder` of whole tensors, and returns its path."""
