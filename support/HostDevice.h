//===- HostDevice.h - Functions for hosts and GPUs --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_HOSTDEVICE_H
#define FSDP_SUPPORT_HOSTDEVICE_H

/// In front of a function that nvcc compiles for the GPU as well.
#ifdef __CUDACC__
#define FSDP_HOST_DEVICE __host__ __device__
#else
#define FSDP_HOST_DEVICE
#endif

#endif // FSDP_SUPPORT_HOSTDEVICE_H
