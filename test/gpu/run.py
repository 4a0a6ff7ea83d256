#!/usr/bin/env python3
"""Everything that one GPU can show, in one command.

    run.py prepare OUT --bin build/bin      here: exports the models and compiles all artifacts (no GPU needed)
    run.py test OUT --bin build-cuda/bin    on a machine with a GPU: runs them against PyTorch on the same GPU, the tests that
                                            need a GPU (gpu-test beside --bin), and compute-sanitizer
    run.py table OUT --bin build-cuda/bin   there: a 1B-parameter decoder's step by PyTorch and by fsdp-run

`test` and `table` need no compiler and no MLIR: build with `cmake --preset cuda`, or bring a build along, whose libraries
find LibTorch by LD_LIBRARY_PATH (set here to the torch of this Python). Exit status 0 only if all that ran was right.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import time

import torch
import yaml
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "end_to_end")]
import harness  # noqa: E402
import models  # noqa: E402

STEPS = 6  # some as single launches, some as a graph
SGD = {"name": "sgd", "lr": 0.05, "momentum": 0.9}
CASES = {
    "zero3": {"reshard_after_forward": True},
    "zero2": {"reshard_after_forward": False},
    "flat": {"bucket_layout": "flat"},
    "clip": {"max_grad_norm": 0.05},
    "accumulate": {"gradient_accumulation_steps": 3, "optimizer": SGD},
    "bf16": {"mixed_precision": {"param_dtype": "bfloat16", "reduce_dtype": "float32"}, "optimizer": SGD},
}
WORLDS = (1, 2, 4)


def fresh(factory):
    torch.manual_seed(7)
    model, inputs = factory()
    return model.train(), inputs


def config_of(world, case, arch):
    return {**harness.make_config(world, **json.loads(json.dumps(CASES[case]))), "device": "cuda", "cuda_arch": arch}


def prepare(arguments):
    for name, factory in models.SMALL.items():
        folder = arguments.out / name
        folder.mkdir(parents=True, exist_ok=True)
        model, inputs = fresh(factory)
        harness.export(model, inputs, folder / "model.pt2")
        save_file(harness.make_data(inputs, max(WORLDS) * STEPS * 3), folder / "data.safetensors")
        for world in WORLDS:
            for case in CASES:
                config = config_of(world, case, arguments.arch)
                (folder / f"{case}-{world}.yaml").write_text(yaml.safe_dump(config))
                harness.must(arguments.bin / "fsdp-opt", "model.pt2", f"--config={case}-{world}.yaml", "-o", f"{case}-{world}.fsdp", cwd=folder)
                print(f"compiled {name} {case} for {world}", flush=True)
    folder = arguments.out / "decoder_1b"
    folder.mkdir(exist_ok=True)
    with torch.device("meta"):
        model, inputs = models.decoder_1b()
    harness.export(model, inputs, folder / "model.pt2")
    for world in (1, 2):
        config = {**harness.make_config(world, reshard_after_forward=True, mixed_precision={"param_dtype": "bfloat16", "reduce_dtype": "bfloat16"}),
                  "device": "cuda", "cuda_arch": arguments.arch, "init": {"*": "normal(0, 0.02)", "*norm*": "ones"}}
        (folder / f"{world}.yaml").write_text(yaml.safe_dump(config))
        harness.must(arguments.bin / "fsdp-opt", "model.pt2", f"--config={world}.yaml", "-o", f"step-{world}.fsdp", cwd=folder, timeout=600)
        print(f"compiled decoder_1b for {world}", flush=True)


def environment():
    libraries = [pathlib.Path(torch.__file__).parent / "lib"]
    libraries += sorted(pathlib.Path(torch.__file__).parent.parent.glob("nvidia/*/lib"))
    return {"LD_LIBRARY_PATH": ":".join([*map(str, libraries), os.environ.get("LD_LIBRARY_PATH", "")])}


def fsdp_run(bin, folder, artifact, *options, before=(), timeout=300):
    metrics = folder / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    done = harness.must(*before, bin / "fsdp-run", artifact, f"--metrics={metrics}", *options, cwd=folder, env=environment(), timeout=timeout)
    return [json.loads(line) for line in metrics.read_text().splitlines()], done


def on_gpu(values):
    return {k: v.cuda() for k, v in values.items()}


def check_case(bin, folder, name, case, world):
    config = yaml.safe_load((folder / f"{case}-{world}.yaml").read_text())
    model, inputs = fresh(models.SMALL[name])
    data = load_file(folder / "data.safetensors")
    start = {k: v.detach().clone() for k, v in model.named_parameters(remove_duplicate=False)}
    finals, all_rows = [], []
    for graph in ("on", "off"):
        final = folder / f"final-{graph}.safetensors"
        rows, _ = fsdp_run(bin, folder, f"{case}-{world}.fsdp", f"--steps={STEPS}", "--data=data.safetensors", f"--export={final}", f"--cuda-graph={graph}")
        finals.append(load_file(final))
        all_rows.append([(row["loss"], row["grad_norm"]) for row in rows])
    assert all_rows[0] == all_rows[1], f"a graph gives other losses than single launches: {all_rows}"
    for key, value in finals[0].items():
        assert torch.equal(value, finals[1][key]), f"a graph gives another {key} than single launches"
    for row in rows[1:]:
        assert row["unplanned_bytes"] == 0, row
    if case == "bf16":
        reference_bf16(model, inputs, data, world, config, rows)
        return
    want_rows, parameters, buffers = harness.reference(model.cuda(), on_gpu(inputs), on_gpu(data), world, STEPS, config)
    cpu = lambda tensors: {k: v.cpu() for k, v in tensors.items()}  # noqa: E731
    harness.compare(rows, finals[0], want_rows, cpu(parameters), cpu(buffers), start)


def reference_bf16(model, inputs, data, world, config, rows):
    """Losses alone, and to what bf16 resolves: PyTorch rounds at other places."""
    want, _, _ = harness.reference(model.cuda(), on_gpu(inputs), on_gpu(data), world, STEPS, config)
    for row, (loss, _) in zip(rows, want):
        assert abs(row["loss"] - loss) <= 3e-2 * max(1, abs(loss)), f"step {row['step']}: loss {row['loss']} instead of {loss}"


def sanitize(bin, folder):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not pathlib.Path(tool).exists():
        print("skipped: compute-sanitizer is not installed")
        return
    for world in (1, 2):
        for graph in ("on", "off"):
            _, done = fsdp_run(bin, folder, f"zero3-{world}.fsdp", "--steps=5", "--data=data.safetensors", f"--cuda-graph={graph}",
                               before=(tool, "--tool=memcheck", "--error-exitcode=9"), timeout=600)
            assert "ERROR SUMMARY: 0 errors" in done.stdout + done.stderr, done.stdout[-2000:]


def test(arguments):
    need_gpu()
    failed = []

    def check(name, body):
        begin = time.monotonic()
        try:
            body()
            print(f"ok    {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Exception as error:
            failed.append(name)
            print(f"FAIL  {name}: {type(error).__name__}: {error}", flush=True)

    def unit():
        program = arguments.bin.parent / "test" / "bin" / "gpu-test"
        done = harness.call(program, cwd=arguments.bin, env=environment(), timeout=600)
        assert done.returncode == 0 and "SKIPPED" not in done.stdout, (done.stdout + done.stderr)[-3000:]

    check("gpu-test", unit)
    for name in models.SMALL:
        for world in WORLDS:
            for case in CASES:
                check(f"{name} {case} world {world}", lambda: check_case(arguments.bin, arguments.out / name, name, case, world))
    check("compute-sanitizer", lambda: sanitize(arguments.bin, arguments.out / "mlp"))
    print(f"{len(failed)} failed" + (": " + ", ".join(failed) if failed else ""))
    return 1 if failed else 0


def need_gpu():
    if not torch.cuda.is_available():
        sys.exit("this needs a GPU that PyTorch sees; `prepare` is the part that does not")


def torch_step(compiled):
    """Median seconds and peak bytes of PyTorch's step: bf16 weights for compute, fp32 ones in the optimizer."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with torch.device("cuda"):
        model, inputs = models.decoder_1b()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run = torch.compile(model) if compiled else model
    times = []
    for step in range(12):
        torch.cuda.synchronize()
        begin = time.monotonic()
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(**inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if step >= 4:
            times.append(time.monotonic() - begin)
    peak = torch.cuda.max_memory_allocated()
    del model, optimizer, run, loss
    return statistics.median(times), peak


def table(arguments):
    need_gpu()
    print(f"1B-parameter decoder, bf16, 4 x 2048 tokens a rank, on {torch.cuda.get_device_name()}")
    print(f"{'':34} {'ms a step':>10} {'peak GiB':>10}")

    def row(name, body):
        try:
            seconds, peak = body()
            print(f"{name:34} {1000 * seconds:10.1f} {peak / 2**30:10.2f}", flush=True)
        except Exception as error:
            print(f"{name:34} failed: {error}", flush=True)

    row("PyTorch eager, autocast", lambda: torch_step(False))
    row("torch.compile, autocast", lambda: torch_step(True))
    torch.cuda.empty_cache()
    for world in (1, 2):
        for graph in ("on", "off"):
            def ours():
                rows, _ = fsdp_run(arguments.bin, arguments.out / "decoder_1b", f"step-{world}.fsdp", "--steps=12", f"--cuda-graph={graph}",
                                   f"--data={tokens_file(arguments.out)}", timeout=600)
                return statistics.median(r["step_time_s"] for r in rows[5:]), world * rows[-1]["peak_memory_bytes"]
            row(f"fsdp-run, {world} rank{'s' * (world > 1)}, graph {graph}", ours)
    return 0


def tokens_file(out):
    path = out / "decoder_1b" / "data.safetensors"
    if not path.exists():
        save_file(models.tokens(32000, 64, 2048), path)
    return path.resolve()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("prepare", "test", "table"))
    parser.add_argument("out", type=lambda p: pathlib.Path(p).resolve(), help="folder of models and artifacts")
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), required=True, help="folder of fsdp-opt, or of a CUDA build's fsdp-run")
    parser.add_argument("--arch", default="sm_90", help="the GPU that artifacts are compiled for")
    arguments = parser.parse_args()
    sys.exit({"prepare": prepare, "test": test, "table": table}[arguments.what](arguments))


if __name__ == "__main__":
    main()
