//===- FlexAttention.cpp - flex_attention in an exported graph ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/pt2/FlexAttention.h"
#include "ir/capture/joint/Autocast.h"
#include "ir/capture/meta/AttentionChoice.h"
#include "ir/capture/meta/AttentionReader.h"
#include "ir/capture/meta/TargetScope.h"
#include "ir/capture/pt2/FlexBlocks.h"
#include "ir/capture/pt2/Metadata.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

using namespace fsdp;
using namespace fsdp::capture;
using at::Tensor;

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

constexpr int64_t kAnyLength = int64_t(1) << 30;

/// Numbers that are added to the scores of all heads at once; more of them are
/// computed block by block.
constexpr int64_t kMostAdded = int64_t(1) << 24;

/// While it lives, nobody casts operands: functions say themselves in what they
/// compute.
struct AsWritten {
  c10::impl::ExcludeDispatchKeyGuard keys{kAutocastKey};
};

meta::AttentionBlock wholeOf(const Pt2FlexCall &call) {
  return {0, call.query.size(2), 0, call.key.size(2), meta::MaskForm::All, {},
          {}};
}

/// What makes the mask, but for names of places in the model.
std::string describeMask(const Pt2FlexCall &call, Recorder &recorder) {
  json::Array nodes;
  for (const json::Value &value :
       json::getArray(call.mask.getGraph(), "nodes")) {
    const json::Object &node = json::asObject(value);
    nodes.push_back({{"target", json::get(node, "target")},
                     {"inputs", json::get(node, "inputs")},
                     {"outputs", json::get(node, "outputs")}});
  }
  json::Array buffers;
  for (const c10::IValue &buffer : call.maskBuffers)
    buffers.push_back(buffer.isTensor()
                          ? json::Value(recorder.lookup(buffer.toTensor()))
                          : json::Value("number " + c10::str(buffer)));
  return json::Value(
             {{"nodes", nodes},
              {"inputs", json::get(call.mask.getGraph(), "inputs")},
              {"result", call.mask.getResult()},
              {"buffers", buffers},
              {"sizes",
               std::vector<int64_t>{call.query.size(0), call.query.size(1),
                                    call.query.size(2), call.key.size(2)}}})
      .dump();
}

/// [batch or 1, heads or 1, queries, keys], true where a pair takes part.
Tensor makeMask(const Pt2FlexCall &call, FlexMasks &masks, Recorder *recorder) {
  auto compute = [&] {
    AsWritten asWritten;
    Tensor mask = call.mask
                      .compute({call.mask.getResult()}, {},
                               meta::makePositions(call.query, wholeOf(call)),
                               call.maskBuffers)
                      .front();
    if (mask.scalar_type() != at::kBool)
      mask = mask.to(at::kBool);
    return mask.expand(
        {mask.size(0), mask.size(1), call.query.size(2), call.key.size(2)});
  };
  if (!recorder)
    return compute();
  Tensor &known = masks[describeMask(call, *recorder)];
  if (!known.defined())
    known = compute();
  return known;
}

/// Whether a mask of any positions is true, as the one is that a call without a
/// mask gets.
bool letsAllBeSeen(const Pt2FlexCall &call) {
  const json::Array &nodes = json::getArray(call.mask.getGraph(), "nodes");
  return nodes.size() == 1 &&
         resolvePt2Target(json::asObject(nodes.front())).describe() ==
             "aten::new_ones";
}

std::vector<Tensor> tensorsOf(const std::vector<c10::IValue> &values) {
  std::vector<Tensor> tensors;
  for (const c10::IValue &value : values)
    if (value.isTensor())
      tensors.push_back(value.toTensor());
  return tensors;
}

/// Values with these tensors in place of their own.
std::vector<c10::IValue> withTensors(std::vector<c10::IValue> values,
                                     const std::vector<Tensor> &tensors,
                                     size_t &next) {
  for (c10::IValue &value : values)
    if (value.isTensor())
      value = tensors[next++];
  return values;
}

/// What kernels are to be given.
struct KernelCall {
  Tensor seen;  ///< true where a pair takes part; undefined: everywhere
  Tensor added; ///< to scores, low where a pair takes no part; undefined: none
  double scale = 1;

  const Tensor &mask() const { return added.defined() ? added : seen; }
};

class Attention {
public:
  Attention(const Pt2FlexCall &call, FlexMasks &masks, Recorder *recorder)
      : call(call) {
    if (!letsAllBeSeen(call))
      mask = makeMask(call, masks, recorder);
    if (meta::AttentionReader *reader = meta::getAttentionReader()) {
      if (mask.defined())
        reading = reader->read(mask, call.query.size(2), call.key.size(2));
      checkPt2FlexBlocks(call, mask, reading);
    }
  }

  std::vector<c10::IValue> run(bool needsSums) {
    // What no result is made of goes into operators that are dropped later.
    Tensor unused =
        at::zeros({call.query.size(0), call.query.size(1), call.query.size(2)},
                  call.query.options().dtype(at::kFloat));
    if (!needsSums)
      if (std::optional<KernelCall> kernel = findKernelCall())
        return {callKernel(*kernel), unused, unused};
    auto [output, sums] = callWritten();
    return {output, sums / std::log(2.0), unused};
  }

private:
  std::optional<KernelCall> findKernelCall() const {
    std::optional<Pt2ScoreSum> sum = readPt2ScoreSum(call.score);
    if (!sum || call.query.scalar_type() != call.key.scalar_type() ||
        call.query.scalar_type() != call.value.scalar_type())
      return std::nullopt;
    KernelCall kernel{mask, {}, call.scale * sum->factor};
    if (sum->terms.empty() && sum->conditions.empty())
      return kernel;
    std::vector<std::string> names;
    for (const auto &[name, times] : sum->terms)
      names.push_back(name);
    for (const auto &[name, stays] : sum->conditions)
      names.push_back(name);
    AsWritten asWritten;
    std::vector<Tensor> found = call.score.compute(
        names, {}, meta::makePositions(call.query, wholeOf(call)),
        call.scoreBuffers);
    Tensor seen = mask;
    for (size_t i = 0; i < sum->conditions.size(); ++i) {
      Tensor each = found[sum->terms.size() + i];
      if (!sum->conditions[i].second)
        each = each.logical_not();
      seen = seen.defined() ? seen.logical_and(each) : each;
    }
    for (size_t i = 0; i < sum->terms.size(); ++i) {
      double times = sum->terms[i].second;
      Tensor each = times == 1 ? found[i] : found[i] * times;
      kernel.added = kernel.added.defined() ? kernel.added + each : each;
    }
    auto widen = [&](const Tensor &tensor) {
      return tensor.expand({tensor.size(0), tensor.size(1), call.query.size(2),
                            call.key.size(2)});
    };
    if (seen.defined())
      kernel.seen = widen(seen);
    if (!kernel.added.defined())
      return kernel;
    kernel.added = widen(kernel.added);
    if (!isExact(kernel.added) || kernel.added.numel() > kMostAdded ||
        !hasKernel(kernel))
      return std::nullopt;
    kernel.added = kernel.added.to(call.query.scalar_type());
    if (seen.defined())
      kernel.added = kernel.added.masked_fill(seen.logical_not(), getHidden());
    return kernel;
  }

  /// cuDNN, which takes half precision alone, knows no infinity.
  double getHidden() const {
    bool isHalf = call.query.scalar_type() == at::kHalf ||
                  call.query.scalar_type() == at::kBFloat16;
    return meta::isForCuda() && isHalf ? -65504 : kHidden;
  }

  /// Whether the query's dtype holds what is added.
  bool isExact(const Tensor &added) const {
    return c10::promoteTypes(added.scalar_type(), call.query.scalar_type()) ==
               call.query.scalar_type() &&
           (added.is_floating_point() ||
            call.query.scalar_type() == at::kFloat ||
            call.query.scalar_type() == at::kDouble);
  }

  /// With heads of keys as they are, or repeated.
  bool hasKernel(const KernelCall &kernel) const {
    Tensor added = kernel.added.to(call.query.scalar_type());
    int64_t heads = call.query.size(1);
    auto hasFor = [&](const Tensor &key, const Tensor &value) {
      sdp::sdp_params params = {
          call.query, key, value, added, 0.0, false, key.size(1) != heads};
      return meta::chooseAttention(meta::getTarget(), params, kernel.scale) !=
             at::SDPBackend::math;
    };
    return hasFor(call.key, call.value) ||
           (isGrouped() && hasFor(meta::repeatHeadsTo(call.key, heads),
                                  meta::repeatHeadsTo(call.value, heads)));
  }

  bool isGrouped() const { return call.key.size(1) != call.query.size(1); }

  Tensor callKernel(const KernelCall &kernel) const {
    Tensor given = kernel.mask();
    Tensor output = at::scaled_dot_product_attention(
        call.query, call.key, call.value,
        given.defined() ? std::optional(given) : std::nullopt, 0.0,
        /*is_causal=*/false, kernel.scale, isGrouped());
    bool isRead =
        kernel.seen.is_same(mask) && reading.form != meta::MaskForm::Unknown;
    if (!kernel.seen.defined() || isRead)
      return output;
    // Kernels differ in what queries get that see no key; here it is nothing.
    AsWritten asWritten;
    return at::where(kernel.seen.any(-1, /*keepdim=*/true), output,
                     at::zeros({}, output.options()));
  }

  meta::ModifiedAttention callWritten() const {
    AsWritten asWritten;
    std::vector<Tensor> buffers = tensorsOf(call.scoreBuffers);
    std::vector<Tensor> ofMask = tensorsOf(call.maskBuffers);
    buffers.insert(buffers.end(), ofMask.begin(), ofMask.end());
    auto change = [call = call, hasMask = mask.defined()](
                      const Tensor &scores,
                      const meta::PairPositions &positions,
                      const std::vector<Tensor> &given) {
      AsWritten asWritten;
      size_t next = 0;
      std::vector<c10::IValue> own =
          withTensors(call.scoreBuffers, given, next);
      Tensor changed =
          call.score.compute({call.score.getResult()}, scores, positions, own)
              .front();
      changed = changed.expand_as(scores);
      if (!hasMask)
        return changed;
      Tensor seen = call.mask
                        .compute({call.mask.getResult()}, {}, positions,
                                 withTensors(call.maskBuffers, given, next))
                        .front();
      return changed.masked_fill(seen.to(at::kBool).logical_not(), kHidden);
    };
    meta::AttentionReader *reader = meta::getAttentionReader();
    std::vector<meta::AttentionBlock> blocks = {wholeOf(call)};
    if (!reader || !reader->sharesSequences())
      blocks = meta::chooseModifiedBlocks(reading, call.query.size(2),
                                          call.key.size(2));
    if (reader) {
      meta::AttentionCall became{std::nullopt, "blocks",
                                 "a function changes its scores"};
      if (mask.defined())
        became.mask =
            blocks.size() > 1 ? reading.form : meta::MaskForm::Unknown;
      reader->note(became);
    }
    return meta::attendModified(call.query, call.key, call.value, call.scale,
                                buffers, blocks, change);
  }

  const Pt2FlexCall &call;
  Tensor mask; ///< undefined: there is none
  meta::MaskReading reading;
};

} // namespace

void fsdp::capture::checkPt2FlexAttention(const Pt2Region &region,
                                          const json::Object &node) {
  Pt2PairGraph(node, *region.graphs[0], /*takesScore=*/true);
  Pt2PairGraph(node, *region.graphs[1], /*takesScore=*/false);
}

std::vector<c10::IValue>
fsdp::capture::callPt2FlexAttention(const Pt2FlexCall &call, bool needsSums,
                                    FlexMasks &masks, Recorder *recorder) {
  return Attention(call, masks, recorder).run(needsSums);
}

/// Keys and values of one row for all of a batch are those of each.
static Tensor expandBatch(const Tensor &tensor, const Tensor &query) {
  return tensor.size(0) == query.size(0)
             ? tensor
             : tensor.expand({query.size(0), -1, -1, -1});
}

[[noreturn]] static void failFlexAttention() {
  json::fail("lengths, blocks, a scale and buffers behind the functions of "
             "flex_attention");
}

Pt2FlexCall Pt2Interpreter::readFlexCall(const Pt2Region &region,
                                         const json::Object &node) const {
  if (region.settings.size() != 3 || region.operands.size() < 4)
    failFlexAttention();
  std::vector<c10::IValue> operands;
  for (const json::Value *operand : region.operands)
    operands.push_back(evaluate(*operand));
  if (!operands[0].isIntList() || operands[0].toIntVector().size() != 4 ||
      !operands[1].isList() || operands[1].toListRef().size() != 4 ||
      !operands[2].isDouble() || !operands[3].isInt() ||
      operands[3].toInt() < 0 ||
      size_t(operands[3].toInt()) > operands.size() - 4)
    failFlexAttention();
  Pt2FlexCall call{node,
                   Pt2PairGraph(node, *region.graphs[0], true),
                   Pt2PairGraph(node, *region.graphs[1], false),
                   evaluate(*region.settings[0]).toTensor(),
                   evaluate(*region.settings[1]).toTensor(),
                   evaluate(*region.settings[2]).toTensor(),
                   operands[2].toDouble()};
  std::vector<int64_t> numbers = operands[0].toIntVector();
  call.queries = numbers[0];
  call.keys = numbers[1];
  call.queryBlock = numbers[2];
  call.keyBlock = numbers[3];
  for (size_t i = 0; i < 4; ++i)
    if (const c10::IValue &table = operands[1].toListRef()[i]; table.isTensor())
      call.tables[i] = table.toTensor();
  auto middle = operands.begin() + 4 + operands[3].toInt();
  call.scoreBuffers.assign(operands.begin() + 4, middle);
  call.maskBuffers.assign(middle, operands.end());
  return call;
}

void Pt2Interpreter::callFlexAttention(const Pt2Region &region,
                                       const json::Object &node) {
  Pt2FlexCall call = readFlexCall(region, node);
  for (const Tensor &each : {call.query, call.key, call.value})
    if (each.dim() != 4)
      failFlexAttention();
  // A block of that size stands for a mask of any length.
  if (call.queryBlock < kAnyLength &&
      (call.queries != call.query.size(2) || call.keys != call.key.size(2)))
    refusePt2Node(ErrorId::UnsupportedRegion, node, "flex_attention",
                  "has a block_mask for " + std::to_string(call.queries) +
                      " queries and " + std::to_string(call.keys) +
                      " keys, but there are " +
                      std::to_string(call.query.size(2)) + " and " +
                      std::to_string(call.key.size(2)) +
                      "; make it of the model's lengths");
  if (std::optional<c10::ScalarType> dtype = getActiveAutocastDtype())
    for (Tensor *each : {&call.query, &call.key, &call.value})
      if (each->is_floating_point() && each->scalar_type() != at::kDouble)
        *each = each->to(*dtype);
  call.key = expandBatch(call.key, call.query);
  call.value = expandBatch(call.value, call.query);

  const json::Array &outputs = json::getArray(node, "outputs");
  auto isUsed = [&](size_t i) {
    return i < outputs.size() && isNeeded(getPt2ValueName(outputs[i]));
  };
  if (isUsed(2))
    refusePt2Node(ErrorId::UnsupportedRegion, node, "flex_attention",
                  "is asked for the largest scores, which is not supported; "
                  "ask for lse alone (return_aux=AuxRequest(lse=True))");
  std::vector<c10::IValue> results =
      callPt2FlexAttention(call, isUsed(1), *masks, recorder);
  bindOutputs(node, results);
}
