//===- Recorder.cpp - Records operators below autograd --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/joint/Recorder.h"
#include "ir/capture/joint/Autocast.h"
#include "ir/capture/joint/DataDependence.h"
#include "ir/capture/joint/RecorderScope.h"
#include "ir/capture/joint/Refusal.h"
#include "ir/capture/meta/GroupedProducts.h"
#include "support/Error.h"

#include <ATen/SequenceNumber.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include <algorithm>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

thread_local Recorder *active = nullptr;

using Stack = std::vector<c10::IValue>;

/// Calls `visit` with every defined tensor in `value`.
template <typename Visit>
void forEachTensor(const c10::IValue &value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor &tensor : value.toTensorVector())
      visit(tensor);
  } else if (value.isList()) {
    // With holes; which type TorchScript gives such a list varies.
    for (const c10::IValue &element : value.toListRef())
      if (element.isTensor() && element.toTensor().defined())
        visit(element.toTensor());
  }
}

bool hasTensor(const c10::IValue &value) {
  bool found = false;
  forEachTensor(value, [&](const at::Tensor &) { found = true; });
  return found;
}

/// Replaces every tensor in `value` by `map(tensor)`.
template <typename Map>
void mapTensors(c10::IValue &value, Map map) {
  if (value.isTensor()) {
    if (value.toTensor().defined())
      value = map(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &tensor : value.toTensorVector())
      list.push_back(map(tensor));
    value = list;
  } else if (value.isList() && hasTensor(value)) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue &element : value.toListRef())
      list.push_back(element.isTensor() && element.toTensor().defined()
                         ? std::optional<at::Tensor>(map(element.toTensor()))
                         : std::nullopt);
    value = list;
  }
}

/// A number that type promotion treats as one stays on the CPU.
at::Tensor toMeta(const at::Tensor &tensor) {
  if (tensor.is_meta() || tensor.unsafeGetTensorImpl()->is_wrapped_number())
    return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(c10::kMeta));
}

/// What `type` is apart from being optional.
const c10::Type &withoutOptional(const c10::Type &type) {
  if (const auto *optional = type.castRaw<c10::OptionalType>())
    return *optional->getElementType();
  return type;
}

Argument::Kind getKind(const c10::Argument &argument) {
  const c10::Type &type = withoutOptional(*argument.type());
  if (type.kind() == c10::TypeKind::TensorType)
    return Argument::Kind::Tensor;
  if (const auto *list = type.castRaw<c10::ListType>())
    if (withoutOptional(*list->getElementType()).kind() ==
        c10::TypeKind::TensorType)
      return Argument::Kind::List;
  return Argument::Kind::Static;
}

bool isDevice(const c10::Argument &argument) {
  return withoutOptional(*argument.type()).kind() ==
         c10::TypeKind::DeviceObjType;
}

/// LibTorch's gradients of factorizations ask for values only to check that the
/// loss does not depend on what the factorization leaves open. The check is
/// taken as passed.
bool isCheckOfGradient(const c10::OperatorHandle &op) {
  return op.operator_name().name == "aten::allclose" &&
         torch::autograd::get_current_node();
}

std::string where(const Location &location) {
  std::string text = location.describe();
  return text.empty() ? text : " (" + text + ")";
}

/// The first line of what LibTorch says, without the call stack.
std::string firstLine(const c10::Error &error) {
  std::string text = error.what_without_backtrace();
  return text.substr(0, text.find('\n'));
}

/// The error to raise when `op` at `place` has refused with `message`.
Error explain(const std::string &op, const std::string &place,
              const std::string &message) {
  Refusal refusal = explainRefusal(message);
  std::string needs = refusal.op.empty() || refusal.op == op
                          ? ""
                          : " (it needs " + refusal.op + ")";
  switch (refusal.reason) {
  case Refusal::Reason::Arguments:
    return {ErrorId::OperatorFailed,
            op + place + " refuses its arguments: " + message};
  case Refusal::Reason::NoShapeRule:
    return {ErrorId::NoShapeRule,
            op + place +
                " is not supported yet: the shapes of its results cannot be "
                "computed without data" +
                needs};
  case Refusal::Reason::NeedsData:
    return {ErrorId::DataDependent,
            op + place +
                (refusal.advice.empty()
                     ? " needs a tensor's values while the program is built; "
                       "write the model so that shapes and control flow do not "
                       "depend on them"
                     : " cannot be captured: " + refusal.advice)};
  }
  return {ErrorId::OperatorFailed, message};
}

void fallback(const c10::OperatorHandle &op, c10::DispatchKeySet,
              Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard below{
      c10::DispatchKeySet({c10::DispatchKey::Fake, kAutocastKey})};
  if (active)
    active->call(op, *stack);
  else
    op.callBoxed(*stack);
}

} // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

Recorder::Scope::Scope(Recorder &recorder) {
  TORCH_INTERNAL_ASSERT(!active, "a recorder is active already");
  active = &recorder;
}

Recorder::Scope::~Scope() { active = nullptr; }

Recorder::CastScope::CastScope(Recorder &recorder, Cast::Cause cause,
                               const std::string &name)
    : recorder(recorder) {
  recorder.cast = recorder.graph.casts.size();
  recorder.graph.casts.push_back({cause, name});
}

ValueId Recorder::define(const at::Tensor &meta) {
  ValueId id = graph.values.size();
  graph.values.push_back(TensorType::of(meta));
  valueOf[meta.unsafeGetTensorImpl()] = id;
  firstIn.try_emplace(meta.storage().unsafeGetStorageImpl(), id);
  alive.push_back(meta);
  return id;
}

bool Recorder::hasOwnStorage(const at::Tensor &meta) const {
  auto value = valueOf.find(meta.unsafeGetTensorImpl());
  auto first = firstIn.find(meta.storage().unsafeGetStorageImpl());
  return value != valueOf.end() && first != firstIn.end() &&
         value->second == first->second;
}

ValueId Recorder::lookup(const at::Tensor &tensor) {
  if (!tensor.defined())
    return kNoValue;
  at::Tensor inner = tensor;
  if (at::functionalization::impl::isFunctionalTensor(tensor)) {
    at::functionalization::impl::sync(tensor);
    inner = at::functionalization::impl::from_functional_tensor(tensor);
  }
  if (auto it = valueOf.find(inner.unsafeGetTensorImpl()); it != valueOf.end())
    return it->second;
  return addConstant(inner);
}

ValueId Recorder::addConstant(const at::Tensor &tensor) {
  if (tensor.is_meta())
    throw Error(ErrorId::OperatorFailed, "a tensor of unknown origin is used" +
                                             where(currentLocation()));
  ValueId id = define(tensor);
  graph.constants.push_back(
      {id, tensor, tensor.unsafeGetTensorImpl()->is_wrapped_number()});
  return id;
}

void Recorder::setLocation(const Location &next) {
  if (graph.locations.empty() || location == kNoLocation ||
      graph.locations[location].module != next.module ||
      graph.locations[location].file != next.file ||
      graph.locations[location].line != next.line) {
    location = graph.locations.size();
    graph.locations.push_back(next);
  }
  spans.push_back({at::sequence_number::peek(), location});
}

LocationId Recorder::currentLocationId() const {
  std::shared_ptr<torch::autograd::Node> node =
      torch::autograd::get_current_node();
  if (!node)
    return location;
  auto next = std::upper_bound(spans.begin(), spans.end(), node->sequence_nr(),
                               [](uint64_t sequence, const Span &span) {
                                 return sequence < span.sequence;
                               });
  return next == spans.begin() ? kNoLocation : std::prev(next)->location;
}

const Location &Recorder::currentLocation() const {
  static const Location unknown;
  LocationId id = currentLocationId();
  return id == kNoLocation ? unknown : graph.locations[id];
}

void Recorder::checkAllowed(const c10::OperatorHandle &op,
                            const Stack &arguments) const {
  if (needsDrawDefinition(op, arguments))
    throw Error(ErrorId::RandomOperator,
                getOperatorName(op) + where(currentLocation()) +
                    " draws random numbers inside of its kernel, from a "
                    "generator that ranks would share and no step could "
                    "repeat; use another implementation of it, or set its "
                    "dropout probability to 0");
  if (dependsOnData(op, arguments))
    throw Error(ErrorId::DataDependent,
                getOperatorName(op) + where(currentLocation()) +
                    " needs a tensor's values while the program is built; "
                    "write the model so that shapes and control flow do not "
                    "depend on them");
}

void Recorder::refuse(const c10::OperatorHandle &op,
                      const c10::Error &error) const {
  throw explain(getOperatorName(op), where(currentLocation()),
                firstLine(error));
}

void Recorder::recordDefinition(const c10::OperatorHandle &op,
                                const std::function<void()> &define) {
  // What the definition calls is recorded: the key is off in here.
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  c10::impl::ForceDispatchKeyGuard record(
      keys.included_, keys.excluded_.remove(c10::DispatchKey::Fake));
  try {
    define();
  } catch (const c10::Error &error) {
    refuse(op, error);
  }
}

at::Tensor Recorder::draw(const Draw &draw) {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow(kDrawOperator, "");
  if (!random.defined()) {
    c10::impl::ExcludeDispatchKeyGuard quiet{
        c10::DispatchKeySet(c10::DispatchKey::Fake)};
    random = at::empty({2}, at::TensorOptions(c10::kMeta).dtype(c10::kLong));
    graph.random = define(random);
  }
  Stack stack;
  torch::jit::push(stack, random, draw.given, draw.distribution, draw.numbers,
                   draw.range, nextSite++, draw.sizes, draw.strides,
                   draw.dtype);
  op.callBoxed(stack);
  return stack.front().toTensor();
}

void Recorder::rethrowFailure() const {
  if (failure)
    std::rethrow_exception(failure);
}

void Recorder::raise(const Error &error) {
  failure = std::make_exception_ptr(error);
  throw error;
}

void Recorder::call(const c10::OperatorHandle &op, Stack &stack) {
  try {
    record(op, stack);
  } catch (...) {
    failure = std::current_exception();
    throw;
  }
}

bool Recorder::answer(const c10::OperatorHandle &op, Stack &stack) {
  const c10::FunctionSchema &schema = op.schema();
  size_t count = schema.arguments().size();
  bool anyMeta = false, anyReal = false;
  for (size_t i = stack.size() - count; i < stack.size(); ++i)
    forEachTensor(stack[i], [&](const at::Tensor &tensor) {
      (tensor.is_meta() ? anyMeta : anyReal) = true;
    });
  if (needsDrawDefinition(op, stack)) {
    if (schema.is_mutable() && !anyMeta)
      throw Error(ErrorId::RandomOperator,
                  getOperatorName(op) + where(currentLocation()) +
                      " draws into a constant of the program, which would "
                      "hold the same numbers in every step; draw into a clone "
                      "of it");
    if (!schema.is_mutable() && hasDrawDefinition(op)) {
      recordDefinition(op, [&] {
        callDrawDefinition(op, stack,
                           [&](const Draw &each) { return draw(each); });
      });
      return true;
    }
  }
  // Functionalization runs in-place operators once more on copies, to check
  // shapes. What has only real tensors is computed now.
  if (schema.is_mutable() || (anyReal && !anyMeta)) {
    op.callBoxed(stack);
    return true;
  }
  if (meta::needsWholeProducts(op, stack)) {
    recordDefinition(op, [&] { meta::callWholeProducts(op, stack); });
    return true;
  }
  if (isCheckOfGradient(op)) {
    torch::jit::drop(stack, count);
    stack.push_back(true);
    return true;
  }
  return false;
}

Argument Recorder::recordArgument(const c10::Argument &argument,
                                  const c10::IValue &value) {
  Argument recorded;
  recorded.kind = getKind(argument);
  auto add = [&](const c10::IValue &each) {
    recorded.tensors.push_back(each.isTensor() ? lookup(each.toTensor())
                                               : kNoValue);
  };
  if (recorded.kind == Argument::Kind::Static)
    recorded.value = value;
  else if (recorded.kind == Argument::Kind::Tensor)
    add(value);
  else if (value.isTensorList())
    for (const at::Tensor &tensor : value.toTensorVector())
      recorded.tensors.push_back(lookup(tensor));
  else if (value.isList())
    for (const c10::IValue &element : value.toListRef())
      add(element);
  return recorded;
}

bool Recorder::defineResults(Node &node, at::ArrayRef<c10::IValue> results) {
  bool anyTensor = false;
  for (const c10::IValue &value : results) {
    if (value.isTensor()) {
      const at::Tensor &tensor = value.toTensor();
      node.results.push_back(tensor.defined() ? define(tensor) : kNoValue);
      anyTensor |= tensor.defined();
    } else if (value.isTensorList()) {
      for (const at::Tensor &tensor : value.toTensorVector()) {
        node.results.push_back(define(tensor));
        anyTensor = true;
      }
    }
  }
  return anyTensor;
}

void Recorder::record(const c10::OperatorHandle &op, Stack &stack) {
  if (answer(op, stack))
    return;
  const c10::FunctionSchema &schema = op.schema();
  size_t base = stack.size() - schema.arguments().size();
  Stack arguments(stack.begin() + base, stack.end());
  checkAllowed(op, arguments);

  Node node{op, {}, {}, currentLocationId(), cast};
  node.underNoGrad = !at::GradMode::is_enabled();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument &argument = schema.arguments()[i];
    node.arguments.push_back(recordArgument(argument, arguments[i]));
    if (isDevice(argument))
      stack[base + i] = c10::Device(c10::kMeta);
    mapTensors(stack[base + i], toMeta);
  }
  try {
    op.callBoxed(stack);
  } catch (const c10::Error &error) {
    refuse(op, error);
  }
  // Without tensors it was a question about shapes, which is answered.
  if (defineResults(node, at::ArrayRef(stack).slice(stack.size() -
                                                    schema.returns().size())))
    graph.nodes.push_back(std::move(node));
}
