//===- EmbeddingNoise.h - Noise on a model's embeddings ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NEFTune: while a model runs, uniform noise is added to what its embedding of
// tokens gives, as if transformers had hooked it before the export.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_EMBEDDING_NOISE_H
#define FSDP_IR_CAPTURE_JOINT_EMBEDDING_NOISE_H

#include "ir/capture/joint/Autocast.h"
#include "ir/capture/joint/JointGraph.h"

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace fsdp::capture {

class EmbeddingNoise final : public CallExtender {
public:
  /// `states` are the graph's, as the model sees them; `getSite` says which
  /// site draws next.
  EmbeddingNoise(double alpha, JointGraph &graph,
                 const std::vector<at::Tensor> &states,
                 std::function<int64_t()> getSite);

  bool call(const c10::OperatorHandle &op,
            std::vector<c10::IValue> &stack) override;

  /// After the model has run: the graph then says where noise is drawn. Throws
  /// Error if no embedding of tokens was found, or more than one may be it.
  void finish();

private:
  double alpha;
  JointGraph &graph;
  std::function<int64_t()> getSite;
  std::unordered_map<const c10::TensorImpl *, size_t> stateOf;
  bool isInside = false; ///< what is called is the embedding itself
  /// Of the matrix of tokens, the first that a batch of rows is looked up in,
  /// and of a larger one that is read later.
  std::optional<size_t> tokens, larger;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_EMBEDDING_NOISE_H
