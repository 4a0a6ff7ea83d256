//===- MixedPrecision.h - FSDP2's precision policies as casts ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model sees its parameters and floating-point inputs in param_dtype, and
// runs as it is: results get the types that each operator's own rules give
// them. Only where an operator would refuse operands of several dtypes, or a
// tensor crosses the border of a module with a policy of its own, is it cast.
// Casts stand above autograd, so that backward follows them.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_JOINT_MIXEDPRECISION_H
#define FSDP_IR_CAPTURE_JOINT_MIXEDPRECISION_H

#include "ir/capture/joint/Autocast.h"
#include "ir/capture/joint/Recorder.h"
#include "ir/capture/request/Precision.h"

#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>

namespace fsdp::capture {

class MixedPrecision final : public OperandCaster {
public:
  MixedPrecision(const Precision &precision, Recorder &recorder);

  /// In which dtype the model sees a parameter or an input.
  c10::ScalarType getSeenDtype(const State &state);
  c10::ScalarType getSeenDtype(const Input &input);

  /// The param_dtype of the module that runs.
  std::optional<c10::ScalarType> getParamDtype() {
    return getCurrentScope()->policy->param;
  }

  /// In which dtype the gradient of a parameter is reduced.
  c10::ScalarType getReduceDtype(const State &state);

  /// That the model's forward is called with `tensor`.
  void noteInput(const at::Tensor &tensor);

  /// What the model returns as `name`, in output_dtype.
  at::Tensor castOutput(const at::Tensor &tensor, const std::string &name);

  /// The gradient that backward has computed, in its reduce_dtype.
  at::Tensor castToReduce(const at::Tensor &gradient, const State &state);

  /// The reduced gradient in the parameter's own dtype.
  at::Tensor castToOwn(const at::Tensor &gradient, const State &state);

  void castOperands(const c10::OperatorHandle &op,
                    std::vector<c10::IValue> &stack,
                    bool underAutocast) override;
  void noteResults(const c10::OperatorHandle &op,
                   const std::vector<c10::IValue> &stack) override;

private:
  using Dtype = std::optional<c10::ScalarType>;
  struct Policy {
    Dtype param, reduce, output;
    bool castInputs = true;
  };
  /// A module of an override with all beneath it, or what no override names.
  struct Scope {
    std::string path;
    const Policy *policy;
  };

  static Policy resolve(const PrecisionPolicy &policy);
  const Scope *findScope(const std::string &module);
  const Scope *getCurrentScope();
  at::Tensor cast(const at::Tensor &tensor, c10::ScalarType dtype,
                  Cast::Cause cause, const std::string &name);
  at::Tensor crossBorder(const at::Tensor &tensor, const Scope *into);
  void castToOne(const c10::OperatorHandle &op,
                 std::vector<c10::IValue> &stack);
  void castForNorm(const c10::OperatorHandle &op,
                   std::vector<c10::IValue> &stack);

  Recorder &recorder;
  Policy rootPolicy;
  Scope root{"", &rootPolicy};
  std::vector<std::pair<std::vector<std::string>, Policy>> overrides;
  std::deque<Scope> scopes; ///< those of overrides
  std::unordered_map<std::string, const Scope *> scopeOf; ///< by module path

  /// Where a tensor was made; only known if there are overrides.
  struct Origin {
    at::Tensor tensor; ///< keeps the key unique
    const Scope *scope;
  };
  std::unordered_map<const c10::TensorImpl *, Origin> origins;

  /// Casts that were made already: source, dtype, whether under autograd, and
  /// the source's version or the scope that it enters.
  using Key = std::tuple<const c10::TensorImpl *, c10::ScalarType, bool,
                         uint32_t, const Scope *>;
  std::map<Key, std::pair<at::Tensor, at::Tensor>> made;
};

/// Moves casts of parameters and inputs to where they are read first, and those
/// of gradients to where these are computed.
void placeCasts(JointGraph &graph);

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_JOINT_MIXEDPRECISION_H
