//===- Validations.cpp - Losses of a folder's checkpoints -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/checkpoint/Validations.h"

#include "support/AtomicFile.h"
#include "support/Error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace fsdp;

static std::string fileOf(const CheckpointFolder &folder) {
  return (std::filesystem::path(folder.path()) / "validations.json").string();
}

std::string fsdp::printValidations(const std::vector<Validated> &all) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  // What is no number becomes null.
  for (const Validated &each : all)
    list.push_back({{"step", each.step}, {"eval_loss", each.loss}});
  return list.dump(1) + "\n";
}

std::vector<Validated> fsdp::parseValidations(const std::string &text,
                                              const std::string &file) {
  try {
    std::vector<Validated> all;
    for (const nlohmann::json &each : nlohmann::json::parse(text)) {
      const nlohmann::json &loss = each.at("eval_loss");
      const nlohmann::json &step = each.at("step");
      if (!step.is_number_unsigned() || (!loss.is_null() && !loss.is_number()))
        throw Error(ErrorId::CheckpointDamaged,
                    "'" + file + "' has no steps and losses; remove it");
      all.push_back({step.get<uint64_t>(),
                     loss.is_null() ? std::nan("") : loss.get<double>()});
    }
    return all;
  } catch (const nlohmann::json::exception &error) {
    throw Error(ErrorId::CheckpointDamaged, "'" + file + "' cannot be read: " +
                                                error.what() + "; remove it");
  }
}

std::vector<Validated> fsdp::readValidations(const CheckpointFolder &folder) {
  std::string file = fileOf(folder);
  std::ifstream stream(file, std::ios::binary);
  if (!stream)
    return {};
  std::string text(std::istreambuf_iterator<char>(stream), {});
  return parseValidations(text, file);
}

void fsdp::writeValidations(const CheckpointFolder &folder,
                            const std::vector<Validated> &all) {
  writeFileAtomically(fileOf(folder), printValidations(all));
}

const Validated *fsdp::findBest(const std::vector<Validated> &all) {
  const Validated *best = nullptr;
  for (const Validated &each : all)
    if (std::isfinite(each.loss) && (!best || each.loss < best->loss))
      best = &each;
  return best;
}

std::optional<uint64_t> fsdp::findBestStep(const CheckpointFolder &folder) {
  std::vector<uint64_t> steps = folder.steps();
  std::vector<Validated> all = readValidations(folder);
  std::erase_if(all, [&](const Validated &each) {
    return !std::ranges::binary_search(steps, each.step);
  });
  const Validated *best = findBest(all);
  return best ? std::optional(best->step) : std::nullopt;
}
