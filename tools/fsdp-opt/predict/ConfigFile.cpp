//===- ConfigFile.cpp - A config, and what the command says beside it -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/predict/ConfigFile.h"

#include "simulate/Cluster.h"
#include "tools/fsdp-opt/input/Files.h"
#include "tools/fsdp-opt/input/InputFile.h"

using namespace fsdp;

/// What a cluster's devices are.
static Target getTarget(const Cluster &cluster) {
  Target target;
  if (cluster.device.isHost)
    return target;
  target.device = Target::Device::Cuda;
  if (cluster.device.capability != 0)
    target.capability = cluster.device.capability;
  return target;
}

LoadedConfig fsdp::loadConfig(const CommandLine &line, const std::string &path,
                              std::optional<int64_t> world) {
  std::string text = readInput(path, "the config", kMaxConfigBytes);
  Target target;
  if (!line.cluster.empty())
    target = getTarget(Cluster::load(line.cluster));
  LoadedConfig loaded = parseConfig(text, path, world, target);
  if (line.cluster.empty())
    return loaded;
  loaded.config.cluster = line.cluster;
  // With the device goes its architecture.
  if (loaded.config.places.contains("device") &&
      !loaded.config.places.contains("cuda_arch"))
    loaded.config.target.capability = Target().capability;
  if (target.device == Target::Device::Cuda &&
      !loaded.config.places.contains("device"))
    loaded.notes.push_back("it is compiled for '" + target.describe() +
                           "', as --cluster=" + line.cluster +
                           " is; the config has no 'device'");
  return loaded;
}
