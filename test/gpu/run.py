#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Everything that one GPU can show, in parts. docs/Gpus.md says what is printed.

    run.py prepare OUT --bin build/bin --cuda-build build    anywhere: exports models, compiles them, and takes the build and these scripts along
    run.py PART OUT.tar.gz --results FOLDER                  on a machine with a GPU: one part, within --minutes

first.sh, in the archive, comes before all others there.

Parts, the most telling first:

{parts}
  first       programs, cases beside two-hosts, table, activities: what first.sh goes on with
  all         all of these, each until a share of the time is over; what one leaves the next ones have, too
  checks      all but the table and its activities

Without a build in OUT or --bin, a part builds there (cmake --preset cuda). FOLDER gets results.json, report.md
and log.txt, which are written after every step. Exit status 0 only if all that ran was right.
"""
import argparse
import concurrent.futures
import importlib.metadata
import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import archive  # noqa: E402
import kit  # noqa: E402
import predict  # noqa: E402
from results import Results  # noqa: E402

ROOT = kit.HERE.parent.parent
# Name: what it tells, minutes of its own, and its share of the time of all parts together.
PARTS = {
    "programs": ("gpu-test, cuda-streams-test: streams, events, captures, copies and our own kernels", 3, 0.06),
    "cases": ("small models against PyTorch on the same GPU: losses, norms, weights, and a graph's bits against single launches'", 5, 0.20),
    "table": ("a decoder's step by fsdp-run, FSDP2 and torch.compile: time and memory, nothing else running", 9, 0.32),
    "two-hosts": ("two ranks of NCCL on this GPU under two host names: its calls, captures and aborts as between machines", 6, 0.06),
    "crowd": ("cases again among busy processes: the same bits as alone", 4, 0.07),
    "families": ("as cases: nn.Transformer, T5 and Hugging Face's models, in float32, bfloat16 and recomputed", 5, 0.08),
    "operators": ("PyTorch's operator database, as single launches and as a graph: gradients as PyTorch's", 9, 0.07),
    "activities": ("the table's contenders again, with what the GPU did listed: idle shares, and kinds of kernels beside what was predicted", 6, 0.10),
    "sanitizer": ("compute-sanitizer's memcheck of steps on 1 and 2 ranks, with and without a graph", 9, 0.04),
}
# Seconds that a part has before shares count: libraries are loaded from a cold disk there.
LEAST = {"programs": 90}
# Parts one after the other, those in one tuple at the same time.
TOGETHER = {
    "first": (("programs",), ("cases", "two-hosts"), ("table",), ("activities",)),
    "all": tuple((part,) for part in PARTS),
    "checks": tuple((part,) for part in PARTS if part not in ("table", "activities")),
}
ALL_MINUTES = 9.5
WEIGHTS = {"1b": 5 << 30, "tiny": 1 << 20}  # bytes, no less than the file has


def find_bin(options, results, clock):
    """The folder of fsdp-run: as given, as taken along, or as built here."""
    if options.bin:
        return options.bin
    if (options.out / "build" / "bin" / "fsdp-run").exists():
        return options.out / "build" / "bin"
    results.say("building")
    build = ROOT / "build-cuda"
    try:
        kit.call(["cmake", "--preset", "cuda", f"-DFSDP_PYTHON={sys.executable}", f"-DFSDP_TORCH_DIR={kit.torch_folder()}"], ROOT, None, clock.left())
        kit.call(["cmake", "--build", build, "--parallel", os.cpu_count(), "--target", *archive.TARGETS], ROOT, None, clock.left())
    except kit.Failure as failure:
        raise kit.Failure(f"{failure}\ncmake/apt-packages.txt says what a build needs; a build of another machine can be taken along by `prepare --cuda-build`") from None
    return build / "bin"


def describe(results, manifest):
    results.facts["PyTorch"] = importlib.metadata.version("torch")
    if manifest["device"] == "cuda":
        # In a process that ends: contexts take memory of the GPU.
        code = ("import torch; p = torch.cuda.get_device_properties(0); "
                "print(f'{p.name}, sm_{p.major}{p.minor}, {p.total_memory / 2**30:.1f} GiB; CUDA {torch.version.cuda}; cuDNN {torch.backends.cudnn.version()}')")
        try:
            out, _ = kit.call([sys.executable, "-c", code], ROOT, None, 120)
        except kit.Failure as failure:
            raise kit.Failure(f"expected a GPU that PyTorch sees, found none; `prepare` is the part that needs none: {failure}") from None
        results.facts["GPU"] = out.strip()
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True) if shutil.which("nvidia-smi") else None
        results.facts["driver"] = driver.stdout.strip() if driver else "nvidia-smi is not there"
    results.facts["cores"] = os.cpu_count()
    cluster = predict.cluster_of(results.facts.get("GPU", ""), manifest["predicted"])
    if cluster:
        results.predicted, results.predicted_kernels = ({"cluster": cluster, **manifest[what][cluster]} for what in ("predicted", "predicted_kernels"))
    if not cluster:
        results.note(f"nothing is predicted for this GPU: known are {', '.join(manifest['predicted']) or 'none'}")
    results.facts["decoder"] = f"size {manifest['size']}, attention by {manifest['attention']}, TF32 off"
    results.save()


def measure(table, results, clock, rounds):
    """Rounds of all contenders in turns; a round is begun only if the last one would fit again."""
    import table as rows
    import time
    table.write_files(min(rows.LIMIT, clock.left()))
    for number in range(rounds):
        begin = time.monotonic()
        for name in rows.ROWS:
            if results.rows[name].get("state") == "fail":
                continue
            if clock.left() < 20:
                results.say(f"no time is left for {name} in round {number + 1}")
                continue
            table.measure(name, clock.left())
        table.compare()
        if clock.left() < time.monotonic() - begin:
            break
    results.facts["order"] = f"{number + 1} round(s) of: " + "; ".join(rows.ROWS)


def trace(table, library, results, clock, only_measured=True):
    import table as rows
    if not library.exists():
        return results.note(f"no activities were listed: {library} is not there, build the target fsdp-gaps")
    for name in rows.ROWS:
        if only_measured and results.rows[name].get("state") != "ok":
            continue
        if clock.left() < 15:
            results.row(name, gaps_text="no time was left")
            continue
        table.trace(name, library, min(rows.LIMIT, clock.left()))


def shares(groups):
    """(parts that go at once, the share of what is left then that they have), in order."""
    own = [max(PARTS[part][2] for part in group) for group in groups]
    return [(group, own[k] / sum(own[k:])) for k, group in enumerate(groups)]


def show(options, groups):
    """Runs parts, one group after the other."""
    import crowd
    import stages
    from table import Table
    parts = [part for group in groups for part in group]
    minutes = options.minutes or (PARTS[parts[0]][1] if len(parts) == 1 else ALL_MINUTES)
    results = Results(options.results)
    options.out = archive.unpack(options.out)
    manifest = kit.read_manifest(options.out)
    is_gpu, table, clock = manifest["device"] == "cuda", None, None
    try:
        stages.plan(manifest, results, parts)
        describe(results, manifest)
        # Behind all that a cold disk takes.
        clock = kit.Clock(60 * minutes)
        bin = find_bin(options, results, clock)
        if {"table", "activities"} & set(parts):
            try:
                table = Table(options.out, bin, manifest, results, kit.roomy_folder(WEIGHTS[manifest["size"]]))
            except kit.Failure as failure:
                results.check("run.py", "table", "fail", str(failure))

        def activities(until):
            if "table" not in parts:
                table.write_files(min(120, until.left()))
            trace(table, bin.parent / "lib" / archive.GAPS, results, until, "table" in parts)

        bodies = {
            "programs": lambda until: is_gpu and stages.run_programs(bin, results, until),
            "cases": lambda until: stages.run_training("cases", options.out, bin, manifest, results, until, options.jobs),
            "table": lambda until: table and measure(table, results, until, options.rounds),
            "two-hosts": lambda until: stages.run_two_hosts(options.out, bin, manifest, results, until),
            "crowd": lambda until: crowd.run(options.out, bin, manifest, results, until),
            "families": lambda until: stages.run_training("families", options.out, bin, manifest, results, until, options.jobs),
            "operators": lambda until: stages.run_operators(options.out, bin, manifest, results, until, options.jobs),
            "activities": lambda until: table and is_gpu and activities(until),
            "sanitizer": lambda until: is_gpu and stages.run_sanitizer(options.out, bin, manifest, results, until),
        }

        def one(name, until):
            try:
                bodies[name](until)
            except Exception as error:
                results.check("run.py", name, "fail", f"{type(error).__name__}: {error}")

        for group, share in shares(groups):
            until = clock.part(share, max(LEAST.get(part, 0) for part in group))
            with concurrent.futures.ThreadPoolExecutor(len(group)) as pool:
                list(pool.map(lambda name: one(name, until), group))
    finally:
        kit.clean_up()
        results.facts["parts"] = ", ".join(parts)
        if clock:
            results.facts["minutes"] = round((clock.seconds - clock.left()) / 60, 1)
        results.save()
        print(results.markdown())
        print(", ".join(f"{results.count(s)} {s}" for s in ("ok", "fail", "refused", "skipped", "not run")))
    return 1 if results.failed() else 0


def end(number, _):
    """What was found is written; nothing that was started goes on."""
    kit.clean_up()
    os._exit(128 + number)


def main():
    def path(text):
        return pathlib.Path(text).resolve()

    listed = "\n".join(f"  {name:<12}{text} ({minutes} min)" for name, (text, minutes, _) in PARTS.items())
    parser = argparse.ArgumentParser(description=__doc__.replace("{parts}", listed), formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True, metavar="PART")
    make, work_cases, work_operators = (commands.add_parser(n) for n in ("prepare", "work-cases", "work-operators"))
    parts = {name: commands.add_parser(name) for name in (*PARTS, *TOGETHER)}
    for command in (make, work_cases, work_operators, *parts.values()):
        is_part = command in parts.values()
        command.add_argument("out", type=path, help="folder of models and artifacts; parts take the archive that prepare makes of it, too")
        command.add_argument("--bin", type=path, required=not is_part, help="folder of fsdp-opt (prepare), or of fsdp-run")
    make.add_argument("--cuda-build", type=path, help="a build with -DFSDP_CUDA=ON to take along")
    make.add_argument("--models", type=path, help="a Python file whose MODELS has factories of (model, inputs of a rank) to train in place of this project's")
    make.add_argument("--names", nargs="*", metavar="NAME[=CASE,CASE]", help="train these models alone, a model in its own cases or in those of --cases")
    make.add_argument("--cases", nargs="*", help="in these cases alone")
    make.add_argument("--quick", action="store_true", help="a first archive: few models, the telling cases, one and two ranks, no operators")
    make.add_argument("--exports", type=path, help="a folder that keeps exported models for the next time")
    make.add_argument("--worlds", nargs="*", type=int, default=[1, 2, 4])
    make.add_argument("--every", type=int, default=1, help="take each K-th operator only; 0: none")
    make.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    make.add_argument("--arch", default="sm_90", help="the GPU that artifacts are compiled for")
    make.add_argument("--size", default="1b", help="of the table's decoder: 1b or tiny")
    make.add_argument("--limit", type=float, default=40, help="MiB that OUT.tar.gz may have")
    for command in parts.values():
        command.add_argument("--results", type=path, required=True, help="folder for what is found")
        command.add_argument("--minutes", type=float, help=f"that it may take; by default the part's own, and {ALL_MINUTES} for several")
        command.add_argument("--rounds", type=int, default=1, help="of the table, if time allows")
        command.add_argument("--jobs", type=int, default=min(8, os.cpu_count()), help="checks at once")
    work_cases.add_argument("--only", nargs="+", required=True, help="names of checks")
    work_operators.add_argument("--only", nargs="+", required=True, help="folders of operators")
    options = parser.parse_args()
    kit.has_groups = not options.what.startswith("work-")
    signal.signal(signal.SIGTERM, end)
    if options.what == "prepare":
        archive.prepare(options)
    elif options.what == "work-cases":
        import cases
        cases.work(options.out, options.bin, options.only)
    elif options.what == "work-operators":
        import operators
        operators.work(options.out, options.bin, options.only)
    else:
        sys.exit(show(options, TOGETHER.get(options.what, ((options.what,),))))


if __name__ == "__main__":
    try:
        main()
    except kit.Failure as failure:
        sys.exit(f"run.py: {failure}")
