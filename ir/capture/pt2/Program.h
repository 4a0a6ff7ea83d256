//===- Program.h - What a torch.export archive says -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exported graph, its signature and where its tensors lie in the file. The
// graph itself stays JSON, which the interpreter walks once.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_PROGRAM_H
#define FSDP_IR_CAPTURE_PT2_PROGRAM_H

#include "ir/capture/joint/JointGraph.h"
#include "ir/capture/joint/Outputs.h"
#include "ir/capture/pt2/Dims.h"
#include "ir/capture/pt2/Json.h"
#include "support/ZipDirectory.h"

#include <memory>

namespace fsdp::capture {

/// A placeholder that stands for a state, by index into `Pt2Program::states`.
struct Pt2StateInput {
  std::string placeholder;
  size_t state;
};

/// A placeholder that stands for a tensor input, by index into `inputs`, or for
/// a constant of the exported call (use_cache=False), or for a number that the
/// export kept open.
struct Pt2UserInput {
  std::string placeholder;
  std::optional<size_t> input;
  const json::Value *constant = nullptr; ///< tagged value, if not a tensor
  std::optional<Number> number; ///< of a number that is a dynamic dimension
};

/// A graph output that is the new value of a state.
struct Pt2StateUpdate {
  std::string value;
  size_t state;
};

/// A tensor that the program returns.
struct Pt2Output {
  std::string value; ///< of the graph
  OutputPath path;
};

class Pt2Program {
public:
  /// Reads `models/model.json` and the tensors' configs. Throws Error.
  /// `sizes` are those of its dynamic dimensions, as `Pt2Dims::bind` takes
  /// them; `ties` are groups of names of one tensor that has no data.
  static Pt2Program
  read(const ZipDirectory &archive, const DimSizes &sizes,
       const std::vector<std::vector<std::string>> &ties = {});

  /// The graph: inputs, outputs, nodes.
  const json::Object &getGraph() const { return *graph; }

  /// In the order of the state table; tied tensors are one.
  std::vector<State> states;
  std::vector<Input> inputs;
  /// Modules that contain states, outer before inner.
  std::vector<ModuleInfo> modules;
  std::vector<Pt2StateInput> stateInputs;
  std::vector<Pt2UserInput> userInputs;
  std::vector<Pt2StateUpdate> updates;
  /// The kind of device that the parameters were on; meta for any other than
  /// CPU and CUDA.
  c10::DeviceType device = c10::kMeta;
  /// In order; the first of a training program is its loss.
  std::vector<Pt2Output> outputs;
  /// Bound.
  Pt2Dims dims;

private:
  friend class Pt2Reader;
  std::shared_ptr<const json::Value> document; // its address must not change
  const json::Object *graph = nullptr;
};

/// A tensor as the archive describes it.
struct Pt2TensorMeta {
  TensorType type;
  int64_t storageOffset = 0; ///< elements
  bool requiresGrad = false;
  c10::DeviceType device = c10::kMeta; ///< CPU, CUDA or, for any other, meta
};

/// Sizes by `dims`, which throws Error for symbols that it does not know;
/// `name` is for the message.
Pt2TensorMeta readPt2TensorMeta(const json::Object &meta, const Pt2Dims &dims,
                                const std::string &name);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_PROGRAM_H
