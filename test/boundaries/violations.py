# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Breaks each rule of boundaries.py in a small tree of sources, one at a time."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
SPDX = "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
# Includes that make enough folders for the test of their directions.
FOLDERS = [f"runtime/room{i}" for i in range(25)]


class Violations(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "source"
        for name in ("runtime/cuda/a.cu", "runtime/cuda/a.cuh", "passes/a.inc", "passes/a.def", "passes/a.td"):
            self.write(name, f"// {SPDX}\n")
        self.write("plan/a.fbs", f"// {SPDX}\n")
        for name in ("test/a.py", "cmake/a.cmake", "cmake/a.sh"):
            self.write(name, f"# {SPDX}\n")
        self.write("support/a.h", f"// {SPDX}\n")
        self.write("cmake/FsdpInstall.cmake", f"# {SPDX}\nset(FSDP_PUBLIC_HEADERS support/a.h)\n")
        for folder in FOLDERS:
            self.write(f"{folder}/a.cpp", f'// {SPDX}\n#include "support/a.h"\n')
        self.binary = self.root.parent / "fsdp-run"
        shutil.copy("/bin/true", self.binary)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, *binaries, **environment):
        done = subprocess.run([sys.executable, HERE / "boundaries.py", self.root, *(binaries or [self.binary])],
                              capture_output=True, text=True, env=environment or None)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1 if done.stdout else 0)
        return done.stdout

    def test_nothing_is_wrong(self):
        self.assertEqual(self.check(), "")

    def test_licences_of_all_kinds_of_files(self):
        for name in ("runtime/cuda/a.cu", "runtime/cuda/a.cuh", "passes/a.td", "passes/a.def", "plan/a.fbs", "test/a.py",
                     "cmake/a.cmake", "cmake/a.sh", "support/a.h"):
            with self.subTest(name):
                text = (self.root / name).read_text()
                self.write(name, "")
                self.assertEqual(self.check(), f"{name} has no SPDX licence line\n")
                self.write(name, text)

    def test_a_template_whose_name_compilers_differ_in(self):
        self.write("runtime/a.cpp", f"// {SPDX}\n#include \"support/a.h\"\nauto a = tensor.const_data_ptr<float>();\n")
        self.assertIn("runtime/a.cpp calls const_data_ptr<T>", self.check())

    def test_includes_that_a_folder_must_do_without(self):
        for name, include in (("runtime/cuda/a.cu", "#include <mlir/IR/Builders.h>"), ("runtime/cuda/a.cuh", "#include <llvm/ADT/Twine.h>"),
                              ("passes/a.td", 'include "torch/script.td"'), ("support/a.h", "#include <ATen/ATen.h>")):
            with self.subTest(name):
                text = (self.root / name).read_text()
                self.write(name, f"// {SPDX}\n{include}\n")
                self.assertIn("which this folder must do without", self.check())
                self.write(name, text)

    def test_directions(self):
        self.write("support/a.h", f'// {SPDX}\n#include "runtime/room3/a.h"\n')
        said = self.check()
        self.assertIn("support/a.h includes runtime/room3/a.h: support is not built on runtime", said)
        self.assertIn("folders include one another in a circle", said)

    def test_declarations_of_what_stands_above(self):
        self.write("runtime/room4/a.h", f'// {SPDX}\n#include "runtime/room3/a.h"\nclass Above {{}};\n')
        self.assertEqual(self.check(), "")
        self.write("runtime/room3/b.h", f"// {SPDX}\nclass Above;\n")
        self.assertEqual(self.check(), "folders include one another in a circle: runtime/room3/b.h declares Above of runtime/room4; "
                                       "runtime/room4/a.h includes runtime/room3/a.h\n")

    def test_directions_of_cuda(self):
        self.write("runtime/cuda/a.cu", f'// {SPDX}\n#include "passes/a.h"\n')
        self.assertIn("runtime is not built on passes", self.check())

    def test_folders_side_by_side(self):
        self.write("passes/memory/a.cpp", f'// {SPDX}\n#include "passes/shard/a.h"\n')
        self.assertEqual(self.check(), "passes/memory/a.cpp includes passes/shard/a.h: passes/memory and passes/shard stand side by side\n")

    def test_installed_headers_that_include_others(self):
        self.write("support/b.h", f"// {SPDX}\n")
        self.write("support/a.h", f'// {SPDX}\n#include "support/b.h"\n#include <vector>\n')
        self.assertEqual(self.check(), "support/a.h is installed and includes support/b.h, which is not\n")
        self.write("cmake/FsdpInstall.cmake", f"# {SPDX}\nset(FSDP_PUBLIC_HEADERS\n  support/a.h support/b.h)\n")
        self.assertEqual(self.check(), "")
        self.write("cmake/FsdpInstall.cmake", f"# {SPDX}\n")
        self.assertEqual(self.check(), "cmake/FsdpInstall.cmake sets no FSDP_PUBLIC_HEADERS\n")

    def test_symbols_that_two_libraries_define(self):
        for name, text in (("fsdp-runtime", "int log, level;"), ("fsdp-cuda", "int graphs;")):
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", self.root.parent / f"lib{name}.so"], input=text, text=True, check=True)
        cuda = self.root.parent / "libfsdp-cuda.so"
        self.assertEqual(self.check(cuda), "")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", cuda], input="int graphs, level;", text=True, check=True)
        self.assertEqual(self.check(cuda), "libfsdp-cuda.so and libfsdp-runtime.so both define level: their statics are there twice\n")

    def test_formats(self):
        for name in ("support/a.h", "runtime/cuda/a.cu"):
            with self.subTest(name):
                text = (self.root / name).read_text()
                self.write(name, f"// {SPDX}\nint  x ;\n")
                self.assertEqual(self.check(), f"{name} is not formatted: run clang-format-22 -i {name}\n")
                self.write(name, text)

    def test_binaries(self):
        self.assertIn("was not built", self.check(self.root / "fsdp-opt"))
        other = self.root.parent / "other"
        shutil.copy("/bin/true", other)
        self.assertIn("other is none of", self.check(other))

    def test_missing_tools(self):
        folder = self.root.parent / "tools"
        folder.mkdir()
        said = self.check(PATH=str(folder))
        self.assertIn("clang-format-22 was not found", said)
        self.assertIn("ldd was not found", said)

    def test_nothing_to_check(self):
        (self.root / "runtime/cuda/a.cu").unlink()
        self.assertIn("no file *.cu was found", self.check())


if __name__ == "__main__":
    unittest.main()
