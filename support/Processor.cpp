//===- Processor.cpp - What the machine computes with ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/Processor.h"

#include <fstream>

std::string fsdp::getProcessorName() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("model name"))
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "";
}
