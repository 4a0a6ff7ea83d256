//===- Call.cpp - Calls of LibTorch's operators ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A call's arguments never change, since all tensors are made when the program
// is prepared; a step copies them onto the stack and calls the kernel. The rule
// afterwards: every planned result that is needed lies at its address, in its
// layout. Where the kernel did not put it there, it is copied.
//
//===----------------------------------------------------------------------===//

#include "runtime/exec/Arguments.h"
#include "runtime/exec/Instruction.h"

#include "plan/Shape.h"
#include "runtime/device/DTypes.h"
#include "runtime/exec/GreatestValue.h"
#include "runtime/exec/IndexGuard.h"
#include "runtime/exec/Matmul.h"
#include "runtime/exec/Overlap.h"
#include "runtime/exec/VisibleAttention.h"
#include "support/Error.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <algorithm>

using namespace fsdp;

namespace {

/// Equal but for dims of size 1, whose strides mean nothing. `b` has the shape
/// of `a`.
bool sameLayout(const at::Tensor &a, const at::Tensor &b) {
  if (a.numel() == 0)
    return true;
  for (int64_t i = 0; i < a.dim(); ++i)
    if (a.size(i) != 1 && a.stride(i) != b.stride(i))
      return false;
  return true;
}

/// Whether both are the same elements in the same places.
bool isSameTensor(const at::Tensor &a, const at::Tensor &b) {
  return a.data_ptr() == b.data_ptr() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && sameLayout(a, b);
}

/// Whether `tensor` has the plan's type.
bool hasPlannedType(const at::Tensor &tensor, const plan::ValueT &planned) {
  if (tensor.scalar_type() != toScalarType(planned.dtype) ||
      tensor.sizes() != at::IntArrayRef(planned.shape))
    return false;
  if (planned.strides.empty())
    return tensor.is_contiguous();
  if (tensor.numel() != 0)
    for (int64_t i = 0; i < tensor.dim(); ++i)
      if (tensor.size(i) != 1 && tensor.stride(i) != planned.strides[i])
        return false;
  return true;
}

/// The tensors among an operator's returns, lists flattened. What is no tensor,
/// such as the lengths that fused attention returns, has no place in a plan
/// (capture's Recorder.cpp).
void flatten(const torch::jit::Stack &stack, std::vector<at::Tensor> &tensors) {
  tensors.clear();
  for (const c10::IValue &value : stack) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor &tensor : value.toTensorVector())
        tensors.push_back(tensor);
    }
  }
}

class OperatorCall final : public Computation {
public:
  /// `op`, with its arguments, computes what `call` asks for.
  OperatorCall(Preparation &p, const plan::CallT &call, c10::OperatorHandle op,
               std::vector<c10::IValue> arguments);

  bool needsHost() const override { return waitsForDevice || indices.waits(); }

private:
  void compute(StepState &state) override;
  void assignResults(std::span<const ObservedRequest> requests,
                     std::vector<AllocationSlot> &slots,
                     std::vector<AllocationSlot> &spares) override;
  void release() override;

  struct Result {
    size_t index; ///< among the flattened returns
    at::Tensor place;
    char *room;
    uint64_t roomBytes;
    bool isDirect; ///< the kernel may write there itself
    bool isApart;  ///< no operand lies there
    bool isUsed;   ///< else it is let go, whatever it is
  };

  void check() const;
  void settle();
  std::vector<c10::impl::GenericList> giveOwnLists();
  bool wereWritten(const std::vector<c10::impl::GenericList> &given) const;

  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments;
  IndexGuard indices;
  std::vector<Result> results;
  size_t resultCount;
  const bool waitsForDevice;
  bool isChecked = false;
  /// Lists are passed by reference, and LibTorch 2.11's _unsafe_masked_index
  /// writes into its own (TensorAdvancedIndexing.cpp: clamped indices).
  bool writesLists = false;
  torch::jit::Stack stack;
  std::vector<at::Tensor> made;
};

OperatorCall::OperatorCall(Preparation &p, const plan::CallT &call,
                           c10::OperatorHandle op,
                           std::vector<c10::IValue> arguments)
    : Computation(p.memory), op(op), arguments(std::move(arguments)),
      indices(p.plan, p.program, call, p.values, p.device.checksIndices()),
      resultCount(call.results.size()),
      waitsForDevice(call.syncs && !p.device.isHost()) {
  for (size_t i = 0; i < call.results.size(); ++i) {
    if (call.results[i] < 0)
      continue;
    uint32_t value = static_cast<uint32_t>(call.results[i]);
    auto [room, bytes] = p.room(value);
    // A kernel that reads an operand while it writes over it is not asked to,
    // unless it does so element by element.
    bool isDirect = true, isApart = true;
    for (const auto &arg : call.args)
      for (int32_t operand : arg->values) {
        if (operand < 0)
          continue;
        auto [other, otherBytes] = p.room(static_cast<uint32_t>(operand));
        bool isThere = other && rangesOverlap(room, bytes, other, otherBytes);
        isApart &= !isThere;
        isDirect &=
            !isThere || (op.hasTag(at::Tag::pointwise) &&
                         isSameTensor(p.values[static_cast<size_t>(operand)],
                                      p.values[value]));
      }
    results.push_back(
        {i, p.values[value], room, bytes, isDirect, isApart, p.isUsed[value]});
  }
}

void OperatorCall::check() const {
  auto describe = [](const at::Tensor &t) {
    return t.defined() ? std::string(c10::toString(t.scalar_type())) +
                             toString(t.sizes())
                       : std::string("no tensor");
  };
  if (made.size() != resultCount)
    throw Error(ErrorId::ResultUnplanned,
                "the plan expects " + std::to_string(resultCount) +
                    " results, found " + std::to_string(made.size()));
  for (const Result &result : results) {
    const at::Tensor &tensor = made[result.index];
    if (!result.isUsed)
      continue;
    if (!tensor.defined() ||
        tensor.scalar_type() != result.place.scalar_type() ||
        tensor.sizes() != result.place.sizes())
      throw Error(ErrorId::ResultUnplanned,
                  "the plan expects result " + std::to_string(result.index) +
                      " to be " + describe(result.place) + ", found " +
                      describe(tensor));
  }
}

void OperatorCall::assignResults(std::span<const ObservedRequest> requests,
                                 std::vector<AllocationSlot> &slots,
                                 std::vector<AllocationSlot> &spares) {
  for (const Result &result : results) {
    const at::Tensor &tensor = made[result.index];
    if (!result.isDirect || !tensor.defined())
      continue;
    // The latest: the heap gives an address out again.
    size_t i = requests.size();
    while (i > 0 && requests[i - 1].pointer != tensor.storage().data())
      --i;
    if (i == 0) {
      // From another memory, say, as the generator's state that fused attention
      // returns: on the host, or in a capture on the device.
      if (uint64_t bytes = result.place.nbytes();
          result.isApart && bytes <= result.roomBytes)
        spares.push_back({result.room, result.roomBytes, 0, bytes});
      continue;
    }
    if (tensor.storage_offset() == 0 &&
        tensor.sizes() == result.place.sizes() &&
        sameLayout(tensor, result.place) &&
        requests[i - 1].bytes <= result.roomBytes && !slots[i - 1].address)
      slots[i - 1] = {result.room, result.roomBytes};
  }
}

void OperatorCall::settle() {
  for (const Result &result : results) {
    at::Tensor &tensor = made[result.index];
    if (!result.isUsed)
      continue;
    if (tensor.data_ptr() == result.place.data_ptr() &&
        sameLayout(tensor, result.place))
      continue;
    // It might lie where another result of this call is about to be copied to.
    for (const Result &other : results)
      if (&other != &result && other.isUsed && tensor.nbytes() != 0 &&
          rangesOverlap(static_cast<const char *>(tensor.data_ptr()),
                        tensor.storage().nbytes(), other.room,
                        other.roomBytes)) {
        tensor = tensor.clone();
        break;
      }
  }
  for (const Result &result : results) {
    const at::Tensor &tensor = made[result.index];
    if (!result.isUsed)
      continue;
    if (tensor.data_ptr() != result.place.data_ptr() ||
        !sameLayout(tensor, result.place))
      result.place.copy_(tensor);
  }
}

/// Puts lists that nobody else has in the place of those on the stack.
std::vector<c10::impl::GenericList> OperatorCall::giveOwnLists() {
  std::vector<c10::impl::GenericList> given;
  for (c10::IValue &value : stack)
    if (value.isList()) {
      given.push_back(value.toList().copy());
      value = given.back();
    }
  return given;
}

bool OperatorCall::wereWritten(
    const std::vector<c10::impl::GenericList> &given) const {
  size_t next = 0;
  for (const c10::IValue &value : arguments) {
    if (!value.isList())
      continue;
    c10::List<c10::IValue> before = value.toList();
    const c10::impl::GenericList &after = given[next++];
    if (before.size() != after.size())
      return true;
    for (size_t i = 0; i < before.size(); ++i)
      if (c10::IValue one = before.get(i);
          one.isTensor() && !one.is(after.get(i)))
        return true;
  }
  return false;
}

void OperatorCall::compute(StepState &) {
  indices.check();
  stack = arguments;
  std::vector<c10::impl::GenericList> given;
  if (!isChecked || writesLists)
    given = giveOwnLists();
  op.callBoxed(stack);
  flatten(stack, made);
  if (!isChecked) {
    check();
    writesLists = wereWritten(given);
    isChecked = true;
  }
  settle();
}

void OperatorCall::release() {
  made.clear();
  stack.clear();
}

/// Whether no element of `view` lies outside of `base`'s storage.
bool liesIn(const at::Tensor &view, const at::Tensor &base) {
  auto *begin = static_cast<const char *>(base.storage().data());
  auto *at = static_cast<const char *>(view.data_ptr());
  std::optional<uint64_t> extent =
      checkedExtent(view.sizes(), view.strides(), view.element_size());
  return extent && at >= begin && at <= begin + base.storage().nbytes() &&
         *extent <= static_cast<size_t>(begin + base.storage().nbytes() - at);
}

/// Runs a call that only makes views, now, and keeps them.
void makeViews(Preparation &p, const plan::CallT &call,
               const c10::OperatorHandle &op) {
  torch::jit::Stack stack = makeArguments(p, call, op.schema());
  op.callBoxed(stack);
  std::vector<at::Tensor> made;
  flatten(stack, made);
  if (made.size() != call.results.size())
    throw Error(ErrorId::ResultUnplanned,
                "the plan expects " + std::to_string(call.results.size()) +
                    " results, found " + std::to_string(made.size()));
  for (size_t i = 0; i < made.size(); ++i) {
    if (call.results[i] < 0)
      continue;
    uint32_t value = static_cast<uint32_t>(call.results[i]);
    const plan::ValueT &planned = *p.program.values[value];
    const at::Tensor &view = made[i];
    const at::Tensor &base = p.values[planned.base];
    if (!view.defined())
      throw Error(ErrorId::ResultUnplanned, "the plan expects result " +
                                                std::to_string(i) +
                                                " to be a tensor, found none");
    bool isView = view.numel() == 0 || liesIn(view, base);
    if (!isView || !hasPlannedType(view, planned))
      throw Error(ErrorId::ResultUnplanned,
                  "the plan expects result " + std::to_string(i) +
                      " to be a view of shape " + toString(planned.shape) +
                      (isView ? " and its strides, found shape " +
                                    toString(view.sizes()) + " with strides " +
                                    toString(view.strides())
                              : std::string(", found a copy")));
    p.values[value] = view;
  }
}

/// The operator that adds a product to a matrix in its place, if that is where
/// the plan wants the sum; else none.
std::optional<c10::OperatorHandle> findInPlace(const Preparation &p,
                                               const plan::CallT &call,
                                               const plan::OperatorT &name) {
  if (name.name != "aten::addmm" || !name.overload.empty() ||
      call.results.size() != 1 || call.results[0] < 0 || call.args.empty() ||
      call.args[0]->values.size() != 1 || call.args[0]->values[0] < 0)
    return std::nullopt;
  const at::Tensor &sum = p.values[static_cast<size_t>(call.results[0])];
  const at::Tensor &into =
      p.values[static_cast<size_t>(call.args[0]->values[0])];
  if (!sum.defined() || !into.defined() || !isSameTensor(into, sum))
    return std::nullopt;
  return c10::Dispatcher::singleton().findSchema({"aten::addmm_", ""});
}

} // namespace

std::unique_ptr<Instruction> fsdp::prepare(Preparation &p,
                                           const plan::CallT &call) {
  const plan::OperatorT &name = *p.plan.operators[call.op];
  std::optional<c10::OperatorHandle> op =
      c10::Dispatcher::singleton().findSchema({name.name, name.overload});
  if (!op)
    throw Error(ErrorId::KernelMissing, "this LibTorch has no such operator");
  bool hasView = false, hasOther = false;
  for (int32_t result : call.results)
    if (result >= 0)
      (p.program.values[result]->place == plan::Place::view ? hasView
                                                            : hasOther) = true;
  if (hasView && hasOther)
    throw Error(ErrorId::RuntimeUnsupported,
                "the operator gives views and new tensors at once, which is "
                "not supported");
  if (hasView) {
    makeViews(p, call, *op);
    return nullptr;
  }
  std::vector<c10::IValue> arguments = makeArguments(p, call, op->schema());
  if (auto greatest = prepareGreatest(p, call, name, arguments))
    return greatest;
  if (auto attention = prepareVisibleAttention(p, call, name, arguments))
    return attention;
  if (auto other = replaceMatmul(name.name, name.overload, arguments))
    return std::make_unique<OperatorCall>(p, call, other->op,
                                          std::move(other->arguments));
  if (auto inPlace = findInPlace(p, call, name))
    return std::make_unique<OperatorCall>(p, call, *inPlace,
                                          std::move(arguments));
  return std::make_unique<OperatorCall>(p, call, *op, std::move(arguments));
}
