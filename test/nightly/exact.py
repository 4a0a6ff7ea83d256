#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The search of schedule: auto against an exact solver, on the same model of a step.

    exact.py --bin build/bin --step-model build/test/bin/fsdp-step-model [--layers 6] [--budgets 8]

With nothing gathered ahead, transfers overlap with nothing but reductions, so that the model is linear in what is decided about each layer: its seconds, and
its bytes at each instruction. The terms are asked of the model, one layer's decisions changed at a time; HiGHS finds the best whole within a budget; what it
found is evaluated by the model, and the search's answer within the same budget may be 2 % slower at most. Needs torch and highspy (the wheel).
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import highspy

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "end_to_end"))
import auto  # noqa: E402
from harness import compile_step, make_config  # noqa: E402
from recompute import decoder  # noqa: E402

TOLERANCE = 1.02


class Model:
    def __init__(self, tool, folder):
        self.command = [tool, folder / "step.fsdp", folder / "slow.yaml"]
        facts = self.ask()
        self.none, self.buckets, self.blocks = facts["none"], facts["buckets"], facts["blocks"]

    def ask(self, **questions):
        done = subprocess.run(self.command, input=json.dumps(questions), capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout)

    def units(self):
        """What is decided together: a bucket and the block of its name; the states of each."""
        names = [each["name"] for each in self.blocks]
        for i, bucket in enumerate(self.buckets):
            block = names.index(bucket["name"]) if bucket["name"] in names else None
            kept = [False, True] if bucket["regathered"] else [False]
            recomputed = [0]
            if block is not None:
                recomputed += [kind for kind, bytes in ((1, "selected"), (2, "dropped")) if self.blocks[block][bytes] > 0]
            yield i, block, list(itertools.product(kept, recomputed))

    def decide(self, chosen):
        """From states by unit."""
        decisions = json.loads(json.dumps(self.none))
        for bucket, block, (kept, recomputed) in chosen:
            decisions["kept"][bucket] = kept
            if block is not None:
                decisions["recomputed"][block] = recomputed
        return decisions


def solve(terms, base, budget):
    """The states that HiGHS takes within the budget; none if there are none. `terms`: by unit, by state: seconds, bytes at each instruction, bytes beside
    what others have there while kernels run again in front of it."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 1e-6)
    x = [[solver.addBinary(obj=state["seconds"]) for state in unit] for unit in terms]
    for unit in x:
        solver.addConstr(sum(unit) == 1)
    # Equal rows say it once, with the most that is there.
    rows = {}
    for i, bytes in enumerate(base):
        key = tuple(tuple(state["at"][i] for state in unit) for unit in terms)
        rows[key] = max(rows.get(key, 0), bytes)
    for key, bytes in rows.items():
        if any(any(unit) for unit in key) or bytes > budget:
            solver.addConstr(sum(c * v for unit, values in zip(key, x) for c, v in zip(unit, values) if c) + 0 * x[0][0] <= (budget - bytes) / 2**20)
    for u, unit in enumerate(terms):
        for s, state in enumerate(unit):
            for i, bytes in state["again"].items():
                others = sum(c["at"][i] * v for w, values in enumerate(x) if w != u for c, v in zip(terms[w], values) if c["at"][i])
                big = 2 * budget / 2**20
                solver.addConstr(others + big * x[u][s] <= (budget - bytes) / 2**20 + big)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return [max(range(len(unit)), key=lambda s: solver.val(unit[s])) for unit in x]


def compare(model, count):
    units = list(model.units())
    single = [model.decide([(bucket, block, state)]) for bucket, block, states in units for state in states]
    outcomes = iter(model.ask(decisions=[model.none] + single)["outcomes"])
    none = next(outcomes)
    terms = []
    for _, _, states in units:
        terms.append([])
        for _ in states:
            outcome = next(outcomes)
            again = {i: bytes for i, bytes in enumerate(outcome["again"]) if bytes}
            terms[-1].append({"seconds": outcome["seconds"] - none["seconds"], "again": again,
                              "at": [(a - b) / 2**20 for a, b in zip(outcome["at"], none["at"])]})
    most = max(outcome["peak"] for outcome in model.ask(decisions=[model.decide([(b, k, (s[-1][0], 0)) for b, k, s in units])])["outcomes"])
    least = model.ask(decisions=[model.decide([(b, k, (False, s[-1][1])) for b, k, s in units])])["outcomes"][0]["peak"]
    failures = compared = 0
    budgets = [least + (most - least) * i // (count - 1) for i in range(count)]
    chosen = model.ask(budgets=budgets, prefetches=False)["chosen"]
    for budget, found in zip(budgets, chosen):
        states = solve(terms, none["at"], budget)
        where = f"  {budget / 2**20:8.2f} MiB:"
        if states is None or found is None:
            print(where, "HiGHS" if states is None else "the search", "finds nothing")
            failures += states is not None
            continue
        exact = model.ask(decisions=[model.decide([(b, k, s[i]) for (b, k, s), i in zip(units, states)])])["outcomes"][0]
        linear = none["seconds"] + sum(unit[i]["seconds"] for unit, i in zip(terms, states))
        fits = exact["peak"] <= budget
        ratio = found["seconds"] / exact["seconds"]
        compared += fits
        failures += fits and ratio > TOLERANCE
        print(where, f"HiGHS {1e3 * exact['seconds']:.3f} ms (linear {1e3 * linear:.3f}){'' if fits else ', which does not fit'}, "
              f"the search {1e3 * found['seconds']:.3f} ms, {ratio:.4f}")
    if 2 * compared < count:
        sys.exit("fewer than half of the budgets can be compared: the model is not linear there")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda p: pathlib.Path(p).resolve(), default=pathlib.Path("build/bin").resolve())
    parser.add_argument("--step-model", type=lambda p: pathlib.Path(p).resolve(), default=pathlib.Path("build/test/bin/fsdp-step-model").resolve())
    parser.add_argument("--layers", type=int, nargs="*", default=[3, 5, 7])
    parser.add_argument("--budgets", type=int, default=8)
    args = parser.parse_args()
    failures = 0
    for layers in args.layers:
        with tempfile.TemporaryDirectory() as work:
            folder = pathlib.Path(work)
            module, inputs = decoder(layers=layers)
            (folder / "slow.yaml").write_text(auto.CLUSTER)
            compile_step(args.bin, folder, module, inputs, make_config(2, cluster="slow.yaml", prefetch=0, reshard_after_forward=True))
            model = Model(args.step_model, folder)
            print(f"{len(model.buckets)} buckets")
            failures += compare(model, args.budgets)
    print(f"{failures} answers are more than 2 % slower")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
