//===- Relations.cpp - What does not go together --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/features/Relations.h"

#include <algorithm>
#include <utility>

using namespace fsdp;

std::span<const FeatureInfo> fsdp::getFeatures() {
  static constexpr FeatureInfo all[] = {
#define FSDP_FEATURE(name, key, words, ...) {#name, key, words},
#include "ir/features/Features.def"
  };
  return all;
}

const FeatureInfo &fsdp::getInfo(Feature feature) {
  return getFeatures()[static_cast<size_t>(feature)];
}

std::optional<Asked> fsdp::askDevice(const Device &device, Feature feature) {
  std::string words = "device: " + std::string(device.name);
  switch (feature) {
#define FSDP_FEATURE(...)
#define FSDP_DEVICE_LACKS(name, member)                                        \
  case Feature::name:                                                          \
    return Asked{!device.member, words};
#include "ir/features/Features.def"
  default:
    return std::nullopt;
  }
}

Asked fsdp::askRanks(const char *axis, int64_t ranks) {
  return {ranks > 1,
          std::string("mesh: {") + axis + ": " + std::to_string(ranks) + "}"};
}

std::string fsdp::getWords(Feature feature, const Asked &asked) {
  const FeatureInfo &info = getInfo(feature);
  if (!asked.words.empty())
    return asked.words;
  if (!info.words.empty())
    return std::string(info.words);
  return "'" + std::string(info.key.substr(info.key.rfind('.') + 1)) + "'";
}

bool Relation::isBroken(const std::function<bool(Feature)> &isAsked) const {
  bool isLast = isAsked(features.back());
  return (kind == Kind::Conflict) == isLast &&
         std::all_of(features.begin(), features.end() - 1, isAsked);
}

std::string
Relation::describe(const std::function<std::string(Feature)> &words) const {
  std::string message;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '{' && i + 2 < text.size() && text[i + 2] == '}' &&
        text[i + 1] >= '0' && text[i + 1] <= '9') {
      message += words(features.at(size_t(text[i + 1] - '0')));
      i += 2;
    } else {
      message += text[i];
    }
  return message;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
/// What nobody has built.
Relation unsupported(std::vector<Feature> features, std::string text) {
  return {Relation::Kind::Conflict, std::move(features),
          ErrorId::ConfigNotSupported, std::move(text)};
}
Relation without(Feature one, Feature other, const std::string &why = "") {
  return unsupported({one, other}, "{0} is not supported with {1}" + why +
                                       "; leave one of them out");
}

/// A conflict with what makes bits independent of the ranks.
Relation notWithGrains(Feature one, const std::string &why = "",
                       const std::string &subject = "{0} is") {
  return unsupported({one, Feature::Grains},
                     subject + " not supported with {1}" + why +
                         "; leave it out, or fsdp_config.grains, which is for "
                         "the same bits on any number of ranks");
}

/// What contradicts itself.
Relation contradicts(std::vector<Feature> features, std::string text) {
  return {Relation::Kind::Conflict, std::move(features),
          ErrorId::ConfigBadValue, std::move(text)};
}

/// What is nothing without the last feature.
Relation needs(std::vector<Feature> features, ErrorId id, std::string text) {
  return {Relation::Kind::Requires, std::move(features), id, std::move(text)};
}

using enum Feature;
constexpr const char *kTogether = "'tp' and 'cp' are";
constexpr const char *kOfGrain =
    ": several ranks would have summands of one grain";

const std::vector<Relation> kRelations = {
    // What nobody has built, or shown.
    without(Float8, GpuBeforeFloat8,
            ", which multiplies no numbers of eight bits"),
    without(ScaledBlocks, GpuBeforeScaledBlocks,
            ", whose products know no scales of blocks"),
    unsupported({Float8Gathers, OffloadParams},
                "'float8' with {0} is not supported with {1}; leave one of "
                "them out"),
    without(Quantize, Float8, ", which casts the parameter itself"),
    without(OwnKernels, GpuBeforeKernels,
            ", for which no code of theirs is made"),
    without(LocalIgnored, ContextParallel,
            ", whose ranks have summands of one gradient"),
    unsupported({SequenceParallel, ContextParallel},
                "sequence_parallel: expected false with {1}, which cuts the "
                "sequence already"),

    unsupported({NormsByName, FlatLayout},
                "{0} cannot be had with {1}, of whose parameters each rank has "
                "other parts; write bucket_layout: rows, or leave it out"),
    without(NormsByName, OffloadParams, ", whose updates are made on the host"),
    without(NormsByName, OffloadOptimizer,
            ", whose updates are made on the host"),
    contradicts({LabelMeans, LabelCount},
                "{0} counts the labels that {1} counts for the model, which "
                "would divide twice; leave one of them out"),

    // The same bits on any number of ranks.
    notWithGrains(SumsInNoOrder,
                  ": nothing says in which order its kernels sum", "'{0}' is"),
    notWithGrains(TensorParallel, kOfGrain, kTogether),
    notWithGrains(ContextParallel, kOfGrain, kTogether),
    notWithGrains(DivideFactor, ", by whose number gradients are divided"),
    notWithGrains(DivideInOptimizer, ", whose sum is divided once"),
    notWithGrains(LocalIgnored,
                  ": each rank would train parameters of its own"),
    notWithGrains(OffloadParams),
    notWithGrains(OffloadOptimizer),
    notWithGrains(NormOfSums, ", found 1, expected 2 or inf, which have sums "
                              "without rounding"),
    notWithGrains(NormsByName, ": their sums round as ranks are cut"),
    notWithGrains(OwnKernels, ": that the bits are those of any number of "
                              "ranks is not shown"),
    notWithGrains(NarrowWire,
                  ": one rank alone sends nothing, and rounds nothing"),
    contradicts({MicroBatches, Grains},
                "{0} does not go with {1}, which says of how many batches a "
                "step consists, on all ranks together; leave it out"),
    contradicts({SyncNotLast, Grains},
                "{0} can only be last with {1}: each rank sums its own "
                "grains first; leave it out"),

    // What contradicts itself.
    needs({KeepGathered, GatheredForBackward}, ErrorId::ConfigBadValue,
          "{0} keeps parameters gathered from micro-batch to micro-batch, "
          "which needs {1}"),
    contradicts({BucketReshards, KeepGathered},
                "{0} drops parameters after forward, and {1} keeps all of "
                "them; leave one of them out"),
    contradicts({OtherShardDims, FlatLayout},
                "{0} is no dim 0, which {1} needs; write bucket_layout: auto "
                "or rows, or rows for its bucket in overrides"),
    contradicts({DivideInOptimizer, ForceSum},
                "{0} and {1} both sum gradients, but divide them at "
                "different places; leave one of them out"),
    contradicts({AllReduceLast, MicroBatches, OffloadParams},
                "{0} keeps running sums on the device until replicas add "
                "them up, and with {2} they lie on the host; write each or "
                "last"),
    needs({Float8Gathers, Float8Tensorwise}, ErrorId::ConfigBadValue,
          "{0} needs {1}; by rows, a weight's scales differ from product to "
          "product"),
    needs({AveragedEval, Averages}, ErrorId::ConfigBadValue,
          "{0} needs {1}, which says how they are averaged: write ema: {decay: "
          "0.999}, or leave it out"),
    contradicts({StepsWithNan, DynamicLossScale},
                "{0} does not go with {1}, whose overflows leave out their "
                "update: write skip, or a number as loss_scale"),
    contradicts({Prefetch, AheadByRule},
                "{1} decides what {0} says; leave one of them out"),
    contradicts({NamedBuckets, BucketsByRule},
                "{1} decides what {0} says; leave one of them out"),
};
} // namespace

std::span<const Relation> fsdp::getRelations() { return kRelations; }
