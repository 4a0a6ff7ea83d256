//===- ModelFolder.cpp - What libraries want beside weights ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/states/ModelFolder.h"

#include "runtime/weights/WeightFiles.h"
#include "support/Error.h"

#include <filesystem>

using namespace fsdp;
namespace fs = std::filesystem;

static constexpr const char *kConfig = "config.json";
static constexpr const char *kTokenizer[] = {"tokenizer.json",
                                             "tokenizer_config.json",
                                             "special_tokens_map.json",
                                             "tokenizer.model",
                                             "vocab.json",
                                             "merges.txt",
                                             "added_tokens.json",
                                             "chat_template.jinja",
                                             "chat_template.json"};
static constexpr const char *kOthers[] = {kConfig, "generation_config.json",
                                          "preprocessor_config.json"};

std::optional<ModelFiles> fsdp::chooseModelFiles(const plan::PlanT &plan,
                                                 Exported what) {
  if (what == Exported::Trained)
    return plan.adapter_settings ? std::optional(ModelFiles::Tokenizer)
                                 : std::nullopt;
  // With the model's own adapters in it, it is no longer what they say.
  if (what == Exported::Merged || plan.adapters.empty() ||
      plan.adapter_settings)
    return ModelFiles::All;
  return std::nullopt;
}

void fsdp::copyModelFiles(const std::vector<std::string> &weights,
                          const std::string &target, ModelFiles what) {
  for (const std::string &text : weights) {
    std::error_code code;
    auto [prefix, path] = parseWeightPath(text);
    // A part's is not the whole one's.
    if (!prefix.empty())
      continue;
    fs::path folder = fs::is_directory(path, code)
                          ? fs::path(path)
                          : fs::path(path).parent_path();
    if (!fs::is_regular_file(folder / kConfig, code) ||
        fs::equivalent(folder, target, code))
      continue;
    auto copy = [&](const char *name) {
      if (!fs::is_regular_file(folder / name, code))
        return;
      fs::copy_file(folder / name, fs::path(target) / name,
                    fs::copy_options::skip_existing, code);
      if (code)
        throw Error(ErrorId::FileNotWritable,
                    "'" + (fs::path(target) / name).string() +
                        "' cannot be copied from '" + folder.string() +
                        "': " + code.message());
    };
    for (const char *name : kTokenizer)
      copy(name);
    if (what == ModelFiles::All)
      for (const char *name : kOthers)
        copy(name);
    return;
  }
}
