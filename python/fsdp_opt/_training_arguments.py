# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of each of transformers' TrainingArguments: read by the trainer, without effect, or refused."""
from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
from collections.abc import Mapping
from typing import Any

import transformers

from . import _native, errors

HONOURED = frozenset("""
    output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps
    optim weight_decay adam_beta1 adam_beta2 adam_epsilon gradient_accumulation_steps average_tokens_across_devices max_grad_norm bf16
    gradient_checkpointing gradient_checkpointing_kwargs logging_strategy logging_steps logging_first_step logging_nan_inf_filter
    include_num_input_tokens_seen log_level log_level_replica disable_tqdm report_to run_name eval_strategy eval_steps eval_delay
    per_device_eval_batch_size eval_on_start save_only_model save_strategy save_steps save_total_limit load_best_model_at_end
    metric_for_best_model greater_is_better seed data_seed accelerator_config dataloader_drop_last dataloader_num_workers
    dataloader_persistent_workers dataloader_prefetch_factor dataloader_multiprocessing_context dataloader_in_order
    remove_unused_columns label_names train_sampling_strategy length_column_name ddp_timeout label_smoothing_factor neftune_noise_alpha
    include_for_metrics prediction_loss_only fsdp fsdp_config full_determinism""".split())
"""Read. Those that take some values alone refuse the others below."""

HARMLESS = {
    "tf32": "a permission to compute less exactly, which is not used",
    "torch_compile": "the step is compiled ahead of time", "torch_compile_backend": "see torch_compile", "torch_compile_mode": "see torch_compile",
    "torch_empty_cache_steps": "memory is planned", "dataloader_pin_memory": "batches are copied once, to where the step reads them",
    "log_on_each_node": "rank 0 logs", "project": "of reporting callbacks", "trackio_space_id": "of reporting callbacks",
    "trackio_bucket_id": "of reporting callbacks", "trackio_static_space_id": "of reporting callbacks",
    "eval_do_concat_batches": "of predictions", "eval_use_gather_object": "of predictions",
    "eval_accumulation_steps": "of predictions", "hub_token": "of push_to_hub", "hub_private_repo": "of push_to_hub",
    "hub_model_id": "of push_to_hub", "hub_strategy": "of push_to_hub", "hub_always_push": "of push_to_hub", "hub_revision": "of push_to_hub",
    "use_cpu": "the artifact says for which device it is compiled",
    "ddp_find_unused_parameters": "there is no DDP",
    "ddp_bucket_cap_mb": "there is no DDP", "ddp_broadcast_buffers": "there is no DDP", "ddp_static_graph": "there is no DDP",
    "ddp_backend": "of the script's own process group", "do_train": "read by scripts", "do_eval": "read by scripts", "do_predict": "read by scripts",
    "resume_from_checkpoint": "read by scripts, which give it to train()", "local_rank": "the launcher says it"}
"""Without effect here, whatever they are, and why that changes no result."""

REFUSED = {
    "optim_args": "the optimizers take none", "optim_target_modules": "optimizers for chosen modules are not there",
    "fp16": "use bf16=True, or config={'loss_scale': 'dynamic', …}",
    "bf16_full_eval": "validation computes as training does", "fp16_full_eval": "validation computes as training does",
    "use_liger_kernel": "its kernels cannot be compiled ahead of time; config={'fsdp_config': {'loss_chunks': 'auto'}} saves the logits' memory",
    "liger_kernel_config": "see use_liger_kernel", "use_cache": "training has no cache of keys and values",
    "auto_find_batch_size": "the batch is part of the compiled step",
    "batch_eval_metrics": "compute_metrics sees all predictions at once",
    "save_on_each_node": "output_dir has to be one folder that all ranks see", "enable_jit_checkpoint": "use save_steps",
    "push_to_hub": "upload the saved folder afterwards", "ignore_data_skip": "a run goes on where it stopped",
    "restore_callback_states_from_checkpoint": "give the callbacks to the trainer again",
    "parallelism_config": "say it in config={'mesh': {'dp_shard': …, 'tp': …}}", "deepspeed": "it is another engine",
    "debug": "fsdp-run --debug-nan finds what made a NaN", "skip_memory_metrics": "trainer.session.memory has them"}
"""Refused unless at their defaults, with what to do instead."""

_FSDP_KEYS = {"version", "reshard_after_forward", "auto_wrap_policy", "transformer_layer_cls_to_wrap", "min_num_params", "cpu_offload",
              "activation_checkpointing"}
# What transformers fills in itself, and what says how FSDP works rather than what it computes.
_FSDP_HARMLESS = {"cpu_ram_efficient_loading", "state_dict_type", "backward_prefetch", "forward_prefetch", "limit_all_gathers", "use_orig_params",
                  "sync_module_states", "xla_fsdp_settings"}
_ACCELERATOR = {"split_batches": False, "dispatch_batches": None, "even_batches": True, "use_seedable_sampler": True,
                "gradient_accumulation_kwargs": None, "use_configured_state": False}


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adamw_torch": {}, "adamw_torch_fused": {}, "adamw_torch_xla": {}, "adamw_torch_npu_fused": {}, "adamw_apex_fused": {}, "sgd": {"name": "sgd"},
    "adamw_torch_8bit": {"state_dtype": "int8"}, "adamw_8bit": {"state_dtype": "int8"}, "adamw_bnb_8bit": {"state_dtype": "int8"},
    "paged_adamw": {"paged": True}, "paged_adamw_32bit": {"paged": True}, "paged_adamw_8bit": {"state_dtype": "int8", "paged": True}}
"""`optim`: what differs from AdamW with states in the parameters' type. States of a paged one lie on the host, as in files (ForeignOptimizer.cpp)."""


def refuse(name: str, why: str) -> errors.Error:
    return errors.make("E040", f"{name}: {why}")


def check(args: transformers.TrainingArguments, world: int, measures: bool = False) -> None:
    """Refuses, by name, what a trainer on `world` ranks would have to leave undone. `measures`: it has compute_metrics."""
    known = HONOURED | HARMLESS.keys() | REFUSED.keys()
    problems = []
    for field in dataclasses.fields(args):
        value = getattr(args, field.name)
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if field.name not in known:
            # Of a later transformers.
            if value != default:
                problems.append(f"{field.name}={value!r} is not known here; leave it at {default!r}")
        elif field.name in REFUSED and value != default and value not in (None, "", [], False):
            problems.append(f"{field.name}={value!r} is not supported: {REFUSED[field.name]}")
    if args.skip_memory_metrics is False:
        problems.append(f"skip_memory_metrics=False is not supported: {REFUSED['skip_memory_metrics']}")
    problems += _values(args, world, measures)
    if problems:
        raise refuse("TrainingArguments", "; ".join(problems))


def _values(args: transformers.TrainingArguments, world: int, measures: bool) -> list[str]:
    problems = []

    def expects(name: str, allowed: tuple[Any, ...]) -> None:
        value = getattr(args, name)
        value = getattr(value, "value", value)
        if value not in allowed:
            problems.append(f"{name}={value!r} is not supported: expected one of {', '.join(map(repr, allowed))}")

    why = _native.why_no_schedule(name_of(args.lr_scheduler_type))
    if why:
        problems.append(f"lr_scheduler_type={name_of(args.lr_scheduler_type)!r} is not supported: {why}")
    else:
        expects("lr_scheduler_type", tuple(_native.schedules()))
    expects("optim", tuple(OPTIMIZERS))
    expects("train_sampling_strategy", ("random", "sequential", "group_by_length"))
    expects("include_num_input_tokens_seen", ("no", "all"))
    if args.label_names not in (None, [], ["labels"]):
        problems.append(f"label_names={args.label_names!r} is not supported: the loss reads 'labels'")
    if world > 1 and not args.average_tokens_across_devices:
        problems.append("average_tokens_across_devices=False is not supported on several ranks: the loss is the mean over the tokens of all")
    if args.metric_for_best_model not in (None, "loss", "eval_loss") and not measures:
        problems.append(f"metric_for_best_model={args.metric_for_best_model!r} is not supported: without compute_metrics there is 'eval_loss'")
    other = [name for name in args.include_for_metrics if name != "inputs"]
    if other:
        problems.append(f"include_for_metrics={other!r} is not supported: expected 'inputs' alone, since losses are those of all ranks")
    extra = set(args.lr_scheduler_kwargs or {}) - _schedule_arguments(name_of(args.lr_scheduler_type)).keys()
    problems += [f"lr_scheduler_kwargs['{key}'] is not supported" for key in sorted(extra)]
    extra = set(args.gradient_checkpointing_kwargs or {}) - {"use_reentrant"}
    problems += [f"gradient_checkpointing_kwargs['{key}'] is not supported: say it in config={{'fsdp_config': {{'activation_checkpointing': …}}}}"
                 for key in sorted(extra)]
    for key, default in _ACCELERATOR.items():
        value = getattr(args.accelerator_config, key, default)
        if value != default:
            problems.append(f"accelerator_config.{key}={value!r} is not supported: expected {default!r}")
    for key, value in read_fsdp(args).items():
        if key.startswith("xla") and not value or key in _FSDP_HARMLESS:
            continue
        if key not in _FSDP_KEYS:
            problems.append(f"fsdp_config['{key}'] is not supported; keys of docs/Config.md go into config={{'fsdp_config': …}}")
        elif key == "version" and int(value) != 2:
            problems.append(f"fsdp_config['version']={value!r} is not supported: expected 2")
    return problems


def read_fsdp(args: transformers.TrainingArguments) -> dict[str, Any]:
    """fsdp_config without the prefix that older scripts write."""
    given = args.fsdp_config or {}
    if isinstance(given, str):
        with open(given, encoding="utf-8") as file:
            given = json.load(file)
    return {key.removeprefix("fsdp_"): value for key, value in given.items() if value is not None}


def make_config(args: transformers.TrainingArguments, model: Any, steps: int, evaluates: bool, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The compiler's config of a run of `steps` steps; `extra` has keys of its own, which args may not say otherwise."""
    config: dict[str, Any] = {
        "fsdp_version": 2, "fsdp_config": _fsdp_section(args, model), "optimizer": _optimizer(args, model), "lr_scheduler": _schedule(args, steps),
        "gradient_accumulation_steps": args.gradient_accumulation_steps, "seed": args.seed}
    if args.max_grad_norm and args.max_grad_norm > 0:
        config["max_grad_norm"] = args.max_grad_norm
    if args.neftune_noise_alpha:
        config["neftune_noise_alpha"] = args.neftune_noise_alpha
    if args.full_determinism:
        config["deterministic"] = True
    if evaluates:
        config["eval"] = {}
    for key, value in extra.items():
        if key == "fsdp_config":
            config[key] = {**config[key], **value}
        elif key in ("lr_scheduler", "gradient_accumulation_steps", "max_grad_norm", "seed", "eval", "data", "neftune_noise_alpha") or (
                key == "deterministic" and args.full_determinism and not value):
            raise refuse(f"config['{key}']", "TrainingArguments say it; leave it out")
        elif key == "optimizer":
            clash = sorted(set(value) & {"name", "lr", "betas", "eps", "weight_decay", "groups"})
            if clash:
                raise refuse(f"config['optimizer']['{clash[0]}']", "TrainingArguments say it; leave it out")
            config[key] = {**config[key], **value}
        else:
            config[key] = value
    return config


def name_of(value: Any) -> str:
    """The text of an enumeration's value."""
    return str(getattr(value, "value", value))


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes")


def _fsdp_section(args: transformers.TrainingArguments, model: Any) -> dict[str, Any]:
    given = read_fsdp(args)
    section: dict[str, Any] = {"reshard_after_forward": _is_true(given.get("reshard_after_forward", True))}
    policy = given.get("auto_wrap_policy", "TRANSFORMER_BASED_WRAP")
    if policy == "TRANSFORMER_BASED_WRAP":
        names = given.get("transformer_layer_cls_to_wrap") or getattr(model, "_no_split_modules", None) or []
        names = [names] if isinstance(names, str) else list(names)
        present = {type(module).__name__ for module in model.modules()}
        if "transformer_layer_cls_to_wrap" not in given:
            names = [name for name in names if name in present]
        if names:
            section |= {"auto_wrap_policy": policy, "transformer_layer_cls_to_wrap": names}
    elif policy == "SIZE_BASED_WRAP":
        section |= {"auto_wrap_policy": policy, **({"min_num_params": given["min_num_params"]} if given.get("min_num_params") else {})}
    else:
        section["auto_wrap_policy"] = policy
    if _is_true(given.get("cpu_offload", False)):
        section["offload_params"] = True
    if args.gradient_checkpointing or _is_true(given.get("activation_checkpointing", False)):
        section["activation_checkpointing"] = True
    if OPTIMIZERS[name_of(args.optim)].get("paged") and "offload_params" not in section:
        section["offload_optimizer"] = True
    if args.bf16:
        section["mixed_precision"] = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    return section


def _optimizer(args: transformers.TrainingArguments, model: Any) -> dict[str, Any]:
    word = OPTIMIZERS[name_of(args.optim)]
    if word.get("name") == "sgd":
        optimizer: dict[str, Any] = {"name": "sgd", "lr": args.learning_rate}
    else:
        optimizer = {"name": "adamw", "lr": args.learning_rate, "betas": [args.adam_beta1, args.adam_beta2], "eps": args.adam_epsilon}
    if "state_dtype" in word:
        optimizer["state_dtype"] = word["state_dtype"]
    optimizer["weight_decay"] = args.weight_decay
    if args.weight_decay:
        # The rule is transformers' own.
        decaying = set(transformers.Trainer.get_decay_parameter_names(None, model))  # type: ignore[arg-type]
        spared = [name for name, parameter in model.named_parameters() if parameter.requires_grad and name not in decaying]
        if spared:
            optimizer["groups"] = [{"params": [fnmatch_escape(name) for name in spared], "weight_decay": 0.0}]
    return optimizer


def fnmatch_escape(name: str) -> str:
    """A pattern that matches this name alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _schedule(args: transformers.TrainingArguments, steps: int) -> dict[str, Any]:
    name = name_of(args.lr_scheduler_type)
    rule: dict[str, Any] = {"name": name}
    warms, ends, _ = _native.schedules()[name]
    if warms:
        rule["warmup_steps"] = args.get_warmup_steps(steps)
    if ends:
        rule["total_steps"] = max(steps, 1)
    keys = _schedule_arguments(name)
    return rule | {keys[key]: value for key, value in (args.lr_scheduler_kwargs or {}).items() if value is not None}


# Of transformers' functions, what is another key here.
_LEAST = {"cosine_with_min_lr": {"min_lr": "min_lr", "min_lr_rate": "min_lr_ratio"},
          "cosine_warmup_with_min_lr": {"min_lr": "min_lr", "min_lr_rate": "min_lr_ratio"},
          "warmup_stable_decay": {"min_lr_ratio": "min_lr_ratio"}, "polynomial": {"lr_end": "min_lr"}}


def _schedule_arguments(name: str) -> dict[str, str]:
    """`lr_scheduler_kwargs` of a schedule, and the keys of lr_scheduler that they are."""
    _, _, numbers = _native.schedules().get(name, (False, False, []))
    return {**{each: each for each in numbers}, **_LEAST.get(name, {})}


def count_steps(args: transformers.TrainingArguments, batches: int | None) -> tuple[int, int, int]:
    """(steps, epochs, steps of an epoch) of a loader of so many micro-batches of each rank; None: nobody knows how many."""
    if batches is None:
        if args.max_steps <= 0:
            raise refuse("max_steps", "train_dataset has no length; say how many steps to make")
        return args.max_steps, 2**62, args.max_steps
    of_epoch = max(math.ceil(batches / args.gradient_accumulation_steps), 1)
    if args.max_steps > 0:
        return args.max_steps, math.ceil(args.max_steps / of_epoch), of_epoch
    return math.ceil(args.num_train_epochs * of_epoch), math.ceil(args.num_train_epochs), of_epoch
