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

# fsdp-mlir: what the compiler uses of MLIR and LLVM, in one library of 14 MB that
# is installed with it. With the system's libMLIR.so and libLLVM.so, which have
# 250 MB, fsdp-opt takes 30 ms to start rather than 8. One shared library: fsdp-opt, the dialects and the capture library must
# see one context's types.
set(fsdp_mlir_wanted MLIRAsmParser MLIRBytecodeWriter MLIRDialectUtils MLIRFuncDialect
  MLIRFunctionInterfaces MLIRIR MLIROptLib MLIRParser MLIRPass MLIRRemarkStreamer
  MLIRSideEffectInterfaces MLIRSupport MLIRTransforms MLIRTransformUtils LLVMDemangle)
list(TRANSFORM fsdp_mlir_wanted REPLACE "(.+)" "${LLVM_LIBRARY_DIR}/lib\\1.a"
  OUTPUT_VARIABLE fsdp_mlir_whole)
file(GLOB fsdp_mlir_rest ${LLVM_LIBRARY_DIR}/libMLIR*.a ${LLVM_LIBRARY_DIR}/libLLVM*.a)
foreach(archive ${fsdp_mlir_whole} ${LLVM_LIBRARY_DIR}/libLLVMSupport.a)
  if(NOT EXISTS ${archive})
    message(FATAL_ERROR "MLIR's static libraries are needed: '${archive}' was not found. "
      "They come with Debian's packages libmlir-22-dev and llvm-22-dev.")
  endif()
endforeach()
# All of it but the one object that wants Z3.
set(fsdp_llvm_support ${PROJECT_BINARY_DIR}/mlir/libLLVMSupport.a)
add_custom_command(OUTPUT ${fsdp_llvm_support}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/mlir
  COMMAND ${CMAKE_COMMAND} -E copy ${LLVM_LIBRARY_DIR}/libLLVMSupport.a ${fsdp_llvm_support}
  COMMAND ${CMAKE_AR} d ${fsdp_llvm_support} Z3Solver.cpp.o
  DEPENDS ${LLVM_LIBRARY_DIR}/libLLVMSupport.a VERBATIM)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/mlir/Empty.cpp CONTENT "")
add_custom_target(fsdp-llvm-support DEPENDS ${fsdp_llvm_support})
add_library(fsdp-mlir SHARED ${PROJECT_BINARY_DIR}/mlir/Empty.cpp)
add_dependencies(fsdp-mlir fsdp-llvm-support)
set_target_properties(fsdp-mlir PROPERTIES LINK_DEPENDS ${fsdp_llvm_support})
target_link_options(fsdp-mlir PRIVATE -Wl,-z,defs)
target_link_libraries(fsdp-mlir PRIVATE
  -Wl,--whole-archive ${fsdp_mlir_whole} ${fsdp_llvm_support} -Wl,--no-whole-archive
  -Wl,--start-group ${fsdp_mlir_rest} -Wl,--end-group z zstd)
