//===- fsdp-opt.cpp - The compiler's command ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/driver/Driver.h"

int main(int argc, char **argv) { return fsdp::runDriver(argc, argv); }
