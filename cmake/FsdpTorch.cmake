# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# LibTorch out of the torch wheel (its CUDA part: FsdpCuda.cmake); TorchConfig.cmake would demand
# the CUDA toolkit. Set FSDP_TORCH_DIR to the wheel's `torch` folder; without it
# the python3 on PATH is asked.
set(FSDP_TORCH_VERSION 2.11)
set(FSDP_TORCH_DIR "" CACHE PATH "the torch wheel's `torch` folder")
if(NOT FSDP_TORCH_DIR)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} -c
      "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE torch_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(FSDP_TORCH_DIR "${torch_dir}" CACHE PATH "the torch wheel's `torch` folder" FORCE)
endif()
if(NOT EXISTS ${FSDP_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR
    "LibTorch was not found: expected lib/libtorch_cpu.so under '${FSDP_TORCH_DIR}'. "
    "Install the wheel (pip install torch==${FSDP_TORCH_VERSION}.0) and pass "
    "-DFSDP_TORCH_DIR=<site-packages>/torch, or run ./quickstart, which does both.")
endif()
file(READ ${FSDP_TORCH_DIR}/version.py torch_version)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" torch_version "${torch_version}")
if(NOT torch_version MATCHES "^${FSDP_TORCH_VERSION}\\.")
  message(FATAL_ERROR
    "LibTorch ${FSDP_TORCH_VERSION} is needed, ${torch_version} was found in '${FSDP_TORCH_DIR}'")
endif()

add_library(fsdp_torch INTERFACE)
add_library(fsdp::torch ALIAS fsdp_torch)
target_include_directories(fsdp_torch SYSTEM INTERFACE
  ${FSDP_TORCH_DIR}/include ${FSDP_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(fsdp_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
target_link_options(fsdp_torch INTERFACE
  -Wl,--allow-shlib-undefined -Wl,-rpath,${FSDP_TORCH_DIR}/lib)
target_link_libraries(fsdp_torch INTERFACE
  ${FSDP_TORCH_DIR}/lib/libtorch_cpu.so ${FSDP_TORCH_DIR}/lib/libc10.so)

if(FSDP_CUDA)
  include(FsdpCuda)
endif()
