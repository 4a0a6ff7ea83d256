//===- Fsdp.h - The fsdp dialect --------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_IR_FSDP_FSDP_H
#define FSDP_IR_FSDP_FSDP_H

#include "ir/fsdp/Kinds.h"
#include "support/BlockForm.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/fsdp/Dialect.h.inc"
#include "ir/fsdp/Enums.h.inc"

namespace fsdp {
/// A number of type f64, as settings hold and print them.
mlir::FloatAttr getReal(mlir::MLIRContext *context, double value);
mlir::FailureOr<mlir::FloatAttr> parseReal(mlir::AsmParser &parser);
} // namespace fsdp

#include "ir/fsdp/Placements.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/fsdp/Attributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/fsdp/Types.h.inc"

namespace fsdp {

/// The order in which a rank enqueues transfers.
struct CommQueue : mlir::SideEffects::Resource::Base<CommQueue> {
  llvm::StringRef getName() final { return "CommQueue"; }
};

/// What only the order of ops expresses: second lives and waits.
struct Schedule : mlir::SideEffects::Resource::Base<Schedule> {
  llvm::StringRef getName() final { return "Schedule"; }
};

/// Names of the attributes that the dialect puts on ops of other dialects.
inline constexpr llvm::StringLiteral kMeshAttr = "fsdp.mesh";
inline constexpr llvm::StringLiteral kModelAttr = "fsdp.model";
/// What a module was captured for: "cuda:sm_90"; absent: "cpu".
inline constexpr llvm::StringLiteral kDeviceAttr = "fsdp.device";
inline constexpr llvm::StringLiteral kWeightsAttr = "fsdp.weights";
/// The casts that #fsdp.precision put in: {cause, name, module, from, to,
/// count}.
inline constexpr llvm::StringLiteral kCastsAttr = "fsdp.casts";
/// What calls of attention became: {mask, kernel, why, sharing, module, source,
/// count}; absent: there are none.
inline constexpr llvm::StringLiteral kAttentionAttr = "fsdp.attention";
/// What may be added to frozen matrices for good: an array of `#fsdp.adapter`;
/// absent: nothing.
inline constexpr llvm::StringLiteral kAdaptersAttr = "fsdp.adapters";
/// Paths of the modules that the captured model itself checkpoints
/// (torch.utils.checkpoint): an array of strings; absent: none.
inline constexpr llvm::StringLiteral kCheckpointsAttr = "fsdp.checkpoints";
/// By what the sum of a gradient over all ranks is divided, if not by their
/// number.
inline constexpr llvm::StringLiteral kDivideFactorAttr =
    "fsdp.gradient_divide_factor";
/// By what the optimizer divides gradients, because their reductions do not;
/// absent: by nothing.
inline constexpr llvm::StringLiteral kOptimizerDivisorAttr =
    "fsdp.optimizer_divisor";
/// Where random numbers and initializers begin (i64); absent: 0.
inline constexpr llvm::StringLiteral kSeedAttr = "fsdp.seed";
/// Floating-point operations of a program's model for one batch (f64), whatever
/// is computed again, by whichever ranks; absent: nobody counted.
inline constexpr llvm::StringLiteral kModelFlopsAttr = "fsdp.model_flops";
inline constexpr llvm::StringLiteral kMemoryAttr = "fsdp.memory";
/// How many micro-batches make a step; absent: one.
inline constexpr llvm::StringLiteral kMicroBatchesAttr = "fsdp.micro_batches";
inline constexpr llvm::StringLiteral kCapturedAttr = "fsdp.captured";
inline constexpr llvm::StringLiteral kStateAttr = "fsdp.state";
inline constexpr llvm::StringLiteral kInputAttr = "fsdp.input";
inline constexpr llvm::StringLiteral kSampleAttr = "fsdp.sample";
inline constexpr llvm::StringLiteral kOutputAttr = "fsdp.output";
/// On a result: the mean over ranks of the output of that name, a number.
inline constexpr llvm::StringLiteral kMetricAttr = "fsdp.metric";
/// On a result: a vector of norms, of these names.
inline constexpr llvm::StringLiteral kNormsOfAttr = "fsdp.norms_of";
inline constexpr llvm::StringLiteral kGradientAttr = "fsdp.gradient";
inline constexpr llvm::StringLiteral kAtAttr = "fsdp.at";
/// On an op that ranks compute parts of: for each result an array of
/// `#fsdp.placed`, one a group.
inline constexpr llvm::StringLiteral kPlacedAttr = "fsdp.placed";
/// On such an op: its static arguments as they were captured, where they are
/// others for the part.
inline constexpr llvm::StringLiteral kWholeAttr = "fsdp.whole";
/// On such an op, from `fsdp-partition` to `fsdp-verify-placed`: the same as
/// they were for all ranks of the last axis together.
inline constexpr llvm::StringLiteral kTogetherAttr = "fsdp.together";
/// On attention under a causal mask whose queries are parts of those that its
/// keys are of: the `#fsdp.placed` of the queries.
inline constexpr llvm::StringLiteral kQueriesAttr = "fsdp.queries";
/// On attention of parts of the queries, keys and values of a sequence, which
/// pass keys and values from rank to rank: the `#fsdp.placed` of all of them.
inline constexpr llvm::StringLiteral kRingAttr = "fsdp.ring";
/// On an embedding whose matrix is a part of the rows that its indices are of,
/// and on its gradient: the `#fsdp.placed` of the matrix.
inline constexpr llvm::StringLiteral kRowsAttr = "fsdp.rows";
/// On a start: of how many members its one tensor is a copy.
inline constexpr llvm::StringLiteral kCopiedAttr = "fsdp.copied";

/// That of the blocks in which a tensor of `type` is held: rows of bytes.
mlir::RankedTensorType getQuantizedType(mlir::RankedTensorType type,
                                        const BlockForm &form);

/// What a function is a program for.
ProgramAttr getProgram(mlir::Operation *function);
/// Says it, and calls the function so.
void setProgram(mlir::Operation *function, ProgramAttr program);
/// Checks `fsdp.program` on `op`.
mlir::LogicalResult verifyProgram(mlir::Operation *op,
                                  mlir::NamedAttribute attr);

/// What `module` was captured for, as `kDeviceAttr` says it.
llvm::StringRef getDevice(mlir::ModuleOp module);

/// Where random numbers of `module` begin, as `kSeedAttr` says.
int64_t getSeed(mlir::ModuleOp module);

/// The setting (Settings.td, RunAttributes.td) of that kind on `module`, where
/// it stands under its own name; null if it is absent.
template <typename Attr>
Attr findSetting(mlir::ModuleOp module) {
  return module->getAttrOfType<Attr>(Attr::name);
}

/// The setting called `name` with all its defaults.
mlir::Attribute getDefaultSetting(mlir::MLIRContext *context,
                                  llvm::StringRef name);

/// That on `module`, or the one that its absence stands for.
template <typename Attr>
Attr getSetting(mlir::ModuleOp module) {
  if (Attr setting = findSetting<Attr>(module))
    return setting;
  return llvm::cast<Attr>(getDefaultSetting(module.getContext(), Attr::name));
}

/// The strings of a setting, which may be absent.
llvm::SmallVector<llvm::StringRef> getTexts(mlir::ArrayAttr texts);
/// The other way round: an array of them, absent if there are none.
mlir::ArrayAttr getTextsAttr(mlir::MLIRContext *context,
                             llvm::ArrayRef<std::string> texts);

/// The elements of a setting's list, which may be absent.
template <typename Attr>
llvm::SmallVector<Attr> getList(mlir::ArrayAttr list) {
  return list ? llvm::to_vector(list.getAsRange<Attr>())
              : llvm::SmallVector<Attr>();
}

/// Removes what a compile is told, and nothing of what the run is.
void removeCompileSettings(mlir::ModuleOp module);

/// Checks `attr` on `op`, if it is a setting.
mlir::LogicalResult verifySetting(mlir::Operation *op,
                                  mlir::NamedAttribute attr);

/// How many micro-batches make a step of `module`'s training programs.
int64_t getMicroBatches(mlir::ModuleOp module);

/// Rows of a dim of `size` rows that each of `ranks` ranks holds: ceil.
inline int64_t getShardRows(int64_t size, int64_t ranks) {
  return (size + ranks - 1) / ranks;
}

/// `type` with `dim` cut to the rows that one rank of `group` holds.
mlir::RankedTensorType getShardType(mlir::RankedTensorType type, int64_t dim,
                                    GroupAttr group);

/// `type` with the rows along `dim` that make the parts of all ranks equal:
/// what an `all_to_all` of it promises.
mlir::RankedTensorType getExchangedType(mlir::RankedTensorType type,
                                        int64_t dim, GroupAttr group);

/// Checks arguments and results of all functions of `module` against the states
/// that they are bound to (rules BI-1 to BI-4), with one symbol table. The
/// verifier calls it for modules that carry `fsdp.mesh` or `fsdp.model`.
mlir::LogicalResult verifyBindings(mlir::ModuleOp module);

} // namespace fsdp

namespace fsdp {
class UpdateOp;

/// What an optimizer updates of each parameter.
struct StateUpdate {
  llvm::StringRef what; ///< in errors: "parameter", "exp_avg"
  mlir::OperandRange olds;
  mlir::ResultRange news; ///< in the order of `olds`
};

/// What the scales of moments in blocks are called among updates.
inline constexpr llvm::StringLiteral kScales = "scale";

/// e4m3 or e5m2.
bool isFloat8(mlir::Type element);

/// What happens to a bucket: "gather", "reduce", "all_reduce", "rotate",
/// "exchange".
llvm::StringRef getVerb(Collective kind);
/// Whether ranks' tensors are combined.
bool isCombining(Collective kind);
/// Whether each rank has rows of what is moved, along a dim.
bool movesRows(Collective kind);
/// What such a collective is for where nothing else is said.
inline Purpose getUsualPurpose(Collective kind) {
  return isCombining(kind) ? Purpose::Gradient : Purpose::Parameter;
}

} // namespace fsdp

#include "ir/fsdp/Interfaces.h.inc"
#define GET_OP_CLASSES
#include "ir/fsdp/Ops.h.inc"

namespace fsdp {
/// Whether the state is trained or frozen, not a buffer or the like.
bool isParameter(StateOp state);
/// Whether the state is the average of a parameter, as which it begins.
bool isAverage(StateOp state);

/// `op`, if it starts such a collective; else, or of null, null.
StartOp asStart(mlir::Operation *op, Collective kind);
inline bool isStart(mlir::Operation *op, Collective kind) {
  return static_cast<bool>(asStart(op, kind));
}
/// The same of collectives that cut operands into a part for each rank, with
/// padding rows behind the last.
StartOp asCutting(mlir::Operation *op);
} // namespace fsdp

#endif // FSDP_IR_FSDP_FSDP_H
