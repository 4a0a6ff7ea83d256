"""Guards the link and include boundaries of the folders, and the sources' form.

    boundaries.py SOURCE_DIR BINARY_DIR

Prints each violation; the exit status says whether there was one.
"""
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE, BINARY = (pathlib.Path(a) for a in sys.argv[1:3])
MLIR, TORCH = r"(mlir|llvm|mlir-c)/", r"(torch|ATen|c10|caffe2)/"
# Folder: what its sources may not include. The longest matching folder counts.
FORBIDDEN = {
    "ir": TORCH,
    "ir/capture": None,
    "passes": TORCH,
    "runtime": MLIR,
    "runtime/support": f"{MLIR}|{TORCH}",
    "runtime/plan": f"{MLIR}|{TORCH}",
    "runtime/weights": f"{MLIR}|{TORCH}",
    "runtime/data": f"{MLIR}|{TORCH}",
    "tools/fsdp-opt": TORCH,
    "tools/fsdp-run": MLIR,
}
# Binary: what it may not be linked to.
UNLINKED = {"fsdp-run": r"lib(MLIR|LLVM)", "fsdp-opt": r"lib(torch|c10)"}
failures = []


def fail(text):
    failures.append(text)
    print(text)


def sources():
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, capture_output=True, text=True)
    names = tracked.stdout.split("\0") if tracked.returncode == 0 else []
    names = names or [str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*")]
    for name in names:
        if re.search(r"\.(cpp|h|inc|def)$", name) and (SOURCE / name).exists():
            yield name


checked = 0
for name in sources():
    folders = [f for f in FORBIDDEN if name.startswith(f + "/")]
    pattern = FORBIDDEN[max(folders, key=len)] if folders else None
    text = (SOURCE / name).read_text()
    checked += 1
    if pattern:
        for include in re.findall(r'#include [<"]([^>"]+)[>"]', text):
            if re.match(pattern, include):
                fail(f"{name} includes {include}, which this folder must do without")
    if "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" not in text:
        fail(f"{name} has no SPDX licence line")
    if re.match(r"tools/fsdp-(opt|run)/[a-z-]+\.cpp$", name) and "int main(" in text and text.count("\n") >= 60:
        fail(f"{name} is a main of 60 lines or more; logic belongs in its library")
if checked < 10:
    fail(f"only {checked} source files were found under {SOURCE}")

for binary, pattern in UNLINKED.items():
    path = BINARY / "bin" / binary
    if not path.exists():
        continue                                                # a runtime-only build has no fsdp-opt
    linked = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"^\s*(\S+)", linked, re.M):
        if re.match(pattern, library):
            fail(f"{binary} is linked to {library}")

formatter = shutil.which("clang-format-22")
if formatter:
    names = [n for n in sources() if not n.endswith((".inc", ".def"))]
    done = subprocess.run([formatter, "--dry-run", "--Werror", *names], cwd=SOURCE, capture_output=True, text=True)
    for line in sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M))):
        fail(f"{line} is not formatted: run clang-format-22 -i {line}")

sys.exit(1 if failures else 0)
