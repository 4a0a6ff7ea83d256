//===- JointGraph.h - Forward and backward as plain data --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What capture records: the functional operators of one training step below
// autograd, in execution order, with the states and inputs they start from.
// Plain data, so that it can be simplified, replayed and tested without MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_JOINTGRAPH_H
#define FSDP_IR_CAPTURE_JOINT_JOINTGRAPH_H

#include "ir/capture/meta/AttentionReader.h"
#include "ir/capture/request/Adapter.h"
#include "ir/capture/request/Precision.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::capture {

/// Index into JointGraph::values; kNoValue for an absent tensor.
using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

/// Index into JointGraph::locations; kNoLocation where none is known.
using LocationId = int32_t;
inline constexpr LocationId kNoLocation = -1;

/// Sizes and strides (in elements) and dtype of a tensor.
struct TensorType {
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;

  static TensorType contiguous(c10::ScalarType dtype,
                               std::vector<int64_t> sizes);
  static TensorType of(const at::Tensor &tensor);
  bool operator==(const TensorType &) const = default;
};

/// Where in the user's model an operator comes from. Unknown parts are empty.
struct Location {
  std::string module; ///< path, "model.layers.0.mlp"
  std::string file;
  int64_t line = 0;

  /// "model.layers.0.mlp at model.py:12", for messages; empty if unknown.
  std::string describe() const;
};

/// A span of bytes of the model file, as `#fsdp.record`.
struct Record {
  std::string name;
  uint64_t offset = 0; ///< of the first element, from the file's beginning
  uint64_t bytes = 0;  ///< to the end of the last element
  uint32_t crc = 0;    ///< of the archive's whole record
  std::vector<int64_t> strides; ///< empty if contiguous
};

enum class StateRole { Parameter, Frozen, Buffer, Constant, Random, LossScale };

/// Name of the state of role Random; no parameter's name holds a slash.
inline constexpr const char *kRandomState = "random/state";
/// Name of the state of role LossScale.
inline constexpr const char *kLossScaleState = "loss/scale";

/// A first value that is computed.
struct FirstValue {
  enum class Kind : uint8_t {
    Zero,
    Uniform,
    Normal,
    Pissa, ///< the largest singular vectors of an adapter's base
    Loftq, ///< those of what the base loses as codes
    Norms, ///< of the outs of an adapter's base
  };
  Kind kind = Kind::Zero;
  /// Of Uniform the limits, of Normal mean and deviation, of Pissa the number
  /// of iterations.
  double a = 0, b = 0;
};

struct State {
  std::vector<std::string> names; ///< all names of a tied tensor, first first
  StateRole role = StateRole::Parameter;
  TensorType type; ///< contiguous
  std::optional<Record> source;
  std::optional<double> init;      ///< first value of a LossScale
  std::optional<FirstValue> first; ///< instead of source, unless files have it
  bool isVolatile = false;         ///< a buffer outside the state dict
  ValueId value = kNoValue;
  std::string overlaps; ///< a state with some of the same bytes; may be empty
  /// The model's, of a parameter that is held in a wider one.
  std::optional<c10::ScalarType> modelDtype;
  /// In which its gradient is reduced, if not in its own.
  std::optional<c10::ScalarType> reduceDtype;

  /// No weights replace it: if no step writes it, it is what the file has.
  bool isFixed() const {
    return isVolatile &&
           (role == StateRole::Buffer || role == StateRole::Constant);
  }
};

struct Input {
  std::string name;
  TensorType type; ///< contiguous
  std::optional<Record> sample;
  ValueId value = kNoValue;
};

/// One row of the model's module tree.
struct ModuleInfo {
  std::string path;
  std::string className;
};

/// One argument of a call, as the schema has it.
struct Argument {
  enum class Kind : uint8_t {
    Static, ///< `value`
    Tensor, ///< `tensors[0]`, kNoValue for None
    List,   ///< `tensors`, kNoValue for holes
  };
  Kind kind = Kind::Static;
  std::vector<ValueId> tensors;
  c10::IValue value;
};

/// Why mixed precision put a cast in.
struct Cast {
  enum class Cause : uint8_t {
    Parameter, ///< the program computes with the state `name` in param_dtype
    Input,     ///< cast_forward_inputs of the program's input `name`
    Operand,   ///< the operator `name` takes no operands of several dtypes
    Border,    ///< a tensor enters or leaves the module `name` of an override
    Output,    ///< output_dtype of the output `name`
    Gradient,  ///< reduce_dtype or original dtype of the gradient of `name`
  };
  Cause cause = Cause::Operand;
  std::string name;
};

/// "parameter", "operand", …: as a module's `fsdp.casts` says it.
const char *getCauseName(Cast::Cause cause);

/// Index into JointGraph::casts; kNoCast for what the model itself does.
using CastId = int32_t;
inline constexpr CastId kNoCast = -1;

/// A number at the limit of one dtype that became that of another.
struct NarrowedLimit {
  std::string op; ///< that computes with it or makes it
  c10::ScalarType from;
  c10::ScalarType to;
  LocationId location = kNoLocation;
};

struct Node {
  c10::OperatorHandle op;
  std::vector<Argument> arguments; ///< one for each of the schema
  std::vector<ValueId> results;    ///< tensors, lists flattened
  LocationId location = kNoLocation;
  CastId cast = kNoCast;
  bool underNoGrad = false; ///< gradients were off where it was called
};

/// A tensor that is neither computed nor in the state table.
struct Constant {
  ValueId value = kNoValue;
  at::Tensor data;      ///< on the CPU
  bool wrapped = false; ///< a Python number that LibTorch made a 0-d tensor
};

/// A tensor that the model returns.
struct Output {
  std::string name; ///< "logits"; "loss" for the first of a training program
  std::vector<std::string> aliases; ///< further names that a user may ask by
  TensorType type;
  bool isKept = false; ///< asked for: a result of the program
};

/// A result of the program; `index` is into `outputs` or `states`.
struct Result {
  enum class Kind : uint8_t { Loss, Output, State, Gradient };
  Kind kind = Kind::Loss;
  size_t index = 0;
  ValueId value = kNoValue;
};

/// The file that the graph was captured from.
struct ModelFile {
  std::string path;
  uint64_t bytes = 0;
  std::string directory; ///< hash of the zip directory
};

/// A call of attention in the model.
struct NotedAttention {
  meta::AttentionCall call;
  Location location;
};

/// An RMS norm that the model writes out, or what looks like one.
struct NotedNorm {
  Location location;
  std::string why; ///< it was left as it is; empty: it is LibTorch's
};

/// An adapter that capture put in: names of states. `base` is [out, in, …], or
/// [in, out] if it is turned.
struct AdapterRow {
  std::string base, down, up;
  bool isTurned = false;
  std::string magnitude;          ///< empty: none
  std::string firstDown, firstUp; ///< that the base lacks; empty: none
  int64_t experts = 0;            ///< 0: the base is one matrix
};

struct AdapterTable {
  AdapterRequest request;
  std::vector<AdapterRow> layers;
};

struct JointGraph {
  ModelFile file;
  std::vector<ModuleInfo> modules;
  std::vector<State> states;
  std::vector<Input> inputs;
  std::vector<TensorType> values;
  std::vector<Constant> constants;
  std::vector<Node> nodes;
  /// (seed, offset), what draws start from; kNoValue if nothing is drawn.
  ValueId random = kNoValue;
  /// Loss, kept outputs, changed buffers, gradients, in order; for inference
  /// neither loss nor gradients.
  std::vector<Result> results;
  std::vector<Output> outputs; ///< all that the model returns
  bool isInference = false;    ///< forward only
  std::vector<Location> locations;
  Precision precision;               ///< the policies that were applied
  std::vector<Cast> casts;           ///< of which no node may be left
  std::vector<NarrowedLimit> limits; ///< what mixed precision did to them
  std::vector<NotedAttention> attention;
  std::optional<std::vector<NotedNorm>> norms; ///< absent: nobody looked
  std::optional<AdapterTable> adapters;        ///< absent: none is put in
  std::vector<int64_t> noiseSites;             ///< draws that are NEFTune's
  double noiseAlpha = 0;
  /// Trainable parameters that the loss does not depend on: now frozen.
  std::vector<std::string> withoutGradient;
  /// What the export lost and the request accepts, in words.
  std::vector<std::string> accepted;
  /// Paths of modules that the model checkpoints; empty for its own forward.
  std::vector<std::string> checkpoints;
  /// Frozen parameters that the model writes: now buffers.
  std::vector<std::string> written;
};

/// "aten::add.Tensor", as errors name operators.
std::string getOperatorName(const c10::OperatorHandle &op);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_JOINTGRAPH_H
