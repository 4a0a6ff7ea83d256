//===- ModuleFacts.cpp - What capture says of a module --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/module/ModuleFacts.h"
#include "ir/capture/module/AttributeBuilder.h"
#include "ir/capture/module/NormRows.h"
#include "ir/fsdp/Fsdp.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::capture;

ArrayAttr fsdp::capture::describeCasts(Builder &builder,
                                       const JointGraph &graph) {
  SmallVector<DictionaryAttr> rows;
  auto getString = [&](StringRef name, StringRef value) {
    return builder.getNamedAttr(name, builder.getStringAttr(value));
  };
  auto getDtype = [&](StringRef name, c10::ScalarType dtype) {
    return builder.getNamedAttr(name,
                                TypeAttr::get(getElementType(builder, dtype)));
  };
  auto add = [&](SmallVector<NamedAttribute> row, LocationId location) {
    if (location != kNoLocation)
      row.push_back(getString("module", graph.locations[location].module));
    rows.push_back(builder.getDictionaryAttr(row));
  };
  for (const capture::Node &node : graph.nodes) {
    if (node.cast == kNoCast)
      continue;
    const Cast &cast = graph.casts[node.cast];
    add({getString("cause", getCauseName(cast.cause)),
         getString("name", cast.name),
         getDtype("from", graph.values[node.arguments[0].tensors[0]].dtype),
         getDtype("to", graph.values[node.results[0]].dtype)},
        cast.cause == Cast::Cause::Operand ? node.location : kNoLocation);
  }
  for (const NarrowedLimit &limit : graph.limits)
    add({getString("cause", "limit"), getString("name", limit.op),
         getDtype("from", limit.from), getDtype("to", limit.to)},
        limit.location);
  return countRows(builder, rows);
}

static StringRef nameOf(meta::MaskForm form) {
  switch (form) {
  case meta::MaskForm::All:
    return "all";
  case meta::MaskForm::Causal:
    return "causal";
  case meta::MaskForm::Window:
    return "window";
  case meta::MaskForm::Prefix:
    return "prefix";
  case meta::MaskForm::Chunks:
    return "chunks";
  case meta::MaskForm::Ranges:
    return "ranges";
  case meta::MaskForm::Documents:
    return "documents";
  case meta::MaskForm::Padding:
    return "padding";
  case meta::MaskForm::CausalPadding:
    return "causal padding";
  case meta::MaskForm::AddedPadding:
    return "added padding";
  case meta::MaskForm::Unknown:
    return "tensor";
  }
  llvm_unreachable("a form of a mask");
}

ArrayAttr fsdp::capture::describeAttention(Builder &builder,
                                           const JointGraph &graph) {
  SmallVector<DictionaryAttr> rows;
  for (const auto &[call, location] : graph.attention) {
    NamedAttrList row;
    auto add = [&](StringRef name, const Twine &text) {
      row.append(name, builder.getStringAttr(text));
    };
    add("mask", call.mask ? nameOf(*call.mask) : "none");
    add("kernel", StringRef(call.kernel));
    if (!call.why.empty())
      add("why", StringRef(call.why));
    if (call.sharing > 1)
      row.append("sharing", builder.getI64IntegerAttr(call.sharing));
    add("module", location.module);
    if (!location.file.empty())
      add("source", location.file + ":" + Twine(location.line));
    rows.push_back(row.getDictionary(builder.getContext()));
  }
  return countRows(builder, rows);
}

void fsdp::capture::setAdapters(mlir::ModuleOp module,
                                const AdapterTable &table) {
  MLIRContext *context = module.getContext();
  const AdapterRequest &asked = table.request;
  auto name = [&](const std::string &state) {
    return state.empty() ? FlatSymbolRefAttr()
                         : FlatSymbolRefAttr::get(context, state);
  };
  SmallVector<Attribute> rows;
  for (const AdapterRow &row : table.layers)
    rows.push_back(AdapterAttr::get(
        context, name(row.base), name(row.down), name(row.up),
        getReal(context, asked.getScale()), row.isTurned, name(row.magnitude),
        name(row.firstDown), name(row.firstUp), row.experts));
  module->setAttr(kAdaptersAttr, ArrayAttr::get(context, rows));
  static constexpr std::pair<TrainedBias, AdapterBias> kBiases[] = {
      {TrainedBias::None, AdapterBias::None},
      {TrainedBias::All, AdapterBias::All},
      {TrainedBias::LoraOnly, AdapterBias::LoraOnly}};
  AdapterBias bias = llvm::find_if(kBiases, [&](const auto &row) {
                       return row.first == asked.bias;
                     })->second;
  module->setAttr(AdapterSettingsAttr::name,
                  AdapterSettingsAttr::get(context, asked.rank,
                                           getReal(context, asked.alpha),
                                           getReal(context, asked.dropout),
                                           asked.rankStabilized, bias));
}

void fsdp::capture::setNoise(mlir::ModuleOp module, const JointGraph &graph) {
  Builder builder(module.getContext());
  module->setAttr(
      NoiseAttr::name,
      NoiseAttr::get(module.getContext(),
                     getReal(module.getContext(), graph.noiseAlpha),
                     builder.getDenseI64ArrayAttr(graph.noiseSites)));
}
