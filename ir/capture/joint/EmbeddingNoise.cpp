//===- EmbeddingNoise.cpp - Noise on a model's embeddings -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/EmbeddingNoise.h"

#include "support/Error.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>

using namespace fsdp;
using namespace fsdp::capture;

EmbeddingNoise::EmbeddingNoise(double strength, JointGraph &ofGraph,
                               const std::vector<at::Tensor> &states,
                               std::function<int64_t()> nextSite)
    : alpha(strength), graph(ofGraph), getSite(std::move(nextSite)) {
  for (size_t i = 0; i < states.size(); ++i)
    stateOf[states[i].unsafeGetTensorImpl()] = i;
}

bool EmbeddingNoise::call(const c10::OperatorHandle &op,
                          std::vector<c10::IValue> &stack) {
  if (isInside || op.operator_name().name != "aten::embedding")
    return false;
  size_t begin = stack.size() - op.schema().arguments().size();
  const at::Tensor &weight = stack[begin].toTensor();
  auto state = stateOf.find(weight.unsafeGetTensorImpl());
  // Rows of tokens; positions are looked up in one row.
  if (state == stateOf.end() || stack[begin + 1].toTensor().dim() != 2)
    return false;
  if (!tokens)
    tokens = state->second;
  if (*tokens != state->second) {
    if (weight.size(0) > graph.states[*tokens].type.sizes[0])
      larger = state->second;
    return false;
  }
  struct Inside {
    explicit Inside(bool &flag) : flag(flag) { flag = true; }
    ~Inside() { flag = false; }
    bool &flag;
  } inside(isInside);
  op.callBoxed(stack);
  at::Tensor embedded = stack.back().toTensor();
  // As transformers computes it: a root in float32.
  auto elements = static_cast<float>(embedded.size(1) * embedded.size(2));
  double most = static_cast<float>(alpha) / std::sqrt(elements);
  graph.noiseSites.push_back(getSite());
  at::Tensor noise = at::zeros_like(embedded.detach()).uniform_(-most, most);
  stack.back() = embedded.add(noise);
  return true;
}

void EmbeddingNoise::finish() {
  graph.noiseAlpha = alpha;
  if (!tokens)
    throw Error(ErrorId::ConfigNotSupported,
                "'neftune_noise_alpha' is for a model that looks rows of "
                "tokens up in an embedding that is a parameter, found none; "
                "leave it out");
  if (larger)
    throw Error(ErrorId::ConfigNotSupported,
                "'neftune_noise_alpha' means the embedding of tokens, but the "
                "first that the model reads, '" +
                    graph.states[*tokens].names.front() +
                    "', has fewer rows than '" +
                    graph.states[*larger].names.front() +
                    "'; leave it out, or add the noise in the model");
}
