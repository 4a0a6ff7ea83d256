//===- ChunkLoss.cpp - Logits that never exist whole ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Decisions.h"
#include "passes/analysis/Programs.h"
#include "passes/analysis/States.h"
#include "passes/memory/LossChunks.h"
#include "support/Format.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_CHUNKLOSS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

/// Below, logits are not what fills a device.
constexpr int64_t kRelevantBytes = int64_t(64) << 20;
/// With fewer rows a product of matrices waits for the weight to be read.
constexpr int64_t kLeastRows = 1024;

/// As many chunks as let a chunk of the logits be no larger than the gradient
/// of the weight, of which a second one exists while it is summed up.
int64_t chooseChunks(const LossRegion &region) {
  auto input = cast<RankedTensorType>(region.getInput().getType());
  auto logits =
      cast<RankedTensorType>(region.getLinear()->getResult(0).getType());
  if (aten::getStorageBytes(logits) < kRelevantBytes)
    return 1;
  int64_t rows = std::max(input.getDimSize(1), kLeastRows);
  return (region.getCount() + rows - 1) / rows;
}

struct ChunkLoss final : fsdp::impl::ChunkLossBase<ChunkLoss> {
  void runOnOperation() override {
    int64_t told = getSetting<StepAttr>(getOperation()).getLossChunks();
    if (told == 1) {
      // The default, which leaves nothing to decide.
      remark::missed(
          getOperation().getLoc(),
          remark::RemarkOpts::name("LossWhole").category("loss-chunks"))
          << "the loss is computed at once"
          << remark::reason("{0}", "loss_chunks: 1");
      return;
    }
    StateTable states(getOperation());
    for (func::FuncOp program : getPrograms(getOperation()))
      if (!isInference(program) && program->hasAttr(kCapturedAttr) &&
          failed(run(program, told, states)))
        return signalPassFailure();
  }

private:
  static void explain(func::FuncOp program, const LossRegion &region,
                      int64_t told, int64_t chunks) {
    Operation *linear = region.getLinear();
    auto logits = cast<RankedTensorType>(linear->getResult(0).getType());
    std::string size =
        formatBytes(static_cast<uint64_t>(aten::getStorageBytes(logits)));
    if (chunks > 1)
      remark::passed(linear->getLoc(),
                     nameDecision("loss-chunks", "LossInChunks", program))
          << ("the loss is computed in " + std::to_string(chunks) +
              " chunks: its logits, " + size + ", are never there whole")
          << remark::reason("{0}", told == 0
                                       ? "loss_chunks: auto lets a chunk be no "
                                         "larger than the gradient of the "
                                         "layer's weight"
                                       : "loss_chunks says so");
    else
      remark::missed(linear->getLoc(),
                     nameDecision("loss-chunks", "LossWhole", program))
          << ("the loss is computed at once, from logits of " + size)
          << remark::reason("loss_chunks: auto cuts logits from {0} on",
                            formatBytes(uint64_t(kRelevantBytes)));
  }

  static LogicalResult run(func::FuncOp program, int64_t told,
                           const StateTable &states) {
    SmallVector<Operation *> softmaxes;
    for (Operation &op : program.getBody().front())
      if (op.getName().getStringRef() == "aten._log_softmax")
        softmaxes.push_back(&op);
    SmallVector<NotChunked> reasons;
    bool isDone = false;
    while (!softmaxes.empty()) {
      Operation *softmax = softmaxes.front();
      std::optional<NotChunked> reason;
      std::optional<LossRegion> region = LossRegion::find(softmax, reason);
      if (!region) {
        reasons.push_back(*reason);
        softmaxes.erase(softmaxes.begin());
        continue;
      }
      llvm::erase_if(softmaxes,
                     [&](Operation *op) { return region->contains(op); });
      int64_t chunks = told == 0 ? chooseChunks(*region) : told;
      if (wantsRemarks(program))
        explain(program, *region, told, chunks);
      if (chunks > 1)
        chunkLoss(program, *region, chunks, states);
      isDone = true;
    }
    if (wantsRemarks(program))
      for (const NotChunked &reason : reasons)
        remark::missed(reason.loc,
                       nameDecision("loss-chunks", "LossWhole", program))
            << "a cross-entropy is computed at once"
            << remark::reason("{0}", reason.text);
    if (isDone || told == 0)
      return success();
    InFlightDiagnostic diagnostic =
        program.emitError("expected a linear layer with a cross-entropy over "
                          "its last dim behind it, to compute in ")
        << told << " chunks ('loss_chunks'), found "
        << (reasons.empty() ? "no cross-entropy"
                            : "none that can be taken apart")
        << "; write loss_chunks: 1, or auto";
    for (const NotChunked &reason : reasons)
      diagnostic.attachNote(reason.loc) << reason.text;
    return failure();
  }
};

} // namespace
