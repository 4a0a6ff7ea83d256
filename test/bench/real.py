#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predictions against this machine.

    real.py --bin build/bin --work FOLDER --part steps [--models FILE.py] [--worlds 1 2 3 4]
    real.py --bin build/bin --work FOLDER --part plans [--from N] [--count N] [--seconds 540]
    real.py --bin build/bin --work FOLDER --part limits [--count N] [--seconds 540]
    real.py --bin build/bin --work FOLDER --part transfers --worlds 2
    real.py --bin build/bin --work FOLDER --part selection

`steps`: how long steps of many models take on ranks that are threads and processes, predicted with the calibration of this machine
(`fsdp-run --calibrate`), and measured. `plans`: many plans of three models, ranked by prediction and by measurement, and where the plan of `schedule:
auto` stands among them. `limits`: random configs run with no more memory than is predicted for them, and refused with less. `transfers`: what calibration
says of transfers between processes, alone and beside a computation, and whether it can be so. `selection`: a few of each, with bounds that hold on a
machine that is busy with other things. Calibration, models and artifacts stay in FOLDER: the same command goes on where it was interrupted, and --prepare
makes all that can be made while other things run. A machine whose cores do other things measures those. One thread a rank.
"""
import argparse
import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "end_to_end")]
PARTS = ("steps", "plans", "limits", "transfers", "selection")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    path = lambda p: pathlib.Path(p).resolve()
    parser.add_argument("--bin", type=path, default=path("build/bin"))
    parser.add_argument("--work", type=path, required=True)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--models", type=path, help="a Python file whose MODELS maps names to functions that return (module, keyword inputs)")
    parser.add_argument("--worlds", type=int, nargs="*", default=[1, 2, 3, 4])
    parser.add_argument("--only", default="", help="models whose name contains this, or one of several with | between them")
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first plan or config")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so many seconds")
    parser.add_argument("--prepare", action="store_true", help="export and compile, measure nothing")
    parser.add_argument("--predict-again", action="store_true", help="predictions of this compiler for artifacts that an earlier one made")
    parser.add_argument("--calibrate", action="store_true", help="measure the machine, and nothing else")
    parser.add_argument("--fresh", action="store_true", help="empty FOLDER first")
    parser.add_argument("--json", type=path)
    arguments = parser.parse_args()
    from host import runs
    if arguments.fresh:
        shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True, exist_ok=True)
    for backend in ("local",) if arguments.part == "selection" else ("local", "gloo"):
        runs.calibrate(arguments.bin, arguments.work, backend, max(arguments.worlds))
    if arguments.calibrate:
        return 0
    part = __import__(f"host.{arguments.part}", fromlist=["host"])
    if arguments.prepare:
        part.prepare(arguments)
        return 0
    rows = part.measure(arguments)
    summary = part.summarize(rows)
    print(json.dumps(summary, indent=1))
    (arguments.json or arguments.work / f"{arguments.part}.json").write_text(json.dumps({"summary": summary, "rows": rows}, indent=1) + "\n")
    return 1 if summary.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
