//===- Ptx.cpp - How a GPU's code is launched -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "kernels/Ptx.h"

#include <sstream>

using namespace fsdp;

static constexpr std::string_view kWord = "// launch";

std::string fsdp::toText(const std::vector<PtxLaunch> &launches) {
  std::string text;
  for (const PtxLaunch &launch : launches)
    text += std::string(kWord) + " " + launch.entry + " " +
            std::to_string(launch.threads) + " " +
            std::to_string(launch.blocks) + " " +
            std::to_string(launch.partialRows) + "\n";
  return text;
}

std::optional<std::vector<PtxLaunch>> fsdp::readLaunches(std::string_view ptx) {
  std::vector<PtxLaunch> launches;
  while (ptx.starts_with(kWord)) {
    std::istringstream line{
        std::string(ptx.substr(kWord.size(), ptx.find('\n') - kWord.size()))};
    PtxLaunch &launch = launches.emplace_back();
    if (!(line >> launch.entry >> launch.threads >> launch.blocks >>
          launch.partialRows))
      return std::nullopt;
    ptx.remove_prefix(std::min(ptx.size(), ptx.find('\n') + 1));
  }
  if (launches.empty())
    return std::nullopt;
  return launches;
}
