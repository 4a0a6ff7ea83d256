//===- Remarks.cpp - Decisions as MLIR's remarks --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tools/fsdp-opt/remarks/Remarks.h"

#include "plan/Activities.h"
#include "support/Error.h"
#include "support/Format.h"
#include "tools/fsdp-opt/input/Diagnostics.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Remark/RemarkStreamer.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

using namespace fsdp;
using namespace mlir;

/// By kind: what --remarks-filter says of all, and what the kind's own says.
/// Without any, all are wanted.
static remark::RemarkCategories getCategories(const MlirOptMainConfig &config) {
  std::string all = config.getRemarksAllFilter();
  std::string own[] = {
      config.getRemarksPassedFilter(), config.getRemarksMissedFilter(),
      config.getRemarksAnalyseFilter(), config.getRemarksFailedFilter()};
  bool hasNone = all.empty() && llvm::all_of(own, [](const std::string &each) {
                   return each.empty();
                 });
  if (hasNone)
    all = ".*";
  auto join = [&](const std::string &each) -> std::optional<std::string> {
    if (all.empty() && each.empty())
      return std::nullopt;
    if (all.empty() || each.empty())
      return all + each;
    return "(" + all + ")|(" + each + ")";
  };
  return {std::nullopt, join(own[0]), join(own[1]), join(own[2]), join(own[3])};
}

/// As mlir-opt makes them of its options.
static LogicalResult enable(MLIRContext &context,
                            const MlirOptMainConfig &config,
                            std::string &path) {
  remark::RemarkCategories categories = getCategories(config);
  std::unique_ptr<remark::detail::RemarkEmittingPolicyBase> policy;
  if (config.getRemarkPolicy() == RemarkPolicy::REMARK_POLICY_FINAL)
    policy = std::make_unique<remark::RemarkEmittingPolicyFinal>();
  else
    policy = std::make_unique<remark::RemarkEmittingPolicyAll>();
  if (config.getRemarkFormat() == RemarkFormat::REMARK_FORMAT_STDOUT)
    return remark::enableOptimizationRemarks(context, nullptr,
                                             std::move(policy), categories,
                                             /*printAsEmitRemarks=*/true);
  bool isYaml = config.getRemarkFormat() == RemarkFormat::REMARK_FORMAT_YAML;
  path = config.getRemarksOutputFile();
  if (path.empty())
    path = isYaml ? "mlir-remarks.yaml" : "mlir-remarks.bitstream";
  return remark::enableOptimizationRemarksWithLLVMStreamer(
      context, path,
      isYaml ? llvm::remarks::Format::YAML : llvm::remarks::Format::Bitstream,
      std::move(policy), categories);
}

RemarkCollection::RemarkCollection(MLIRContext &context) : context(context) {
  auto config = MlirOptMainConfig::createFromCLOptions();
  if (!config.shouldEmitRemarks())
    return;
  DiagnosticCollector diagnostics(&context);
  std::string path;
  if (failed(enable(context, config, path)))
    throw diagnostics.makeError(ErrorId::FileNotWritable,
                                "remarks cannot be written to '" + path + "'");
}

RemarkCollection::~RemarkCollection() {
  // A policy that keeps remarks to the end emits them now.
  DiagnosticCollector diagnostics(&context);
  context.setRemarkEngine(nullptr);
}

void fsdp::remarkChoice(ModuleOp module,
                        const std::vector<std::string> &reasons) {
  if (!module.getContext()->getRemarkEngine())
    return;
  DiagnosticCollector diagnostics(module.getContext());
  std::string text;
  for (const std::string &reason : reasons)
    text += (text.empty() ? "" : "; ") + llvm::StringRef(reason).trim().str();
  remark::analysis(module.getLoc(),
                   remark::RemarkOpts::name("Chosen").category("auto"))
      << text;
}

Location fsdp::makeLocation(MLIRContext *context, llvm::StringRef module,
                            llvm::StringRef source) {
  Location line = UnknownLoc::get(context);
  auto [file, number] = source.rsplit(':');
  unsigned value = 0;
  if (!file.empty() && !number.getAsInteger(10, value))
    line = FileLineColLoc::get(context, file, value, 0);
  if (module.empty())
    return line;
  return NameLoc::get(StringAttr::get(context, module), line);
}

/// Gathers are for what computes behind their wait, all others of what computed
/// in front of their start.
static const Activity &findUser(const std::vector<Activity> &activities,
                                const PredictedTransfer &transfer) {
  auto computes = [](const Activity &each) {
    return each.kind == Activity::Kind::compute &&
           !(each.module.empty() && each.source.empty());
  };
  if (transfer.stream == plan::Stream::gather) {
    for (size_t i = transfer.wait; i < activities.size(); ++i)
      if (computes(activities[i]))
        return activities[i];
  } else {
    for (size_t i = transfer.start; i-- > 0;)
      if (computes(activities[i]))
        return activities[i];
  }
  return activities[transfer.start];
}

void fsdp::remarkPrediction(ModuleOp module, const plan::PlanT &plan,
                            const Prediction &prediction) {
  MLIRContext *context = module.getContext();
  if (!context->getRemarkEngine())
    return;
  DiagnosticCollector diagnostics(context);
  auto name = [](const char *text, llvm::StringRef program) {
    return remark::RemarkOpts::name(text)
        .category("predicted")
        .function(program);
  };
  for (const PredictedProgram &program : prediction.programs) {
    const plan::ProgramT &each = *plan.programs[program.program];
    std::vector<Activity> activities = describeActivities(plan, each);
    for (const PredictedTransfer &transfer : program.transfers) {
      double moves = transfer.end - transfer.begin;
      double exposed = transfer.exposed();
      const Activity &user = findUser(activities, transfer);
      remark::analysis(makeLocation(context, user.module, user.source),
                       name(exposed > 0 ? "Exposed" : "Hidden", each.name))
          << (transfer.kind + " of bucket '" + transfer.bucket + "', " +
              formatBytes(transfer.bytes) + ": moves " +
              formatMilliseconds(moves) + " ms, " +
              formatMilliseconds(std::max(0.0, moves - exposed)) + " hidden, " +
              formatMilliseconds(exposed) + " exposed");
    }
  }
  remark::analysis(module.getLoc(),
                   remark::RemarkOpts::name("Step").category("predicted"))
      << ("a step takes " + formatMilliseconds(prediction.seconds) + " ms on " +
          prediction.cluster + " and a rank holds " +
          formatBytes(prediction.held()) + " of " +
          formatBytes(prediction.capacity));
}
