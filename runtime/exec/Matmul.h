//===- Matmul.h - Which library multiplies matrices -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LibTorch multiplies f32 matrices with its BLAS (MKL) and has oneDNN beside
// it. On processors of another maker than Intel MKL leaves the widest vectors
// unused, and oneDNN is faster for large matrices whose rows lie one behind the
// other (docs/Performance.md). Both round differently.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_EXEC_MATMUL_H
#define FSDP_RUNTIME_EXEC_MATMUL_H

#include "runtime/exec/MatmulLibrary.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string_view>
#include <vector>

namespace fsdp {

/// For programs that are prepared from now on, in the whole process, as
/// LibTorch's own switches are. At first: automatic.
void setMatmulLibrary(MatmulLibrary library);

/// An operator and its arguments.
struct MatmulCall {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;
};

/// What to call in place of `operator` ("aten::mm" or "aten::addmm") with these
/// arguments; empty: itself.
std::optional<MatmulCall>
replaceMatmul(std::string_view name, std::string_view overload,
              const std::vector<c10::IValue> &arguments);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXEC_MATMUL_H
