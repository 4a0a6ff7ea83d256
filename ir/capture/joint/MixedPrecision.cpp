//===- MixedPrecision.cpp - FSDP2's precision policies as casts -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/MixedPrecision.h"
#include "support/Error.h"
#include "support/ModulePath.h"
#include "support/Pattern.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_to_copy.h>

#include <algorithm>
#include <functional>
#include <string_view>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

using Stack = std::vector<c10::IValue>;

std::optional<c10::ScalarType> parseDtype(const std::string &name) {
  if (name.empty())
    return std::nullopt;
#define FSDP_ELEMENT_TYPE(ENUMERATOR, NAME, BYTES, TORCH, PYTHON, NUMBER,      \
                          MLIR, MLIRTEXT, SAFETENSORS)                         \
  if (name == PYTHON)                                                          \
    return c10::ScalarType::TORCH;
#include "support/ElementTypes.def"
  TORCH_INTERNAL_ASSERT(false, "the config was checked");
}

/// FSDP2 casts floating-point tensors, of which complex ones are none.
bool isEligible(const at::Tensor &tensor) {
  return tensor.defined() && tensor.is_floating_point();
}

/// Python numbers take part in type promotion without a type of their own.
bool hasDtype(const at::Tensor &tensor) {
  return isEligible(tensor) &&
         !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

/// What `op` does about operands of several floating-point dtypes: MixedParam,
/// MixedWidest or MixedSelf, or 0 if it takes them or is made of operators that
/// are asked in turn.
uint32_t getMixed(const c10::OperatorHandle &op) {
  // An operator in place has its name with an underscore behind.
  std::string_view name = op.operator_name().name;
  if (name.ends_with('_'))
    name.remove_suffix(1);
  uint32_t mixed =
      getFacts(name) & (aten::MixedParam | aten::MixedWidest | aten::MixedSelf);
  // What autocast runs in the lower dtype are products of all kinds.
  bool isProduct = getCastPolicy(op, c10::kCUDA) == CastPolicy::Lower ||
                   getCastPolicy(op, c10::kCPU) == CastPolicy::Lower;
  return !mixed && isProduct ? uint32_t(aten::MixedParam) : mixed;
}

bool isWritten(const c10::Argument &argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

/// Calls `visit` with each tensor of the call and whether it is written.
void forEachTensor(const c10::FunctionSchema &schema, const Stack &stack,
                   const std::function<void(const at::Tensor &, bool)> &visit) {
  size_t base = stack.size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::IValue &value = stack[base + i];
    bool written = isWritten(schema.arguments()[i]);
    if (value.isTensor())
      visit(value.toTensor(), written);
    else if (value.isTensorList())
      for (const at::Tensor &tensor : value.toTensorVector())
        visit(tensor, written);
  }
}

/// Replaces what the operator only reads.
void mapTensors(const c10::FunctionSchema &schema, Stack &stack,
                const std::function<at::Tensor(const at::Tensor &)> &map) {
  size_t base = stack.size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    c10::IValue &value = stack[base + i];
    if (isWritten(schema.arguments()[i]))
      continue;
    if (value.isTensor()) {
      if (isEligible(value.toTensor()))
        value = map(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &tensor : value.toTensorVector())
        list.push_back(isEligible(tensor) ? map(tensor) : tensor);
      value = list;
    }
  }
}

/// The tensor that is the call's argument `name`, if it has that argument.
at::Tensor getArgument(const c10::FunctionSchema &schema, const Stack &stack,
                       std::string_view name) {
  size_t base = stack.size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i)
    if (schema.arguments()[i].name() == name)
      return stack[base + i].isTensor() ? stack[base + i].toTensor()
                                        : at::Tensor();
  return {};
}

/// "", "net", "net.0" for "net.0".
std::vector<std::string> getAncestors(const std::string &path) {
  std::vector<std::string> all = {""};
  for (size_t dot = path.find('.'); dot != std::string::npos;
       dot = path.find('.', dot + 1))
    all.push_back(path.substr(0, dot));
  if (!path.empty())
    all.push_back(path);
  return all;
}

} // namespace

//===----------------------------------------------------------------------===//
// Policies
//===----------------------------------------------------------------------===//

MixedPrecision::Policy MixedPrecision::resolve(const PrecisionPolicy &policy) {
  return {parseDtype(policy.paramDtype), parseDtype(policy.reduceDtype),
          parseDtype(policy.outputDtype), policy.castForwardInputs};
}

MixedPrecision::MixedPrecision(const Precision &precision, Recorder &recorder)
    : recorder(recorder), rootPolicy(resolve(precision.policy)) {
  for (const PrecisionOverride &override : precision.overrides)
    overrides.emplace_back(override.modules, resolve(override.policy));
}

const MixedPrecision::Scope *
MixedPrecision::findScope(const std::string &module) {
  if (overrides.empty())
    return &root;
  auto [it, isNew] = scopeOf.try_emplace(module, &root);
  if (!isNew)
    return it->second;
  for (size_t i = overrides.size(); i-- > 0;)
    for (const std::string &path : getAncestors(module))
      for (const std::string &pattern : overrides[i].first)
        if (matchesPattern(pattern, path)) {
          // Modules of one override are scopes of their own.
          for (const Scope &scope : scopes)
            if (scope.path == path && scope.policy == &overrides[i].second)
              return it->second = &scope;
          scopes.push_back({path, &overrides[i].second});
          return it->second = &scopes.back();
        }
  return it->second;
}

const MixedPrecision::Scope *MixedPrecision::getCurrentScope() {
  return overrides.empty() ? &root
                           : findScope(recorder.currentLocation().module);
}

c10::ScalarType MixedPrecision::getSeenDtype(const State &state) {
  c10::ScalarType own = state.modelDtype.value_or(state.type.dtype);
  if (state.role != StateRole::Parameter && state.role != StateRole::Frozen)
    return own;
  return at::isFloatingType(own) ? findScope(getModulePath(state.names.front()))
                                       ->policy->param.value_or(own)
                                 : own;
}

c10::ScalarType MixedPrecision::getSeenDtype(const Input &input) {
  const Policy &policy = *findScope("")->policy;
  c10::ScalarType own = input.type.dtype;
  return at::isFloatingType(own) && policy.castInputs
             ? policy.param.value_or(own)
             : own;
}

c10::ScalarType MixedPrecision::getReduceDtype(const State &state) {
  return findScope(getModulePath(state.names.front()))
      ->policy->reduce.value_or(state.modelDtype.value_or(state.type.dtype));
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

at::Tensor MixedPrecision::cast(const at::Tensor &tensor, c10::ScalarType dtype,
                                Cast::Cause cause, const std::string &name) {
  if (!isEligible(tensor) || tensor.scalar_type() == dtype)
    return tensor;
  c10::impl::ExcludeDispatchKeyGuard once{c10::DispatchKeySet(kAutocastKey)};
  Recorder::CastScope scope(recorder, cause, name);
  // Gradients are reduced in storage without gaps.
  std::optional<c10::MemoryFormat> format;
  if (cause == Cast::Cause::Gradient && !tensor.is_contiguous())
    format = c10::MemoryFormat::Contiguous;
  return at::_to_copy(tensor, at::TensorOptions().dtype(dtype),
                      /*non_blocking=*/false, format);
}

void MixedPrecision::noteInput(const at::Tensor &tensor) {
  if (!overrides.empty())
    origins[tensor.unsafeGetTensorImpl()] = {tensor, findScope("")};
}

at::Tensor MixedPrecision::castOutput(const at::Tensor &tensor,
                                      const std::string &name) {
  at::Tensor result = tensor;
  const Scope *outer = findScope("");
  auto origin = origins.find(tensor.unsafeGetTensorImpl());
  if (origin != origins.end() && origin->second.scope != outer)
    result = crossBorder(tensor, outer);
  Dtype dtype = outer->policy->output;
  return dtype ? cast(result, *dtype, Cast::Cause::Output, name) : result;
}

at::Tensor MixedPrecision::castToReduce(const at::Tensor &gradient,
                                        const State &state) {
  return cast(gradient, getReduceDtype(state), Cast::Cause::Gradient,
              state.names.front());
}

at::Tensor MixedPrecision::castToOwn(const at::Tensor &gradient,
                                     const State &state) {
  return cast(gradient, state.type.dtype, Cast::Cause::Gradient,
              state.names.front());
}

/// What `into` sees of a tensor from elsewhere. A module's own copy of its
/// input is one tensor, also when it writes to it.
at::Tensor MixedPrecision::crossBorder(const at::Tensor &tensor,
                                       const Scope *into) {
  auto origin = origins.find(tensor.unsafeGetTensorImpl());
  if (origin == origins.end() || origin->second.scope == into)
    return tensor;
  const Scope *from = origin->second.scope;
  bool leaves = from->policy->output.has_value() && from != findScope("");
  bool enters =
      into->policy->param && into->policy->castInputs && into != findScope("");
  c10::ScalarType dtype = tensor.scalar_type();
  if (leaves)
    dtype = *from->policy->output;
  if (enters)
    dtype = *into->policy->param;
  if (dtype == tensor.scalar_type())
    return tensor;
  auto &[source, result] = made[{tensor.unsafeGetTensorImpl(), dtype,
                                 at::GradMode::is_enabled(), 0, into}];
  if (!result.defined()) {
    source = tensor;
    result = cast(tensor, dtype, Cast::Cause::Border,
                  enters ? into->path : from->path);
  }
  return result;
}

/// FSDP2 leaves running statistics as they are, and PyTorch's kernels refuse
/// them beside weights of another dtype.
void MixedPrecision::castForNorm(const c10::OperatorHandle &op, Stack &stack) {
  const c10::FunctionSchema &schema = op.schema();
  at::Tensor mean = getArgument(schema, stack, "running_mean");
  at::Tensor weight = getArgument(schema, stack, "weight");
  if (!isEligible(weight))
    return;
  c10::ScalarType dtype = weight.scalar_type();
  if (isEligible(mean) && mean.scalar_type() != dtype) {
    const Location &location = recorder.currentLocation();
    std::string where = location.describe();
    recorder.raise(Error(
        ErrorId::OperatorFailed,
        getOperatorName(op) + (where.empty() ? "" : " (" + where + ")") +
            " has a weight of " + c10::toString(dtype) +
            " and running statistics of " + c10::toString(mean.scalar_type()) +
            ", which mixed precision leaves as they are; PyTorch refuses that. "
            "Let the module compute in " +
            c10::toString(mean.scalar_type()) +
            " with fsdp_config: {overrides: [{modules: \"" +
            (location.module.empty() ? "*bn*" : location.module) +
            "\", mixed_precision: {}}]}"));
  }
  mapTensors(schema, stack, [&](const at::Tensor &tensor) {
    return cast(tensor, dtype, Cast::Cause::Operand, getOperatorName(op));
  });
}

void MixedPrecision::castToOne(const c10::OperatorHandle &op, Stack &stack) {
  uint32_t mixed = getMixed(op);
  if (!mixed)
    return;
  Dtype first, written, widest;
  bool several = false;
  forEachTensor(op.schema(), stack, [&](const at::Tensor &tensor, bool write) {
    if (!hasDtype(tensor))
      return;
    c10::ScalarType dtype = tensor.scalar_type();
    several |= first && dtype != *first;
    first = first.value_or(dtype);
    widest = widest ? c10::promoteTypes(*widest, dtype) : dtype;
    if (write)
      written = dtype;
  });
  if (!several)
    return;
  Dtype param = getCurrentScope()->policy->param;
  c10::ScalarType dtype = written                     ? *written
                          : mixed == aten::MixedSelf  ? *first
                          : mixed == aten::MixedParam ? param.value_or(*widest)
                                                      : *widest;
  std::string name = getOperatorName(op);
  mapTensors(op.schema(), stack, [&](const at::Tensor &tensor) {
    if (tensor.scalar_type() == dtype || !hasDtype(tensor))
      return tensor;
    auto &[source, result] =
        made[{tensor.unsafeGetTensorImpl(), dtype, at::GradMode::is_enabled(),
              tensor.unsafeGetTensorImpl()->version_counter().current_version(),
              nullptr}];
    if (!result.defined()) {
      source = tensor;
      result = cast(tensor, dtype, Cast::Cause::Operand, name);
    }
    return result;
  });
}

void MixedPrecision::castOperands(const c10::OperatorHandle &op, Stack &stack,
                                  bool underAutocast) {
  if (!origins.empty()) {
    const Scope *scope = getCurrentScope();
    mapTensors(op.schema(), stack, [&](const at::Tensor &tensor) {
      return crossBorder(tensor, scope);
    });
  }
  if (underAutocast)
    return;
  if (op.schema().argumentIndexWithName("running_mean") ||
      op.schema().argumentIndexWithName("running_var"))
    castForNorm(op, stack);
  else
    castToOne(op, stack);
}

void MixedPrecision::noteResults(const c10::OperatorHandle &op,
                                 const Stack &stack) {
  if (overrides.empty())
    return;
  const Scope *scope = getCurrentScope();
  auto note = [&](const at::Tensor &tensor) {
    if (isEligible(tensor))
      origins[tensor.unsafeGetTensorImpl()] = {tensor, scope};
  };
  size_t count = op.schema().returns().size();
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor())
      note(stack[i].toTensor());
    else if (stack[i].isTensorList())
      for (const at::Tensor &tensor : stack[i].toTensorVector())
        note(tensor);
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

void fsdp::capture::placeCasts(JointGraph &graph) {
  constexpr size_t nowhere = -1;
  size_t count = graph.nodes.size();
  std::vector<size_t> firstReader(graph.values.size(), nowhere),
      producer(graph.values.size(), nowhere);
  for (size_t i = 0; i < count; ++i) {
    for (const Argument &argument : graph.nodes[i].arguments)
      for (ValueId tensor : argument.tensors)
        if (tensor != kNoValue)
          firstReader[tensor] = std::min(firstReader[tensor], i);
    for (ValueId result : graph.nodes[i].results)
      if (result != kNoValue)
        producer[result] = i;
  }
  // What each node has in front of it and behind it.
  std::vector<std::vector<size_t>> before(count), behind(count);
  std::vector<size_t> anchor(count, nowhere);
  for (size_t i = 0; i < count; ++i) {
    Node &node = graph.nodes[i];
    if (node.cast == kNoCast)
      continue;
    Cast::Cause cause = graph.casts[node.cast].cause;
    if (cause == Cast::Cause::Parameter || cause == Cast::Cause::Input) {
      anchor[i] = firstReader[node.results[0]];
      if (anchor[i] == nowhere)
        continue;
      node.location = graph.nodes[anchor[i]].location;
      before[anchor[i]].push_back(i);
    } else if (cause == Cast::Cause::Gradient) {
      size_t made = producer[node.arguments[0].tensors[0]];
      if (made == nowhere)
        continue;
      // The second of two casts stands behind the first.
      anchor[i] = anchor[made] == nowhere ? made : anchor[made];
      node.location = graph.nodes[made].location;
      behind[anchor[i]].push_back(i);
    }
  }
  std::vector<Node> nodes;
  nodes.reserve(count);
  auto add = [&](size_t i) { nodes.push_back(std::move(graph.nodes[i])); };
  for (size_t i = 0; i < count; ++i) {
    if (anchor[i] != nowhere)
      continue;
    std::ranges::for_each(before[i], add);
    add(i);
    std::ranges::for_each(behind[i], add);
  }
  graph.nodes = std::move(nodes);
}
