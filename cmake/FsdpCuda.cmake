# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The CUDA toolkit's headers, and the CUDA part of LibTorch out of the torch
# wheel with the libraries that it needs, which are wheels too. Neither a GPU nor
# a driver is needed to build.
set(fsdp_cuda_hint
  "leave out -DFSDP_CUDA=ON to build for CPUs alone, or see docs/Gpus.md")

if(NOT EXISTS ${FSDP_TORCH_DIR}/lib/libtorch_cuda.so)
  message(FATAL_ERROR
    "FSDP_CUDA=ON needs LibTorch's CUDA part: expected lib/libtorch_cuda.so under "
    "'${FSDP_TORCH_DIR}', which is LibTorch ${torch_version} for CPUs alone. Install "
    "the wheel for CUDA (pip install torch==${FSDP_TORCH_VERSION}.0), or ${fsdp_cuda_hint}.")
endif()
file(READ ${FSDP_TORCH_DIR}/version.py torch_cuda_version)
string(REGEX MATCH "cuda[^=\n]*= *'([0-9]+)\\.[0-9]+'" _ "${torch_cuda_version}")
set(torch_cuda_major ${CMAKE_MATCH_1})

find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND)
  message(FATAL_ERROR
    "FSDP_CUDA=ON needs the CUDA toolkit ${torch_cuda_major}.x: no nvcc was found. Put it on "
    "PATH, or pass -DCUDAToolkit_ROOT=<folder of the toolkit>, or ${fsdp_cuda_hint}.")
endif()
if(NOT CUDAToolkit_VERSION_MAJOR EQUAL torch_cuda_major)
  message(FATAL_ERROR
    "FSDP_CUDA=ON needs the CUDA toolkit ${torch_cuda_major}.x, for which LibTorch in "
    "'${FSDP_TORCH_DIR}' was built; version ${CUDAToolkit_VERSION} was found. Pass "
    "-DCUDAToolkit_ROOT=<folder of the toolkit>, or ${fsdp_cuda_hint}.")
endif()

# The wheels' libraries come first: they are those that LibTorch was built with.
cmake_path(GET FSDP_TORCH_DIR PARENT_PATH fsdp_site_packages)
set(fsdp_nvidia ${fsdp_site_packages}/nvidia)
find_library(FSDP_CUDART NAMES libcudart.so.${torch_cuda_major}
  HINTS ${fsdp_nvidia}/cu${torch_cuda_major}/lib ${CUDAToolkit_LIBRARY_DIR} NO_DEFAULT_PATH)
if(NOT FSDP_CUDART)
  message(FATAL_ERROR
    "FSDP_CUDA=ON needs libcudart.so.${torch_cuda_major}: it was found neither under "
    "'${fsdp_nvidia}' (the wheel nvidia-cuda-runtime) nor in '${CUDAToolkit_LIBRARY_DIR}'. "
    "Install it, or ${fsdp_cuda_hint}.")
endif()
# For checks of our own declarations; the library is loaded at run time.
find_path(FSDP_NCCL_INCLUDE_DIR nccl.h
  HINTS ${fsdp_nvidia}/nccl/include ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)

add_library(fsdp_torch_cuda INTERFACE)
add_library(fsdp::torch_cuda ALIAS fsdp_torch_cuda)
target_include_directories(fsdp_torch_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
# Kernels register themselves when libtorch_cuda.so is loaded: it stays, even if
# no symbol of it is named. Its own libraries it finds by its own RPATH.
cmake_path(GET FSDP_CUDART PARENT_PATH fsdp_cudart_folder)
target_link_options(fsdp_torch_cuda INTERFACE -Wl,-rpath,${fsdp_cudart_folder})
target_link_libraries(fsdp_torch_cuda INTERFACE fsdp::torch
  -Wl,--push-state,--no-as-needed
  ${FSDP_TORCH_DIR}/lib/libtorch_cuda.so ${FSDP_TORCH_DIR}/lib/libc10_cuda.so
  -Wl,--pop-state
  ${FSDP_CUDART})
