//===- Adapters.h - Low-rank matrices beside a model's own ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// While a model runs, each call of a layer that is to have an adapter is
// computed with it, above autograd, autocast and mixed precision: as if PEFT
// had wrapped the model before the export. Which layer a call is of, the
// tensor tells that it takes for its weight.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_ADAPTERS_H
#define FSDP_IR_CAPTURE_JOINT_ADAPTERS_H

#include "ir/capture/joint/Autocast.h"
#include "ir/capture/joint/JointGraph.h"
#include "ir/capture/request/Adapter.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace fsdp::capture {

/// What adapters need of a capture.
struct AdapterHost {
  JointGraph &graph;
  /// Of the graph's states, as the model sees them.
  const std::vector<at::Tensor> &stateTensors;
  /// Declares a state while the model runs, which is trained unless its role is
  /// Frozen.
  std::function<at::Tensor(State)> declare;
  /// Lets a frozen state be trained from here on.
  std::function<void(size_t state)> train;
};

/// Whether a state's name is one that PEFT gives an adapter's.
bool hasOwnAdapters(const JointGraph &graph);

struct AdaptedOperator;

/// A name that patterns may mean, and a module that they may mean it by: a name
/// without dots is the last component, "re:…" a regular expression.
bool matchesPath(const std::vector<std::string> &patterns,
                 const std::string &path);

class Adapters final : public CallExtender {
public:
  /// After the model's states are declared; freezes what is not to be trained.
  /// Throws Error if the model has adapters of its own.
  Adapters(const AdapterRequest &request, AdapterHost host);

  bool call(const c10::OperatorHandle &op,
            std::vector<c10::IValue> &stack) override;

  /// After the model has run: the graph then says which adapters it has. Throws
  /// Error if there is none, if a layer that is named has none, or if a matrix
  /// that has one is read elsewhere, too.
  void finish();

private:
  struct Layer {
    std::string path;
    const AdaptedOperator *op = nullptr;
    at::Tensor down, up;
    at::Tensor magnitude; ///< undefined: none
    at::Tensor norms;     ///< of its outs in this step, once they are needed
  };
  /// A parameter that is adapted itself.
  struct Stacked {
    std::string path; ///< of the adapter
    bool isTurned = false;
    at::Tensor sum; ///< with what is added, once it is needed
  };

  void freeze();
  bool isChosen(const State &state, const AdaptedOperator &op) const;
  bool isOfOutput(const State &state, const AdaptedOperator &op) const;
  bool isNamed(const State &state) const;
  bool isInLayers(const State &state) const;
  Layer &getLayer(size_t state, const AdaptedOperator &op);
  void declareMatrices(Layer &layer, const State &base, AdapterRow &row,
                       const std::string &prefix, const std::string &suffix);
  at::Tensor declare(const std::string &name, const State &base,
                     std::vector<int64_t> sizes, FirstValue first,
                     bool isTrained = true);
  void findStacked();
  void replaceStacked(const c10::OperatorHandle &op,
                      std::vector<c10::IValue> &stack);
  const at::Tensor &getSum(size_t state);
  at::Tensor computeNorms(const Layer &layer, const at::Tensor &weight) const;
  at::Tensor computeLayer(const c10::OperatorHandle &op, Layer &layer,
                          const at::Tensor &base,
                          std::vector<c10::IValue> &own);
  void noteReads(const c10::OperatorHandle &op,
                 const std::vector<c10::IValue> &stack);
  std::optional<size_t> findState(const c10::IValue &value) const;

  AdapterRequest request;
  AdapterHost host;
  bool isInside = false; ///< what is called is of an adapted layer itself
  std::unordered_map<const c10::TensorImpl *, size_t> stateOf;
  std::map<size_t, Layer> layers;           ///< by their weight
  std::map<size_t, Stacked> stacked;        ///< by the parameter
  std::map<size_t, std::string> otherReads; ///< operators, by what they read
  int64_t vocabulary = 0; ///< rows of the largest embedding read so far
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_ADAPTERS_H
