# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the end-to-end tests share: export, compile, run, and PyTorch's answer.

The reference is one process: the ranks' batches, of one micro-batch after
another, go through the plain model and one optimizer step is taken with the mean
gradient.
"""
import argparse
import copy
import fnmatch
import json
import math
import os
import pathlib
import sys
import tempfile
import time
import warnings

import torch
import yaml
from safetensors.torch import load_file, save_file

import exports
import warm
from exports import export
from ranks import Ranks

warnings.filterwarnings("ignore")
# The machine's threads are for the ranks.
torch.set_num_threads(1)

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
# A large eps, or Adam makes whole steps out of rounding noise where the true
# gradient is zero.
ADAMW = {"name": "adamw", "lr": 1e-2, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1}


# Of fsdp_config, in all configs.
DEFAULTS = {}
# Functions of a command that has succeeded and its folder.
watchers = []
# What the cases that run are marked with.
marks = set()


def parse_arguments(extend=lambda parser: None):
    """The options of every test, and those that `extend` adds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True, help="folder of fsdp-opt and fsdp-run")
    parser.add_argument("--only", default="", help="cases whose name contains this, or one of several with | between them")
    parser.add_argument("--all", action="store_true", help="with cases that differ from others in numbers alone, as test/nightly has them")
    parser.add_argument("--layout", help="bucket_layout of all configs that say nothing of it")
    parser.add_argument("--flat", action="store_true", help="with bucket_layout: auto, the cases alone that are marked as flat")
    parser.add_argument("--through-ir", action="store_true", help="makes the first artifact of each config once more through planned IR")
    parser.add_argument("--kernels", action="store_true", help="with kernels: on in all configs that say nothing of it")
    extend(parser)
    arguments = parser.parse_args()
    exports.folder = arguments.bin.parent / "test" / "exports"
    if "fsdp_opt" in sys.modules:
        from fsdp_opt import tools
        warm.load_for_package(tools)
    if arguments.kernels:
        DEFAULTS["kernels"] = "on"
    if arguments.through_ir:
        from through_ir import check_command
        watchers.append(check_command)
    if arguments.flat:
        marks.add("flat")
    if layout := "auto" if arguments.flat else arguments.layout:
        DEFAULTS["bucket_layout"] = layout
    return arguments


def flat(case, also_flat=True):
    """Marks a case in which flat buckets change what is compiled or run, so that end-to-end/*-flat runs it as well."""
    case.flat = also_flat
    return case


def run_cases(cases, only):
    """Calls each case (name -> function of a fresh folder); exit status 1 if one fails."""
    failed = []
    wanted = only.split("|")
    chosen = {name: case for name, case in cases.items()
              if any(part in name for part in wanted) and all(getattr(case, mark, False) for mark in marks)}
    if idle := [part for part in wanted if not any(part in name for name in cases)]:
        print(f"FAIL  no case's name contains {', '.join(idle)}")
        sys.exit(1)
    for name, case in chosen.items():
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(pathlib.Path(folder))
                print(f"ok    {name} ({time.monotonic() - begin:.1f} s)", flush=True)
            except Exception as error:
                failed.append(name)
                print(f"FAIL  {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} passed")
    sys.exit(1 if failed or not chosen else 0)


def call(*command, cwd, env=None, timeout=240):
    """The finished process, whatever its exit status."""
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")}
    done = warm.run(command, cwd, {**clean, "OMP_NUM_THREADS": "1", **(env or {})}, timeout)
    if done.returncode == 0:
        for watch in watchers:
            watch(command, cwd)
    return done


def must(*command, **options):
    done = call(*command, **options)
    assert done.returncode == 0, f"{pathlib.Path(command[0]).name} exited with {done.returncode}: {done.stderr.strip()[-1500:]}"
    return done


EXPORTS = ("exported", "strict", "decomposed", "core")


def make_data(inputs, batches):
    """Rows for `batches` batches less one row, so that the last one wraps round, of the inputs that are tensors."""
    def rows(value):
        count = value.shape[0] * batches - 1
        if value.is_floating_point():
            return torch.randn(count, *value.shape[1:], dtype=value.dtype)
        return torch.randint(0, int(value.max()) + 1, (count, *value.shape[1:]), dtype=value.dtype)
    return {name: rows(value) for name, value in inputs.items() if torch.is_tensor(value)}


def batch_of(data, inputs, number):
    """Batch `number` of the data file, as fsdp-run reads it."""
    out = {}
    for name, value in inputs.items():
        if not torch.is_tensor(value):
            out[name] = value
            continue
        size = value.shape[0]
        out[name] = data[name][torch.arange(number * size, (number + 1) * size) % len(data[name])]
    return out


def make_optimizer(model, options):
    """torch.optim's class with the config's parameter groups; the base's group comes first."""
    options = dict(options)
    rules = options.pop("groups", [])
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if parameter.requires_grad:
            names.setdefault(parameter, []).append(name)
    groups = [{"params": []}] + [{**rule, "params": []} for rule in rules]
    for parameter, own in names.items():
        group = 0
        for number, rule in enumerate(rules, start=1):
            patterns = rule["params"] if isinstance(rule["params"], list) else [rule["params"]]
            if any(fnmatch.fnmatchcase(name, pattern) for name in own for pattern in patterns):
                group = number
        groups[group]["params"].append(parameter)
    return OPTIMIZERS[options.pop("name")](groups, **options)


def make_scheduler(optimizer, config, steps):
    """transformers' own scheduler, or none."""
    rule = config.get("lr_scheduler")
    if not rule:
        return None
    from transformers import get_scheduler
    rule = {"name": rule} if isinstance(rule, str) else rule
    total = rule.get("total_steps", steps)
    warmup = rule.get("warmup_steps", math.ceil(rule.get("warmup_ratio", 0) * total))
    extra = {key: value for key, value in rule.items() if key not in ("name", "warmup_steps", "warmup_ratio", "total_steps")}
    return get_scheduler(rule["name"], optimizer, warmup, total, scheduler_specific_kwargs=extra)


def reference(model, inputs, data, world, steps, config, record=lambda out: None, rates=None, divides_gradients=False):
    """Loss and gradient norm of each step; parameters under all names and rank 0's buffers at the end.

    Each rank has buffers and frozen parameters of its own. `record` sees what
    the model returns, in the order of the data's rows: step by step, in each
    micro-batch by micro-batch, in each of them rank by rank. The base's learning
    rate of each step is appended to `rates`. With `divides_gradients` it is gradients that the mean of batches is made of, as ranks do, and not
    losses: where backward rounds to few bits, that decides which way.
    """
    micro_batches = config.get("gradient_accumulation_steps", 1)
    batches = world * micro_batches
    model = copy.deepcopy(model)
    optimizer = make_optimizer(model, config["optimizer"])
    scheduler = make_scheduler(optimizer, config, steps)
    untrained = {**dict(model.named_buffers()), **{k: v.data for k, v in model.named_parameters() if not v.requires_grad}}
    own = [{k: v.clone() for k, v in untrained.items()} for _ in range(world)]
    rows = []
    for step in range(steps):
        loss_sum = 0.0
        for number in range(batches):
            rank = number % world
            for name, value in untrained.items():
                value.copy_(own[rank][name])
            out = model(**batch_of(data, inputs, step * batches + number))
            record(out)
            loss = out["loss"] if isinstance(out, dict) else out[0] if isinstance(out, tuple) else out
            (loss if divides_gradients else loss / world / micro_batches).backward()
            loss_sum += loss.item() / world / micro_batches
            own[rank] = {k: v.clone() for k, v in untrained.items()}
        for parameter in model.parameters() if divides_gradients else ():
            if parameter.grad is not None:
                parameter.grad /= batches
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.get("max_grad_norm", float("inf")),
                                              float(config.get("grad_norm_type", 2)))
        if rates is not None:
            rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if scheduler:
            scheduler.step()
        optimizer.zero_grad()
        rows.append((loss_sum, norm.item()))
    for name, value in untrained.items():
        value.copy_(own[0][name])
    parameters = dict(model.named_parameters(remove_duplicate=False))
    persistent = {k: v for k, v in model.state_dict().items() if k not in parameters}
    return rows, {k: v.detach() for k, v in parameters.items()}, persistent


def compile_step(bin, folder, model, inputs, config, form="exported", options=()):
    """Compiles the model as a file of one of EXPORTS, or traced or scripted; the finished process."""
    (folder / "fsdp.yaml").write_text(yaml.safe_dump(config))
    if form in EXPORTS:
        export(model, inputs, folder / "model.pt2", form)
        file, flags = "model.pt2", []
    else:
        script = torch.jit.trace(model, example_kwarg_inputs=inputs, check_trace=False) if form == "traced" else torch.jit.script(model)
        script.save(str(folder / "model.pt"))
        short = {torch.int64: "i64", torch.float32: "f32"}
        file, flags = "model.pt", [f"--input={k}:{short[v.dtype]}[{','.join(map(str, v.shape))}]" for k, v in inputs.items()]
    return must(bin / "fsdp-opt", file, "--config=fsdp.yaml", *flags, *options, "-o", "step.fsdp", cwd=folder)


def launch(bin, folder, world, backend, *options):
    """Runs fsdp-run, which succeeds: ranks as threads (local), as processes (gloo), or as processes of torchrun, which
    takes seconds of its own (torchrun). What rank 0 says on stderr."""
    command = [bin / "fsdp-run", *options]
    if backend == "gloo":
        with Ranks(command, world, folder) as ranks:
            assert ranks.wait(240) is not None, f"ranks {ranks.alive()} of fsdp-run do not end"
            failed = [rank for rank in range(world) if ranks.status(rank)]
            assert not failed, f"rank {failed[0]} of fsdp-run exited with {ranks.status(failed[0])}: {ranks.message(failed[0])[-1500:]}"
            return ranks.message(0)
    launcher = [*warm.python(), "-m", "torch.distributed.run", "--no-python", f"--nproc-per-node={world}", "--standalone"]
    return must(*(launcher if backend == "torchrun" else []), *command, cwd=folder).stderr


def run_step(bin, folder, world, *options, backend="local", artifact="step.fsdp", data="data.safetensors"):
    """Runs the artifact on the folder's data; the rows of its metrics."""
    metrics = folder / "metrics.jsonl"
    launch(bin, folder, world, backend, artifact, f"--data={data}", f"--metrics={metrics}", *options)
    return [json.loads(line) for line in metrics.read_text().splitlines()]


def train(bin, folder, world, steps, backend="local", tag="", data="data.safetensors", options=()):
    """Metrics rows and the exported tensors of one run."""
    final = folder / f"final{tag}.safetensors"
    rows = run_step(bin, folder, world, f"--steps={steps}", f"--export={final}", *options, backend=backend, data=data)
    return rows, load_file(final)


FSDP_KEYS = ("reshard_after_forward", "gradient_divide_factor", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params", "buckets", "ignored_params", "reduce_ignored_params",
             "bucket_layout", "prefetch", "reductions_in_flight", "offload_params", "shard_dims", "gradient_sync", "gradient_division", "reshard_after_backward", "overrides", "mixed_precision",
             "activation_checkpointing", "activation_offloading", "loss_chunks", "kernels", "norms", "offload_optimizer", "optimizer_in_backward", "grains", "reduce_wire_dtype")


def make_config(world, optimizer=None, **extra):
    """A config for `world` ranks, `replicate` of them with the same shards; keys of fsdp_config are taken into it."""
    replicate = extra.pop("replicate", 1)
    mesh = {"dp_shard": world // replicate, **({"dp_replicate": replicate} if replicate > 1 else {})}
    fsdp = {**DEFAULTS, **{k: extra.pop(k) for k in FSDP_KEYS if k in extra}}
    return {"fsdp_version": 2, "mesh": mesh, "fsdp_config": fsdp, "optimizer": optimizer or ADAMW, **extra}


def must_refuse(bin, folder, configs):
    """fsdp-opt refuses the folder's model.pt2 on one rank with each of `configs` (words of the message -> make_config's keys)."""
    for words, config in configs.items():
        (folder / "fsdp.yaml").write_text(json.dumps(make_config(1, **config)))
        done = call(bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", "-o", "other.fsdp", cwd=folder)
        assert done.returncode and words in done.stderr, f"{words}: {done.stderr}"


def compare(rows, final, want_rows, want_parameters, want_buffers, start, frozen=None):
    """`frozen`: names of the parameters that do not train; without it those that stayed in PyTorch."""
    assert [row["step"] for row in rows] == list(range(len(want_rows))), f"steps {[row['step'] for row in rows]}"
    for row, (loss, norm) in zip(rows, want_rows):
        assert abs(row["loss"] - loss) <= 2e-5 * max(1, abs(loss)), f"step {row['step']}: loss {row['loss']} instead of {loss}"
        assert abs(row["grad_norm"] - norm) <= 1e-3 * norm, f"step {row['step']}: grad_norm {row['grad_norm']} instead of {norm}"
    expected = {**want_parameters, **want_buffers}
    assert set(final) == set(expected), f"exported {sorted(set(final) ^ set(expected))} too few or too many"
    moved = {k: (want_parameters[k] - start[k]).abs().mean().item() for k in want_parameters}
    furthest = max(moved.values())
    assert furthest > 1e-4, "nothing moved: the case tests nothing"
    for name, want in expected.items():
        have = final[name]
        assert have.dtype == want.dtype and have.shape == want.shape, f"{name} is {have.dtype} {tuple(have.shape)}"
        if name in (moved if frozen is None else frozen) and moved[name] == 0:
            assert torch.equal(have, want), f"{name} is frozen and has changed"
        error = (have.double() - want.double()).abs().mean().item()
        bound = 1e-3 * moved.get(name, 0) + 3e-4 * furthest + 3e-7 * want.double().abs().mean().item()
        assert error <= bound, f"{name}: mean error {error:.2e}, bound {bound:.2e}"


def train_case(bin, factory, world, backend="local", steps=3, form="exported", run_options=(), **config):
    """A case for `run_cases`: training equals PyTorch's."""
    def case(folder):
        torch.manual_seed(7)
        model, inputs = factory()
        model.train()
        settings = make_config(world, **config)
        start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
        data = make_data(inputs, world * steps * settings.get("gradient_accumulation_steps", 1))
        save_file(data, folder / "data.safetensors")
        compile_step(bin, folder, model, inputs, settings, form)
        rows, final = train(bin, folder, world, steps, backend, options=run_options)
        frozen = {k for k, v in model.named_parameters(remove_duplicate=False) if not v.requires_grad}
        compare(rows, final, *reference(model, inputs, data, world, steps, settings), start, frozen)
        for row in rows:
            assert len(row["rank_peak_rss_bytes"]) == world and row["peak_memory_bytes"] > 0 and row["step_time_s"] > 0, row
            assert row["unplanned_bytes"] == 0, row
            assert abs(row["lr"] / settings["optimizer"]["lr"] - 1) < 1e-6, row
    return case
