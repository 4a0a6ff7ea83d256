# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads sources one by one, as a build without FSDP_UNITY does, where they are compiled together.

    alone.py SOURCE_DIR BUILD_DIR COMPILER [--all]

A source that leans on what another one of its folder includes or declares fails here. Those that the last commit and
the working tree change, and some more that the commit's hash chooses, so that in time all have their turn.
"""
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

SOURCE, BUILD = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
COMPILER = sys.argv[3]
CHANGED, CHOSEN = 24, 6  # most that are read: a second each


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=SOURCE, capture_output=True, text=True).stdout.split()


def commands():
    """Source: the command of the file that it is compiled in, without what makes an object of it."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        united = pathlib.Path(entry["file"])
        if united.parent.name != "Unity":
            continue
        words = shlex.split(entry["command"])
        words = words[words.index(COMPILER):]
        words.remove("-c")
        del words[words.index("-o"):words.index("-o") + 2]
        words.remove(entry["file"])
        for source in re.findall(r'#include "(.*)"', united.read_text()):
            found.setdefault(source, [*words, "-fsyntax-only", source])
    return found


def choose(sources):
    commit = (git("rev-parse", "HEAD") or [""])[0]
    # Of a clone without history, the commit has all files: then the hash alone chooses.
    changed = {str(SOURCE / name) for name in git("diff", "--name-only", "HEAD~1")}
    by_hash = sorted(sources, key=lambda name: hashlib.sha256(f"{commit} {pathlib.Path(name).relative_to(SOURCE)}".encode()).digest())
    mine = [name for name in by_hash if name in changed]
    if len(mine) > CHANGED:
        print(f"{len(mine)} sources are changed, of which {CHANGED} are read")
    return mine[:CHANGED] + [name for name in by_hash if name not in changed][:CHOSEN]


def main():
    by_source = commands()
    if len(by_source) < 100:
        sys.exit(f"only {len(by_source)} sources are compiled together in {BUILD}")
    names = sorted(by_source) if "--all" in sys.argv else choose(by_source)
    failures = 0
    for name in names:
        done = subprocess.run(by_source[name], cwd=BUILD, capture_output=True, text=True)
        if done.returncode:
            failures += 1
            print(f"{pathlib.Path(name).relative_to(SOURCE)} cannot be compiled by itself; include what it uses:\n{done.stderr}")
    print(f"{len(names)} sources, {failures} failures")
    sys.exit(1 if failures else 0)


main()
