//===- InsertMetrics.cpp - Outputs that are numbers, over all ranks ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/Mesh.h"
#include "passes/analysis/Programs.h"
#include "passes/shard/Metrics.h"
#include "support/LossWeight.h"

using namespace mlir;
using namespace fsdp;

namespace fsdp {
#define GEN_PASS_DEF_INSERTMETRICS
#include "passes/Passes.h.inc"
} // namespace fsdp

namespace {

bool isNumber(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0 &&
         isa<FloatType>(tensor.getElementType());
}

struct InsertMetrics final : fsdp::impl::InsertMetricsBase<InsertMetrics> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<MeshAttr> mesh = getDataMesh(module);
    if (failed(mesh))
      return signalPassFailure();
    int64_t grains = getSetting<StepAttr>(module).getGrains();
    for (func::FuncOp func : getPrograms(module))
      run(func, *mesh, isInference(func) ? 0 : grains);
  }

private:
  static void run(func::FuncOp func, MeshAttr mesh, int64_t grains) {
    Operation *terminator = func.getBody().front().getTerminator();
    SmallVector<Value> values(terminator->getOperands());
    SmallVector<DictionaryAttr> attributes;
    for (unsigned i = 0; i < values.size(); ++i)
      attributes.push_back(func.getResultAttrDict(i));
    OpBuilder builder(terminator);
    // The first result of a training program is its loss.
    for (unsigned i = isInference(func) ? 0 : 1, e = values.size(); i < e;
         ++i) {
      auto name = func.getResultAttrOfType<StringAttr>(i, kOutputAttr);
      if (!name || !isNumber(values[i].getType()))
        continue;
      Value mean = average(builder, values[i], mesh, grains);
      if (name == kLossWeight) { // which nobody asked for but the loss
        values[i] = mean;
        attributes[i] =
            builder.getDictionaryAttr(builder.getNamedAttr(kMetricAttr, name));
        continue;
      }
      values.push_back(mean);
      attributes.push_back(
          builder.getDictionaryAttr(builder.getNamedAttr(kMetricAttr, name)));
    }
    terminator->setOperands(values);
    func.setFunctionType(builder.getFunctionType(
        func.getArgumentTypes(), ValueRange(values).getTypes()));
    func.setAllResultAttrs(attributes);
  }

  static Value average(OpBuilder &builder, Value value, MeshAttr mesh,
                       int64_t grains) {
    value = widenMetric(builder, value);
    if (grains != 0)
      return averageGrains(builder, value, mesh, grains);
    if (mesh.getWorldSize() == 1)
      return value;
    // Ranks along 'tp' have one number: the mean over all is that over data.
    return AllReduceOp::create(builder, value.getLoc(), value.getType(), value,
                               Reduction::Avg, mesh.getWorldGroup(),
                               FlatSymbolRefAttr(), Purpose::Metric);
  }
};

} // namespace
