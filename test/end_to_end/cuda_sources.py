# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our own CUDA sources, compiled for GPUs of several generations without one: no register lies in memory, and what is
said to move 16 bytes at a time does.
"""
import pathlib
import re
import shutil

from harness import must, parse_arguments, run_cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ("sm_80", "sm_90", "sm_100")
LOAD, STORE = (rf"{way}(?:\.global)?\S*\.v4\.[ubf]32" for way in ("ld", "st"))
# By source: how many kernels it has; the most registers of a thread (with 40 a multiprocessor runs 1536 threads, with 72 it runs 896); and by names of
# kernels what each moves 16 bytes at a time. Maxima are found of what is read alone.
SOURCES = {
    "Dequantize.cu": (12, 40, {"dequantizeTile": (LOAD, r"st\.shared\S*\.v4\.[ubf]32", STORE)}),
    "SumParts.cu": (8, 56, {"sumPartsIfLi4": (LOAD, STORE), "halfLi8": (LOAD, STORE), "bfloat16Li8": (LOAD, STORE), "E4M3ELi16": (LOAD, STORE)}),
    "Update.cu": (8, 72, {"updatePieces": (LOAD, STORE), "findMaxima": (LOAD,)}),
}


def find(tool):
    return shutil.which(tool) or next((str(path) for path in (pathlib.Path(folder) / tool for folder in ("/usr/local/cuda/bin", "/opt/cuda/bin", "/usr/bin")) if path.exists()), None)


def case(bin, source):
    kernels, most, moves = SOURCES[source]

    def run(folder):
        flags = ["-std=c++20", "-O3", "-DNDEBUG", '-DFSDP_VERSION="test"', f"-I{ROOT}", f"-I{bin.parent}", "-diag-suppress=550", "-fmad=false", "-arch=compute_80"]
        must(find("nvcc"), *flags, "-x", "cu", "-ptx", ROOT / "runtime" / "cuda" / source, "-o", folder / "code.ptx", cwd=folder)
        entries = re.split(r"(?m)^(?:\.visible )?\.entry ", (folder / "code.ptx").read_text())[1:]
        assert len(entries) == kernels, f"{len(entries)} kernels"
        for name, wanted in moves.items():
            own = [entry for entry in entries if name in entry.split("(")[0]]
            assert own, f"no kernel is called {name}"
            for entry in own:
                for move in wanted:
                    assert re.search(move, entry), f"{entry.split('(')[0]} has no {move}"
        for target in TARGETS:
            said = must(find("ptxas"), "-v", f"-arch={target}", folder / "code.ptx", "-o", folder / "code.cubin", cwd=folder).stderr
            found = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\s.*?Used (\d+) registers", said, re.S)
            assert len(found) == kernels, said
            for stack, stores, loads, registers in found:
                assert stack == stores == loads == "0" and int(registers) <= most, f"{target}: {registers} registers, {stack} bytes of stack, {stores} and {loads} of spills"
            if find("cuobjdump"):
                code = must(find("cuobjdump"), "-sass", folder / "code.cubin", cwd=folder).stdout
                for what in ("LDG.E.128", "STG.E.128"):
                    assert code.count(what) >= len(moves), f"{target}: {code.count(what)} times {what}"
    return run


def main():
    arguments = parse_arguments()
    run_cases({source: case(arguments.bin, source) for source in SOURCES}, arguments.only)


main()
