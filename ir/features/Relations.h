//===- Relations.h - What does not go together ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rule of combination is a row of one table (Relations.cpp). It is read by
// the parser of the config, by the search for schedules, by the pass
// fsdp-verify-features and by docs/Combinations.md.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_FEATURES_RELATIONS_H
#define FSDP_IR_FEATURES_RELATIONS_H

#include "ir/features/Devices.h"
#include "support/Error.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fsdp {

enum class Feature {
#define FSDP_FEATURE(name, ...) name,
#include "ir/features/Features.def"
};

/// What is known of a feature whoever asks.
struct FeatureInfo {
  std::string_view name;  ///< "OffloadParams"
  std::string_view key;   ///< "fsdp_config.offload_params"
  std::string_view words; ///< empty: messages say the key
};
std::span<const FeatureInfo> getFeatures(); ///< by the enumeration
const FeatureInfo &getInfo(Feature feature);

/// Whether a feature is asked for, and how, where that differs from what its
/// row says.
struct Asked {
  Asked(bool is = false, std::string words = {}, std::string path = {})
      : is(is), words(std::move(words)), path(std::move(path)) {}

  bool is;
  std::string words; ///< "mesh: {tp: 2}"
  std::string path;  ///< "fsdp_config.overrides[1].reduce_wire_dtype"
};

/// The same of what `device` lacks; none of another feature.
std::optional<Asked> askDevice(const Device &device, Feature feature);

/// The same of ranks along an axis of the mesh.
Asked askRanks(const char *axis, int64_t ranks);

/// What messages call it: the words of `asked`, of its row, or 'key'.
std::string getWords(Feature feature, const Asked &asked);

struct Relation {
  enum class Kind {
    Conflict, ///< not all of these
    Requires  ///< the last, if all of the others
  };
  Kind kind;
  /// The first is what is refused: messages stand where it is written.
  std::vector<Feature> features;
  /// ConfigNotSupported, or ConfigBadValue of what contradicts itself.
  ErrorId id;
  /// Why, and what to do; "{1}" stands for the words of the second feature.
  std::string text;

  bool isBroken(const std::function<bool(Feature)> &isAsked) const;
  std::string describe(const std::function<std::string(Feature)> &words) const;
};

/// In the order in which messages tell them.
std::span<const Relation> getRelations();

} // namespace fsdp

#endif // FSDP_IR_FEATURES_RELATIONS_H
