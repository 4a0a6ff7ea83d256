#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What of run.py needs no GPU: everything on the CPU with a tiny decoder and all models, and its parts with made-up data.

    rehearse.py --bin build/bin [--only NAME]
"""
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "end_to_end")]
import cases  # noqa: E402
import gaps  # noqa: E402
import kit  # noqa: E402
import stages  # noqa: E402
import table  # noqa: E402
import run as command  # noqa: E402
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
    raises(kit.Failure, lambda: command.pack(folder / "large", 2), "more than --limit=2")
    command.pack(folder / "large", 4)
    assert (command.unpack(folder / "large.tar.gz") / "file").read_bytes() == (folder / "large" / "file").read_bytes()
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
    assert found == [(0.85, False), (1.0625, False), (0.875, False), (0.7778, True), (0.875, False), (0.7778, True)], found
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
    assert [row["state"] for row in results.rows.values()] == ["ok", "ok"] + ["not run"] * 6, results.rows
    made = MadeUp(results, every, wait=100)
    made.measure(table.COMPILE, 50)
    assert results.rows[table.COMPILE]["state"] == "not run" and "50 s" in results.rows[table.COMPILE]["text"], results.rows[table.COMPILE]
    assert [goal["found"] is None for goal in results.goals] == [False, True, False, True, False, True] and "not measured" in results.markdown()
    # Times of other computations do not compare.
    results = Results(folder / "c")
    command.measure(MadeUp(results, every, losses={table.COMPILE: [2.0, 1.1]}), results, kit.Clock(100), rounds=1)
    assert results.rows[table.COMPILE]["state"] == "fail" and results.failed(), results.rows[table.COMPILE]


def check_parts(folder):
    """Parts end one behind the other, and name what they have to do."""
    for parts in [*command.TOGETHER.values(), *((p,) for p in command.PARTS)]:
        ends = command.shares(parts)
        assert [p for p, _ in ends] == list(parts) and abs(ends[-1][1] - 1) < 1e-9, ends
        assert all(a < b for (_, a), (_, b) in zip(ends, ends[1:])), ends
    manifest = {"device": "cuda", "cases": {"gpt": [["zero3", 1, 0], ["zero3", 2, 0], ["flat", 2, 0]]}, "operators": {"000": ["add", "mul"]},
                "refused": {"operator sort": "E123", "gpt hsdp world 2": "E124"}}
    seen = {}
    for part in command.PARTS:
        results = Results(folder / part)
        stages.plan(manifest, results, (part,))
        seen[part] = dict(results.checks)
    assert set(seen["programs"]) == set(stages.PROGRAMS) and not seen["table"] and not seen["activities"], seen
    assert set(seen["cases"]) == {"gpt zero3 world 1", "gpt zero3 world 2", "gpt flat world 2", "gpt hsdp world 2"}, seen["cases"]
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


def check_whole(bin):
    def case(folder):
        script, smaller = [sys.executable, kit.HERE / "run.py"], ["--cases", "zero3", "bf16", "--worlds", "2", "--every=100"]
        kit.call([*script, "prepare", "out", "--bin", bin, "--device=cpu", "--size=tiny", *smaller], folder, timeout=800)
        # Much more time than it takes, for machines that are busy.
        done = subprocess.run([str(c) for c in (*script, "all", "out.tar.gz", "--bin", bin, "--results=found", "--minutes=40", "--jobs=2")], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        found = json.loads((folder / "found" / "results.json").read_text())
        states = {name: row["state"] for name, row in found["table"].items()}
        assert states == {name: "ok" for name in table.ROWS}, (states, found["table"])
        assert all(row["seconds"] > 0 and row["process_bytes"] > 1 << 20 for row in found["table"].values()), found["table"]
        ours, theirs = found["table"][table.OURS]["losses"], found["table"][table.FSDP2]["losses"]
        assert ours[0] == theirs[0] and len(ours) == table.WARMUP + table.STEPS, (ours, theirs)
        assert all(goal["found"] for goal in found["goals"][:4]), found["goals"]
        states = {name: check["state"] for name, check in found["checks"].items()}
        bad = {name: check for name, check in found["checks"].items() if check["state"] != "ok"}
        assert not bad, bad
        own = {factory.__name__ for factory in cases.OWN}
        assert {f"{m} zero3 world 2" for m in own} | {f"{m} bf16 world 2" for m in own - {"convnet", "llama"}} < set(states), states
        assert {"gpt zero3 on two hosts", "gpt bf16 on two hosts", "rank killed on two hosts", "rank stopped on two hosts"} < set(states), states
        assert any(name.startswith("operators 000") for name in states), states
        report = (folder / "found" / "report.md").read_text()
        assert all(f"| {name} |" in report for name in table.ROWS) and "not run |" in report, report
    return case


def main():
    arguments = parse_arguments()
    run_cases({"gaps": check_gaps, "limits": check_limits, "parts": check_parts, "allocations": check_allocations, "table": check_table,
               "whole": check_whole(arguments.bin)}, arguments.only)


if __name__ == "__main__":
    main()
