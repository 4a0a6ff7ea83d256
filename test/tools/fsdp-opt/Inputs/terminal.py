"""Runs a command whose standard input is a terminal; prints what it says and its status."""
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import pty
import subprocess
import sys

_, terminal = pty.openpty()
done = subprocess.run(
    sys.argv[1:], stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20
)
print(done.stdout.decode(), end="")
print("status", done.returncode)
