//===- Interpreter.h - Runs an exported graph -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls the operators of a torch.export graph one by one through LibTorch's
// dispatcher: under a recorder to capture it, or on real tensors.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_INTERPRETER_H
#define FSDP_IR_CAPTURE_PT2_INTERPRETER_H

#include "ir/capture/joint/Recorder.h"
#include "ir/capture/pt2/Backwards.h"
#include "ir/capture/pt2/FlexMasks.h"
#include "ir/capture/pt2/Json.h"
#include "ir/capture/pt2/LostCasts.h"
#include "ir/capture/pt2/Operators.h"
#include "ir/capture/pt2/Program.h"
#include "ir/capture/pt2/Regions.h"
#include "ir/capture/pt2/WrittenNorms.h"
#include "ir/capture/symbolic/Number.h"

#include <functional>
#include <unordered_map>
#include <unordered_set>

namespace fsdp::capture {

struct Pt2FlexCall;

class Pt2Interpreter {
public:
  /// Factories make their tensors on `device`. `recorder`, if there is one, is
  /// told where each node comes from.
  explicit Pt2Interpreter(c10::Device device, Recorder *recorder = nullptr)
      : device(device), recorder(recorder) {}

  /// The kind of device that the model was exported on. torch.autocast counts
  /// for that one and for the device to run on; if it was meta, for any.
  void setExportDevice(c10::DeviceType type) { exportDevice = type; }

  /// Told of each node before it runs.
  void setBackwards(Pt2Backwards *told) { backwards = told; }

  /// Makes norms that the model writes out LibTorch's, and tells of each.
  void setNorms(std::vector<NotedNorm> *told) { notedNorms = told; }

  /// In which dtype the module that runs computes, if not in that of the
  /// export: then casts that do nothing in the file mean something.
  using ParamDtype = std::function<std::optional<c10::ScalarType>()>;
  void setParamDtype(ParamDtype asked) { paramDtype = std::move(asked); }

  /// Gives the graph value `name` its content.
  void bind(const std::string &name, c10::IValue value) {
    values[name] = std::move(value);
  }
  /// Throws Error if the graph has no such value.
  const c10::IValue &get(const std::string &name) const;

  /// The content of an argument, {"as_int": 3}.
  c10::IValue evaluate(const json::Value &argument) const;

  /// The content of an input that is no tensor.
  c10::IValue evaluate(const Pt2UserInput &input) const;

  /// Runs all nodes. Throws Error.
  void run(const json::Object &graph);

  /// Runs one of them, which is at `location`.
  void runNode(const json::Object &node, const Pt2Target &target,
               const Location &location);

private:
  void callOperator(const c10::OperatorHandle &op, const json::Object &node);
  void fuseNorm(const json::Object &node, const Location &location);
  bool castToAnothers(const json::Object &node);
  const c10::IValue &read(const std::string &name) const;
  void callRegion(const Pt2Region &region, const json::Object &node);
  Pt2FlexCall readFlexCall(const Pt2Region &region,
                           const json::Object &node) const;
  void callFlexAttention(const Pt2Region &region, const json::Object &node);
  bool isNeeded(const std::string &name);
  void callNumberFunction(const std::string &function,
                          const json::Object &node);
  void callSizeQuery(const std::string &query, const json::Object &node);
  void checkAssertion(const json::Object &node) const;
  const json::Object *findMeta(const json::Array &inputs) const;
  std::vector<at::Tensor> getTensors(const json::Object &node) const;
  c10::IValue evaluateSymbolic(const json::Value &argument) const;
  /// Absent: `tag` is no list's.
  std::optional<c10::IValue> evaluateList(llvm::StringRef tag,
                                          const json::Value &value) const;
  void bindOutputs(const json::Object &node,
                   const std::vector<c10::IValue> &results);

  c10::Device device;
  Recorder *recorder;
  Pt2Backwards *backwards = nullptr;
  c10::DeviceType exportDevice = c10::kMeta;
  ParamDtype paramDtype;
  Pt2LostCasts casts; ///< of the graph that runs
  std::vector<NotedNorm> *notedNorms = nullptr;
  Pt2WrittenNorms norms;                 ///< of the graph that runs
  std::string module;                    ///< of the node that runs
  const json::Object *running = nullptr; ///< the graph that runs
  const json::Object *tensors = nullptr; ///< of the graph that runs, by name
  /// Names of values that results of a graph are made of.
  std::unordered_set<std::string> needed;
  const json::Object *neededIn = nullptr;
  std::shared_ptr<FlexMasks> masks = std::make_shared<FlexMasks>();
  std::unordered_map<std::string, c10::IValue> values;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_INTERPRETER_H
