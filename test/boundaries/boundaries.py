"""Guards the link and include boundaries of the folders, and the sources' form.

    boundaries.py SOURCE_DIR BINARY...

Each binary is one that the build makes: build/bin/fsdp-run. Prints each
violation; the exit status says whether there was one. What cannot be checked,
for want of a tool or a binary, is a violation, too.
"""
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE, *BINARIES = (pathlib.Path(a) for a in sys.argv[1:])
CODE = (".cpp", ".h", ".cu", ".cuh")                     # formatted
INCLUDING = (*CODE, ".inc", ".def", ".td")
LICENSED = (*INCLUDING, ".fbs", ".py", ".cmake", ".sh")
MLIR, TORCH = r"(mlir|llvm|mlir-c)/", r"(torch|ATen|c10|caffe2)/"
# Folder: what its sources may not include. The longest matching folder counts.
FORBIDDEN = {
    "support": f"{MLIR}|{TORCH}",
    "plan": f"{MLIR}|{TORCH}",
    "kernels": f"{MLIR}|{TORCH}",
    "kernels/emit": f"(mlir|mlir-c)/|{TORCH}",
    "simulate": f"{MLIR}|{TORCH}",
    "decide": f"{MLIR}|{TORCH}",
    "ir": TORCH,
    "ir/features": f"{MLIR}|{TORCH}",
    "ir/capture": None,
    "passes": TORCH,
    "runtime": MLIR,
    "runtime/weights": f"{MLIR}|{TORCH}",
    "runtime/data": f"{MLIR}|{TORCH}",
    "tools/fsdp-opt": TORCH,
    "tools/fsdp-run": MLIR,
    "python": MLIR,
}
# Rooms, from the ground up: a room may include those that it is built on.
BUILT_ON = {
    "support": (),
    "plan": ("support",),
    "kernels": ("support", "plan"),
    "simulate": ("support", "plan"),
    "decide": ("support", "plan", "simulate"),
    "runtime": ("support", "plan", "kernels"),
    "ir": ("support",),
    "passes": ("support", "plan", "kernels", "ir"),
    "python": ("support", "plan", "runtime"),
    "tools": ("support", "plan", "kernels", "simulate", "decide", "runtime", "ir", "passes"),
}
# Folders side by side: none includes another.
BESIDE = ("passes/partition", "passes/shard", "passes/memory", "passes/schedule", "passes/plan")
# Binary: what it may not be linked to.
UNLINKED = {"fsdp-run": r"lib(MLIR|LLVM|torch_cuda|c10_cuda|fsdp-cuda)", "fsdp-opt": r"lib(torch|c10)"}
# Library: the one that it is loaded into, which defines nothing that it does.
APART = {"libfsdp-cuda.so": "libfsdp-runtime.so"}
failures = []


def fail(text):
    failures.append(text)
    print(text)


def sources(suffixes):
    """Names of the files that end so. Each ending has some, or no rule holds for it."""
    found = [name for name in FILES if name.endswith(suffixes)]
    for suffix in suffixes:
        if not any(name.endswith(suffix) for name in found):
            fail(f"no file *{suffix} was found under {SOURCE}")
    return found


def strong_symbols(library):
    """Functions and variables that others may use; inline ones, which are weak, are anywhere."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True)
    found = set(re.findall(r"^\S+ [TDBR] (\S+)$", done.stdout, re.M))
    if not found:
        fail(f"{library.name} defines nothing: {done.stderr.strip()}")
    return found


def find_files():
    names = []
    if shutil.which("git"):
        names = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, capture_output=True, text=True).stdout.split("\0")[:-1]
    if not names:                                       # no checkout, but a copy of one
        paths = (p.relative_to(SOURCE) for p in SOURCE.rglob("*"))
        names = [str(p) for p in paths if not p.parts[0].startswith("build")]
    return [name for name in names if (SOURCE / name).is_file()]


def includes(text):
    """What C++, CUDA and TableGen include."""
    return re.findall(r'^\s*#?\s*include\s*[<"]([^>"]+)[>"]', text, re.M)


DEFINITION = re.compile(r"^(?:class|struct) (\w+)(?: final)?\s*(?::[^;{]*)?\{", re.M)
DECLARATION = re.compile(r"^(?:class|struct) (\w+);", re.M)


def definitions():
    """Class: the folder that defines it, of classes that one folder of the rooms alone does."""
    found = {}
    for name in sources(CODE):
        if name.split("/")[0] in BUILT_ON:
            for defined in DEFINITION.findall((SOURCE / name).read_text()):
                found.setdefault(defined, set()).add(str(pathlib.PurePosixPath(name).parent))
    return {defined: folders.pop() for defined, folders in found.items() if len(folders) == 1}


FILES = find_files()
for name in sources(LICENSED):
    if "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" not in (SOURCE / name).read_text():
        fail(f"{name} has no SPDX licence line")
for name in sources(INCLUDING):
    folders = [f for f in FORBIDDEN if name.startswith(f + "/")]
    pattern = FORBIDDEN[max(folders, key=len)] if folders else None
    text = (SOURCE / name).read_text()
    if pattern:
        for include in includes(text):
            if re.match(pattern, include):
                fail(f"{name} includes {include}, which this folder must do without")
    if "const_data_ptr<" in text:
        fail(f"{name} calls const_data_ptr<T>, which Clang names otherwise than g++ 12, with which LibTorch was built; call data_ptr<T>")
    if re.match(r"tools/fsdp-(opt|run)/[a-z-]+\.cpp$", name) and "int main(" in text and text.count("\n") >= 60:
        fail(f"{name} is a main of 60 lines or more; logic belongs in its library")


def find_cycle(arrows):
    """Folders that include one another in a circle, or None."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return None
        path.append(folder)
        for other in sorted(arrows.get(folder, {})):
            if cycle := visit(other):
                return cycle
        path.pop()
        done.add(folder)
        return None

    for folder in sorted(arrows):
        if cycle := visit(folder):
            return cycle
    return None


# Direction: no folder includes, in however many steps, one that includes it. To declare a class of another folder is to
# know that folder, too.
arrows, defined_in = {}, definitions()
for name in sources(INCLUDING):
    room = name.split("/")[0]
    if room not in BUILT_ON:
        continue
    folder = str(pathlib.PurePosixPath(name).parent)
    text = (SOURCE / name).read_text()
    for declared in DECLARATION.findall(text):
        other = defined_in.get(declared, folder)
        if other != folder and other.split("/")[0] in (room, *BUILT_ON[room]):
            arrows.setdefault(folder, {}).setdefault(other, f"{name} declares {declared} of {other}")
    for include in includes(text):
        other = str(pathlib.PurePosixPath(include).parent)
        if other.split("/")[0] not in BUILT_ON or other == folder:
            continue
        if other.split("/")[0] != room and other.split("/")[0] not in BUILT_ON[room]:
            fail(f"{name} includes {include}: {room} is not built on {other.split('/')[0]}")
        if folder in BESIDE and other in BESIDE:
            fail(f"{name} includes {include}: {folder} and {other} stand side by side")
        if not name.endswith(".td"):                            # Passes.td collects those of the folders below
            arrows.setdefault(folder, {}).setdefault(other, f"{name} includes {include}")
if len(arrows) < 20:
    fail(f"only {len(arrows)} folders with includes were found under {SOURCE}")
if cycle := find_cycle(arrows):
    fail("folders include one another in a circle: " + "; ".join(arrows[a][b] for a, b in zip(cycle, cycle[1:])))

# What is installed includes, of what is ours, only what is installed, too.
listing = (SOURCE / "cmake/FsdpInstall.cmake").read_text()
public = re.search(r"set\(FSDP_PUBLIC_HEADERS([^)]*)\)", listing)
public = public.group(1).split() if public else []
if not public:
    fail("cmake/FsdpInstall.cmake sets no FSDP_PUBLIC_HEADERS")
for name in public:
    for include in includes((SOURCE / name).read_text()):
        if include.split("/")[0] in BUILT_ON and include not in public:
            fail(f"{name} is installed and includes {include}, which is not")

if not BINARIES:
    fail("no binary was named; the build says which it makes")
for path in BINARIES:
    pattern = UNLINKED.get(path.name)
    if path.name in APART and path.exists() and shutil.which("nm"):
        twice = strong_symbols(path) & strong_symbols(path.with_name(APART[path.name]))
        if twice:
            fail(f"{path.name} and {APART[path.name]} both define {', '.join(sorted(twice)[:5])}: their statics are there twice")
    elif path.name in APART and path.exists():
        fail(f"nm was not found, so nobody knows what {path.name} defines; it comes with binutils")
    elif not pattern and path.name not in APART:
        fail(f"{path.name} is none of {', '.join([*UNLINKED, *APART])}")
    elif not path.exists():
        fail(f"{path} was not built")
    elif not shutil.which("ldd"):
        fail(f"ldd was not found, so nobody knows what {path.name} is linked to; it comes with libc-bin")
    else:
        linked = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"^\s*(\S+)", linked, re.M):
            if re.match(pattern, library):
                fail(f"{path.name} is linked to {library}")

formatter = shutil.which("clang-format-22")
if not formatter:
    fail("clang-format-22 was not found, so nobody knows whether sources are formatted; install what cmake/apt-packages.txt lists")
else:
    done = subprocess.run([formatter, "--dry-run", "--Werror", *sources(CODE)], cwd=SOURCE, capture_output=True, text=True)
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr, re.M)))
    for line in wrong:
        fail(f"{line} is not formatted: run clang-format-22 -i {line}")
    if done.returncode and not wrong:
        fail(f"clang-format-22 failed: {done.stderr.strip()}")

sys.exit(1 if failures else 0)
