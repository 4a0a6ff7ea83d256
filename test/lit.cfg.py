# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What every lit test of the project may use: fsdp-opt, fsdp-run, FileCheck, not
# and, if the build knows a Python with torch (FSDP_PYTHON), %python and the
# feature `pytorch`. The feature `runtime` says that fsdp-run is built.
import os
import sys

import lit.formats

# Of warm.py, which folders use that run the same programs often.
sys.path.append(os.path.join(os.path.dirname(__file__), "end_to_end"))
config.name = "fsdp"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.fsdp_build, "test")

config.environment["PATH"] = os.pathsep.join(
    [config.fsdp_tools, os.path.join(config.fsdp_build, "test/bin"), config.llvm_tools, os.environ.get("PATH", "")]
)
# What a launcher left behind would change how fsdp-run starts.
for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
    config.environment.pop(name, None)

config.substitutions.append(("%fsdp_source", config.fsdp_source))
config.substitutions.append(("%stages", os.path.join(config.fsdp_source, "test/ir/stages")))

if config.fsdp_python:
    # Of all tests of a run, where ctest has begun it.
    config.fsdp_python = f"{config.fsdp_build}/test/bin/fsdp-warm-call @{config.fsdp_build}/test/warm/address {config.fsdp_python}"
    config.available_features.add("pytorch")
    config.substitutions.append(("%python", config.fsdp_python))
if config.fsdp_runtime:
    config.available_features.add("runtime")
