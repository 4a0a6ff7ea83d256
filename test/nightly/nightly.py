#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is too long for every change: fuzzers, sanitizers, all cases of training, the operator sweep, plans for GPUs, an exact solver, a calibration, losses in narrow types, a soak, a browser.

    nightly.py --build build [--out summary.md] [--only fuzz,asan,tsan,training,sweep,plans,kernels,emitter,chains,exact,calibrate,narrow,soak,pictures]
               [--fuzz-seconds 600] [--sweep-every 1] [--soak-steps 10000] ...

Each part goes on whatever the others find. The summary is a table, written to
--out and printed; the logs lie beside it. The exit status says whether there are
findings.
"""
import argparse
import itertools
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PARTS = ("fuzz", "asan", "tsan", "training", "sweep", "plans", "kernels", "emitter", "chains", "exact", "calibrate", "narrow", "soak", "pictures")
# Unit tests of what is ours from end to end: readers, the runtime, its threads.
UNIT_TESTS = ("fsdp-support-test", "fsdp-plan-test", "fsdp-weights-test", "fsdp-data-test", "config-test",
              "checkpoint-test", "comm-test", "runtime-test")
SANITIZERS = {
    # LibTorch is not instrumented: what it allocates for good is no leak of ours, and containers that cross the border are
    # annotated on one side alone.
    "asan": {"ASAN_OPTIONS": "detect_leaks=0:detect_container_overflow=0:detect_odr_violation=0",
             "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:suppressions={HERE / 'ubsan.supp'}"},
    "tsan": {"TSAN_OPTIONS": f"ignore_noninstrumented_modules=1:halt_on_error=0:exitcode=66:suppressions={HERE / 'tsan.supp'}"},
}


# End-to-end tests whose configs say nothing of the layout: all cases, with either, and the artifact of each config through planned
# IR. Of these a part runs with each change (--all and flat() in the scripts, and end-to-end/through-ir).
LAYOUTS = {"rows": [], "flat": ["--layout=auto"]}
TRAINING = ("train_local", "train_gloo", "accumulation", "determinism", "dynamic", "fsdp2_suite", "memory", "mesh", "optimizers", "outputs", "precision",
        "random_training", "regions", "weights")


# Others that leave cases to the night.
OTHERS = ("attention", "auto", "elastic", "ema", "float8", "gpu_kernels", "lengths", "merged", "quantized", "same_bits", "split", "states", "worlds")


class Row:
    def __init__(self, part, did, findings, seconds):
        self.cells = [part, did, "; ".join(findings) or "none", f"{seconds:.0f} s"]
        self.failed = bool(findings)


def run(command, log, seconds=None, **options):
    """Exit status, or None after `seconds`; what it said is in `log`."""
    with open(log, "w") as file:
        file.write(" ".join(map(str, command)) + "\n")
        file.flush()
        try:
            return subprocess.run([str(c) for c in command], stdout=file, stderr=subprocess.STDOUT, timeout=seconds, **options).returncode
        except subprocess.TimeoutExpired:
            return None


def last(pattern, text, default="?"):
    found = re.findall(pattern, text)
    return found[-1] if found else default


def fuzz(options):
    made, begin = options.build / "test/fuzz", time.monotonic()
    log = options.logs / "fuzz-build.log"
    if run(["ninja", "-C", options.build, f"-j{options.jobs}", "fuzzers"], log) != 0:
        yield Row("fuzz", "the build of the fuzzers", [f"it failed, see {log}"], time.monotonic() - begin)
        return
    for program in sorted((options.build / "test/bin").glob("fsdp-fuzz-*")):
        name = program.name.removeprefix("fsdp-fuzz-")
        seeds = SOURCE / "test/fuzz/corpus" / name
        if name == "seeds":
            continue
        seeds = seeds if seeds.exists() else made / "seeds" / name
        found, crashes = options.logs / "found" / name, options.logs / "crashes" / name
        found.mkdir(parents=True, exist_ok=True)
        crashes.mkdir(parents=True, exist_ok=True)
        dictionary = SOURCE / f"test/fuzz/{name}.dict"
        log, begin = options.logs / f"fuzz-{name}.log", time.monotonic()
        status = run([program, f"-max_total_time={options.fuzz_seconds}", "-timeout=20", "-rss_limit_mb=3000", "-max_len=65536",
                      "-print_final_stats=1", f"-artifact_prefix={crashes}/", *([f"-dict={dictionary}"] if dictionary.exists() else []), found, seeds],
                     log, options.fuzz_seconds + 300, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=0"})
        text = log.read_text(errors="replace")
        findings = [] if status == 0 else [f"status {status}: {last(r'SUMMARY: (.*)', text)}"]
        yield Row(f"fuzz {name}", f"{last(r'stat::number_of_executed_units: *([0-9]+)', text)} runs, {last(r'cov: ([0-9]+)', text)} edges, "
                  f"{last(r'corp: ([0-9]+)', text)} inputs", findings, time.monotonic() - begin)


def cached(build, name):
    return last(rf"(?m)^{name}:[A-Z]+=(.*)$", (build / "CMakeCache.txt").read_text(), "")


def sanitize(options, preset):
    begin, build = time.monotonic(), options.build.parent / f"build-{preset}"
    tests = [test for test in UNIT_TESTS if re.search(options.tests, test)]
    log = options.logs / f"{preset}-build.log"
    status = run(["cmake", "--preset", preset, *[f"-D{name}={cached(options.build, name)}" for name in ("FSDP_PYTHON", "FSDP_TORCH_DIR")]],
                 log, cwd=SOURCE)
    if status == 0:
        status = run(["ninja", "-C", build, f"-j{options.jobs}", *tests], log)
    if status != 0:
        yield Row(preset, f"the build of {len(tests)} tests", [f"it failed, see {log}"], time.monotonic() - begin)
        return
    for test in tests:
        begin, log = time.monotonic(), options.logs / f"{preset}-{test}.log"
        status = run([build / "test/bin" / test], log, options.test_seconds, cwd=build, env={**os.environ, "OMP_NUM_THREADS": "2", **SANITIZERS[preset]})
        text = log.read_text(errors="replace")
        findings = sorted(set(re.findall(r"SUMMARY: \w+: (.*)|runtime error: (.*)", text)))
        findings = [" ".join(filter(None, pair))[:160] for pair in findings]
        findings += [f"failed: {name}" for name in sorted(set(re.findall(r"\[  FAILED  \] (\S+?),? ", text)))[:5]]
        if status != 0 and not findings:
            findings = [f"status {status}"]
        yield Row(f"{preset} {test}", f"{last(r'([0-9]+) tests? ran?', text, last(r'Running ([0-9]+) tests', text))} tests", findings,
                  time.monotonic() - begin)


def training(options):
    for name, layout in [*itertools.product(TRAINING, LAYOUTS), *((name, "rows") for name in OTHERS)]:
        begin, log = time.monotonic(), options.logs / f"{name}-{layout}.log"
        status = run([options.python, SOURCE / f"test/end_to_end/{name}.py", "--bin", options.build / "bin", "--all", "--through-ir", *LAYOUTS[layout]], log)
        text = log.read_text(errors="replace")
        findings = [] if status == 0 else [line[:160] for line in re.findall(r"(?m)^FAIL +(.*)$", text)[:10]] or [f"status {status}"]
        yield Row(f"{name}, {layout}", last(r"(?m)^(\d+ of \d+ passed)$", text), findings, time.monotonic() - begin)


def sweep(options):
    for kernels in ((), ("--kernels",)):
        begin, log = time.monotonic(), options.logs / f"sweep{''.join(kernels)}.log"
        status = run([options.python, SOURCE / "test/op_sweep/sweep.py", "--build", options.build, "--train", f"--samples={options.sweep_samples}",
                      f"--every={options.sweep_every}", f"--world={options.sweep_world}", f"--jobs={options.jobs}", *kernels], log)
        text = log.read_text(errors="replace")
        findings = [] if status == 0 else [line[:100] for line in re.findall(r"(?m)^(\S+ \[\d+\]: .*)$", text)[:10]] or [f"status {status}"]
        yield Row(" ".join(("operator sweep", *kernels)), last(r"(?m)^(\d+ operators: .*)$", text), findings, time.monotonic() - begin)


def plans(options):
    """All models and operators compiled for GPUs: of models, a table is in plans.md."""
    begin, log = time.monotonic(), options.logs / "plans.log"
    status = run([options.python, SOURCE / "test/gpu/fake_cuda.py", "--bin", options.build / "bin", "--all", f"--every={options.sweep_every}",
                  f"--table={options.logs / 'plans.md'}", "--models", *options.plans_models], log)
    text = log.read_text(errors="replace")
    findings = [] if status == 0 else [line[:160] for line in re.findall(r"(?m)^FAIL +(.*)$", text)[:10]] or [f"status {status}"]
    yield Row("plans for GPUs", last(r"(?m)^(\d+ of \d+ passed)$", text), findings, time.monotonic() - begin)
    begin, log = time.monotonic(), options.logs / "syncs.log"
    status = run([options.python, SOURCE / "test/op_sweep/cuda_syncs.py", "--build", options.build, f"--every={options.sweep_every}"], log)
    text = log.read_text(errors="replace")
    findings = [] if status == 0 else re.findall(r"(?m)^(\S+: CudaSyncs\.md has)$", text)[:10] or [f"status {status}"]
    yield Row("where the host waits for GPUs", last(r"(?m)^(\d+ samples of .*)$", text), findings, time.monotonic() - begin)


def kernels(options):
    begin, log = time.monotonic(), options.logs / "kernels.log"
    status = run([options.python, SOURCE / "test/hostile/kernels.py", f"--every={options.kernels_every}"], log)
    text = log.read_text(errors="replace")
    yield Row("kernels", last(r"(?m)^(\d+ calls .*)$", text), [] if status == 0 else re.findall(r"(?m)^(no rule: .*)$", text) or [f"status {status}"],
              time.monotonic() - begin)


def emitter(options):
    """Code of random and of harmful kernels beside the interpreter; functions of each so many-th float."""
    for part, program, variables in (
            ("code of kernels", "fsdp-kernel-code-test",
             {"FSDP_KERNEL_PROGRAMS": options.emitter_programs, "FSDP_KERNEL_MUTATIONS": 30 * options.emitter_programs}),
            ("kernels' PTX", "fsdp-kernel-ptx-test", {"FSDP_KERNEL_PROGRAMS": options.emitter_programs}),
            ("functions of kernels", "fsdp-kernel-test", {"FSDP_KERNEL_FLOATS": options.emitter_floats})):
        begin, log = time.monotonic(), options.logs / f"{program}.log"
        environment = os.environ | {name: str(value) for name, value in variables.items()}
        status = run([options.build / "test/bin" / program], log, env=environment)
        text = log.read_text(errors="replace")
        findings = [] if status == 0 else re.findall(r"(?m)^\[  FAILED  \] (\S+) \(", text)[:10] or [f"status {status}"]
        did = ", ".join(f"{name}={value}" for name, value in variables.items())
        yield Row(part, did, findings, time.monotonic() - begin)


def chains(options):
    """Single operators and random chains of them, as kernels beside the interpreter and LibTorch; other ones each night."""
    begin, log = time.monotonic(), options.logs / "chains.log"
    seed = int(time.time()) // 86400 if options.chains_seed is None else options.chains_seed
    status = run([options.python, SOURCE / "test/op_sweep/chains.py", "--build", options.build, f"--chains={options.chains}", f"--seed={seed}"], log)
    text = log.read_text(errors="replace")
    findings = [] if status == 0 else [line[:160] for line in re.findall(r"(?m)^(\S+ (?:f32|bf16|f16) seed \d+: .*|fewer than .*)$", text)[:10]] or [f"status {status}"]
    yield Row(f"chains of operators, seed {seed}", last(r"(?m)^(\d+ chains: .*)$", text), findings, time.monotonic() - begin)


def soak(options):
    begin, log = time.monotonic(), options.logs / "soak.log"
    status = run([options.python, HERE / "soak.py", "--bin", options.build / "bin", f"--steps={options.soak_steps}", f"--kills={options.soak_kills}",
                  "--folder", options.logs / f"soak-{options.soak_steps}"], log)
    text = log.read_text(errors="replace")
    findings = [] if status == 0 else [last(r"(?m)^(\w*Error: .*)$", text, f"status {status}")]
    yield Row("soak", last(r"(?m)^(\d+ steps on .*)$", text), findings, time.monotonic() - begin)


def pictures(options):
    begin, log = time.monotonic(), options.logs / "pictures.log"
    status = run([options.python, SOURCE / "test/pictures/pictures.py", "--build", options.build, "--out", options.logs], log)
    text = log.read_text(errors="replace")
    did = "skipped: " + last(r"(?m)^skipped: (.*)$", text) if status == 77 else f"{len(re.findall(r'(?m)^ok ', text))} pictures"
    yield Row("pictures", did, [] if status in (0, 77) else [last(r"(?m)^(\w*Error: .*)$", text, f"status {status}")], time.monotonic() - begin)


def exact(options):
    """Needs the wheel highspy beside those of the tests."""
    begin, log = time.monotonic(), options.logs / "exact.log"
    status = run([options.python, HERE / "exact.py", "--bin", options.build / "bin", "--step-model", options.build / "test/bin/fsdp-step-model"], log)
    text = log.read_text(errors="replace")
    findings = [] if status == 0 else [last(r"(?m)^(\w*Error: .*|\d+ answers .*|fewer .*)$", text, f"status {status}")]
    yield Row("exact", f"{len(re.findall(r'HiGHS [0-9.]+ ms', text))} budgets of schedules against HiGHS", findings, time.monotonic() - begin)


def calibrate(options):
    begin, log = time.monotonic(), options.logs / "calibrate.log"
    status = run([options.python, SOURCE / "test/bench/real.py", "--bin", options.build / "bin", "--work", options.logs / "calibrate", "--part", "transfers",
                  "--worlds", "2", "--fresh"], log, 1800)
    text = log.read_text(errors="replace")
    findings = re.findall(r"(?m)^FAIL +(.*)$", text)
    yield Row("calibrate", f"{len(re.findall(r'(?m)^(?:ok|FAIL) ', text))} checks of transfers between processes",
              findings or ([] if status == 0 else [f"status {status}"]), time.monotonic() - begin)


def narrow(options):
    begin, log = time.monotonic(), options.logs / "narrow.log"
    status = run([options.python, HERE / "narrow.py", "--bin", options.build / "bin", f"--steps={options.narrow_steps}", "--svg", options.logs / "narrow.svg"], log, 7200)
    text = log.read_text(errors="replace")
    findings = re.findall(r"(?m)^FAIL +(.*)$", text)
    yield Row("narrow", last(r"(?m)^(\d+ of \d+ types learn as their first), ", text), findings or ([] if status == 0 else [f"status {status}"]), time.monotonic() - begin)


def table(rows):
    rows = [["part", "done", "findings", "time"], ["---"] * 4, *[row.cells for row in rows]]
    return "".join("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), default=SOURCE / "build")
    parser.add_argument("--python", default=sys.executable, help="one with PyTorch")
    parser.add_argument("--out", type=lambda p: pathlib.Path(p).resolve(), help="default: BUILD/nightly/summary.md")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--fuzz-seconds", type=int, default=600, help="of each fuzzer")
    parser.add_argument("--tests", default="", help="sanitizers: unit tests whose name matches")
    parser.add_argument("--test-seconds", type=int, default=3600, help="sanitizers: of each test at most")
    parser.add_argument("--sweep-every", type=int, default=1, help="every K-th operator")
    parser.add_argument("--sweep-samples", type=int, default=4)
    parser.add_argument("--sweep-world", type=int, default=2)
    parser.add_argument("--plans-models", nargs="*", default=[], help="Python files whose MODELS are planned for GPUs as well")
    parser.add_argument("--kernels-every", type=int, default=1, help="every K-th operator")
    parser.add_argument("--emitter-programs", type=int, default=20000, help="random programs of kernels")
    parser.add_argument("--emitter-floats", type=int, default=31, help="every K-th float")
    parser.add_argument("--chains", type=int, default=2000, help="random chains of operators")
    parser.add_argument("--chains-seed", type=int, help="default: the number of the day")
    parser.add_argument("--narrow-steps", type=int, default=1000, help="of each narrow type, in three orders of the rows")
    parser.add_argument("--soak-steps", type=int, default=10000)
    parser.add_argument("--soak-kills", type=int, default=100)
    options = parser.parse_args()
    options.out = options.out or options.build / "nightly/summary.md"
    options.logs = options.out.parent
    options.logs.mkdir(parents=True, exist_ok=True)
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only: expected {', '.join(PARTS)}, found {', '.join(sorted(unknown))}")
    parts = {"fuzz": fuzz, "asan": lambda o: sanitize(o, "asan"), "tsan": lambda o: sanitize(o, "tsan"), "training": training,
             "sweep": sweep, "plans": plans, "kernels": kernels, "emitter": emitter, "chains": chains, "exact": exact, "calibrate": calibrate,
             "narrow": narrow, "soak": soak, "pictures": pictures}
    rows, begin = [], time.monotonic()
    for name in chosen:
        before = len(rows)
        for row in parts[name](options):
            rows.append(row)
            print(table([row]).splitlines()[-1], flush=True)
            options.out.write_text(table(rows))
        if len(rows) == before:
            rows.append(Row(name, "nothing was there to run", ["nothing was done"], 0))
    failed = sum(row.failed for row in rows)
    text = f"{len(rows)} rows, {failed} with findings, {(time.monotonic() - begin) / 60:.0f} minutes\n\n" + table(rows)
    options.out.write_text(text)
    print("\n" + text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
