//===- Autocast.h - torch.autocast as casts ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Under torch.autocast, LibTorch casts the floating-point arguments of certain
// operators above autograd. Its own kernels for that look at the device of each
// tensor and pass over meta tensors, on which models are captured. Here the
// same lists of operators work on any tensor, so that the casts, and their
// gradients, are recorded like all other operators.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_AUTOCAST_H
#define FSDP_IR_CAPTURE_JOINT_AUTOCAST_H

#include "ir/aten/Flags.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>
#include <string_view>
#include <vector>

namespace fsdp::capture {

/// What autocast does to an operator's floating-point tensors; it never touches
/// float64.
enum class CastPolicy {
  None,        ///< leaves them as they are
  Lower,       ///< casts them to autocast's dtype
  Float,       ///< casts them to float32
  FloatDtype,  ///< asks for results in float32, by an absent `dtype` argument
  AppendFloat, ///< asks for results in float32, by an overload with `dtype`
  Promote,     ///< casts them to the widest dtype among them
  Banned,      ///< refuses the operator
};

/// The flags of Facts.def for the operator "aten::add": below the dialect,
/// which has them in its schemas, and for all overloads.
uint32_t getFacts(std::string_view name);

/// What torch.autocast(device) does to `op`. `device` is CPU or CUDA.
CastPolicy getCastPolicy(const c10::OperatorHandle &op, c10::DeviceType device);

/// The dtype of torch.autocast(device) that states none.
c10::ScalarType getAutocastDtype(c10::DeviceType device);

/// torch.autocast on this thread during the object's life. Scopes nest: of
/// different devices the innermost enabled one counts, for the same device the
/// innermost one.
class AutocastScope {
public:
  AutocastScope(c10::DeviceType device, c10::ScalarType dtype, bool enabled);
  ~AutocastScope();
  AutocastScope(const AutocastScope &) = delete;
  AutocastScope &operator=(const AutocastScope &) = delete;

private:
  c10::impl::ForceDispatchKeyGuard keys;
};

/// The dtype of the torch.autocast that is on, if one is.
std::optional<c10::ScalarType> getActiveAutocastDtype();

/// Sees the operators that a model calls, above autograd and functionalization,
/// and may cast what they read.
class OperandCaster {
public:
  virtual ~OperandCaster() = default;
  /// `underAutocast`: an autocast of the model's own has a rule for `op`.
  virtual void castOperands(const c10::OperatorHandle &op,
                            std::vector<c10::IValue> &stack,
                            bool underAutocast) = 0;
  virtual void noteResults(const c10::OperatorHandle &op,
                           const std::vector<c10::IValue> &stack) = 0;
};

/// Takes calls that a model makes, above autograd, autocast and casters.
class CallExtender {
public:
  virtual ~CallExtender() = default;
  /// True if the call was made, and its results are on the stack.
  virtual bool call(const c10::OperatorHandle &op,
                    std::vector<c10::IValue> &stack) = 0;
};

/// Makes an extender the thread's during the object's life. Of several, which
/// end in reverse order, the last one is asked first.
class CallExtenderScope {
public:
  explicit CallExtenderScope(CallExtender &extender);
  ~CallExtenderScope();
  CallExtenderScope(const CallExtenderScope &) = delete;
  CallExtenderScope &operator=(const CallExtenderScope &) = delete;

private:
  c10::impl::ForceDispatchKeyGuard keys;
};

/// Makes a caster the thread's during the object's life. One at a time.
class OperandCasterScope {
public:
  explicit OperandCasterScope(OperandCaster &caster);
  ~OperandCasterScope();
  OperandCasterScope(const OperandCasterScope &) = delete;
  OperandCasterScope &operator=(const OperandCasterScope &) = delete;

private:
  c10::impl::ForceDispatchKeyGuard keys;
};

/// The dispatch key of these casts: one that LibTorch keeps for a device that
/// it does not have. Whoever computes what was cast already excludes it.
inline constexpr c10::DispatchKey kAutocastKey =
    c10::DispatchKey::AutocastPrivateUse1;

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_AUTOCAST_H
