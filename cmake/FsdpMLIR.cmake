# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# MLIR 22.1 from the system package. ("22" alone is refused by its version file.)
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
# Before the first mlir_tablegen, which reads the directory's include paths.
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
include(TableGen)
include(AddLLVM)
include(AddMLIR)
# No HandleLLVMOptions: it turns exceptions off, which LibTorch needs.
set(LLVM_EXTERNAL_LIT ${LLVM_TOOLS_BINARY_DIR}/lit CACHE FILEPATH "lit")
