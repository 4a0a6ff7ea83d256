//===- config-doc.cpp - Print docs/Config.md ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reference.h"

#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: fsdp-config-doc docs/Config.md\n";
    return 2;
  }
  std::ifstream file(argv[1]);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    std::cerr << "cannot read '" << argv[1] << "'\n";
    return 1;
  }
  try {
    std::cout << fsdp::renewReference(text.str());
  } catch (const std::exception &error) {
    std::cerr << argv[1] << ": " << error.what() << "\n";
    return 1;
  }
  return std::cout.good() ? 0 : 1;
}
