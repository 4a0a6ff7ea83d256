# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The artifact of a config is the same, byte for byte, made from the planned program: read as bytecode, and as text.

Between them the configs say every key that a compile reads, and every kind of program that an artifact holds. Of all configs
of other scripts the same is checked with --through-ir, as test/nightly runs them.
"""
import pathlib
import re
import subprocess

import torch
import yaml
from torch.export import Dim

import zoo
from harness import export, must, parse_arguments, run_cases

ADAM = {"name": "adam", "lr": 0.01, "betas": [0.8, 0.9], "eps": 1e-3, "weight_decay": 0.1}
SGD = {"name": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True}
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32", "output_dtype": "float32", "cast_forward_inputs": True}
# Of the model that is called `lengths`.
LENGTHS = {name: {1: Dim.AUTO} for name in ("x", "y")}
CUDA = {"device": "cuda", "mesh": {"dp_shard": 4}}

# Name -> model, what of the config is said beside fsdp_version, options of fsdp-opt.
CONFIGS = {
    "plain": ("gpt", {"mesh": {"dp_shard": 3}}),
    "one rank": ("mlp", {"mesh": {"dp_shard": 1}}),
    "replicas, groups, schedule": ("mlp", {
        "mesh": {"dp_shard": 2, "dp_replicate": 2}, "max_grad_norm": 0.1, "seed": 3, "lost_gradients": "accept",
        "optimizer": {**ADAM, "groups": [{"params": "*bias", "lr": 0.02, "betas": [0.7, 0.8], "eps": 1e-4, "weight_decay": 0}]},
        "lr_scheduler": {"name": "cosine_with_min_lr", "warmup_steps": 2, "total_steps": 9, "min_lr": 1e-3}}),
    "momenta of groups": ("mlp", {
        "mesh": {"dp_shard": 2}, "optimizer": {**SGD, "groups": [{"params": ["*weight"], "momentum": 0.5, "nesterov": False}]},
        "grad_norm_type": 1, "max_grad_norm": 1.0, "on_nonfinite": "ignore", "lr_scheduler": {"name": "linear", "warmup_ratio": 0.1}}),
    "flat, by class": ("gpt", {"mesh": {"dp_shard": 4}, "fsdp_config": {
        "auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "transformer_layer_cls_to_wrap": "GptBlock", "bucket_layout": "flat", "reshard_after_forward": 2}}),
    "fsdp2's layout, by size": ("gpt", {"mesh": {"dp_shard": 3}, "fsdp_config": {
        "auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 100, "bucket_layout": "fsdp2", "prefetch": 2, "reductions_in_flight": 2}}),
    "buckets by name, other dims": ("llama", {"mesh": {"dp_shard": 3}, "fsdp_config": {
        "buckets": {"norms": "*norm*"}, "shard_dims": {"*": "largest"}, "optimizer_in_backward": "never", "kernels": "on", "norms": "fused", "force_sum_reduction": True}}),
    "overrides": ("gpt", {"mesh": {"dp_shard": 2}, "fsdp_config": {
        "mixed_precision": BF16, "reduce_wire_dtype": "bfloat16",
        "overrides": [{"modules": "*norm*", "mixed_precision": {}},
                      {"modules": "*", "reshard_after_forward": True, "bucket_layout": "flat", "prefetch": 0, "reduce_wire_dtype": "float32"}]}}),
    "ignored": ("lora", {"mesh": {"dp_shard": 2}, "fsdp_config": {"ignored_params": "*lora_A*", "reduce_ignored_params": False}}),
    "kept micro-batches": ("gpt", {"mesh": {"dp_shard": 2}, "gradient_accumulation_steps": 3, "fsdp_config": {
        "reshard_after_forward": False, "reshard_after_backward": False, "gradient_sync": "last", "gradient_divide_factor": 4}}),
    "all-reduced last": ("mlp", {"mesh": {"dp_shard": 2, "dp_replicate": 2}, "gradient_accumulation_steps": 2, "fsdp_config": {
        "gradient_sync": "all_reduce_last", "gradient_division": "optimizer"}}),
    "grains": ("gpt", {"mesh": {"dp_shard": 2}, "optimizer": SGD, "fsdp_config": {"grains": 4}}),
    "fp16": ("mlp", {"mesh": {"dp_shard": 3}, "fsdp_config": {"mixed_precision": {"param_dtype": "float16"}},
                     "loss_scale": {"init": 1024, "growth_factor": 4, "backoff_factor": 0.25, "growth_interval": 7}}),
    "checkpoints": ("gpt", {"mesh": {"dp_shard": 2}, "fsdp_config": {
        "activation_checkpointing": {"policy": "selective", "every": 2, "modules": "*blocks.?", "save": "aten.addmm"}}}),
    "activations on the host": ("gpt", {"mesh": {"dp_shard": 2}, "fsdp_config": {"activation_offloading": True, "cpu_offload_pin_memory": True}}),
    "loss in chunks": ("gpt", {"mesh": {"dp_shard": 2}, "fsdp_config": {"loss_chunks": 3}}),
    "all on the host": ("mlp", {"mesh": {"dp_shard": 2}, "fsdp_config": {"offload_params": True}}),
    "states on the host": ("mlp", {"mesh": {"dp_shard": 2}, "fsdp_config": {"offload_optimizer": True}}),
    "states of 8 bits": ("mlp", {"mesh": {"dp_shard": 2}, "optimizer": {"name": "adamw", "lr": 0.01, "state_dtype": "int8", "stochastic_rounding": False}}),
    "averages": ("mlp", {"mesh": {"dp_shard": 2}, "eval": {"data": "held.safetensors", "weights": "ema"}, "ema": {
        "decay": 0.99, "update_after_step": 3, "every": 2, "warmup": "power", "warmup_gamma": 2.0, "warmup_power": 0.5, "dtype": "parameter"}}),
    "parameters in float32": ("half", {"mesh": {"dp_shard": 2}, "optimizer": {"name": "adamw", "lr": 0.01, "state_dtype": "float32", "master_dtype": "float32"}}),
    "float8": ("llama", {"mesh": {"dp_shard": 2}, "float8": {
        "recipe": "tensorwise", "modules": "*", "enable_fsdp_float8_all_gather": True, "pad_inner_dim": True}}),
    "quantized": ("lora", {"mesh": {"dp_shard": 2}, "quantize": {"kind": "nf4", "modules": "*", "skip_modules": "*head"}}),
    "quantized in another form": ("lora", {"mesh": {"dp_shard": 2}, "quantize": {"kind": "fp4", "block_size": 128, "double_quant": True}}),
    "quantized for GPUs": ("lora", {"mesh": {"dp_shard": 2}, "device": "cuda", "quantize": {"kind": "nf4"}}),
    "adapters, means over labels": ("llama", {"mesh": {"dp_shard": 2}, "loss_normalization": "tokens", "eval": {"data": "valid.safetensors"}, "adapter": {
        "name": "lora", "r": 4, "alpha": 6, "dropout": 0.1, "rslora": True, "modules": ["q", "*.up"], "skip_modules": "*layers.1*", "also_train": "*norm*",
        "bias": "lora_only", "init": "gaussian", "lr_b_ratio": 4}}),
    "adapters out of their bases": ("gpt", {"mesh": {"dp_shard": 2}, "adapter": {
        "r": 4, "dora": True, "init": "pissa_niter_2", "modules": "all-linear", "layers": [0]}}),
    "adapted parameters": ("gpt", {"mesh": {"dp_shard": 2}, "adapter": {"r": 4, "parameters": "position"}}),
    "tensor parallel": ("llama", {"mesh": {"dp_shard": 2, "tp": 2}, "tp_plan": "auto", "sequence_parallel": True}),
    "context parallel": ("llama", {"mesh": {"dp_shard": 1, "cp": 2}, "context_parallel_rotate_method": "ring"}),
    "scheduled": ("gpt", {**CUDA, "cluster": "h100x8", "schedule": "auto", "precision": "auto", "memory_budget": "40GiB"}),
    "for GPUs": ("gpt", {**CUDA, "cuda_arch": "sm_80", "tf32": True, "reduced_precision_reduction": True, "fp16_accumulation": True, "deterministic": True, "documents_per_row": 4}),
    "norms, noise, a rate that waits": ("llama", {
        "mesh": {"dp_shard": 2}, "metrics": {"norms": ["gradients", "weights", "updates"], "by": "parameter"}, "neftune_noise_alpha": 5,
        "lr_scheduler": {"name": "warmup_stable_decay", "total_steps": 9, "num_stable_steps": 3, "num_decay_steps": 4, "warmup_type": "cosine",
                         "decay_type": "1-sqrt", "num_cycles": 0.75, "min_lr_ratio": 0.1}}),
    **{f"rates, {rule['name']}": ("mlp", {"mesh": {"dp_shard": 2}, "lr_scheduler": {"total_steps": 9, "warmup_steps": 2, **rule}}) for rule in (
        {"name": "polynomial", "power": 2}, {"name": "cosine", "warmup_power": 2, "constant_ratio": 0.5, "min_lr_ratio": 0.1}, {"name": "inverse_sqrt", "timescale": 5}, {"name": "cosine_warmup_with_min_lr", "warmup_lr_rate": 0.1},
        {"name": "linear_warmup_stable_decay", "decay_ratio": 0.25})},
    "inference": ("gpt", {"mesh": {"dp_shard": 2}, "mode": "inference"}),
    "data and validation": ("gpt", {"mesh": {"dp_shard": 2},
        "data": {"tokens": "train.bin", "format": "llm.c", "inputs": "x", "targets": "y", "shuffle": True, "seed": 5, "epochs": 2, "drop_last": False},
        "eval": {"data": "valid.safetensors", "every": 3, "batches": 2}}),
    "samples of many lengths": ("lengths", {"mesh": {"dp_shard": 2}, "data": {
        "samples": "rows.safetensors", "pad": {"x": 0, "y": -100}, "length_pool": 8, "length_group": 4, "labels": "y"}}, ["--dim=x.1=4,7"]),
    "first values": ("mlp", {"mesh": {"dp_shard": 2}, "init": {"*weight": "normal(0, 0.02)", "*bias": "zeros"}}),
    "shapes, micro-batches": ("lengths", {"mesh": {"dp_shard": 2}, "gradient_accumulation_steps": 2}, ["--dim=x.1=4,7"]),
}
# What no program of a step shows: read before it is made, or by the run alone as a part of a key that is there.
ELSEWHERE = {"weights": "files of --weights", "tied": "models exported without data", "data.dtype": "token files that do not say",
             "data.label_count": "an input of its own", "data.shifts_labels": "with data.label_count"}


def check_same(program, compile, artifact, folder, text=True):
    """What `compile`, a command without its output, makes as a planned program becomes the same `artifact`."""
    code, words, again = (artifact.with_name(f"{artifact.stem}.through-ir{suffix}") for suffix in (".mlirbc", ".mlir", ".fsdp"))

    def make(what, *command):
        made = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, timeout=240)
        assert made.returncode == 0, f"{what}: {made.stderr.strip()[-500:]}"

    try:
        make("planned IR cannot be made", *compile, "-o", code)
        planned = [code]
        if text:
            make("planned IR cannot be printed", program, code, "--mlir-print-debuginfo", "-o", words)
            planned.append(words)
        for each in planned:
            make(f"{each.name} cannot become an artifact", program, each, "-o", again)
            assert again.read_bytes() == artifact.read_bytes(), f"{each.name} gives another artifact than {artifact.name} is"
    finally:
        for file in (code, words, again):
            file.unlink(missing_ok=True)


# Configs with the flags that go with them, of this process.
seen = set()


def check_command(command, folder):
    """Of a command that has run: if it has made the first artifact of its config, the same made through IR. A planned program is
    one plan, and not several of --world=1,2."""
    command, folder = [str(part) for part in command], pathlib.Path(folder)
    configs = [part.split("=", 1)[1] for part in command if part.startswith("--config=")]
    if (pathlib.Path(command[0]).name != "fsdp-opt" or not configs or not command[-1].endswith(".fsdp")
            or any(part.startswith("--world=") and "," in part for part in command)):
        return
    # Beside the artifact: it names its files from its own folder.
    artifact, config = folder / command[-1], folder / configs[-1]
    if not config.exists() or not artifact.is_file() or (key := (config.read_bytes(), *command[2:-1])) in seen:
        return
    seen.add(key)
    check_same(command[0], [part for part in command[:-2] if not re.match("--(report|memory-map|save-stages)=", part)], artifact, folder)


def case(bin, model, config, options=()):
    def check(folder):
        factory, dims = (zoo.gpt, LENGTHS) if model == "lengths" else (getattr(zoo, model), None)
        torch.manual_seed(7)
        module, inputs = factory()
        export(module.train(), inputs, folder / "model.pt2", dims=dims)
        (folder / "fsdp.yaml").write_text(yaml.safe_dump({"fsdp_version": 2, **config}))
        compile = [bin / "fsdp-opt", "model.pt2", "--config=fsdp.yaml", *options]
        must(*compile, "-o", "step.fsdp", cwd=folder)
        check_same(bin / "fsdp-opt", compile, folder / "step.fsdp", folder)
    return check


def keys_of(config, before=""):
    """Every key that a config says, with those around it."""
    for entry in config if isinstance(config, list) else [config]:
        for key, value in entry.items() if isinstance(entry, dict) else ():
            yield before + key
            yield from keys_of(value, f"{before}{key}.")


def every_key(document):
    """Each key of docs/Config.md is said by some config."""
    def check(_):
        parts = re.findall(r"<!-- keys: (?!other tools)[\w ]+ -->\n(.*?)<!-- end of keys -->", document.read_text(), re.S)
        known = set(re.findall(r"(?m)^\| `([\w.]+)` \|", "".join(parts)))
        said = {key for model, config, *_ in CONFIGS.values() for key in keys_of({"fsdp_version": 2, **config})}
        assert len(known) > 100, f"{len(known)} keys in {document}"
        missing = {key for key in known - said if not any(key == other or key.startswith(other + ".") for other in ELSEWHERE)}
        assert not missing, f"no config of this test says {', '.join(sorted(missing))}"
        assert not ELSEWHERE.keys() - known, f"{document} does not know {ELSEWHERE.keys() - known}"
    return check


def main():
    arguments = parse_arguments()
    cases = {name: case(arguments.bin, *row) for name, row in CONFIGS.items()}
    cases["every key"] = every_key(pathlib.Path(__file__).resolve().parents[2] / "docs/Config.md")
    run_cases(cases, arguments.only)


if __name__ == "__main__":
    main()
