//===- Plainly.h - Operators that nobody records ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_CAPTURE_META_PLAINLY_H
#define FSDP_IR_CAPTURE_META_PLAINLY_H

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace fsdp::meta {

/// While it lives, the thread's operators compute, whatever records or
/// differentiates others.
class Plainly {
  c10::impl::ForceDispatchKeyGuard keys{
      c10::default_included_set,
      c10::default_excluded_set |
          c10::autograd_dispatch_keyset_with_ADInplaceOrView};
  at::NoGradGuard noGrad;
};

} // namespace fsdp::meta

#endif // FSDP_IR_CAPTURE_META_PLAINLY_H
