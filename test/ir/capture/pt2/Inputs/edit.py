# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Replaces text in the program of an archive: edit.py FROM TO OLD NEW; DEEP in NEW stands for deeply nested lists."""
import sys
import zipfile

source, target, old, new = sys.argv[1:]
with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w") as edited:
    for entry in archive.infolist():
        data = archive.read(entry)
        if entry.filename.endswith("/models/model.json"):
            assert old.encode() in data, f"no '{old}' in the program"
            data = data.replace(old.encode(), new.replace("DEEP", 100000 * "[" + 100000 * "]").encode())
        edited.writestr(entry, data)
