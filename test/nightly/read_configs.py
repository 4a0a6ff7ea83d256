#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of the keys of a folder of other tools' configs, as the tables of docs/ForeignConfigs.md.

    read_configs.py --bin build/bin FOLDER

FOLDER: such as `examples` of Axolotl's repository. Each file is read by `fsdp-opt --read-config`.
"""
import argparse
import collections
import concurrent.futures
import pathlib
import re
import subprocess

WORDS = {"refused": "refused", "not taken from here": "warned of", "taken as": "taken", "of this project": "own", "passed over": "passed over"}


def read(bin, file):
    """The exit status, the numbers of the first line, and for each key that is told of what becomes of it."""
    done = subprocess.run([bin / "fsdp-opt", f"--read-config={file}"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    counts = re.match(r".*: (\d+) keys: (.*)", lines[0]) if lines else None
    numbers = {} if counts is None else {what: int(number) for number, what in re.findall(r"(\d+) ([a-z ]+)", counts[2])}
    fates, fate, why = [], "", ""
    for line in lines[1:]:
        title = line.partition(";")[0]
        if title in WORDS:
            fate = WORDS[title]
        elif key := re.match(r"\s+error\[fsdp-E\d+\]: .*?:\d+:\d+: '([\w.]+)'(.*)", line):
            fates.append((key[1], fate, key[2].strip()))
        elif key := re.match(r"\s+\d+:\d+\s+(\S+)\s+(.*)", line):
            fates.append((key[1], fate, key[2].strip()))
    return done.returncode, numbers, fates, done.stderr.strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("folder", type=pathlib.Path)
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.folder.rglob("*.y*ml"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        read_files = list(pool.map(lambda file: read(arguments.bin, file), files))
    totals, keys, why, taken, broken = collections.Counter(), collections.defaultdict(collections.Counter), {}, 0, []
    for file, (status, numbers, fates, error) in zip(files, read_files):
        taken += status == 0
        totals.update(numbers)
        if not numbers:
            broken.append(f"{file.relative_to(arguments.folder)}: {error.splitlines()[0] if error else 'nothing was said'}")
        for key, fate, text in fates:
            keys[key][fate] += 1
            why.setdefault((key, fate), text)
    print(f"Of {len(files)} files {taken} have nothing that is refused; their {sum(totals.values()):,} keys:\n")
    print("| " + " | ".join(totals) + " |\n" + "|---" * len(totals) + "|\n| " + " | ".join(f"{number:,}" for number in totals.values()) + " |\n")
    for fate in ("refused", "warned of"):
        print(f"| {fate} | files | {'why' if fate == 'refused' else 'what to do'} |\n|---|---|---|")
        for key, counts in sorted(keys.items(), key=lambda each: (-each[1][fate], each[0])):
            if counts[fate]:
                print(f"| `{key}` | {counts[fate]} | {why[key, fate]} |")
        print()
    for fate in ("taken", "passed over"):
        named = sorted(((key, counts[fate]) for key, counts in keys.items() if counts[fate]), key=lambda each: (-each[1], each[0]))
        print(f"{fate}: " + ", ".join(f"`{key}` {number}" for key, number in named) + "\n")
    print("\n".join(broken))


if __name__ == "__main__":
    main()
