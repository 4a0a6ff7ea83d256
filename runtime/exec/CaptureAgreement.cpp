//===- CaptureAgreement.cpp - All ranks run a graph, or none --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/exec/CaptureAgreement.h"

#include <vector>

using namespace fsdp;

std::string fsdp::agreeOnCapture(Fabric &fabric, const std::string &program,
                                 const std::string &reason) {
  std::vector<std::string> all = fabric.exchange("capture/" + program, reason);
  std::string text;
  size_t others = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty())
      continue;
    if (text.empty())
      text = "rank " + std::to_string(rank) + ": " + all[rank];
    else
      ++others;
  }
  if (others)
    text += " (and " + std::to_string(others) +
            (others == 1 ? " other rank" : " other ranks") + " could not)";
  return text;
}
