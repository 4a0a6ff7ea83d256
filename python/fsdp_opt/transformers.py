# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training a Hugging Face model with a compiled step, from the script that trains it with transformers.Trainer."""
from __future__ import annotations

import inspect
import json
import math
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Union

import torch

try:
    import transformers
    from transformers.trainer_callback import ExportableState, TrainerControl, TrainerState
    from transformers.trainer_utils import TrainOutput, speed_metrics
except ImportError as error:
    raise ImportError("fsdp_opt.transformers needs transformers 5 and accelerate: pip install 'transformers[torch]'") from error

from . import _training_arguments, errors
from ._peers import Peers
from ._training_evaluation import Validation
from ._training_export import export_step, make_smoother
from ._training_folders import STATES, Folders, write_model
from ._training_lengths import check_lengths, choose_lengths, collate_rows, count_tokens
from ._training_rows import Place, Rows, join
from ._training_state import check_callback, is_best, make_handler, start_state
from .compiler import Artifact, compile
from .session import Session

Path = Union[str, "os.PathLike[str]"]


class FsdpTrainer(Validation):
    """transformers.Trainer's interface over a compiled, sharded step.

    Started by torchrun, this process is one rank; alone, all `world` ranks are its threads. Rows are read in
    the order of transformers.Trainer on as many processes, losses, norms and rates are its to rounding (random
    operators draw other numbers).

    Args:
        model, args, data_collator, train_dataset, eval_dataset, processing_class, model_init, callbacks: as of
            transformers.Trainer. Callbacks get no optimizer.
        compute_metrics, preprocess_logits_for_metrics: as there; each validation writes the parameters to output_dir once, for a program of its
            own that computes what the model returns beside its loss.
        compute_loss_func, optimizers, optimizer_cls_and_kwargs: refused, by name, unless they are left out.
        world: ranks; by default as many as the launcher started, else 1.
        config: keys of docs/Config.md that TrainingArguments do not have, such as `mesh` or those of `fsdp_config`.
        threads: LibTorch's, for each rank.
        lengths: tokens of rows that the step is compiled for, `[512, 1024, 2048]`: each step runs the least of them that holds its rows.
            Without, four that the rows of train_dataset ask for, if data_collator makes batches of different lengths.
        pad: what inputs have behind shorter rows, `{"input_ids": 0}`; by default `input_ids` the tokenizer's `pad_token_id`, `labels` -100 and
            `attention_mask` 0. Without a data_collator rows are padded to the longest of a batch.

    Raises:
        fsdp_opt.Error: E040 with the names of all arguments that are not supported, and as `compile` and `Session`.
    """

    def __init__(self, model: Any = None, args: transformers.TrainingArguments | None = None, data_collator: Any = None,
                 train_dataset: Any = None, eval_dataset: Any = None, processing_class: Any = None, model_init: Callable[[], Any] | None = None,
                 compute_loss_func: Any = None, compute_metrics: Any = None, callbacks: Iterable[Any] | None = None,
                 optimizers: tuple[Any, Any] = (None, None), optimizer_cls_and_kwargs: Any = None, preprocess_logits_for_metrics: Any = None, *,
                 world: int | None = None, config: Mapping[str, Any] | None = None, threads: int | None = None,
                 lengths: Iterable[int] | None = None, pad: Mapping[str, float] | None = None) -> None:
        for name, value, instead in (
                ("compute_loss_func", compute_loss_func, "the loss is the model's first output; compute it in the model's forward"),
                ("optimizers", None if tuple(optimizers) == (None, None) else optimizers, "say optim, learning_rate and lr_scheduler_type in args"),
                ("optimizer_cls_and_kwargs", optimizer_cls_and_kwargs, "say optim and learning_rate in args")):
            if value is not None:
                raise _training_arguments.refuse(name, f"is not supported; {instead}")
        if (model is None) == (model_init is None):
            raise _training_arguments.refuse("model", "expected either a model or model_init")
        self.args = args if args is not None else transformers.TrainingArguments(output_dir="tmp_trainer")
        transformers.utils.logging.set_verbosity(self.args.get_process_log_level())
        self._peers = Peers()
        self._extra = dict(config or {})
        self._world, replicas = self._mesh(world)
        _training_arguments.check(self.args, replicas, compute_metrics is not None)
        self.compute_metrics, self.preprocess_logits_for_metrics = compute_metrics, preprocess_logits_for_metrics
        if self._peers.size > 1 and self._peers.size != self._world:
            raise _training_arguments.refuse("world", f"expected {self._peers.size}, the processes that the launcher started, found {self._world}")
        # As transformers.Trainer does, so that what is drawn behind it is the same.
        transformers.set_seed(self.args.seed)
        self.model = model if model is not None else model_init()  # type: ignore[misc]
        self.processing_class, self.train_dataset, self.eval_dataset = processing_class, train_dataset, eval_dataset
        padding = processing_class is not None and hasattr(processing_class, "pad")
        self.data_collator = data_collator or (transformers.DataCollatorWithPadding(processing_class) if padding
                                               else transformers.default_data_collator)
        self._set_up_lengths(lengths, pad, data_collator)
        self._smoother = make_smoother(self.args, self.model)
        self._threads, self._replicas = threads, replicas
        self._folders = Folders(self.args.output_dir)
        self._artifact: Artifact | None = None
        self._session: Session | None = None
        self._plan()
        self._set_up_callbacks(callbacks)

    def _set_up_lengths(self, lengths: Iterable[int] | None, pad: Mapping[str, float] | None, data_collator: Any) -> None:
        tokenizer = self.processing_class or getattr(data_collator, "tokenizer", None)
        self._lengths, self._pad = check_lengths(lengths, pad, tokenizer)
        self._row_lengths, self._said_pad = None, pad is not None
        if self._lengths and data_collator is None:
            self.data_collator = self._collate_rows

    def _collate_rows(self, features: list[Any]) -> Mapping[str, Any]:
        return collate_rows(features, self._pad, self._names)

    # What the run is.

    def _mesh(self, world: int | None) -> tuple[int, int]:
        """All ranks, and those that read different rows."""
        world = world or self._peers.size
        mesh = self._extra.setdefault("mesh", {})
        together = mesh.get("tp", 1) * mesh.get("cp", 1)
        if world % together:
            raise _training_arguments.refuse("config['mesh']", f"expected tp and cp to divide {world} ranks, found {together}")
        return world, world // together

    def _plan(self) -> None:
        """What does not change while it trains: the inputs, and how many steps there are."""
        model, args = self.model, self.args
        if getattr(model, "config", None) is not None:
            model.config.use_cache = args.use_cache
        names = list(inspect.signature(model.forward).parameters)
        kinds = [parameter.kind for parameter in inspect.signature(model.forward).parameters.values()]
        self._names = names
        self._columns = {*names, "label", "label_ids", "labels"} if args.remove_unused_columns else None
        accepts = getattr(model, "accepts_loss_kwargs", inspect.Parameter.VAR_KEYWORD in kinds)
        self._counts_items = bool(accepts)
        from transformers.loss.loss_utils import LOSS_MAPPING, ForCausalLMLoss
        loss = LOSS_MAPPING.get(getattr(model, "loss_type", None))
        self._shifts = loss is ForCausalLMLoss and not getattr(getattr(model, "config", None), "is_encoder_decoder", False)
        self._steps, self._epochs, self._steps_of_epoch = 0, 0, 0
        if self.train_dataset is None:
            return
        # The place is known once there is a session; counts do not depend on it.
        rows = self._rows(self.train_dataset, Place(0, 1, self._replicas))
        self._steps, self._epochs, self._steps_of_epoch = _training_arguments.count_steps(args, rows.batches)
        rows.check(self._steps)

    def _rows(self, dataset: Any, place: Place) -> Rows:
        args = self.args
        seed, lengths = None, None
        if _training_arguments.name_of(args.train_sampling_strategy) == "random":
            seed = args.data_seed if args.data_seed is not None else torch.random.initial_seed()
        if _training_arguments.name_of(args.train_sampling_strategy) == "group_by_length":
            seed = args.data_seed if args.data_seed is not None else args.seed
            if self._row_lengths is None:
                self._row_lengths = count_tokens(dataset, args.length_column_name, getattr(self.model, "main_input_name", "input_ids"))
            lengths = self._row_lengths
        workers = {"num_workers": args.dataloader_num_workers, "in_order": args.dataloader_in_order,
                   **({"persistent_workers": args.dataloader_persistent_workers, "prefetch_factor": args.dataloader_prefetch_factor,
                       "multiprocessing_context": args.dataloader_multiprocessing_context} if args.dataloader_num_workers else {})}
        return Rows(dataset, self._collate, place, args.per_device_train_batch_size, args.gradient_accumulation_steps,
                    can_pad=self._counts_items, seed=seed, drop_last=args.dataloader_drop_last, workers=workers, lengths=lengths)

    def _collate(self, features: list[Any]) -> Mapping[str, Any]:
        if self._columns is not None:
            features = [{name: value for name, value in each.items() if name in self._columns} if isinstance(each, Mapping) else each
                        for each in features]
        return self.data_collator(features)

    def _set_up_callbacks(self, callbacks: Iterable[Any] | None) -> None:
        self.callback_handler = make_handler(self.args, self.model, self.processing_class, callbacks)
        self.control = TrainerControl()
        self.state = TrainerState(is_local_process_zero=self.is_world_process_zero(), is_world_process_zero=self.is_world_process_zero())
        if self.is_world_process_zero():
            os.makedirs(self.args.output_dir, exist_ok=True)
        self.control = self.callback_handler.on_init_end(self.args, self.state, self.control)

    def add_callback(self, callback: Any) -> None:
        """A callback, or its class."""
        callback = callback() if isinstance(callback, type) else callback
        check_callback(callback)
        self.callback_handler.add_callback(callback)

    def remove_callback(self, callback: Any) -> None:
        self.callback_handler.remove_callback(callback)

    def is_world_process_zero(self) -> bool:
        """Whether this process logs and saves."""
        return self._peers.rank == 0

    # The compiled step.

    @property
    def artifact(self) -> Artifact:
        """The compiled step; made when it is first needed."""
        if self._artifact is None:
            self._artifact = self._compile()
        return self._artifact

    @property
    def session(self) -> Session:
        """The step on its ranks; opened when it is first needed."""
        if self._session is None:
            self._session = self._open(None)
        return self._session

    def _choose_lengths(self) -> None:
        """Those of the rows, if batches differ and nobody has said any."""
        if self._lengths:
            return
        if self.train_dataset is not None and hasattr(self.train_dataset, "__len__"):
            evaluated = self.eval_dataset.values() if isinstance(self.eval_dataset, dict) else [self.eval_dataset]
            self._lengths, pad = choose_lengths(self._rows(self.train_dataset, Place(0, 1, self._replicas)), evaluated, self.model, self._shifts)
            self._pad = {**pad, **self._pad}
        if self._said_pad and not self._lengths:
            raise _training_arguments.refuse("pad", "has no effect where batches have one length; say lengths=[…], or leave it out")

    def _compile(self) -> Artifact:
        args = self.args
        self._choose_lengths()
        evaluates = self.eval_dataset is not None or _training_arguments.name_of(args.eval_strategy) != "no"
        config = self._config(evaluates)
        out = pathlib.Path(args.output_dir) / "step.fsdp"

        def make() -> Artifact:
            program = self._export()
            dims = [f"{name}.1={','.join(map(str, self._lengths))}" for name in self._ragged]
            artifact = compile(program, config=config, world=self._world, out=out, dims=dims)
            if evaluates and any("in training mode, and 'eval'" in note for note in artifact.notes):
                raise _training_arguments.refuse("eval_dataset", "the model drops out or counts statistics while it trains, and validation would do "
                                                                 "so, too; set its dropout to 0, or leave validation out")
            return artifact
        return self._peers.from_first(make)

    def _config(self, evaluates: bool) -> dict[str, Any]:
        return _training_arguments.make_config(self.args, self.model, self._steps, evaluates, self._extra)

    def _first_batch(self) -> dict[str, Any]:
        """Of one rank, whose shapes the step has."""
        evaluated = next(iter(self.eval_dataset.values())) if isinstance(self.eval_dataset, dict) else self.eval_dataset
        dataset = self.train_dataset if self.train_dataset is not None else evaluated
        if dataset is None:
            raise _training_arguments.refuse("train_dataset", "expected rows, whose shapes the step is compiled for, found None")
        rows = Rows(dataset, self._collate, Place(0, 1, 1), self.args.per_device_train_batch_size, 1, can_pad=True)
        return dict(next(iter(rows.steps(0)))[0][0])

    def _export(self) -> torch.export.ExportedProgram:
        program, self._ragged = export_step(self.model, self._first_batch(), self._counts_items, bool(self._lengths), self._smoother)
        return program

    def _open(self, load: Path | None) -> Session:
        self.close()
        session = Session(self.artifact, load=load, steps=self._steps or None, threads=self._threads, deadline=float(self.args.ddp_timeout),
                          flight_records=pathlib.Path(self.args.output_dir) / "flight-records", trusted=True,
                          pad=self._pad if self._lengths else None)
        self._place = Place(session.data_rank, session.data_parallel // session.num_replicas, session.data_parallel)
        self._inputs = [name for name in session.inputs if name != "num_items_in_batch"]
        return session

    def close(self) -> None:
        """Ends the ranks. The trainer opens them again where it needs them, with first values."""
        if self._session is not None:
            self._session.close()
            self._session = None

    # Training.

    def train(self, resume_from_checkpoint: str | bool | None = None) -> TrainOutput:
        """Trains to the end, from first values or from a folder `checkpoint-N` (True: the newest in output_dir). Collective.

        The model has the trained parameters afterwards, on all ranks.
        """
        args = self.args
        if self.train_dataset is None:
            raise _training_arguments.refuse("train_dataset", "expected rows to train on, found None")
        folder = self._folders.find(resume_from_checkpoint)
        self._session = self._open(None if folder is None else folder / STATES)
        step = self._session
        self.state = start_state(args, self._steps, [*self.callback_handler.callbacks, self.control], folder, step.steps_done)
        self.state.max_steps, self.state.num_train_epochs = self._steps, min(self._epochs, 2**31)
        self.state.is_local_process_zero = self.state.is_world_process_zero = self.is_world_process_zero()
        self._begun = self._saved = self.state.global_step
        if self.is_world_process_zero():
            self._folders.tell(self._begun, self._steps, _training_arguments.name_of(args.save_strategy) != "no", folder)
        rows = self._rows(self.train_dataset, self._place)
        begin, self._tokens_before = time.time(), self.state.num_input_tokens_seen
        self._loss_sum, self._loss_total, self._logged = 0.0, 0.0, self.state.global_step
        self._norms: dict[str, float] = {}
        self.callback_handler.train_dataloader = range(rows.batches or 0)
        self.control = self.callback_handler.on_train_begin(args, self.state, self.control)
        if args.eval_on_start:
            self.evaluate()
        epoch, skip = divmod(self.state.global_step, self._steps_of_epoch)
        batches = rows.batches or self._steps * args.gradient_accumulation_steps
        while epoch < self._epochs and not self.control.should_training_stop and self.state.global_step < self._steps:
            self.control = self.callback_handler.on_epoch_begin(args, self.state, self.control)
            done, before = skip, self.state.global_step
            last: tuple[float | None, float | None] = (None, None)
            for parts in rows.steps(epoch, skip):
                self.control = self.callback_handler.on_step_begin(args, self.state, self.control)
                out = step(**self._batch(parts))
                last = (None if out.grad_norm is None else out.grad_norm.item(), out.lr)
                done += 1
                self._account(out, epoch + min(done * args.gradient_accumulation_steps, batches) / batches)
                self.control = self.callback_handler.on_step_end(args, self.state, self.control)
                self._log_save_evaluate(*last, begin)
                if self.control.should_epoch_stop or self.control.should_training_stop:
                    break
            if self.state.global_step == before:
                raise errors.make("E081", "train_dataset has no rows left for a step")
            self.control = self.callback_handler.on_epoch_end(args, self.state, self.control)
            self._log_save_evaluate(*last, begin)
            epoch, skip = epoch + 1, 0
        return self._finish(begin)

    def _batch(self, parts: list[tuple[Mapping[str, Any], int]]) -> dict[str, torch.Tensor]:
        batch = join(parts, self._inputs, self.session.padding)
        if self._counts_items:
            # The step takes the mean over ranks and micro-batches, of what the model divides by this.
            items = self._peers.sum(self._items(batch))
            batch["num_items_in_batch"] = torch.tensor(items / (self._place.all * self.args.gradient_accumulation_steps), dtype=torch.float32)
        if self.args.include_num_input_tokens_seen == "all":
            main = getattr(self.model, "main_input_name", "input_ids")
            self.state.num_input_tokens_seen += sum(part[main].numel() for part, _ in parts) * self._place.all // self._place.here
        if hasattr(self.model, "floating_point_ops"):
            self.state.total_flos += sum(self.model.floating_point_ops(dict(part)) for part, _ in parts) * self._place.all // self._place.here
        return batch

    def _items(self, batch: Mapping[str, torch.Tensor]) -> int:
        """What the loss is divided by, as transformers.Trainer counts it: labels of this process that count."""
        labels = batch.get("shift_labels")
        if labels is None:
            labels = batch["labels"][..., 1:] if self._shifts else batch["labels"]
        return int(labels.ne(-100).sum())

    def _account(self, out: Any, epoch: float) -> None:
        loss = out.loss.item()
        if self.args.logging_nan_inf_filter and not math.isfinite(loss):
            loss = self._loss_sum / (1 + self.state.global_step - self._logged)
        self._loss_sum += loss
        self._norms = {name: value for name, value in out.metrics.items() if name.startswith("norm/")}
        self.state.global_step += 1
        self.state.epoch = epoch

    def _log_save_evaluate(self, norm: float | None, rate: float | None, begin: float) -> None:
        if self.control.should_log and self.state.global_step > self._logged:
            logs: dict[str, float] = {"loss": self._loss_sum / (self.state.global_step - self._logged)}
            if norm is not None:
                logs["grad_norm"] = norm
            if rate is not None:
                logs["learning_rate"] = rate
            logs |= self._norms
            self._loss_total += self._loss_sum
            self._loss_sum, self._logged = 0.0, self.state.global_step
            self.log(logs, begin)
        if self.control.should_evaluate:
            best = is_best(self.state, self.args, self.evaluate())
            if _training_arguments.name_of(self.args.save_strategy) == "best":
                self.control.should_save = best
        if self.control.should_save:
            self._save_checkpoint()
            self.control = self.callback_handler.on_save(self.args, self.state, self.control)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """To `state.log_history` and the callbacks."""
        if self.state.epoch is not None:
            logs["epoch"] = self.state.epoch
        if self.args.include_num_input_tokens_seen != "no":
            logs["num_input_tokens_seen"] = self.state.num_input_tokens_seen
            if start_time is not None:
                logs.update(speed_metrics("train", start_time, num_tokens=self.state.num_input_tokens_seen - self._tokens_before))
        self.state.log_history.append({**logs, "step": self.state.global_step})
        self.control = self.callback_handler.on_log(self.args, self.state, self.control, logs)

    def _finish(self, begin: float) -> TrainOutput:
        args = self.args
        self._loss_total += self._loss_sum
        samples = self.state.max_steps * args.per_device_train_batch_size * args.gradient_accumulation_steps * self._place.all
        if args.max_steps <= 0 and hasattr(self.train_dataset, "__len__"):
            samples = len(self.train_dataset) * args.num_train_epochs
        # Of the steps that were taken here, whatever was done before.
        taken = self.state.global_step - self._begun
        samples = round(samples * taken / self.state.max_steps)
        metrics = speed_metrics("train", begin, num_samples=samples, num_steps=taken) if taken else speed_metrics("train", begin)
        metrics["total_flos"] = self.state.total_flos
        loss = self._loss_total / taken if taken else math.nan
        if taken:
            metrics["train_loss"] = loss
        self.log(dict(metrics))
        best = self.state.best_model_checkpoint
        if args.load_best_model_at_end and best is not None:
            own = pathlib.Path(best) / STATES
            self.session.load(own if own.is_dir() else best)
        if self.is_world_process_zero() and best is not None and args.save_total_limit == 1:
            self._folders.rotate(0, self.state.global_step, best)
        self.control = self.callback_handler.on_train_end(args, self.state, self.control)
        self._update_model()
        return TrainOutput(self.state.global_step, loss, metrics)

    def _update_model(self) -> None:
        """Gives the model, on all ranks, what was trained."""
        states = self.session.state_dict()
        own = self.model.state_dict()
        with torch.no_grad():
            for names, _, _ in self.session._door.states:
                name = next((each for each in names if each in own), None)
                if name is None:
                    continue
                if states:
                    own[name].copy_(states[names[0]])
                self._peers.broadcast(own[name])

    # Folders.

    def save_model(self, output_dir: Path | None = None) -> None:
        """Writes a folder that `from_pretrained` reads. Collective; rank 0 writes."""
        folder = pathlib.Path(output_dir if output_dir is not None else self.args.output_dir)
        states = self.session.state_dict()
        if not self.is_world_process_zero():
            return
        tokenizer = self.processing_class or getattr(self.data_collator, "tokenizer", None)
        write_model(folder, self.model, states, tokenizer)
        torch.save(self.args, folder / "training_args.bin")

    def _save_checkpoint(self) -> None:
        args = self.args
        folder = self._folders.of(self.state.global_step)
        self.save_model(folder)
        if self._saved != self.state.global_step:
            self._peers.from_first(lambda: self._folders.overwrite(self.state.global_step))
        if not args.save_only_model:
            self.session.save(folder / STATES)
        self._saved = self.state.global_step
        if self.state.best_global_step:
            best = self._folders.of(self.state.best_global_step)
            self._peers.barrier()
            if best.exists():
                self.state.best_model_checkpoint = str(best)
        if self.is_world_process_zero():
            for each in [*self.callback_handler.callbacks, self.control]:
                if isinstance(each, ExportableState):
                    self.state.stateful_callbacks[type(each).__name__] = each.state()
            self.state.save_to_json(str(folder / "trainer_state.json"))
            if args.save_total_limit:
                self._folders.rotate(args.save_total_limit, self.state.global_step, self.state.best_model_checkpoint)
        self._peers.barrier()

    def save_state(self) -> None:
        """trainer_state.json to output_dir."""
        if self.is_world_process_zero():
            self.state.save_to_json(os.path.join(self.args.output_dir, "trainer_state.json"))

    def save_metrics(self, split: str, metrics: Mapping[str, Any]) -> None:
        """`SPLIT_results.json` to output_dir."""
        if self.is_world_process_zero():
            (pathlib.Path(self.args.output_dir) / f"{split}_results.json").write_text(json.dumps(dict(metrics), indent=4, sort_keys=True))

    def log_metrics(self, split: str, metrics: Mapping[str, Any]) -> None:
        """Prints them, on rank 0."""
        if self.is_world_process_zero():
            print(f"***** {split} metrics *****", *(f"  {name} = {value}" for name, value in sorted(metrics.items())), sep="\n")
