# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From one file to a trained model: what an Axolotl user's YAML asks for, step by step through the existing commands.

    fsdp-train lora.yaml
    torchrun --no-python --nproc-per-node=8 fsdp-train lora.yaml

Each step is printed as a command, so that one can go on by hand. Called again, it goes on where it was.
"""
from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import _recipe, _reporting, errors, tools

_POLL_SECONDS = 0.2
_PATIENCE_SECONDS = 3600.0


class Trained(NamedTuple):
    """What a run leaves."""

    output: pathlib.Path
    """The folder: of adapters, or of the whole model, as their libraries load it."""
    artifact: pathlib.Path
    steps: int
    loss: float | None
    """Of the last step, if one was taken."""


def train(file: str | os.PathLike[str], *, output: str | os.PathLike[str] | None = None, world: int | None = None, steps: int | None = None,
          dry_run: bool = False) -> Trained:
    """Trains what a file asks for: its model on its data, with its adapters, on all GPUs or on CPU ranks.

    Args:
        file: YAML in Axolotl's words, or fsdp-opt's own (docs/Recipes.md).
        output: where results go, in place of its `output_dir`.
        world: ranks, in place of its mesh; by default the GPUs that there are, else 1.
        steps: of the whole training, in place of `max_steps` or `num_epochs`.
        dry_run: prepares and compiles, says what it would take, and trains nothing.

    Under a launcher (torchrun, mpirun, srun) this process is one rank: the first prepares, and all train.

    Raises:
        fsdp_opt.Error: of the file, the data, the compiler. subprocess.CalledProcessError: a step failed; what it said is on stderr.
    """
    recipe = _recipe.read(file)
    if output is not None:
        recipe.output = pathlib.Path(output)
    recipe.steps = steps if steps is not None else recipe.steps
    ranks = os.environ.get("WORLD_SIZE")
    rank = int(os.environ.get("RANK", 0)) if ranks else 0
    waits = _Meeting(recipe.output) if ranks and int(ranks) > 1 else None
    if rank:
        assert waits is not None
        plan = waits.join()
    else:
        try:
            plan = _prepare(recipe, int(ranks) if ranks else world)
        except BaseException as error:
            if waits:
                waits.fail(str(error))
            raise
        if waits:
            waits.announce(plan)
    if dry_run:
        _call([*plan["run"], "--dry-run"], shows=True)
    else:
        tells = bool(recipe.reports) and not rank
        with _reporting.Reports(recipe.reports, recipe.keys, pathlib.Path(plan["metrics"])) if tells else contextlib.nullcontext():
            _call(plan["launch"] + plan["run"] + plan["results"], shows=True)
        if not rank:
            _name_base(pathlib.Path(plan["result"]), recipe.base_model)
    return Trained(pathlib.Path(plan["result"]), pathlib.Path(plan["artifact"]), plan["steps"], None if dry_run else _last_loss(plan["metrics"]))


class _Meeting:
    """Where ranks of one launch learn what the first has prepared."""

    def __init__(self, output: pathlib.Path) -> None:
        job = os.environ.get("TORCHELASTIC_RUN_ID") or os.environ.get("SLURM_JOB_ID") or os.environ.get("MASTER_PORT", "")
        self.note = output / f".prepared-{job}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}.json"
        self.began = time.time()

    def announce(self, plan: dict[str, Any]) -> None:
        self._write({"plan": plan})

    def fail(self, why: str) -> None:
        self._write({"error": why})

    def _write(self, told: dict[str, Any]) -> None:
        self.note.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.note.with_suffix(".new")
        temporary.write_text(json.dumps(told))
        os.replace(temporary, self.note)

    def join(self) -> dict[str, Any]:
        """Notes of an earlier launch of that name do not count."""
        while not (self.note.exists() and self.note.stat().st_mtime >= self.began - 5):
            if time.time() - self.began > _PATIENCE_SECONDS:
                raise errors.make("E092", f"rank 0 has not prepared '{self.note.parent}' within an hour; look at its output")
            time.sleep(_POLL_SECONDS)
        told = json.loads(self.note.read_text())
        if "error" in told:
            raise errors.make("E090", f"rank 0 could not prepare the run: {told['error']}")
        plan: dict[str, Any] = told["plan"]
        return plan


def _prepare(recipe: _recipe.Recipe, world: int | None) -> dict[str, Any]:
    """Data, programs and artifacts; what is to be run then."""
    import torch

    from . import _recipe_data, _recipe_distillation, _recipe_losses, _recipe_model

    folder = recipe.output
    folder.mkdir(parents=True, exist_ok=True)
    base = _recipe_model.Base(recipe.base_model, recipe.half and recipe.has_adapter)
    prepared = _recipe_data.prepare(recipe, base.tokenizer)
    config = folder / "config.yaml"
    gpus = torch.cuda.device_count()
    world = world or _mesh_size(recipe) or (gpus if gpus else 1)
    weights = _weights(folder, base, "buffers")
    if recipe.teacher:
        teacher = _recipe_model.Base(recipe.teacher.teacher, recipe.half)
        _recipe_model.check_same_tokens(base, teacher, "kd.teacher")
        weights += [f"{_recipe_distillation.PREFIX}={each}" for each in _weights(folder, teacher, "teacher-buffers")]
        base.take_in(teacher)
    config.write_text(_complete(recipe, base, gpus > 0, prepared))
    launch = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone", f"--nproc-per-node={world}"] if (
        gpus and world > 1 and "WORLD_SIZE" not in os.environ) else []
    rows = torch.zeros(recipe.rows, recipe.length, dtype=torch.int64)
    data, held_out = prepared.train, prepared.validation
    if loss := recipe.loss:
        inputs = dict.fromkeys(loss.inputs, rows) | {name: torch.zeros(recipe.rows, dtype=_recipe_losses.NUMBERS.get(name, torch.float32))
                                                     for name in (*loss.references, *loss.numbers)}
        if loss.is_compared:
            files = {data: prepared.rows, **({held_out: prepared.validation_rows} if held_out else {})}
            data, *others = _add_references(recipe, base, files, weights, world, launch)
            held_out = others[0] if others else None

        def forward(own: _recipe_model.Forward) -> _recipe_model.Forward:
            return _recipe_model.preference(own, loss)
    else:
        inputs = {"input_ids": rows, "labels": rows, **({"position_ids": rows} if recipe.packs else {})}
        distillation = recipe.teacher

        def forward(own: _recipe_model.Forward) -> _recipe_model.Forward:
            if distillation:
                return _recipe_model.distilled(own, base.model.teacher, distillation)
            return _recipe_model.smoothed(recipe.smoothing)(own) if recipe.smoothing else _recipe_model.next_token(own)
    artifact = folder / "step.fsdp"
    # In front of the base's, which may have trained copies of what adapters' folders hold.
    begun = [f"{recipe.begun}/"] if recipe.begun else []
    _compile(base, forward, inputs, config, begun + weights, world, artifact)
    batch = recipe.rows * world * recipe.micro_batches
    steps = recipe.steps or max(1, int(prepared.rows * recipe.epochs) // batch)
    adapters = recipe.has_adapter
    result = folder / ("adapter" if adapters else "model")
    run = [tools.path("fsdp-run"), str(artifact), f"--data={data}", f"--steps={steps}"]
    results = [f"--metrics={folder / 'metrics.jsonl'}", f"--save={folder / 'checkpoints'}", f"--keep={recipe.keep or 2}",
               f"--{'export-trained' if adapters else 'export'}={result}/"]
    if any((folder / "checkpoints").glob("step_*")):
        results.append("--load=latest")
    if recipe.save_every:
        results.append(f"--save-every={recipe.save_every}")
    if held_out:
        results += [f"--eval-data={held_out}", f"--eval-every={recipe.eval_every or max(1, steps // 4)}"]
    if _reporting.wants_tensorboard(recipe.keys):
        results.append(f"--tensorboard={folder / 'runs'}")
    if adapters and recipe.merges:
        results.append(f"--export-merged={folder / 'merged'}/")
    if _averages(recipe):
        results.append(f"--export-ema={folder / 'ema'}/")
    if recipe.teacher:
        results.append(f"--export-without={_recipe_distillation.PREFIX}*")
    return {"run": run, "results": results, "launch": launch, "artifact": str(artifact), "result": str(result), "steps": steps,
            "metrics": str(folder / "metrics.jsonl")}


def _weights(folder: pathlib.Path, base: Any, buffers: str) -> list[str]:
    """Where a model's first values are: its own folder, and what is computed in it in a file of that name."""
    if not base.buffers:
        return [base.weights()]
    from .tensor_file import write_tensors
    file = folder / f"{buffers}.safetensors"
    write_tensors(str(file), base.buffers)
    return [base.weights(), str(file)]


def _averages(recipe: _recipe.Recipe) -> bool:
    """Whether the file asks for averages of the weights."""
    ema = recipe.keys.get("ema")
    return ema is not None and not (isinstance(ema, dict) and ema.get("enable") is False)


def _mesh_size(recipe: _recipe.Recipe) -> int | None:
    mesh = recipe.keys.get("mesh")
    sizes = list(mesh.values()) if isinstance(mesh, dict) else []
    if not sizes or not all(isinstance(each, int) and each > 0 for each in sizes):
        return None
    product = 1
    for each in sizes:
        product *= each
    return product


def _complete(recipe: _recipe.Recipe, base: Any, has_gpus: bool, prepared: Any) -> str:
    """The file itself, so that its lines stay where they are, and behind it what only the model and the machine say."""
    keys = recipe.keys
    added: dict[str, Any] = {}
    if base.ties and "tied" not in keys:
        added["tied"] = base.ties
    if "loss_normalization" not in keys and not recipe.loss:
        added["loss_normalization"] = "tokens"  # as transformers' Trainer
    if "device" not in keys and has_gpus:
        added["device"] = "cuda"
    if prepared.documents_per_row and "documents_per_row" not in keys:
        added["documents_per_row"] = prepared.documents_per_row
    if "data" not in keys:
        added["data"] = {"shuffle": False} if recipe.loss and "mismatched" in recipe.loss.answers else {"shuffle": True, "seed": recipe.seed}
    if prepared.validation and "eval" not in keys:
        added["eval"] = {}
    replaced: tuple[str, ...] = ()
    if recipe.teacher and recipe.has_adapter:
        replaced = _spare_teacher(keys, added)
    if recipe.deepspeed:
        # Beside the file that names it, and not beside what is written here.
        replaced += ("deepspeed",)
        added["deepspeed"] = str(recipe.deepspeed.resolve())
    if recipe.begun:
        added.update(_recipe.read_adapter(recipe))
    lines = [f"{name}: {json.dumps(value)}" for name, value in added.items()]
    return _recipe.without_own(recipe, *replaced).rstrip("\n") + "\n\n# what fsdp-train added\n" + "\n".join(lines) + "\n"


def _spare_teacher(keys: dict[str, Any], added: dict[str, Any]) -> tuple[str, ...]:
    """Gives the teacher's layers no adapters; which keys of the file that says anew."""
    from ._recipe_distillation import PREFIX
    name = PREFIX.rstrip(".")
    if isinstance(keys["adapter"], dict):
        skipped = keys["adapter"].get("skip_modules") or []
        added["adapter"] = {**keys["adapter"], "skip_modules": [*([skipped] if isinstance(skipped, str) else skipped), name]}
        return ("adapter",)
    own = "exclude_modules" if keys.get("exclude_modules") else "lora_exclude_modules"
    skipped = keys.get(own) or []
    if isinstance(skipped, str) and set(skipped) & set("\\()[]{}|^$+*?"):  # a regular expression of the whole path, to PEFT
        added[own] = f"(?:{skipped})|{name}[.].*"
    else:
        added[own] = [*(skipped.split(",") if isinstance(skipped, str) else skipped), name]
    return (own,)


def _compile(base: Any, forward: Any, inputs: dict[str, Any], config: pathlib.Path, weights: list[str], world: int, artifact: pathlib.Path,
             *options: str) -> None:
    from . import _recipe_model
    model = artifact.with_suffix(".pt2")
    _recipe_model.export(base.model, forward, inputs, model)
    _call([tools.path("fsdp-opt"), str(model), f"--config={config}", f"--world={world}", *(f"--weights={each}" for each in weights), *options, "-o",
           str(artifact)])


def _add_references(recipe: _recipe.Recipe, base: Any, files: dict[pathlib.Path, int], weights: list[str], world: int,
                    launch: list[str]) -> list[pathlib.Path]:
    """Files of so many rows with what the model that training starts from, or another one, thinks of all answers: a program of its own, run once for each."""
    import torch

    from . import _recipe_model
    from .tensor_file import read_tensors, write_tensors
    loss = recipe.loss
    assert loss is not None
    if recipe.reference:
        other = _recipe_model.Base(recipe.reference, recipe.half and recipe.has_adapter)
        _recipe_model.check_same_tokens(base, other, "reference")
        base, weights = other, _weights(recipe.output, other, "reference-buffers")
    kept = {name: recipe.keys[name] for name in ("quantize", "load_in_4bit", "load_in_8bit", "bnb_config_kwargs", "quantization_config", "mesh", "device", "bf16", "fsdp_config") if name in recipe.keys}
    if str(recipe.keys.get("adapter")) == "qlora":
        kept.setdefault("load_in_4bit", True)
        kept["bnb_config_kwargs"] = {"bnb_4bit_use_double_quant": True, **(kept.get("bnb_config_kwargs") or {})}

    def name(file: pathlib.Path) -> pathlib.Path:
        told = hashlib.sha256(json.dumps([file.name, base.name, _stat(weights[0]), kept], default=str).encode()).hexdigest()[:12]
        return file.with_name(f"{file.name.partition('-')[0]}-with-reference-{told}.safetensors")
    targets = {file: name(file) for file in files}
    if all(target.exists() for target in targets.values()):
        return list(targets.values())
    rows = torch.zeros(recipe.rows, recipe.length, dtype=torch.int64)
    settings = recipe.output / "reference.yaml"
    settings.write_text("\n".join(f"{name}: {json.dumps(value)}" for name, value in
                                  {**kept, "mode": "inference", **({"tied": base.ties} if base.ties else {})}.items()) + "\n")
    artifact = recipe.output / "reference.fsdp"
    was = [(each, each.requires_grad) for each in base.model.parameters()]
    base.model.requires_grad_(False)
    _compile(base, lambda own: _recipe_model.reference(own, loss), dict.fromkeys(loss.inputs, rows), settings, weights, world, artifact)
    for each, trains in was:
        each.requires_grad_(trains)
    for file, target in targets.items():
        if target.exists():
            continue
        steps, outputs = -(-files[file] // (recipe.rows * world)), target.with_suffix(".outputs")
        _call([*launch, tools.path("fsdp-run"), str(artifact), f"--data={file}", f"--steps={steps}", f"--outputs={outputs}",
               *(f"--data-options=ignore={name}" for name in loss.numbers)])
        found = read_tensors(str(outputs))
        whole = {**read_tensors(str(file)), **{name: found[name][:files[file]] for name in loss.references}}
        temporary = target.with_suffix(".new")
        write_tensors(str(temporary), whole)
        os.replace(temporary, target)
        outputs.unlink()
    return list(targets.values())


def _stat(folder: str) -> list[Any]:
    """What shows that files of weights are others."""
    return [[each.name, each.stat().st_size, each.stat().st_mtime_ns] for each in sorted(pathlib.Path(folder).glob("*.safetensors"))]


def _name_base(folder: pathlib.Path, base: str) -> None:
    """Of which model adapters are, which only this knows."""
    config = folder / "adapter_config.json"
    if not config.exists():
        return
    told = json.loads(config.read_text())
    told |= {"base_model_name_or_path": str(pathlib.Path(base).resolve()) if pathlib.Path(base).is_dir() else base, "task_type": "CAUSAL_LM"}
    temporary = config.with_suffix(".new")
    temporary.write_text(json.dumps(told, indent=2) + "\n")
    os.replace(temporary, config)


def _call(command: Sequence[str], shows: bool = False) -> None:
    print("+ " + shlex.join([pathlib.Path(command[0]).name, *command[1:]]), flush=True)
    done = subprocess.run(command, env=tools.environment(), stdout=None if shows else subprocess.DEVNULL)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, list(command))


def _last_loss(metrics: str) -> float | None:
    try:
        rows = [json.loads(line) for line in pathlib.Path(metrics).read_text().splitlines() if line.strip()]
    except OSError:
        return None
    losses = [row["loss"] for row in rows if "loss" in row]
    return float(losses[-1]) if losses else None


def main() -> None:
    """The command fsdp-train."""
    parser = argparse.ArgumentParser(prog="fsdp-train", description="Trains what a YAML of Axolotl's kind asks for (docs/Recipes.md).")
    parser.add_argument("file", help="the file: base_model, datasets, and how to train")
    parser.add_argument("--output", help="where results go, in place of its output_dir")
    parser.add_argument("--world", type=int, help="ranks, in place of its mesh; default: the GPUs that there are, else 1")
    parser.add_argument("--steps", type=int, help="optimizer steps of the whole training, in place of max_steps or num_epochs")
    parser.add_argument("--dry-run", action="store_true", help="prepare and compile, say what it would take, and train nothing")
    given = parser.parse_args()
    try:
        done = train(given.file, output=given.output, world=given.world, steps=given.steps, dry_run=given.dry_run)
    except errors.Error as error:
        print(f"fsdp-train: error[fsdp-{error.id}]: {error.message}", file=sys.stderr)
        sys.exit(2)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode if error.returncode > 0 else 1)
    if not given.dry_run and int(os.environ.get("RANK", 0)) == 0:
        print(f"{done.output}" + (f": loss {done.loss:.4f} after {done.steps} steps" if done.loss is not None else ""))
