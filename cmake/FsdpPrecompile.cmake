# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Headers that take longer to read than most of the sources that include them are
# read once. Sources still include what they use: -DFSDP_PRECOMPILE=OFF builds
# them without.
option(FSDP_PRECOMPILE "read the headers of LibTorch, MLIR and the dialects once for all sources" ON)

set(fsdp_standard_headers <algorithm> <chrono> <cstdint> <filesystem> <functional>
  <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread>
  <unordered_map> <vector>)

# fsdp_precompile(NAME LIBRARIES x … HEADERS <a> … [DEPENDS target …] [OPTIONS -x …])
function(fsdp_precompile name)
  cmake_parse_arguments(arg "" "" "LIBRARIES;HEADERS;DEPENDS;OPTIONS" ${ARGN})
  if(NOT FSDP_PRECOMPILE)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(fsdp-precompiled-${name} OBJECT ${source})
  target_link_libraries(fsdp-precompiled-${name} PRIVATE ${arg_LIBRARIES})
  if(arg_DEPENDS)
    add_dependencies(fsdp-precompiled-${name} ${arg_DEPENDS})
  endif()
  target_precompile_headers(fsdp-precompiled-${name} PRIVATE
    ${arg_HEADERS} ${fsdp_standard_headers})
  # Without the time in it what is read is the same, as ccache wants it.
  target_compile_options(fsdp-precompiled-${name} PRIVATE ${arg_OPTIONS}
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
  set_property(GLOBAL PROPERTY fsdp-precompiled-${name}-options ${arg_OPTIONS})
endfunction()

# fsdp_use_precompiled(NAME TARGET…): for targets that link the same libraries. They
# take the options with which the headers were read, too.
function(fsdp_use_precompiled name)
  if(NOT TARGET fsdp-precompiled-${name})
    return()
  endif()
  get_property(options GLOBAL PROPERTY fsdp-precompiled-${name}-options)
  foreach(target IN LISTS ARGN)
    target_precompile_headers(${target} REUSE_FROM fsdp-precompiled-${name})
    # A header that is read for libraries is of no use to -fPIE; ccache wants to see
    # which one is read. g++ 12 forgets that precompiled headers are the system's,
    # and takes `"a" + std::string` for an overflow.
    target_compile_options(${target} PRIVATE -fPIC ${options}
      "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overflow>")
  endforeach()
endfunction()

set(fsdp_torch_headers <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h>
  <ATen/core/ivalue.h> <ATen/core/stack.h> <ATen/ops/empty.h> <ATen/ops/from_blob.h>
  <torch/library.h> <nlohmann/json.hpp>)
# What is generated is longer than all that is written by hand.
set(fsdp_plan_header ${PROJECT_BINARY_DIR}/plan/plan_generated.h)
if(FSDP_RUNTIME)
  # What runs artifacts.
  fsdp_precompile(runtime LIBRARIES fsdp-plan fsdp::torch DEPENDS fsdp-plan-schema
    HEADERS ${fsdp_torch_headers} ${fsdp_plan_header})
endif()
if(FSDP_COMPILER AND FSDP_RUNTIME)
  # What captures models: without MLIR's IR, but with LLVM's containers. Meta kernels
  # use none of them, and are linked without LLVM, which each object would ask for.
  fsdp_precompile(capture LIBRARIES fsdp::torch
    OPTIONS -DLLVM_DISABLE_ABI_BREAKING_CHECKS_ENFORCING=1 HEADERS ${fsdp_torch_headers}
    <llvm/ADT/MapVector.h> <llvm/ADT/StringExtras.h> <llvm/Support/Error.h>)
endif()
if(FSDP_COMPILER)
  # The dialects, too: a change of their ops builds passes and driver again, as it
  # does without.
  fsdp_precompile(dialects DEPENDS FsdpIrIncGen AtenIrIncGen HEADERS
    <mlir/Dialect/Func/IR/FuncOps.h> <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h>
    <mlir/IR/BuiltinTypes.h> <mlir/IR/DialectImplementation.h> <mlir/IR/IRMapping.h>
    <mlir/IR/TypeUtilities.h> <mlir/Pass/Pass.h> <mlir/Pass/PassManager.h>
    <llvm/ADT/MapVector.h> <llvm/ADT/SetVector.h> <llvm/ADT/StringExtras.h>
    <llvm/ADT/StringMap.h> <llvm/ADT/TypeSwitch.h> <llvm/Support/FormatVariadic.h>
    ${PROJECT_SOURCE_DIR}/ir/fsdp/Fsdp.h ${PROJECT_SOURCE_DIR}/ir/aten/Aten.h)
endif()
