//===- Vectorized.h - Functions in a variant for each processor -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_VECTORIZED_H
#define FSDP_SUPPORT_VECTORIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FSDP_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
    __has_feature(memory_sanitizer)
#define FSDP_SANITIZED
#endif
#endif

/// In front of a function, which it makes static: compiled for wider vectors as
/// well, and chosen when the program is loaded. (Where it is exported, what
/// chooses reads addresses that the loader may not have set yet, and calls end
/// at 0.) All variants give the same bits where the function computes with
/// integers, or nothing in it is contracted. What chooses runs before the
/// sanitizers are ready for it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(FSDP_SANITIZED)
#define FSDP_VECTORIZED                                                        \
  __attribute__((target_clones("avx512f", "avx2", "default"))) static
#else
#define FSDP_VECTORIZED static
#endif

#endif // FSDP_SUPPORT_VECTORIZED_H
