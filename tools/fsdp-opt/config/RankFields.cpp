//===- RankFields.cpp - Ranks and their device in the config --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "support/ByteAmount.h"
#include "tools/fsdp-opt/config/Tables.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

using namespace fsdp;

static void readVersion(const Value &value, Config &) {
  if (int64_t version = value.reader().readInt(value.node, value.key);
      version != 2)
    value.reader().fail(ErrorId::ConfigNotSupported, value.node,
                        "'" + value.key + "': expected 2, found " +
                            std::to_string(version) +
                            "; only FSDP2's semantics are compiled");
}

static void readArch(const Value &value, Config &config) {
  std::string arch = value.reader().readString(value.node, value.key);
  std::string_view digits = arch;
  int capability = 0;
  bool valid = digits.starts_with("sm_");
  if (valid) {
    digits.remove_prefix(3);
    auto [end, failure] = std::from_chars(
        digits.data(), digits.data() + digits.size(), capability);
    valid = failure == std::errc() && end == digits.data() + digits.size();
  }
  // What LibTorch's wheel has kernels for.
  if (!valid || capability < 75 || capability > 121)
    value.fail("expected a GPU's architecture from sm_75 to sm_121, such as "
               "sm_90, found '" +
               arch + "'");
  config.target.capability = capability;
}

static void readCluster(const Value &value, Config &config) {
  config.cluster = value.reader().readString(value.node, value.key);
}

/// "60GiB", "60 GB", "90%", or bytes.
static void readBudget(const Value &value, Config &config) {
  constexpr std::string_view expected =
      "an amount such as 60GiB or 64e9, or a part of the device's memory such "
      "as 90%";
  std::string text = value.node.IsScalar() ? value.node.Scalar() : "";
  MemoryBudget budget;
  budget.place = value.reader().describePlace(value.node);
  bool isPart = text.ends_with('%');
  if (isPart)
    text.pop_back();
  std::optional<double> amount = parseBytes(text);
  if (!amount || (isPart && !std::isdigit(static_cast<unsigned char>(
                                text[text.find_last_not_of(' ')]))))
    value.failType(expected);
  if (isPart) {
    if (*amount > 100)
      value.failRange("at most 100%");
    budget.share = *amount / 100;
  } else {
    budget.bytes = *amount;
    if (budget.bytes < 0x1p20)
      value.failRange("at least 1MiB; say the unit, as in 60GiB");
  }
  config.memoryBudget = budget;
}

/// Axolotl's `auto`: where the GPU has it, which others ignore anyway.
struct FlagOrAuto : Flag {
  bool read(const Value &value) const {
    return (value.node.IsScalar() && value.node.Scalar() == "auto") ||
           Flag::read(value);
  }
  std::string describe() const { return "true, false or `auto`"; }
};

template <bool plan::ArithmeticT::*what>
static bool &allow(Config &config) {
  return open(config.arithmetic).*what;
}

static std::vector<Field<Config>> getTargetFields() {
  return {
      {"device", [](Config &config) -> auto & { return config.target.device; },
       "what it is compiled for; no GPU is needed to compile for one. It "
       "decides which fused attention kernels are captured. `fsdp-run` runs "
       "`cuda` where it was built for GPUs ([Gpus.md](Gpus.md))"},
      {"cuda_arch", readArch, "`sm_75` to `sm_121`",
       "`sm_" + std::to_string(Target().capability) + "`",
       "with `device: cuda`: the GPUs' architecture; LibTorch prefers other "
       "attention kernels on other ones"},
      {"cluster", readCluster,
       "`a100-40gb`, `a100x8`, `a6000`, `b200x8`, `cpu`, `h100-500w`, "
       "`h100x8`, `h200x8`, `rtx4090` or a file",
       "none",
       "the hardware that `--print-plan` predicts the step for "
       "([Simulate.md](Simulate.md)); a file's path is relative to where "
       "`fsdp-opt` runs"},
      {"schedule", &Config::planner,
       "who decides which buckets stay gathered, which activations are "
       "computed again or wait on the host, what moves together and how far "
       "ahead is gathered: `default`, the rules of the other keys; `auto`, the "
       "compiler, for the fastest step on `cluster` that `memory_budget` "
       "allows. What a key says explicitly stays "
       "([Simulate.md](Simulate.md#schedule-auto)). To compare with, the rules "
       "of peers: `fsdp2`, `deepcompile` and `inductor`"},
      {"precision", &Config::types,
       "who says which types have few bits: `given`, the other keys; `auto`, "
       "the compiler, where that makes the step on `cluster` faster by more "
       "than 1 %: linear layers in `float8` (tensorwise, with gathers in eight "
       "bits or without), and `fsdp_config.reduce_wire_dtype: bfloat16`. What "
       "a key says explicitly stays. Numbers are other ones then: "
       "[how losses go](Performance.md#narrow-types-beside-float32)"},
      {"memory_budget", readBudget, "`60GiB`, `64e9`, `90%`, …",
       "the device's memory",
       "what a rank may hold of the device of `cluster`: planned memory, "
       "kernels' temporaries, context and libraries. A step that needs more "
       "is refused"},
      {"tf32",
       allow<&plan::ArithmeticT::tf32>,
       FlagOrAuto(),
       "with `device: cuda`: products and convolutions of float32 may round "
       "their operands to TF32 (10 bits of mantissa); `auto`, as Axolotl "
       "writes it, means true. PyTorch's default is false for products, true "
       "for convolutions",
       {.mayBeEmpty = true}},
      {"reduced_precision_reduction",
       allow<&plan::ArithmeticT::reduced_precision_reduction>,
       "with `device: cuda`: cuBLAS may add up parts of float16 and bfloat16 "
       "products in that type, which PyTorch allows by default"},
      {"fp16_accumulation", allow<&plan::ArithmeticT::fp16_accumulation>,
       "with `device: cuda`: float16 products may be added up in float16 "
       "altogether"},
      {"documents_per_row",
       &Config::documentsPerRow,
       between(1, 1 << 20),
       "with `device: cuda`: the most documents that a row of a batch holds, "
       "where attention keeps them apart and its kernel is told where they "
       "begin; a row with more ends the run "
       "([Gpus.md](Gpus.md#documents-in-rows-and-windows))",
       {.absent = "one for 128 positions, 8 at least"}},
      {"deterministic", allow<&plan::ArithmeticT::deterministic>,
       "with `device: cuda`: LibTorch and its libraries take kernels that give "
       "the same bits in each run, where they have any; slower "
       "([Gpus.md](Gpus.md#the-same-bits)). On CPUs runs repeat their bits "
       "without it"},
  };
}

std::vector<Field<Config>> fsdp::getRankFields() {
  std::vector<Field<Config>> fields = {
      {"fsdp_version", readVersion, "`2`", "`2`", "other versions are refused"},
  };
  std::ranges::move(getParallelFields(), std::back_inserter(fields));
  std::ranges::move(getTargetFields(), std::back_inserter(fields));
  return fields;
}
