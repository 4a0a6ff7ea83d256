//===- config-doc.cpp - Print docs/Config.md and others -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/config/Reference.h"

#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

int main(int argc, char **argv) {
  const std::string_view option = argc == 3 ? argv[1] : "";
  if (argc != 2 && option != "--combinations" && option != "--foreign") {
    std::cerr << "usage: fsdp-config-doc docs/Config.md\n"
                 "       fsdp-config-doc --combinations docs/Combinations.md\n"
                 "       fsdp-config-doc --foreign docs/ForeignConfigs.md\n";
    return 2;
  }
  const char *path = argv[argc - 1];
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    std::cerr << "cannot read '" << path << "'\n";
    return 1;
  }
  try {
    std::cout << (option == "--combinations"
                      ? fsdp::renewCombinations(text.str())
                  : option == "--foreign" ? fsdp::renewForeign(text.str())
                                          : fsdp::renewReference(text.str()));
  } catch (const std::exception &error) {
    std::cerr << path << ": " << error.what() << "\n";
    return 1;
  }
  return std::cout.good() ? 0 : 1;
}
