# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What was found, written to files after every step so that nothing is lost when the rest is."""
import json
import os
import threading
import time

STATES = ("ok", "fail", "refused", "skipped", "not run")


class Results:
    """Checks by name, each in one of STATES, rows of the table, and facts of the machine.

    A check is planned first and is `not run` until something else is said of it.
    """

    def __init__(self, folder):
        self.folder, self.lock, self.begin = folder, threading.RLock(), time.monotonic()
        self.facts, self.checks, self.rows, self.goals, self.notes = {}, {}, {}, [], []
        # Of the table's first row, and of that with kernels: the cluster, and what predict.py took along for it.
        self.predicted, self.predicted_kernels = {}, {}
        folder.mkdir(parents=True, exist_ok=True)
        self.log = open(folder / "log.txt", "w", buffering=1)

    def say(self, text):
        with self.lock:
            line = f"[{time.monotonic() - self.begin:6.1f} s] {text}"
            print(line, flush=True)
            self.log.write(line + "\n")

    def note(self, text):
        """Something that belongs into the report."""
        with self.lock:
            self.notes.append(text)
            self.say(text)
            self.save()

    def plan(self, stage, name):
        with self.lock:
            self.checks.setdefault(name, {"stage": stage, "state": "not run"})

    def check(self, stage, name, state, text="", seconds=None):
        with self.lock:
            self.checks[name] = {"stage": stage, "state": state, **({"text": text} if text else {}),
                                 **({"seconds": round(seconds, 2)} if seconds is not None else {})}
            self.say(f"{state:8}{name}" + (f" ({seconds:.1f} s)" if seconds is not None else "") + (f": {text}" if text else ""))
            self.save()

    def row(self, name, **values):
        with self.lock:
            self.rows.setdefault(name, {}).update(values)
            self.save()

    def count(self, state):
        return sum(c["state"] == state for c in self.checks.values())

    def failed(self):
        return self.count("fail") or any(row.get("state") == "fail" for row in self.rows.values())

    def save(self):
        with self.lock:
            everything = {"facts": self.facts, "notes": self.notes, "goals": self.goals, "table": self.rows, "predicted": self.predicted, "predicted_kernels": self.predicted_kernels, "checks": self.checks}
            self.write("results.json", json.dumps(everything, indent=1))
            self.write("report.md", self.markdown())

    def write(self, name, text):
        new = self.folder / (name + ".new")
        new.write_text(text)
        os.replace(new, self.folder / name)

    def markdown(self):
        from predict import markdown as compared
        from table import KERNELS, OURS, markdown
        lines = ["# One GPU", ""] + [f"- {k}: {v}" for k, v in self.facts.items()] + [f"- {note}" for note in self.notes] + [""]
        lines += markdown(self.rows, self.goals) + compared(self.predicted, self.rows, OURS) + compared(self.predicted_kernels, self.rows, KERNELS) + ["## Checks", "", "| stage | " + " | ".join(STATES) + " |", "|" + "---|" * (len(STATES) + 1)]
        for stage in dict.fromkeys(c["stage"] for c in self.checks.values()):
            own = [c["state"] for c in self.checks.values() if c["stage"] == stage]
            lines.append(f"| {stage} | " + " | ".join(str(own.count(s)) for s in STATES) + " |")
        for state in ("fail", "refused", "skipped", "not run"):
            names = [(n, c.get("text", "")) for n, c in self.checks.items() if c["state"] == state]
            if names:
                lines += ["", f"### {state}", ""] + [f"- {n}" + (f": {' '.join(text.split())[:600]}" if text else "") for n, text in names]
        return "\n".join(lines) + "\n"
