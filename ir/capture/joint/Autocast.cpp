//===- Autocast.cpp - torch.autocast as casts -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Autocast.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

using namespace fsdp::capture;

namespace {

using Stack = std::vector<c10::IValue>;

//===----------------------------------------------------------------------===//
// Which operators
//===----------------------------------------------------------------------===//

struct OperatorRow {
  const char *name;
  const char *overload;
};

// LibTorch's lists name an operator, or an operator and its overload.
#define FSDP_ROW1(op) {"aten::" #op, ""},
#define FSDP_ROW2(op, overload) {"aten::" #op, #overload},
#define FSDP_PICK(first, second, row, ...) row
#define FSDP_ROW(...) FSDP_PICK(__VA_ARGS__, FSDP_ROW2, FSDP_ROW1)(__VA_ARGS__)

constexpr OperatorRow cudaLower[] = {AT_FORALL_LOWER_PRECISION_FP(FSDP_ROW)};
constexpr OperatorRow cudaFloat[] = {AT_FORALL_FP32(FSDP_ROW)};
constexpr OperatorRow cudaFloatDtype[] = {
    AT_FORALL_FP32_SET_OPT_DTYPE(FSDP_ROW)};
constexpr OperatorRow cudaPromote[] = {AT_FORALL_PROMOTE(FSDP_ROW)};

/// Overloads without `dtype`, and those that have it behind the same arguments.
constexpr std::pair<OperatorRow, const char *> cudaAppendFloat[] = {
    {{"aten::norm", "Scalar"}, "ScalarOpt_dtype"},
    {{"aten::norm", "ScalarOpt_dim"}, "ScalarOpt_dim_dtype"},
    {{"aten::norm", "names_ScalarOpt_dim"}, "names_ScalarOpt_dim_dtype"},
};

using Policies = std::unordered_map<c10::OperatorName, CastPolicy>;

template <size_t Size>
void add(Policies &policies, const OperatorRow (&rows)[Size],
         CastPolicy policy) {
  for (const OperatorRow &row : rows)
    policies[{row.name, row.overload}] = policy;
}

Policies makeCudaPolicies() {
  Policies policies;
  add(policies, cudaLower, CastPolicy::Lower);
  add(policies, cudaFloat, CastPolicy::Float);
  add(policies, cudaFloatDtype, CastPolicy::FloatDtype);
  add(policies, cudaPromote, CastPolicy::Promote);
  for (const auto &[row, overload] : cudaAppendFloat)
    policies[{row.name, row.overload}] = CastPolicy::AppendFloat;
  policies[{"aten::binary_cross_entropy", ""}] = CastPolicy::Banned;
  return policies;
}

//===----------------------------------------------------------------------===//
// The state of a thread
//===----------------------------------------------------------------------===//

struct Setting {
  c10::DeviceType device;
  c10::ScalarType dtype;
  bool enabled;
};

thread_local std::vector<Setting> settings; // innermost last

thread_local OperandCaster *caster = nullptr;

thread_local std::vector<CallExtender *> extenders; // outermost last

/// Casts of parameters, made once until the outermost scope ends: two uses of a
/// weight then add their gradients in the lower dtype, as in PyTorch.
thread_local std::map<std::pair<const c10::TensorImpl *, at::ScalarType>,
                      std::pair<at::Tensor, at::Tensor>>
    cache;

/// The setting that counts, or null.
const Setting *getActive() {
  for (size_t i = settings.size(); i-- > 0;) {
    const Setting &setting = settings[i];
    bool isHidden = std::any_of(
        settings.begin() + i + 1, settings.end(),
        [&](const Setting &inner) { return inner.device == setting.device; });
    if (setting.enabled && !isHidden)
      return &setting;
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

bool isEligible(const at::Tensor &tensor) {
  return tensor.defined() && tensor.is_floating_point() &&
         tensor.scalar_type() != at::kDouble;
}

at::Tensor cast(const at::Tensor &tensor, at::ScalarType dtype,
                const Setting &setting) {
  if (!isEligible(tensor) || tensor.scalar_type() == dtype)
    return tensor;
  bool isWeight = dtype == setting.dtype &&
                  tensor.scalar_type() == at::kFloat &&
                  tensor.requires_grad() && tensor.is_leaf() &&
                  !tensor.is_view() && at::GradMode::is_enabled();
  if (!isWeight)
    return tensor.to(dtype);
  auto &[source, result] = cache[{tensor.unsafeGetTensorImpl(), dtype}];
  if (!result.defined()) {
    source = tensor;
    result = tensor.to(dtype);
  }
  return result;
}

/// Calls `visit` with each tensor of the call's arguments.
void forEachTensor(c10::ArrayRef<c10::IValue> arguments,
                   const std::function<void(const at::Tensor &)> &visit) {
  for (const c10::IValue &value : arguments) {
    if (value.isTensor())
      visit(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector())
        visit(tensor);
  }
}

void castAll(Stack &stack, size_t base, at::ScalarType dtype,
             const Setting &setting) {
  for (size_t i = base; i < stack.size(); ++i) {
    c10::IValue &value = stack[i];
    if (value.isTensor()) {
      value = cast(value.toTensor(), dtype, setting);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &tensor : value.toTensorVector())
        list.push_back(cast(tensor, dtype, setting));
      value = list;
    }
  }
}

at::ScalarType getPromoted(c10::ArrayRef<c10::IValue> arguments,
                           const Setting &setting) {
  at::ScalarType dtype = setting.dtype;
  forEachTensor(arguments, [&](const at::Tensor &tensor) {
    if (!isEligible(tensor) || tensor.scalar_type() == dtype)
      return;
    TORCH_CHECK(dtype == at::kFloat || tensor.scalar_type() == at::kFloat,
                "autocast to ", setting.dtype, " cannot combine ", dtype,
                " and ", tensor.scalar_type());
    dtype = at::kFloat;
  });
  return dtype;
}

bool isFirstEligible(c10::ArrayRef<c10::IValue> arguments) {
  return !arguments.empty() && arguments[0].isTensor() &&
         isEligible(arguments[0].toTensor());
}

/// Replaces the call's absent dtypes.
void fillDtype(const c10::FunctionSchema &schema, Stack &stack, size_t base) {
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (schema.arguments()[i].name() == "dtype" && stack[base + i].isNone())
      stack[base + i] = int64_t(at::kFloat);
}

c10::OperatorHandle getDtypeOverload(const c10::OperatorHandle &op) {
  for (const auto &[row, overload] : cudaAppendFloat)
    if (op.operator_name() == c10::OperatorName(row.name, row.overload))
      return c10::Dispatcher::singleton().findSchemaOrThrow(row.name, overload);
  TORCH_INTERNAL_ASSERT(false, "the operator has an overload with dtype");
}

void callUnder(const Setting &setting, CastPolicy policy,
               const c10::OperatorHandle &op, Stack &stack) {
  const c10::FunctionSchema &schema = op.schema();
  size_t base = stack.size() - schema.arguments().size();
  auto arguments = [&] {
    return c10::ArrayRef<c10::IValue>(stack).slice(base);
  };
  switch (policy) {
  case CastPolicy::None:
    break;
  case CastPolicy::Lower:
    castAll(stack, base, setting.dtype, setting);
    break;
  case CastPolicy::Float:
    castAll(stack, base, at::kFloat, setting);
    break;
  case CastPolicy::Promote:
    castAll(stack, base, getPromoted(arguments(), setting), setting);
    break;
  case CastPolicy::FloatDtype:
    if (isFirstEligible(arguments()))
      fillDtype(schema, stack, base);
    break;
  case CastPolicy::AppendFloat: {
    at::ScalarType dtype = isFirstEligible(arguments())
                               ? at::kFloat
                               : stack[base].toTensor().scalar_type();
    stack.push_back(int64_t(dtype));
    getDtypeOverload(op).callBoxed(stack);
    return;
  }
  case CastPolicy::Banned:
    TORCH_CHECK(false, "it is not safe under autocast; leave the sigmoid out "
                       "and call binary_cross_entropy_with_logits");
  }
  op.callBoxed(stack);
}

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet keys,
              Stack *stack) {
  // Below functionalization the operator comes by once more.
  bool isBelow =
      c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Functionalize);
  // An extender's own calls come here again, and may be of the others.
  for (size_t i = isBelow ? 0 : extenders.size(); i-- > 0;)
    if (extenders[i]->call(op, *stack))
      return;
  const Setting *active = isBelow ? nullptr : getActive();
  CastPolicy policy =
      active ? getCastPolicy(op, active->device) : CastPolicy::None;
  OperandCaster *own = isBelow ? nullptr : caster;
  if (own)
    own->castOperands(op, *stack, policy != CastPolicy::None);
  if (policy == CastPolicy::None) {
    op.redispatchBoxed(
        keys &
            c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kAutocastKey),
        stack);
  } else {
    c10::impl::ExcludeDispatchKeyGuard once(kAutocastKey);
    callUnder(*active, policy, op, *stack);
  }
  if (own)
    own->noteResults(op, *stack);
}

c10::impl::LocalDispatchKeySet getKeys() {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = keys.included_.add(kAutocastKey);
  keys.excluded_ = keys.excluded_.remove(kAutocastKey);
  return keys;
}

} // namespace

// What TorchScript puts in front of operators for torch.autocast. LibTorch's
// own cast nothing on meta.

static at::Tensor toReducedPrecision(const at::Tensor &self, bool onCuda,
                                     bool onCpu, at::ScalarType cudaDtype,
                                     at::ScalarType cpuDtype) {
  if (self.scalar_type() != at::kFloat || (!onCuda && !onCpu))
    return self;
  return self.to(onCpu ? cpuDtype : cudaDtype);
}

static at::Tensor toFullPrecision(const at::Tensor &self, bool onCuda,
                                  bool onCpu) {
  bool isReduced =
      self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  return isReduced && (onCuda || onCpu) ? self.to(at::kFloat) : self;
}

TORCH_LIBRARY_IMPL(aten, AutogradMeta, library) {
  library.impl("_autocast_to_reduced_precision", toReducedPrecision);
  library.impl("_autocast_to_full_precision", toFullPrecision);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

uint32_t fsdp::capture::getFacts(std::string_view name) {
  using namespace fsdp::aten;
  static const std::unordered_map<std::string_view, uint32_t> facts = {
#define ATEN_FACTS(name, flags) {"aten::" name, flags},
#include "ir/aten/Facts.def"
  };
  auto it = facts.find(name);
  return it == facts.end() ? 0 : it->second;
}

CastPolicy fsdp::capture::getCastPolicy(const c10::OperatorHandle &op,
                                        c10::DeviceType device) {
  if (device == c10::kCUDA) {
    static const Policies policies = makeCudaPolicies();
    auto it = policies.find(op.operator_name());
    return it == policies.end() ? CastPolicy::None : it->second;
  }
  if (!op.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU))
    return CastPolicy::None;
  uint32_t facts = getFacts(op.operator_name().name);
  if (facts & fsdp::aten::CpuCastLower)
    return CastPolicy::Lower;
  return facts & fsdp::aten::CpuCastPromote ? CastPolicy::Promote
                                            : CastPolicy::Float;
}

c10::ScalarType fsdp::capture::getAutocastDtype(c10::DeviceType device) {
  return device == c10::kCUDA ? at::kHalf : at::kBFloat16;
}

std::optional<c10::ScalarType> fsdp::capture::getActiveAutocastDtype() {
  const Setting *active = getActive();
  return active ? std::optional(active->dtype) : std::nullopt;
}

OperandCasterScope::OperandCasterScope(OperandCaster &own) : keys(getKeys()) {
  caster = &own;
}

OperandCasterScope::~OperandCasterScope() { caster = nullptr; }

CallExtenderScope::CallExtenderScope(CallExtender &own) : keys(getKeys()) {
  extenders.push_back(&own);
}

CallExtenderScope::~CallExtenderScope() { extenders.pop_back(); }

AutocastScope::AutocastScope(c10::DeviceType device, c10::ScalarType dtype,
                             bool enabled)
    : keys(getKeys()) {
  settings.push_back({device, dtype, enabled});
}

AutocastScope::~AutocastScope() {
  settings.pop_back();
  if (settings.empty())
    cache.clear();
}
