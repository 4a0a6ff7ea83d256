//===- JointCapture.h - Runs a model and its gradient -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of capture that all kinds of model files share. A front end declares
// the model's states and inputs, in the order of the state table, gets tensors
// to run the model on, and hands over how to run it:
//
//   JointCapture capture(request);
//   at::Tensor w = capture.addState({...}), x = capture.addInput({...});
//   capture.run([&] { return flattenReturned(model(w, x)); });
//   JointGraph graph = capture.take();
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_JOINTCAPTURE_H
#define FSDP_IR_CAPTURE_JOINT_JOINTCAPTURE_H

#include "ir/capture/joint/Adapters.h"
#include "ir/capture/joint/EmbeddingNoise.h"
#include "ir/capture/joint/JointGraph.h"
#include "ir/capture/joint/LostGradients.h"
#include "ir/capture/joint/MixedPrecision.h"
#include "ir/capture/joint/Outputs.h"
#include "ir/capture/joint/Recorder.h"
#include "ir/capture/request/CaptureRequest.h"

#include <functional>
#include <optional>
#include <unordered_set>

namespace fsdp::capture {

class JointCapture {
public:
  explicit JointCapture(CaptureRequest request = {});

  const CaptureRequest &getRequest() const { return request; }

  /// What the front end knows about the file and its module tree.
  void setFile(ModelFile file) { graph.file = std::move(file); }
  void addModule(ModuleInfo module) {
    graph.modules.push_back(std::move(module));
  }

  /// Declares a state; returns the tensor that stands for it. A tied parameter
  /// is one state, whose tensor stands for all its names. `type` must be
  /// contiguous; `value` is filled in. The tensor has the dtype in which mixed
  /// precision lets the model see it.
  at::Tensor addState(State state);
  void widenState(State &state) const;
  at::Tensor addInput(Input input);

  /// The tensor that holds a state after the forward pass, for front ends in
  /// which a buffer is replaced rather than written.
  void setStateTensor(size_t state, at::Tensor tensor);

  /// While the model runs: what the file says of backwards that it lost, and of
  /// checkpoints, by path of the modules that they begin in.
  void setLostBackwards(std::vector<LostBackward> found) {
    lost = std::move(found);
  }
  void setCheckpoints(std::vector<std::string> paths) {
    graph.checkpoints = std::move(paths);
  }

  /// To be told about locations while the model runs.
  Recorder &getRecorder() { return recorder; }

  /// Whether modules compute in other dtypes than those of the file, and in
  /// which the one does that runs.
  bool hasPrecision() const { return precision.has_value(); }
  std::optional<c10::ScalarType> getParamDtype() {
    return precision ? precision->getParamDtype() : std::nullopt;
  }

  /// What was recorded up to now.
  const JointGraph &getGraph() const { return graph; }

  /// What is known of a call of attention.
  void noteAttention(NotedAttention call) {
    graph.attention.push_back(std::move(call));
  }

  /// What became of norms that the model writes out.
  void setNorms(std::vector<NotedNorm> norms) {
    graph.norms = std::move(norms);
  }

  /// Runs `forward`, which returns the model's tensors, under the recorder,
  /// differentiates the loss among them by all trainable parameters, unless the
  /// program is for inference, and completes the graph: kept outputs, changed
  /// buffers and gradients with storage of their own, only operators that these
  /// need. Throws Error.
  void run(const std::function<std::vector<ReturnedTensor>()> &forward);

  /// After `run`: constants of more than `bytes` bytes whose data lies in the
  /// model file, where `find` says, become states, so that the graph does not
  /// carry it.
  void moveConstants(
      uint64_t bytes,
      const std::function<std::optional<Record>(const at::Tensor &)> &find);

  /// The complete graph, once.
  JointGraph take() { return std::move(graph); }

private:
  at::Tensor wrap(const TensorType &type, ValueId &value);
  at::Tensor wrapAs(c10::ScalarType dtype, const TensorType &type,
                    ValueId &value, Cast cast);
  std::vector<ReturnedTensor>
  runForward(const std::function<std::vector<ReturnedTensor>()> &forward);
  void chooseMode();
  void addLossScale();
  void addAdapters();
  at::Tensor declareWhileRunning(State state);
  void chooseLoss(std::vector<ReturnedTensor> &returned) const;
  at::Tensor getLoss(const std::vector<ReturnedTensor> &returned) const;
  void checkLostBackwards();
  void checkLostGradients(const std::vector<size_t> &states);
  std::vector<at::Tensor> differentiate(const at::Tensor &loss);
  at::Tensor makeOwn(const at::Tensor &tensor);
  void addResult(Result::Kind kind, size_t index, const at::Tensor &tensor);
  void addOutputs(const std::vector<ReturnedTensor> &returned);
  void addShare(const at::Tensor &share);
  void addRandomState();
  std::string describeOrigin(ValueId value) const;
  void addChangedState(size_t index);
  void addGradients(const std::vector<at::Tensor> &gradients);

  CaptureRequest request;
  JointGraph graph;
  Recorder recorder{graph};
  std::optional<MixedPrecision> precision;
  std::optional<Adapters> adapters;
  std::optional<EmbeddingNoise> noise;
  std::vector<at::Tensor> stateTensors,
      inputTensors;                ///< as the model sees them
  std::vector<ValueId> seenValues; ///< of states: what their tensors start as
  at::Tensor lossScale;            ///< undefined: the loss is not scaled
  std::unordered_set<const c10::StorageImpl *> taken;
  std::vector<LostBackward> lost;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_JOINTCAPTURE_H
