//===- ElementUpdates.h - What optimizers do to an element ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of LibTorch's fused kernels in float32. Hosts and GPUs compile
// the same functions, without contraction, and get the same bits. An optimizer
// is a row of `visitArithmetic`.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_RUNTIME_OPTIMIZE_ELEMENTUPDATES_H
#define FSDP_RUNTIME_OPTIMIZE_ELEMENTUPDATES_H

#include "support/HostDevice.h"
#include "support/Optimizers.h"

#include <cmath>
#include <cstdint>

namespace fsdp {

/// An optimizer's numbers, as configs have them.
struct RuleNumbers {
  double beta1 = 0, beta2 = 0, eps = 0, momentum = 0, weightDecay = 0;
  bool isDecoupled = false; ///< weight decay is of the parameters themselves
  bool nesterov = false, hasMoments = false;
};

/// What changes from step to step.
struct UpdateNumbers {
  double lr = 0;
  double step = 0;     ///< of this update, from 1
  float gradScale = 1; ///< divides the gradients
};

/// `base` to the power of a whole number: the same roundings everywhere, which
/// no library's pow has.
FSDP_HOST_DEVICE inline double raise(double base, double exponent) {
  double power = 1;
  for (auto left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if (left & 1)
      power *= base;
    base *= base;
  }
  return power;
}

/// The numbers of one step, in the precision of LibTorch's kernels.
struct Coefficients {
  float gradScale, lr;
  float beta1, beta2, eps, momentum, decay;
  float stepSize, rootCorrection; ///< lr and the root, corrected for the step
  bool nesterov, hasMoments;
};

FSDP_HOST_DEVICE inline Coefficients
computeCoefficients(const RuleNumbers &own, const UpdateNumbers &numbers) {
  Coefficients c;
  c.gradScale = numbers.gradScale;
  c.lr = static_cast<float>(numbers.lr);
  c.beta1 = static_cast<float>(own.beta1);
  c.beta2 = static_cast<float>(own.beta2);
  c.eps = static_cast<float>(own.eps);
  c.momentum = static_cast<float>(own.momentum);
  c.decay = static_cast<float>(own.weightDecay *
                               (own.isDecoupled ? numbers.lr : 1.0));
  c.stepSize =
      static_cast<float>(numbers.lr / (1 - raise(own.beta1, numbers.step)));
  c.rootCorrection =
      static_cast<float>(std::sqrt(1 - raise(own.beta2, numbers.step)));
  c.nesterov = own.nesterov;
  c.hasMoments = own.hasMoments;
  return c;
}

namespace element {

/// An element's numbers on their way; moments that an optimizer lacks are
/// nobody's.
struct Updated {
  float &param, &grad, &first, &second;
};

FSDP_HOST_DEVICE inline void scaleGradient(const Coefficients &c, float &grad) {
  if (c.gradScale != 1)
    grad /= c.gradScale;
}

FSDP_HOST_DEVICE inline void addDecay(const Coefficients &c, const Updated &e) {
  if (c.decay != 0)
    e.grad += c.decay * e.param;
}

FSDP_HOST_DEVICE inline void updateAdamMoments(const Coefficients &c,
                                               const Updated &e) {
  e.first += (1 - c.beta1) * (e.grad - e.first);
  e.second = e.second * c.beta2 + (1 - c.beta2) * e.grad * e.grad;
}

FSDP_HOST_DEVICE inline void updateAdamParam(const Coefficients &c,
                                             const Updated &e) {
  e.param -=
      c.stepSize * e.first / (std::sqrt(e.second) / c.rootCorrection + c.eps);
}

// Of each: `moments` divides the gradient by the scale and sets the new
// moments; `param`, behind it, sets the new parameter.

struct AdamW {
  FSDP_HOST_DEVICE static void moments(const Coefficients &c,
                                       const Updated &e) {
    scaleGradient(c, e.grad);
    updateAdamMoments(c, e);
  }
  FSDP_HOST_DEVICE static void param(const Coefficients &c, const Updated &e) {
    e.param -= c.decay * e.param;
    updateAdamParam(c, e);
  }
};

struct Adam {
  FSDP_HOST_DEVICE static void moments(const Coefficients &c,
                                       const Updated &e) {
    scaleGradient(c, e.grad);
    addDecay(c, e);
    updateAdamMoments(c, e);
  }
  FSDP_HOST_DEVICE static void param(const Coefficients &c, const Updated &e) {
    updateAdamParam(c, e);
  }
};

struct Sgd {
  FSDP_HOST_DEVICE static void moments(const Coefficients &c,
                                       const Updated &e) {
    scaleGradient(c, e.grad);
    addDecay(c, e);
    if (c.hasMoments)
      e.first = c.momentum * e.first + e.grad;
  }
  FSDP_HOST_DEVICE static void param(const Coefficients &c, const Updated &e) {
    if (c.hasMoments && c.nesterov)
      e.grad += c.momentum * e.first;
    e.param -= c.lr * (c.hasMoments && !c.nesterov ? e.first : e.grad);
  }
};

} // namespace element

/// Calls `visitor` with the arithmetic of one kind.
template <typename Visitor>
auto visitArithmetic(OptimizerKind kind, Visitor visitor) {
  switch (kind) {
  case OptimizerKind::adamw:
    return visitor(element::AdamW());
  case OptimizerKind::adam:
    return visitor(element::Adam());
  case OptimizerKind::sgd:
    break;
  }
  return visitor(element::Sgd());
}

} // namespace fsdp

#endif // FSDP_RUNTIME_OPTIMIZE_ELEMENTUPDATES_H
