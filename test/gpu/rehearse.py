#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What of first.sh and run.py needs no GPU: everything on the CPU with a tiny decoder, from an archive alone, and the parts with made-up data.

    rehearse.py --bin build/bin [--only NAME]
    rehearse.py --bin build/bin --archive FILE      makes a first archive for a machine with a GPU, and looks at what is in it
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end")]
import archive  # noqa: E402
import cases  # noqa: E402
import crowd  # noqa: E402
import families  # noqa: E402
import gaps  # noqa: E402
import kinds  # noqa: E402
import kit  # noqa: E402
import predict  # noqa: E402
import stages  # noqa: E402
import table  # noqa: E402
import run as command  # noqa: E402
import warm  # noqa: E402
from harness import parse_arguments, run_cases  # noqa: E402
from results import Results  # noqa: E402


def raises(kind, body, *words):
    try:
        body()
    except kind as error:
        assert all(word in str(error) for word in words), f"expected {words} in: {error}"
        return
    raise AssertionError(f"expected {kind.__name__}")


def check_gaps(folder):
    """Three steps of 1 ms. In each: 0.2 ms of nothing, kernels of two streams that overlap, a copy that touches the next kernel."""
    lines = ["kernel\t1\t5\twarm-up"]
    for step in range(3):
        at = 10_000_000 + step * 1_000_000
        lines += [f"kernel\t{at + 200_000}\t{at + 700_000}\tmm", f"kernel\t{at + 300_000}\t{at + 600_000}\tadd, with\ttab",
                  f"copy\t{at + 650_000}\t{at + 800_000}\ton the device", f"kernel\t{at + 800_000}\t{at + 1_000_000}\tadamw"]
    lines.reverse()  # buffers come in any order
    lines.append("kernel\t0\t0\tuntimed")
    (folder / "list").write_text("\n".join(lines) + "\n")
    found = gaps.analyse(gaps.read(folder / "list"), [0.001] * 3)
    assert abs(found["idle_share"] - 0.2) < 1e-9 and found["kernels"] == 3 and found["untimed"] == 1, found
    assert abs(found["idle_us"] - 200) < 1e-6 and abs(found["longest_idle_us"] - 200) < 1e-6, found
    assert {k: round(ms, 6) for k, ms in found["kinds"].items()} == {"other": 1.0, "copy": 0.15}, found["kinds"]
    assert [(n, round(ms, 6), c) for n, ms, c in found["top"]] == [("mm", 0.5, 1), ("add, with\ttab", 0.3, 1), ("adamw", 0.2, 1), ("on the device", 0.15, 1)], found
    # The window begins in the middle of a kernel: what ran before does not count.
    found = gaps.analyse(gaps.read(folder / "list"), [0.0005])
    assert found["idle_share"] == 0 and found["kernels"] == 1, found
    raises(gaps.Incomplete, lambda: gaps.analyse(gaps.read(folder / "list"), [0.1]), "0.100 s")
    raises(gaps.Incomplete, lambda: gaps.analyse([], [0.001]), "no activity")
    (folder / "list").write_text("kernel\t1\t5\tmm\ndropped\t7\n")
    raises(gaps.Incomplete, lambda: gaps.read(folder / "list"), "7")


def check_limits(folder):
    """Programs that hang, fail or say too little."""
    begin = time.monotonic()
    raises(kit.Failure, lambda: kit.call(["sh", "-c", "echo begun; sleep 60"], folder, timeout=1), "was not done after 1 s", "begun")
    raises(kit.Failure, lambda: kit.call(["sh", "-c", "echo why >&2; exit 5"], folder, timeout=30), "exited with 5", "why")
    results = Results(folder / "results")
    names = [f"{kind} {number}" for kind in ("hangs", "crashes") for number in (1, 2, 3)]
    for name in names:
        results.plan("training", name)
    for kind, end in (("hangs", "sleep 60"), ("crashes", "echo lost >&2; exit 3")):
        says = json.dumps({"name": f"{kind} 1", "state": "ok", "seconds": 1})
        stages.follow("training", ["sh", "-c", f"echo noise; echo '{says}'; {end}"], None, results, kit.Clock(3), [n for n in names if kind in n], folder)
    states = {name: results.checks[name]["state"] for name in names}
    assert states == {"hangs 1": "ok", "hangs 2": "not run", "hangs 3": "not run", "crashes 1": "ok", "crashes 2": "fail", "crashes 3": "not run"}, states
    assert "lost" in results.checks["crashes 2"]["text"] and results.failed()
    # A run that crashed left all this.
    written = json.loads((folder / "results" / "results.json").read_text())
    assert written["checks"] == results.checks and "crashes 2" in (folder / "results" / "log.txt").read_text()
    report = (folder / "results" / "report.md").read_text()
    assert "### not run" in report and "- hangs 3" in report and "| training | 2 | 1 | 0 | 0 | 3 |" in report, report
    assert time.monotonic() - begin < 50, "processes were not ended"
    (folder / "large").mkdir()
    (folder / "large" / "file").write_bytes(os.urandom(3 << 20))
    # A process that ends is followed by another one for what is behind the check that it ended in.
    script = folder / "run.py"
    script.write_text("import json, os, sys\nfor name in sys.argv[sys.argv.index('--only') + 1:]:\n    if name == 'b': os.abort()\n"
                      "    print(json.dumps({'name': name, 'state': 'ok', 'seconds': 0}), flush=True)\n")
    again, here = Results(folder / "again"), kit.HERE
    try:
        kit.HERE = folder
        stages.run_workers("training", "work-cases", {n: n for n in "abcd"}, folder, folder, again, kit.Clock(60), 1)
    finally:
        kit.HERE = here
    assert {n: c["state"] for n, c in again.checks.items()} == {"a": "ok", "b": "fail", "c": "ok", "d": "ok"}, again.checks
    raises(kit.Failure, lambda: archive.pack(folder / "large", 2), "more than --limit=2")
    archive.pack(folder / "large", 4)
    assert (archive.unpack(folder / "large.tar.gz") / "file").read_bytes() == (folder / "large" / "file").read_bytes()
    kit.clean_up()


class MadeUp(table.Table):
    """Contenders that take what they are told to."""

    def __init__(self, results, seconds, wait=0, losses={}):
        super().__init__(pathlib.Path("."), pathlib.Path("."), {"device": "cpu", "size": "tiny", "attention": "FLASH_ATTENTION"}, results, results.folder)
        self.made_up, self.wait, self.other_losses = seconds, wait, losses

    def write_files(self, timeout):
        pass

    def run(self, name, warmup, steps, timeout, env=None):
        if name not in self.made_up:
            raise kit.Failure("out of memory")
        if self.wait > timeout:
            raise kit.Late("was not done")
        time.sleep(self.wait)
        seconds, size = self.made_up[name]
        if env:  # a kernel for 3 of each 4 ms
            assert env["CUDA_INJECTION64_PATH"].endswith("gaps.so"), env
            lines = [f"kernel\t{at}\t{at + 3_000_000}\tmm\n" for at in range(1, 2 * 10**9, 4_000_000)]
            pathlib.Path(env["FSDP_GAPS"] + ".1").write_text("".join(lines) if name != table.FSDP2 else "dropped\t3\n")
        return {"seconds": [seconds] * (steps - 1) + [9 * seconds], "losses": self.other_losses.get(name, [2.0, 1.0]), "tensor_bytes": size, "resident_bytes": 2 * size, "pid": 1}


def check_table(folder):
    results = Results(folder / "a")
    every = {name: (0.1, 8 << 30) for name in table.ROWS if name != "eager"} | {table.OURS: (0.085, 7 << 30), table.FSDP2: (0.1, 8 << 30), table.COMPILE: (0.08, 9 << 30)}
    contenders = MadeUp(results, every)
    command.measure(contenders, results, kit.Clock(100), rounds=3)
    rows = results.rows
    assert rows["eager"]["state"] == "fail" and "out of memory" in rows["eager"]["text"], rows["eager"]
    assert rows[table.OURS]["seconds"] == 0.085 and len(rows[table.OURS]["rounds"]) == 3, rows[table.OURS]
    found = [(round(goal["found"], 4), goal["reached"]) for goal in results.goals]
    assert found == [(0.85, False), (1.0625, False), (0.875, False), (0.7778, True), (0.875, False), (0.7778, True), (1.1765, False), (1.1429, False)], found
    assert "| eager | fail |" in results.markdown() and "0.85, missed" in results.markdown()
    # Lists of activities: one, one that is not whole, and none.
    library = folder / "gaps.so"
    library.touch()
    command.trace(contenders, library, results, kit.Clock(100))
    found = rows[table.OURS]["gaps"]
    assert abs(found["idle_share"] - 0.25) < 0.01 and abs(found["kernels"] - 0.085 * 13 / 5 / 0.004) < 1, found
    assert "3 activities were dropped" in rows[table.FSDP2]["gaps_text"] and "gaps" not in rows["eager"], rows
    assert f"| {table.OURS} | 85.0 |" in results.markdown() and "| 25.0% |" in results.markdown(), results.markdown()
    # What there is no time for is not there; a goal without it is not measured.
    results = Results(folder / "b")
    command.measure(MadeUp(results, every, wait=1), results, kit.Clock(21.5), rounds=1)
    assert [row["state"] for row in results.rows.values()] == ["ok", "ok"] + ["not run"] * (len(table.ROWS) - 2), results.rows
    made = MadeUp(results, every, wait=100)
    made.measure(table.COMPILE, 50)
    assert results.rows[table.COMPILE]["state"] == "not run" and "50 s" in results.rows[table.COMPILE]["text"], results.rows[table.COMPILE]
    assert [goal["found"] is None for goal in results.goals] == [False, True, False, True, False, True, True, True] and "not measured" in results.markdown()
    # Times of other computations do not compare.
    results = Results(folder / "c")
    command.measure(MadeUp(results, every, losses={table.COMPILE: [2.0, 1.1]}), results, kit.Clock(100), rounds=1)
    assert results.rows[table.COMPILE]["state"] == "fail" and results.failed(), results.rows[table.COMPILE]


def check_predicted(folder):
    """Kinds of kernels by the names that a GPU gave, and each of them beside what was predicted."""
    names = {
        "nvjet_sm90_tst_320x128_64x3_1x2_h_bz_coopB_NNT": "matmul",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1_kernel0_0": "attention",
        "_ZN2at6native52_GLOBAL__N__c815dac0_19_fused_adamw_impl_cu_8b44fa2325multi_tensor_apply_kernelINS1_32FusedOptimizerTensorListMetadataILi4EEE": "optimizer",
        "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_13BinaryFunctorIN3c108BFloat16ES4_S4_NS0_15binary_internal10MulFunctorIfEEEESt5arrayIPcLm3EEEEviT0_T1_": "elementwise",
        "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EE": "copy",
        "_ZN2at6native29vectorized_elementwise_kernelILi8EZNS0_25bfloat16_copy_kernel_cudaERNS_18TensorIteratorBaseEEUlfE_St5arrayIPcLm2EEEEviT0_T1_": "copy",
        "_ZN41_GLOBAL__N__0ec33604_9_Reduce_cu_67f451d67combineIffLi4EEEvNS_4RowsIT_EEmNS_10ArithmeticIT0_EE": "transfer",
        "_ZN2at6native53_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_9c5ada8a35GammaBetaBackwardCUDAKernelTemplateIN3c108BFloat16EfLj32ELj32ELj256ELb0ELb1ELb1EEEvllPKT_S": "reduction",
        "triton_poi_fused__unsafe_view_mul_silu_5": "elementwise",
        "triton_poi_fused__to_copy_10": "copy",
        "kernel_aligned": "elementwise",
        "sum_12": "elementwise",
        "void something_new": "other",
    }
    assert {n: kinds.kind_of(n) for n in names} == names, {n: kinds.kind_of(n) for n in names if kinds.kind_of(n) != names[n]}
    assert kinds.kind_of("from host", "copy") == "copy" and kinds.kind_of("fill", "fill") == "elementwise"
    clusters = {cluster: {} for own in predict.CLUSTERS.values() for cluster in own}
    gpus = {"NVIDIA H200, sm_90, 139.8 GiB": "h200x8", "NVIDIA H100 80GB HBM3, sm_90": "h100x8", "NVIDIA A100-SXM4-40GB, sm_80": "a100-40gb",
            "NVIDIA A100-SXM4-80GB, sm_80": "a100x8", "NVIDIA B200": "b200x8", "NVIDIA L4": None}
    assert {gpu: predict.cluster_of(gpu, clusters) for gpu in gpus} == gpus
    predicted = {"cluster": "h200x8", "seconds": 0.1, "tensor_bytes": 2 << 30, "process_bytes": 3 << 30, "kinds": {"matmul": 0.08, "sort": 0.0, "copy": 0.01}}
    row = {"seconds": 0.125, "tensor_bytes": 2 << 30, "process_bytes": 4 << 30, "gaps": {"kinds": {"matmul": 100.0, "other": 3.0}}}
    assert predict.beside(predicted, row) == [("seconds", 0.1, 0.125), ("tensor_bytes", 2 << 30, 2 << 30), ("process_bytes", 3 << 30, 4 << 30),
                                              ("matmul kernels", 0.08, 0.1), ("copy kernels", 0.01, 0), ("other kernels", 0, 0.003)]
    results = Results(folder / "results")
    results.predicted = predicted
    assert "predicted for" not in results.markdown(), "nothing was measured"
    results.rows[table.OURS] = {"state": "ok", "ranks": 1, "says": "", "quartiles": [0.1, 0.2], "losses": [1.0], **row}
    results.rows[table.OURS]["gaps"].update(idle_share=0, kernels=1, longest_idle_us=0)
    lines = results.markdown().splitlines()
    assert "| step | 100.00 ms | 125.00 ms | 0.80 |" in lines and "| process | 3.00 GiB | 4.00 GiB | 0.75 |" in lines, lines
    assert "| other kernels | 0.00 ms | 3.00 ms | 0.00 |" in lines and "| copy kernels | 10.00 ms | 0.00 ms | - |" in lines, lines


def check_crowd(folder):
    """Other bits in the crowd are wrong, unless a case has other ones alone as well; what fails or has no time is told."""
    manifest = {"device": "cpu", "families": ["t5"], "cases": {"gpt": [[c, 2, 0] for c in ("optoffload", "zero3", "flat")] + [["zero3", 1, 0]], "t5": [["bf16", 2, 0]], "mlp": [["bf16", 4, 0]]}}
    names = {case: f"gpt {case} world 2 in a crowd" for case in ("optoffload", "zero3", "flat")}
    assert crowd.names(manifest) == list(names.values()), crowd.names(manifest)
    counts, own = {}, crowd.train

    def train(out, bin, model, case, world, graph, timeout):
        counts[case] = counts.get(case, 0) + 1
        loss = 1.5 if case == "optoffload" and counts[case] == 2 else counts[case] if case == "flat" else 1.0
        return [(1.0, 1.0), (loss, 1.0)], "digest"

    try:
        crowd.train = train
        results = Results(folder / "a")
        crowd.run(folder, folder, manifest, results, kit.Clock(300))
        assert {n: c["state"] for n, c in results.checks.items()} == {names["optoffload"]: "fail", names["zero3"]: "ok", names["flat"]: "skipped"}, results.checks
        assert "(1.5, 1.0) instead of (1.0, 1.0) in step 1" in results.checks[names["optoffload"]]["text"], results.checks

        def lost(*_):
            raise kit.Failure("lost")
        crowd.train = lost
        results = Results(folder / "b")
        crowd.run(folder, folder, manifest, results, kit.Clock(300))
        assert all("alone: lost" in c["text"] and c["state"] == "fail" for c in results.checks.values()) and len(results.checks) == 3, results.checks
        results = Results(folder / "c")
        crowd.run(folder, folder, manifest, results, kit.Clock(1))
        assert not results.checks, results.checks
    finally:
        crowd.train = own
    assert crowd.difference(([(1, 1)], "a"), ([(1, 1)], "b")) == "other weights, with the same losses"


def check_folders(folder):
    """No programs where the mount has none."""
    own, where = kit.may_execute, []
    try:
        kit.may_execute = lambda path: path != "/dev/shm"
        where = [kit.roomy_folder(1, has_programs=True), kit.roomy_folder(1)]
        kit.may_execute = lambda path: False
        raises(kit.Failure, lambda: kit.roomy_folder(1, has_programs=True), "lets programs run", "TMPDIR")
    finally:
        kit.may_execute = own
    assert where[0].parent != pathlib.Path("/dev/shm"), where
    kit.clean_up()
    with open("/proc/mounts") as file:
        mounts = [(line.split()[1], "noexec" in line.split()[3].split(",")) for line in file]
    # The last mount of a folder is the one that is seen.
    seen = {path: is_noexec for path, is_noexec in mounts if os.path.isdir(path) and "\\" not in path and (path in ("/", "/dev/shm", "/proc", "/tmp"))}
    assert seen and all(kit.may_execute(path) != is_noexec for path, is_noexec in seen.items()), seen


def check_parts(folder):
    """Parts end one behind the other, and name what they have to do."""
    for groups in [*command.TOGETHER.values(), *(((p,),) for p in command.PARTS)]:
        ends = command.shares(groups)
        assert [g for g, _ in ends] == list(groups) and abs(ends[-1][1] - 1) < 1e-9 and all(0 < share <= 1 for _, share in ends), ends
    # What a part leaves the next ones share; programs have time for a cold disk, but no more than there is.
    clock = kit.Clock(1000)
    assert 99 < clock.part(0.1).left() < 100 < 499 < clock.part(0.1, 500).left() <= 500 and clock.part(0.1, 5000).left() <= 1000
    assert command.LEAST["programs"] >= 90 and next(iter(command.TOGETHER["first"])) == ("programs",)
    manifest = {"device": "cuda", "families": ["t5"], "cases": {"gpt": [["zero3", 1, 0], ["zero3", 2, 0], ["flat", 2, 0]], "t5": [["bf16", 2, 0]], "mlp": [["sgd", 1, 0]]},
                "operators": {"000": ["add", "mul"]}, "refused": {"operator sort": "E123", "gpt hsdp world 2": "E124", "t5 ckpt world 2": "E125"}}
    seen = {}
    for part in command.PARTS:
        results = Results(folder / part)
        stages.plan(manifest, results, (part,))
        seen[part] = dict(results.checks)
    assert set(seen["programs"]) == set(stages.PROGRAMS) and not seen["table"] and not seen["activities"], seen
    assert list(seen["cases"]) == ["gpt zero3 world 1", "mlp sgd world 1", "gpt zero3 world 2", "gpt flat world 2", "gpt hsdp world 2"], seen["cases"]
    assert {n: c["state"] for n, c in seen["families"].items()} == {"t5 bf16 world 2": "not run", "t5 ckpt world 2": "refused"}, seen["families"]
    assert set(seen["crowd"]) == {"gpt zero3 world 2 in a crowd", "gpt flat world 2 in a crowd"}, seen["crowd"]
    assert {n: c["state"] for n, c in seen["operators"].items()} == {"operators 000: add, mul": "not run", "operator sort": "refused"}, seen["operators"]
    assert len(seen["sanitizer"]) == 4 and all("memcheck gpt zero3" in n for n in seen["sanitizer"]), seen["sanitizer"]
    assert set(seen["two-hosts"]) == {"gpt zero3 on two hosts", "gpt flat on two hosts"} | {f"rank {h} on two hosts, graph {g}" for h in ("killed", "stopped") for g in ("off", "on")}
    usage = subprocess.run([sys.executable, kit.HERE / "run.py", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(f"  {part} " in usage and text in usage for part, (text, _, _) in command.PARTS.items()), usage


def check_allocations(folder):
    """Only what captures of efficient attention are known to take, and only there."""
    rows = [{"step": step, "unplanned_bytes": taken} for step, taken in enumerate((500, 0, 0, 48, 0))]
    cases.check_allocations("on", rows, 1, calls=3)
    cases.check_allocations("on", rows, 3, calls=1)
    raises(AssertionError, lambda: cases.check_allocations("on", rows, 1, calls=2), "{3: 48}", "explained are 32")
    raises(AssertionError, lambda: cases.check_allocations("off", rows, 1, calls=3), "explained are 0")
    cases.check_allocations("auto", rows, 1, calls=3)
    assert cases.graphs_of("optoffload", "cuda") == ("auto", "off") and cases.graphs_of("ckpt", "cuda") == ("on", "off") and cases.graphs_of("ckpt", "cpu") == (None,)


def check_first(folder):
    """first.sh as on a GPU, with a program that says what a run would: numbers of graphs and single launches have to be equal, and each line is written."""
    here, program, after = folder / "test" / "gpu", folder / "build" / "bin" / "fsdp-run", folder / "test" / "gpu" / "run.py"
    for path in (here, program.parent, folder / "cases" / "gpt"):
        path.mkdir(parents=True)
    shutil.copy(kit.HERE / "first.sh", here)
    (folder / "manifest.json").write_text('{\n "device": "cuda"\n}')
    (folder / "begin.txt").write_text("cases/gpt bf16-1\ncases/gpt zero3-1\n")
    after.write_text("import sys\nprint('[   0.0 s] parts', *sys.argv[1:], flush=True)\n")

    def run(body, *words):
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        done = subprocess.run([here / "first.sh", folder / "found", *words], env={"PATH": os.environ["PATH"], "PYTHON": sys.executable}, capture_output=True, text=True, timeout=600)
        return done.returncode, done.stdout

    row = "{\"step\":0,\"loss\":%s,\"grad_norm\":1.5,\"lr\":0.1}"
    status, said = run(f"echo '{row % 2.5}'", "2")
    assert status == 0 and said.count(": step 0, loss 2.5, norm 1.5") == 4 and "cases/gpt zero3-1, graph on: step" in said, said
    assert f"] parts first {folder} --results {folder / 'found'} --minutes " in said and "done, status 0" in said, said
    assert 1 < float(re.search(r"--minutes (\S+)", said)[1]) <= 2, said
    assert (folder / "found" / "first.txt").read_text() == said
    status, said = run(f"case $* in *bf16-1*graph=on*) echo '{row % 3.5}';; *) echo '{row % 2.5}';; esac")
    assert status == 1 and said.count("FAILED") == 1 and "FAILED: cases/gpt bf16-1: a graph gives other numbers" in said, said
    status, said = run("echo lost >&2; exit 3")
    assert status == 1 and said.count("FAILED") == 4 and said.count("lost") == 4 and "parts first" in said, said
    assert run("true", "0.5")[0] == 2, "half a minute is refused"


# Each model of this project in some case, each way to save memory or to split a step in some model, and two families.
TRAINED = ("gpt=zero3,bf16,kernels,bf16kernels,everything,optoffload,tp2sp,chunks", "llama=cp2,tp2,selective,kernels", "mlp=bf16", "convnet=zero3,ckpt", "tagger=zero3", "bert=bf16", "vit=actoffload", "forms=zero3",
           "lora=offload", "encoder=bf16", "t5=zero3")


def apart(checkout, folder):
    """What to put before a command so that it cannot see the checkout with its build; nothing where that takes rights that are not there."""
    empty = folder / "empty"
    empty.mkdir()
    before = ["unshare", "--mount", "sh", "-c", f'mount --bind "{empty}" "{checkout}" && exec "$@"', "sh"]
    seen = subprocess.run([*before, "ls", str(checkout)], capture_output=True, text=True) if shutil.which("unshare") else None
    return before if seen and seen.returncode == 0 and not seen.stdout else []


def unpacked(made, folder):
    """An archive's content in a folder that has nothing else, and how to call something there, without this process' variables."""
    there = folder / "elsewhere"
    there.mkdir()
    shutil.unpack_archive(made, there, "gztar", **({"filter": "data"} if hasattr(archive.tarfile, "data_filter") else {}))
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    before = apart(kit.HERE.parent.parent, folder)

    def start(*words):
        # Output to a file: what first.sh leaves behind could hold a pipe open.
        return subprocess.Popen([str(w) for w in (*before, *words)], cwd=there, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return there, start


def must_end(process, status=0):
    out, _ = process.communicate(timeout=2400)
    assert process.returncode == status, f"status {process.returncode}: {out[-3000:]}"
    return out


def check_whole(bin, exports):
    def case(folder):
        script = [*warm.python(), kit.HERE / "run.py"]
        kit.call([*script, "prepare", "out", "--bin", bin, "--device=cpu", "--size=tiny", "--cuda-build", bin.parent, "--worlds", 2, "--every=100", "--names", *TRAINED,
                  *(["--exports", exports] if exports else [])], folder, timeout=800)
        shutil.rmtree(folder / "out")
        there, start = unpacked(folder / "out.tar.gz", folder)
        # Much more time than it takes, for machines that are busy. The parts that first.sh leaves out go beside it.
        first = start(there / "test" / "gpu" / "first.sh", folder / "found", 40)
        others = {part: start(sys.executable, there / "test" / "gpu" / "run.py", part, there, f"--results={folder / part}", "--minutes=40", "--jobs=1")
                  for part in ("crowd", "families", "operators")}
        said = must_end(first)
        for process in others.values():
            must_end(process)
        lines = (folder / "found" / "first.txt").read_text()
        assert lines == said, "what first.sh prints is what it writes"
        assert sum(f"cases/gpt {artifact}-2: step {n}, loss " in lines for artifact in ("bf16", "zero3", "kernels") for n in range(6)) == 18 and "done, status 0" in lines, lines
        found = json.loads((folder / "found" / "results.json").read_text())
        states = {name: row["state"] for name, row in found["table"].items()}
        assert states == {name: "ok" for name in table.ROWS}, (states, found["table"])
        assert all(row["seconds"] > 0 and row["process_bytes"] > 1 << 20 for row in found["table"].values()), found["table"]
        ours, theirs = found["table"][table.OURS]["losses"], found["table"][table.FSDP2]["losses"]
        assert ours[0] == theirs[0] and len(ours) == table.WARMUP + table.STEPS, (ours, theirs)
        assert all(goal["found"] for goal in found["goals"][:4]), found["goals"]
        checks = dict(found["checks"])
        for part in others:
            own = json.loads((folder / part / "results.json").read_text())["checks"]
            assert own, f"{part} did nothing"
            checks.update(own)
        bad = {name: check for name, check in checks.items() if check["state"] != "ok"}
        assert not bad, bad
        asked = {f"{model} {case} world 2" for model, _, own in (text.partition("=") for text in TRAINED) for case in own.split(",")}
        assert asked < set(checks), sorted(asked - set(checks))
        assert {factory.__name__ for factory in cases.OWN} < {name.split()[0] for name in asked} and {n.split()[0] for n in asked} & set(families.FAMILIES)
        assert {"gpt zero3 on two hosts", "gpt bf16 on two hosts", "rank killed on two hosts", "rank stopped on two hosts"} < set(checks), sorted(checks)
        assert {"gpt optoffload world 2 in a crowd", "vit actoffload world 2 in a crowd"} < set(checks), sorted(checks)
        assert any(name.startswith("operators 000") for name in checks), sorted(checks)
        report = (folder / "found" / "report.md").read_text()
        assert all(f"| {name} |" in report for name in table.ROWS) and report.count("predicted for cpu and measured") == 2 and "| step |" in report, report
    return case


def check_archive(bin, exports, to):
    """A first archive, left for a machine with a GPU; what lies in it works without the build."""
    def case(folder):
        kit.call([*warm.python(), kit.HERE / "run.py", "prepare", folder / "fsdp-gpu", "--bin", bin, "--cuda-build", bin.parent, "--quick", "--exports", exports], folder, timeout=800)
        made = folder / "fsdp-gpu.tar.gz"
        shutil.rmtree(folder / "fsdp-gpu")
        there, start = unpacked(made, folder)
        manifest = kit.read_manifest(there)
        refused = {name: text for name, text in manifest["refused"].items() if name.split()[0] not in manifest["families"]}
        assert not refused, refused
        assert manifest["size"] == "1b" and set(manifest["predicted"]) == set(manifest["predicted_kernels"]) == {"h100x8", "h200x8"} and len(manifest["begin"]) == 3, manifest
        build = str(bin.parent).encode()
        with_path = [str(file) for file in (there / "build").rglob("*") if file.is_file() and not file.name.endswith("-test") and build in file.read_bytes()]
        assert not with_path, f"paths of this build are in {with_path}"
        env = [f"LD_LIBRARY_PATH={kit.environment(there / 'build' / 'bin')['LD_LIBRARY_PATH']}"]
        tests = must_end(start("env", *env, there / "build/test/bin/gpu-test", "--gtest_list_tests"))
        assert "GraphWatch." in tests and "Cuda" in must_end(start("env", *env, there / "build/test/bin/cuda-streams-test", "--gtest_list_tests")), tests
        must_end(start("env", *env, sys.executable, "-c", "import ctypes; ctypes.CDLL('libfake-nccl.so').fakeNcclScript"))
        must_end(start(sys.executable, "-c", "import sys; sys.path.insert(0, 'test/gpu'); import run, cases, stages, crowd, table, operators; operators.sweep()"))
        if not os.path.exists("/dev/nvidia0"):
            said = must_end(start(there / "test" / "gpu" / "first.sh", folder / "found", 1), status=1)
            assert "FAILED: cases/gpt bf16-1, graph on" in said and "found none" in said and "done, status 1" in said, said
        shutil.move(made, to)  # also to another mount of the same device
        print(f"{to}: {to.stat().st_size / 2**20:.1f} MiB")
    return case


def main():
    def extend(parser):
        parser.add_argument("--archive", type=lambda p: pathlib.Path(p).resolve(), help="make this first archive for a GPU, and nothing else")
        parser.add_argument("--exports", type=lambda p: pathlib.Path(p).resolve(), help="a folder that keeps exported models for the next time")
    arguments = parse_arguments(extend)
    if arguments.archive:
        return run_cases({"archive": check_archive(arguments.bin, arguments.exports, arguments.archive)}, arguments.only)
    run_cases({"gaps": check_gaps, "limits": check_limits, "parts": check_parts, "allocations": check_allocations, "folders": check_folders, "predicted": check_predicted,
               "crowd": check_crowd, "table": check_table, "first": check_first, "whole": check_whole(arguments.bin, arguments.exports)}, arguments.only)


if __name__ == "__main__":
    main()
