# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the tests of a GoogleTest program in several processes at once: those that wait, wait together.

    side_by_side.py PROCESSES PROGRAM [ARGUMENT...]

Prints what each process said, one behind the other; the exit status says whether one failed.
"""
import os
import re
import subprocess
import sys
import tempfile

count, command = int(sys.argv[1]), sys.argv[2:]
# Files, not pipes: one that nobody reads yet would stop a test.
files = [tempfile.TemporaryFile("w+", errors="replace") for _ in range(count)]
processes = [subprocess.Popen(command, env={**os.environ, "GTEST_TOTAL_SHARDS": str(count), "GTEST_SHARD_INDEX": str(index)},
                              stdout=file, stderr=subprocess.STDOUT) for index, file in enumerate(files)]
said = []
for process, file in zip(processes, files):
    process.wait()
    file.seek(0)
    said.append(file.read())
print("\n".join(said))
ran = sum(int(number) for text in said for number in re.findall(r"^\[==========\] (\d+) tests? from .* ran\.", text, re.M))
statuses = [process.returncode for process in processes]
print(f"{ran} tests in {count} processes, which exited with {statuses}")
sys.exit(1 if any(statuses) or not ran else 0)
