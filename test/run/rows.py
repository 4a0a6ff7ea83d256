# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A row of RunOptions.def that does not say what ranks have to agree on is no program.

    rows.py SOURCE_DIR COMPILER INCLUDE_DIR...
"""
import pathlib
import re
import subprocess
import sys
import tempfile

source, compiler, *includes = sys.argv[1:]
TABLE, READER = "runtime/session/RunOptions.def", "runtime/train/RunOptions.cpp"
rows = (pathlib.Path(source) / TABLE).read_text()


def compile_with(changed):
    with tempfile.TemporaryDirectory() as folder:
        table = pathlib.Path(folder) / TABLE
        table.parent.mkdir(parents=True)
        table.write_text(changed)
        return subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *(f"-I{each}" for each in (folder, source, *includes)), f"{source}/{READER}"],
                              text=True, capture_output=True)


done = compile_with(rows)
assert done.returncode == 0, done.stderr
for name, decision, instead in (("seed", "value", ""), ("threads", "no", " perhaps,")):
    row = re.compile(rf'(_OPTION\("{name}", \w+, "\w*",) {decision},')
    assert row.search(rows), f"no row of '{name}' says {decision}"
    done = compile_with(row.sub(rf"\1{instead}", rows))
    assert done.returncode != 0 and "RunOptions.def" in done.stderr, f"'{name}' compiles with '{instead}': {done.stderr}"
