# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Headers that take longer to read than most of the sources that include them are
# read once. Sources still include what they use: -DFSDP_PRECOMPILE=OFF builds
# them without.
option(FSDP_PRECOMPILE "read the headers of LibTorch and MLIR once for all sources" ON)

set(fsdp_standard_headers <algorithm> <chrono> <cstdint> <filesystem> <functional>
  <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread>
  <unordered_map> <vector>)

# fsdp_precompile(NAME LIBRARIES x … HEADERS <a> …)
function(fsdp_precompile name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;HEADERS" ${ARGN})
  if(NOT FSDP_PRECOMPILE)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(fsdp-precompiled-${name} OBJECT ${source})
  target_link_libraries(fsdp-precompiled-${name} PRIVATE ${arg_LIBRARIES})
  target_precompile_headers(fsdp-precompiled-${name} PRIVATE
    ${arg_HEADERS} ${fsdp_standard_headers})
  # Without the time in it what is read is the same, as ccache wants it.
  target_compile_options(fsdp-precompiled-${name} PRIVATE
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# fsdp_use_precompiled(NAME TARGET…): for targets that link the same libraries.
function(fsdp_use_precompiled name)
  if(NOT TARGET fsdp-precompiled-${name})
    return()
  endif()
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM fsdp-precompiled-${name})
    # A header that is read for libraries is of no use to -fPIE; ccache wants to see
    # which one is read. g++ 12 forgets that precompiled headers are the system's,
    # and takes `"a" + std::string` for an overflow.
    target_compile_options(${target} PRIVATE -fPIC
      "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow>")
  endforeach()
endfunction()

if(FSDP_RUNTIME)
  fsdp_precompile(torch LIBRARIES fsdp::torch HEADERS
    <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h> <ATen/core/ivalue.h>
    <ATen/core/stack.h> <ATen/ops/empty.h> <ATen/ops/from_blob.h>
    <torch/library.h>)
endif()
if(FSDP_COMPILER)
  fsdp_precompile(mlir HEADERS
    <mlir/Dialect/Func/IR/FuncOps.h> <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h>
    <mlir/IR/BuiltinTypes.h> <mlir/IR/DialectImplementation.h> <mlir/IR/IRMapping.h>
    <mlir/IR/TypeUtilities.h> <mlir/Pass/Pass.h> <mlir/Pass/PassManager.h>
    <llvm/ADT/MapVector.h> <llvm/ADT/SetVector.h> <llvm/ADT/StringExtras.h>
    <llvm/ADT/StringMap.h> <llvm/ADT/TypeSwitch.h> <llvm/Support/FormatVariadic.h>)
endif()
