//===- ModulePath.h - Which module a parameter is of ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_SUPPORT_MODULEPATH_H
#define FSDP_SUPPORT_MODULEPATH_H

#include <string>

namespace fsdp {

/// "net.0" of the parameter "net.0.weight", or "net" of the module "net.0";
/// empty at the top.
inline std::string getModulePath(const std::string &name) {
  size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

} // namespace fsdp

#endif // FSDP_SUPPORT_MODULEPATH_H
