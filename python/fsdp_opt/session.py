# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running a compiled step from Python."""
from __future__ import annotations

import contextlib
import inspect
import os
import pathlib
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import torch
import torch.distributed as dist

from . import _native, errors
from ._padding import Padding
from .tensor_file import DTYPES, read_tensors, write_tensors

if TYPE_CHECKING:
    from typing_extensions import Unpack

Path = Union[str, "os.PathLike[str]"]


class StepOutput:
    """What all ranks have after a step. Tensors are of its own: later steps leave them alone."""

    __slots__ = ("step", "lr", "is_skipped", "metrics", "outputs", "_loss", "_grad_norm")

    step: int
    """Its number, from 0 on."""
    lr: float | None
    """The base's learning rate; None for inference."""
    is_skipped: bool
    """Whether loss or norm was no finite number and the parameters are what they were."""
    metrics: dict[str, float]
    """Means over ranks and micro-batches of the model's other outputs that are numbers, and the norms that the config's `metrics`
    asks for: `norm/grad/model.layers.0`."""
    outputs: dict[str, torch.Tensor]
    """Kept outputs (`compile(outputs=…)`): rows of all micro-batches and of all ranks of this process, in the batch's order."""

    def __init__(self, raw: tuple[int, float | None, float | None, float | None, bool, dict[str, float], dict[str, torch.Tensor]]) -> None:
        self.step, self._loss, self._grad_norm, self.lr, self.is_skipped, self.metrics, self.outputs = raw

    @property
    def loss(self) -> torch.Tensor | None:
        """f64 without dims: the mean over ranks and micro-batches; None if the model has none."""
        return None if self._loss is None else torch.tensor(self._loss, dtype=torch.float64)

    @property
    def grad_norm(self) -> torch.Tensor | None:
        """f64 without dims: the gradients' norm before clipping; None for inference."""
        return None if self._grad_norm is None else torch.tensor(self._grad_norm, dtype=torch.float64)

    def __getitem__(self, name: str) -> torch.Tensor:
        if name == "loss" and self._loss is not None:
            return torch.tensor(self._loss, dtype=torch.float64)
        if name not in self.outputs:
            known = ", ".join(f"'{each}'" for each in self.outputs) or "none"
            raise KeyError(f"the artifact keeps no output '{name}' (it keeps {known}); compile the model with outputs=['{name}']")
        return self.outputs[name]

    def __contains__(self, name: object) -> bool:
        return name in self.outputs or (name == "loss" and self._loss is not None)

    def __repr__(self) -> str:
        return f"StepOutput(step={self.step}, loss={self._loss}, grad_norm={self._grad_norm}, outputs={list(self.outputs)})"


class Evaluation(NamedTuple):
    """What `Session.evaluate` found."""

    loss: float
    """Mean over batches and ranks."""
    batches: int
    """Batches of this process; of all ranks together if files were read."""
    rows: int
    """Rows of all ranks."""
    rows_left_out: int
    """Rows of a shorter last batch of this process."""


class Session:
    """A compiled step on its ranks; a context manager.

    Alone, all ranks of the artifact are threads of this process, and a batch has the rows of
    all of them, rank 0's first. Started by torchrun (or mpirun, srun), this process is one rank,
    and a batch has its rows alone. In both cases
    `DataLoader(data, step.batch_rows, sampler=DistributedSampler(data, step.num_replicas, step.replica), drop_last=True)`
    has the batches of this process. With gradient accumulation a batch
    has the rows of all micro-batches, one behind the other.

    All methods but the properties are collective under a launcher: all processes call them in
    the same order. An error in a step ends the session; what is wrong with a batch is refused
    before any rank begins, and the session goes on.

    Args:
        artifact: what fsdp-opt or `fsdp_opt.compile` wrote.
        pad: of an artifact for rows of several lengths: what inputs have behind shorter rows, by name, `{"input_ids": 0}`. Batches of any
            length are then padded to the next one, the same for all processes; an input may be a list of rows, each of its own length, and
            an attention mask that is left out is then made. `labels` -100 and `attention_mask` 0 need not be said.
        options: those of fsdp-run that docs/CommandLine.md has a name in Python for, such as `load`, `weights`, `data`, `lr` and `threads`;
            None is as one that is not given. Otherwise than there, `steps` is for learning-rate schedules that do not say, and
            `rendezvous` is by default the store of the process group that the script has made (`torch.distributed.init_process_group`).

    Raises:
        fsdp_opt.Error
    """

    def __init__(self, artifact: Path, *, pad: Mapping[str, float] | None = None, **options: Unpack[_native.SessionOptions]) -> None:
        with _meeting(options):
            self._door = _native.Door(os.fspath(artifact), options)
        self._names = [name for name, _, _ in self._door.inputs]
        self._held: set[str] = set()
        self._padding: Padding | None = None
        # A program that forgets to close, or is interrupted: ranks end before LibTorch does.
        self._closer = weakref.finalize(self, _close_quietly, self._door)
        if pad is not None:
            try:
                self._padding = Padding(self.inputs, pad)
            except errors.Error as error:
                self._closer.detach()
                self._door.close(str(error))
                raise

    def __call__(self, *args: Any, **kwargs: Any) -> StepOutput:
        """Takes a step. Tensors by name, or in the order of `inputs`; rows are those of the first
        dim. On the CPU and contiguous they are copied once, to where the step reads them. Without
        any, the step reads its rows of the data. Other threads of Python go on meanwhile.

        Raises:
            errors.DataError: names, shapes or types are not those of `inputs`; the session goes on.
            fsdp_opt.Error: the step failed, and with it the session.
        """
        return StepOutput(self._door.step(self._lend(args, kwargs)))

    def hold(self, **tensors: Any) -> None:
        """Gives inputs that are the same for all ranks and steps, such as position ids, in one rank's shape."""
        for name, tensor in tensors.items():
            self._door.hold(name, _prepare(tensor))
            self._held.add(name)

    def evaluate(self, loader: Iterable[Any] | None = None, *, drop_last: bool = True) -> Evaluation:
        """The loss over batches, with the parameters as they are; nothing else changes.

        The artifact needs the program for it: `eval: {}` in the config it was compiled with.

        Args:
            loader: batches of one micro-batch for each rank of this process: mappings by name, or
                sequences in the order of `inputs`. None: the files that are named for validation.
            drop_last: whether a shorter batch at the end is left out, which `rows_left_out`
                counts, rather than refused.
        """
        if loader is None:
            return Evaluation(*self._door.evaluate_files(), 0)
        total, batches, rows, left_out = 0.0, 0, 0, 0
        here, world = self._door.data_parallel_here, self._door.data_parallel
        for batch in loader:
            if left_out:
                raise errors.make("E081", "evaluate: a batch with too few rows came in front of another one; only the last may be short")
            lent = self._lend(*((), batch) if isinstance(batch, Mapping) else (batch if isinstance(batch, (tuple, list)) else (batch,), {}))
            short = self._rows_of_short(lent, here)
            if drop_last and short is not None:
                left_out = short
                continue
            total += self._door.evaluate(lent)
            batches += 1
            rows += self._rows(lent) * world // here
        if not batches:
            raise errors.make("E080", "evaluate: the loader has no batch that fills the ranks")
        return Evaluation(total / batches, batches, rows, left_out)

    def save(self, path: Path, *, keep: int = 0, wait: bool = True) -> str:
        """Writes a checkpoint of parameters, buffers, optimizer and position to the folder `step_N`
        in `path`, and returns that. `keep`: how many of the newest stay, 0 all. `wait=False`
        writes while training goes on; the next call of `save`, `load` or `close` waits for it."""
        return self._door.save(os.fspath(path), keep, wait)

    def load(self, path: Path) -> None:
        """Goes on from a checkpoint, bit by bit, made at any world size; or takes parameters and
        buffers of safetensors files, where optimizer and position stay."""
        self._door.load(os.fspath(path), False)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Whole parameters and persistent buffers by all of their names, as `nn.Module.state_dict`,
        as copies in the host's memory. Under a launcher rank 0 alone has them; others get {}."""
        if self._door.rank != 0:
            self._door.export_weights("", _NO_LIMIT)
            return {}
        with tempfile.TemporaryDirectory(dir=_memory_folder(self._state_bytes())) as folder:
            path = os.path.join(folder, "states.safetensors")
            self._door.export_weights(path, _NO_LIMIT)
            tensors = read_tensors(path)
        for names, _, _ in self._door.states:
            for alias in names[1:]:
                tensors[alias] = tensors[names[0]]
        return tensors

    def load_state_dict(self, states: Mapping[str, torch.Tensor]) -> None:
        """Takes all parameters and persistent buffers, as `state_dict` or a module's has them, in any
        floating-point type; optimizer and position stay. Under a launcher all ranks give the same.

        Raises:
            errors.CheckpointError: names or shapes are not the model's; the session goes on.
        """
        problems, chosen, known = [], {}, set()
        for names, _, shape in self._door.states:
            known.update(names)
            found = next((name for name in names if name in states), None)
            if found is None:
                problems.append(f"it has no '{names[0]}'")
            elif list(states[found].shape) != list(shape):
                problems.append(f"'{found}' has shape {list(states[found].shape)}, expected {list(shape)}")
            else:
                chosen[names[0]] = states[found]
        problems += [f"the model has no '{name}'" for name in states if name not in known]
        if problems:
            more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
            raise errors.make("E102", "the states are not those of this model: " + "; ".join(problems[:3]) + more)
        with tempfile.TemporaryDirectory(dir=_memory_folder(self._state_bytes())) as folder:
            path = os.path.join(folder, "states.safetensors")
            write_tensors(path, chosen)
            self._door.load(path, True)

    def export(self, path: Path, *, shard_bytes: int = 5_000_000_000, merge_adapters: bool = False, adapters: bool = False, ema: bool = False) -> None:
        """Writes the unsharded weights: to a safetensors file, or, if `path` is a folder or ends
        with "/", to the files of a folder that Hugging Face's libraries read. `merge_adapters`: of the
        model without its low-rank adapters, which are added to the matrices that they are trained
        beside; names are those that PEFT's `merge_and_unload` leaves. `adapters`: what is trained alone; of adapters that
        the config asked for a folder is one that `PeftModel.from_pretrained` loads. `ema`: of the model
        with the averages that the config's `ema` keeps in place of what is trained.

        Raises:
            fsdp_opt.Error: a parameter of an adapter would be left over, or there is none; there are no averages.
        """
        if merge_adapters and adapters:
            raise errors.make("E040", "merge_adapters and adapters: expected one of them; what is merged has no adapters")
        if ema and (merge_adapters or adapters):
            raise errors.make("E040", "ema: expected it without merge_adapters and adapters; averages are of the model, with adapters that the config asked for merged")
        what = "merged" if merge_adapters else "trained" if adapters else "averaged" if ema else "all"
        text = os.fspath(path)
        is_folder = text.endswith("/") or (isinstance(path, os.PathLike) and not pathlib.Path(path).suffix)
        self._door.export_weights(text if text.endswith("/") or not is_folder else text + "/", shard_bytes, what)

    def close(self) -> None:
        """Ends the ranks, after what is being saved is on the disk. Closing twice does nothing.

        Raises:
            fsdp_opt.Error: a checkpoint was not written.
        """
        self._closer.detach()
        self._door.close("")

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
            return
        # Peers learn it now, rather than at their deadline.
        self._closer.detach()
        self._door.close(f"{kind.__name__}: {error}")

    @property
    def inputs(self) -> dict[str, tuple[torch.dtype | None, list[tuple[int, ...]]]]:
        """By name: the type, and the shape of one rank's micro-batch, or several that programs take."""
        return {name: (DTYPES.get(dtype), [tuple(shape) for shape in shapes]) for name, dtype, shapes in self._door.inputs}

    @property
    def outputs(self) -> list[str]:
        """Names of the kept outputs."""
        return list(self._door.outputs)

    @property
    def padding(self) -> Padding | None:
        """What pads rows to one of `padding.lengths`; None without `pad`."""
        return self._padding

    @property
    def rank(self) -> int:
        """This process's; 0 if all ranks are its threads."""
        return self._door.rank

    @property
    def world_size(self) -> int:
        return self._door.world_size

    @property
    def data_parallel(self) -> int:
        """How many ranks, or groups of ranks that compute a step together, read different rows."""
        return self._door.data_parallel

    @property
    def data_rank(self) -> int:
        """Which of them this process is, or its first rank."""
        return self._door.data_rank

    @property
    def num_replicas(self) -> int:
        """How many processes read different rows: 1 if all ranks are threads of this one."""
        return self._door.data_parallel // self._door.data_parallel_here

    @property
    def replica(self) -> int:
        """Which of them this process is."""
        return self._door.data_rank // self._door.data_parallel_here

    @property
    def batch_rows(self) -> int:
        """Rows of the batch that a step takes here: of all micro-batches and all ranks of this process.
        Of an artifact for several shapes, those of the first one."""
        rows = next((shapes[0][0] for _, _, shapes in self._door.inputs if shapes[0]), 1)
        return rows * self._door.micro_batches * self._door.data_parallel_here

    @property
    def micro_batches(self) -> int:
        """In a step."""
        return self._door.micro_batches

    @property
    def is_training(self) -> bool:
        return self._door.is_training

    @property
    def is_open(self) -> bool:
        """Whether a step can be taken: the session was not closed and did not fail."""
        return self._door.is_open

    @property
    def steps_done(self) -> int:
        """Of the training, those in front of a checkpoint that was loaded too."""
        return self._door.steps_done

    @property
    def memory(self) -> dict[str, int | None]:
        """Bytes of a rank: tensors and host are planned and exact, scratch was measured before the first step."""
        return self._door.memory

    def _lend(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        given = dict(kwargs)
        values = tuple(args)
        if values:
            names = [name for name in self._names if name not in self._held and name not in given]
            if len(values) > len(names):
                raise errors.make("E084", f"expected {len(names)} inputs ({', '.join(names)}), found {len(values)}")
            given.update(zip(names, values))
        if self._padding is not None:
            given = self._padding(given, list(self._held), self._door.find_greatest)
        return {name: _prepare(value) for name, value in given.items()}

    def _rows(self, lent: Mapping[str, torch.Tensor]) -> int:
        return next((tensor.shape[0] for tensor in lent.values() if tensor.dim()), 0)

    def _rows_of_short(self, lent: Mapping[str, torch.Tensor], here: int) -> int | None:
        """Rows of a batch that has too few, if that is all that is wrong."""
        for name, _, shapes in self._door.inputs:
            if name in lent and shapes[0] and lent[name].dim():
                rows = lent[name].shape[0]
                return rows if rows < min(shape[0] for shape in shapes) * here else None
        return None

    def _state_bytes(self) -> int:
        total = 0
        for names, dtype, shape in self._door.states:
            elements = 1
            for size in shape:
                elements *= size
            total += elements * DTYPES[dtype].itemsize * len(names)
        return total


def _signature() -> inspect.Signature:
    """The session's with the options by name, for those who ask Python rather than a type checker."""
    own = inspect.signature(Session)
    named = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return own.replace(parameters=named + [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _native.session_options()])


Session.__signature__ = _signature()  # type: ignore[attr-defined]

_NO_LIMIT = 2**63 - 1


def _prepare(value: Any) -> torch.Tensor:
    """In the host's memory, contiguous, out of autograd's sight; itself if it is that already."""
    tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    return tensor.contiguous()


def _memory_folder(size: int) -> str | None:
    """Where files that live for a moment are memory, if there is room; None: where temporary files are."""
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return None
    return "/dev/shm" if room.f_bavail * room.f_frsize > 2 * size and os.access("/dev/shm", os.W_OK) else None


@contextlib.contextmanager
def _meeting(options: _native.SessionOptions) -> Iterator[None]:
    """Lets ranks meet through the script's own process group, if it has one whose store others reach."""
    found = None
    if options.get("rendezvous") is None and options.get("backend") != "local" and dist.is_available() and dist.is_initialized():
        found = _store_of_group()
    if found is None or dist.get_world_size() == 1:
        yield
        return
    options["rendezvous"] = found
    # A script that nobody launched (mp.spawn) has told its ranks to the group alone.
    told = {"RANK": str(dist.get_rank()), "WORLD_SIZE": str(dist.get_world_size())}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _store_of_group() -> str | None:
    """An address as `rendezvous` takes it; None for a store that is no server's."""
    store = dist.distributed_c10d._get_default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if not isinstance(store, dist.TCPStore):
        return None
    host = f"[{store.host}]" if ":" in store.host else store.host
    return f"store://{host}:{store.port}"


def _close_quietly(door: _native.Door) -> None:
    try:
        door.close("the program ended without closing its session")
    except errors.Error:
        pass
