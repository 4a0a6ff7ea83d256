//===- RunAgreement.cpp - Ranks that were started alike -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/session/RunAgreement.h"

#include "runtime/comm/Communicator.h"
#include "runtime/comm/Label.h"
#include "runtime/session/RunOption.h"
#include "support/Error.h"
#include "support/Hash.h"
#include "support/ReadOnlyFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>

using namespace fsdp;

/// By them libraries choose kernels, or how exact these are.
static constexpr const char *kVariables[] = {"ATEN_CPU_CAPABILITY",
                                             "MKL_CBWR",
                                             "MKL_ENABLE_INSTRUCTIONS",
                                             "MKL_DEBUG_CPU_TYPE",
                                             "ONEDNN_MAX_CPU_ISA",
                                             "DNNL_MAX_CPU_ISA",
                                             "ONEDNN_DEFAULT_FPMATH_MODE",
                                             "DNNL_DEFAULT_FPMATH_MODE",
                                             "OPENBLAS_CORETYPE",
                                             "NVIDIA_TF32_OVERRIDE",
                                             "CUBLAS_WORKSPACE_CONFIG",
                                             "CUBLASLT_WORKSPACE_SIZE",
                                             "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
                                             "TORCH_BLAS_PREFER_CUBLASLT"};

/// Blocks of a file that are hashed, and bytes of each: beginnings and ends
/// alone would be alike in files of the same program.
static constexpr uint64_t kBlocks = 16, kBlockBytes = 4096;

std::vector<RunFact> fsdp::collectFacts(SessionOptions options) {
  SessionOptions unset;
  // Rank 0's is the one that all ranks read.
  if (options.mayLackCheckpoint)
    options.checkpointPath.insert(0, "latest of ");
  std::vector<RunFact> facts;
#define FSDP_SESSION_OPTION(name, member, value, agreed, ...)                  \
  addFact(facts, name, pointTo(options.member), pointTo(unset.member),         \
          Agreed::agreed);
#include "runtime/session/RunOptions.def"
  facts.insert(facts.end(), options.agreed.begin(), options.agreed.end());
  for (const char *name : kVariables) {
    const char *value = std::getenv(name);
    facts.push_back(
        {"the environment's " + std::string(name), value ? value : "", ""});
  }
  return facts;
}

RunFact fsdp::describeFiles(const std::string &name,
                            const std::vector<std::string> &paths) {
  std::string all;
  uint64_t bytes = 0;
  for (const std::string &path : paths) {
    ReadOnlyFile file(path, "the file");
    uint64_t size = file.bytes(), block = std::min(kBlockBytes, size);
    bytes += size;
    std::string content((kBlocks + 1) * block, '\0');
    for (uint64_t i = 0; i < kBlocks; ++i)
      file.read((size - block) / kBlocks * i, block,
                content.data() + i * block);
    // The end, which the division leaves out.
    file.read(size - block, block, content.data() + kBlocks * block);
    all += std::to_string(size) + ' ' + hash128(content) + '\n';
  }
  if (paths.empty())
    return {name, "", ""};
  std::string shown = "'" + paths.front() + "'";
  if (paths.size() > 1)
    shown += " and " + std::to_string(paths.size() - 1) + " more";
  shown += ", " + std::to_string(bytes) + " bytes";
  std::string hash = hash128(all);
  return {name, hash, shown + " of content " + hash.substr(0, 8)};
}

/// "0.1 on rank 0, 0.2 on ranks 1, 2", of what was left by rank.
static std::string describeValues(const std::vector<std::vector<RunFact>> &all,
                                  size_t fact) {
  std::map<std::string, std::vector<int>> ranks;
  std::vector<std::string> order;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const std::string &value = all[rank][fact].value;
    if (ranks[value].empty())
      order.push_back(value);
    ranks[value].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (const std::string &value : order) {
    const RunFact &first = all[static_cast<size_t>(ranks[value].front())][fact];
    std::string shown = first.shown.empty() ? value : first.shown;
    text += (text.empty() ? "" : ", ") + (value.empty() ? "not given" : shown) +
            " on " + describeRanks(ranks[value]);
  }
  return text;
}

void fsdp::agreeOnFacts(Fabric &fabric, const std::string &key,
                        const std::vector<RunFact> &facts) {
  nlohmann::json mine = nlohmann::json::array();
  for (const RunFact &fact : facts)
    mine.push_back({fact.name, fact.value, fact.shown});
  // Options are whatever bytes somebody typed.
  std::vector<std::string> found =
      fabric.exchange(key, mine.dump(-1, ' ', /*ensure_ascii=*/true,
                                     nlohmann::json::error_handler_t::replace));
  std::vector<std::vector<RunFact>> all;
  for (const std::string &text : found) {
    std::vector<RunFact> theirs;
    for (const auto &each : nlohmann::json::parse(text))
      theirs.push_back({each.at(0), each.at(1), each.at(2)});
    // Other ones where fsdp-run's version is another: nothing to compare.
    if (theirs.size() != facts.size())
      throw Error(ErrorId::RunOptionsDiffer,
                  "ranks run different versions of fsdp-run; give all ranks "
                  "the same one");
    all.push_back(std::move(theirs));
  }
  std::string differences;
  for (size_t i = 0; i < facts.size(); ++i)
    if (std::ranges::any_of(all, [&](const auto &each) {
          return each[i].value != all.front()[i].value;
        }))
      differences += (differences.empty() ? "" : "; ") + facts[i].name +
                     " is " + describeValues(all, i);
  if (!differences.empty())
    throw Error(ErrorId::RunOptionsDiffer,
                "ranks were started with different options: " + differences +
                    "; give all ranks the same");
}
