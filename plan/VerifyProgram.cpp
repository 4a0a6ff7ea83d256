//===- VerifyProgram.cpp - Check one program of a plan --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One walk over the instructions with three facts for each value: whether it is
// defined, whether its storage was freed, how many transfers hold its storage.
//
//===----------------------------------------------------------------------===//

#include "plan/VerifyProgram.h"

#include "plan/DType.h"
#include "plan/Shape.h"
#include "plan/Visit.h"
#include "support/Distributions.h"

#include <algorithm>
#include <cmath>

using namespace fsdp;
using plan::Place;
using plan::PlanT;
using plan::ProgramT;
using plan::ValueT;

namespace {

class ProgramVerifier {
public:
  ProgramVerifier(const PlanT &plan, const ProgramT &program)
      : plan(plan), program(program), where("program '" + program.name + "'") {}

  void run();

private:
  [[noreturn]] void refuse(const std::string &what) const {
    refusePlan(where, what);
  }
  static std::string name(size_t value) {
    return std::string("%").append(std::to_string(value));
  }

  // Tables.
  const plan::GroupT &group(uint32_t index) const;
  void stream(plan::Stream stream) const;
  void enumerator(bool known) const {
    if (!known)
      refuse("has an unknown enumerator");
  }
  void finite(double number) const {
    if (!std::isfinite(number))
      refuse("holds a number that is not finite");
  }

  // Values.
  const ValueT &value(int64_t index) const;
  size_t root(size_t index) const;
  uint64_t room(size_t root) const;
  void verifyValue(size_t index) const;
  void verifyArgument(const plan::BindingT &binding);
  void verifyResult(const plan::BindingT &binding);
  void define(size_t index);
  const ValueT &use(int64_t index) const;
  const ValueT &useContiguous(int64_t index) const;
  /// A value whose storage the instruction changes.
  const ValueT &change(int64_t index) const;
  void sameType(size_t a, size_t b) const;
  void movesRows(const std::vector<int32_t> &dims) const;
  void verifySplit(size_t full, size_t shard, int32_t dim,
                   const plan::GroupT &group) const;
  /// That `rows` rows from the value's first one lie in its storage.
  void verifyRoom(size_t index, int64_t rows) const;

  // Transfers.
  void start(uint32_t future, const std::vector<uint32_t> &inputs,
             const std::vector<uint32_t> &outputs);

  // Instructions.
  void verify(const plan::CallT &call);
  void verifyArg(const plan::ArgT &arg, std::vector<size_t> &operands) const;
  void verify(const plan::AllGatherT &op);
  template <typename OpTy>
  void verifyDivision(const OpTy &op);
  void verify(const plan::ReduceScatterT &op);
  void verify(const plan::AllReduceT &op);
  void verify(const plan::WaitT &op);
  void verify(const plan::FreeT &op);
  void verify(const plan::ZeroPaddingT &op);
  void verify(const plan::ShardT &op);
  void verify(const plan::AdamT &op);
  void verify(const plan::SgdT &op);
  void verify(const plan::CopyT &op);
  void verify(const plan::DrawT &op);
  void verify(const plan::AccumulateT &op);
  void verify(const plan::PackTensorsT &op);
  void verifyFoundInf(int32_t v);
  void verifyInstruction(const plan::InstructionT &instruction);

  struct Future {
    bool started = false, waited = false;
    std::vector<uint32_t> inputs, outputs;
  };

  const PlanT &plan;
  const ProgramT &program;
  std::string where;
  std::vector<bool> defined, freed;
  std::vector<uint32_t> inFlight;
  std::vector<Future> futures;
};

//===----------------------------------------------------------------------===//
// Tables and values
//===----------------------------------------------------------------------===//

const plan::GroupT &ProgramVerifier::group(uint32_t index) const {
  if (index >= plan.groups.size())
    refuse("names a group that does not exist");
  return *plan.groups[index];
}

void ProgramVerifier::stream(plan::Stream stream) const {
  enumerator(stream <= plan::Stream::MAX);
}

const ValueT &ProgramVerifier::value(int64_t index) const {
  if (index < 0 || index >= static_cast<int64_t>(program.values.size()))
    refuse("names value " + name(index) + " of " +
           std::to_string(program.values.size()));
  return *program.values[index];
}

size_t ProgramVerifier::root(size_t index) const {
  const ValueT &v = value(index);
  return v.place == Place::view ? v.base : index;
}

uint64_t ProgramVerifier::room(size_t root) const {
  const ValueT &v = value(root);
  return v.place == Place::literal ? v.literal.size() : v.bytes;
}

void ProgramVerifier::verifyValue(size_t index) const {
  const ValueT &v = *program.values[index];
  if (v.dtype > plan::DType::MAX || v.place > Place::MAX)
    refuse("has an unknown element type or place at " + name(index));
  uint64_t element = dtypeBytes(v.dtype);
  auto extent = checkedExtent(v.shape, v.strides, element);
  if (!extent)
    refuse("has no valid shape for " + name(index));
  if (v.place == Place::view && (v.base >= program.values.size() ||
                                 program.values[v.base]->place == Place::view))
    refuse("has a view " + name(index) + " of what is no storage");
  if (v.place == Place::literal &&
      (!v.strides.empty() || v.literal.size() != *extent))
    refuse("has a literal " + name(index) + " of another size than its type");
  if (v.place == Place::slot || v.place == Place::state) {
    uint64_t peak = plan.memory->peak;
    if (v.offset > peak || v.bytes > peak - v.offset || v.offset % element)
      refuse("places " + name(index) + " outside of the arena");
  }
  if (v.place == Place::state) {
    if (v.state >= plan.states.size())
      refuse("places " + name(index) + " at a state that does not exist");
    const plan::StateT &state = *plan.states[v.state];
    if (v.offset != state.offset || v.bytes != state.bytes)
      refuse("places " + name(index) + " beside state '" + state.name + "'");
  }
  if (*extent > room(root(index)))
    refuse("gives " + name(index) + " less room than its type needs");
}

void ProgramVerifier::define(size_t index) {
  value(index);
  if (defined[index])
    refuse("defines " + name(index) + " twice");
  // Also when its slot is reused: a value's storage is that of its root.
  if (value(index).place == Place::view && !defined[root(index)])
    refuse("defines view " + name(index) + " before its base");
  defined[index] = true;
}

const ValueT &ProgramVerifier::use(int64_t index) const {
  const ValueT &v = value(index);
  if (!defined[index])
    refuse("uses " + name(index) + " before it is defined");
  if (freed[root(index)])
    refuse("uses " + name(index) + " after it was freed");
  return v;
}

const ValueT &ProgramVerifier::useContiguous(int64_t index) const {
  const ValueT &v = use(index);
  if (!v.strides.empty())
    refuse("transfers " + name(index) + ", which is not contiguous");
  return v;
}

const ValueT &ProgramVerifier::change(int64_t index) const {
  const ValueT &v = use(index);
  if (inFlight[root(index)])
    refuse("changes " + name(index) + ", which a transfer still holds");
  if (value(root(index)).place == Place::literal)
    refuse("changes the literal " + name(index));
  return v;
}

/// The back ends move rows.
void ProgramVerifier::movesRows(const std::vector<int32_t> &dims) const {
  for (int32_t dim : dims)
    if (dim != 0)
      refuse("moves what is split on dim " + std::to_string(dim) +
             "; expected dim 0");
}

void ProgramVerifier::sameType(size_t a, size_t b) const {
  if (value(a).dtype != value(b).dtype || value(a).shape != value(b).shape)
    refuse("expects one type for " + name(a) + " and " + name(b));
}

void ProgramVerifier::verifySplit(size_t full, size_t shard, int32_t dim,
                                  const plan::GroupT &group) const {
  if (dim < 0 || static_cast<size_t>(dim) >= value(full).shape.size())
    refuse("splits " + name(full) + " on dim " + std::to_string(dim) +
           ", which it does not have");
  if (value(full).dtype != value(shard).dtype ||
      shardShape(value(full).shape, dim, group.size) != value(shard).shape)
    refuse("expects " + name(shard) + " to be the shard of " + name(full) +
           " over " + std::to_string(group.size) + " ranks");
}

void ProgramVerifier::verifyRoom(size_t index, int64_t rows) const {
  const ValueT &v = value(index);
  if (rows == v.shape[0])
    return;
  const ValueT &base = value(root(index));
  uint64_t element = dtypeBytes(v.dtype);
  std::vector<int64_t> padded = v.shape;
  padded[0] = rows;
  auto needed = checkedExtent(padded, {}, element);
  // A view that is not all of its base might begin behind its first byte.
  bool whole = checkedExtent(v.shape, {}, element) ==
               checkedExtent(base.shape, base.strides, dtypeBytes(base.dtype));
  if (!needed || !whole || *needed > room(root(index)))
    refuse("needs room for " + std::to_string(rows) + " rows behind " +
           name(index));
}

void ProgramVerifier::verifyArgument(const plan::BindingT &binding) {
  const ValueT &v = value(binding.value);
  bool isState = binding.state != -1;
  if (isState == (binding.input != -1))
    refuse("binds argument " + name(binding.value) +
           " to not exactly one of state and input");
  if (isState) {
    if (v.place != Place::state ||
        static_cast<int64_t>(v.state) != binding.state)
      refuse("binds argument " + name(binding.value) + " to another state");
    const plan::StateT &state = *plan.states[v.state];
    auto local = state.shape;
    if (state.shard_dim >= 0)
      local = shardShape(std::move(local), state.shard_dim,
                         plan.groups[state.group]->size);
    if (v.dtype != state.dtype || v.shape != local || !v.strides.empty())
      refuse("has another type for argument " + name(binding.value) +
             " than state '" + state.name + "'");
  } else {
    if (binding.input < 0 ||
        binding.input >= static_cast<int64_t>(plan.inputs.size()))
      refuse("binds an argument to an input that does not exist");
    const plan::InputT &input = *plan.inputs[binding.input];
    if (v.place != Place::slot || v.dtype != input.dtype ||
        v.shape != input.shape || !v.strides.empty())
      refuse("has another type for argument " + name(binding.value) +
             " than input '" + input.name + "'");
  }
  define(binding.value);
}

void ProgramVerifier::verifyResult(const plan::BindingT &binding) {
  use(binding.value);
  int names =
      !binding.output.empty() + !binding.metric.empty() + (binding.state != -1);
  if (binding.input != -1 || names != 1)
    refuse("binds result " + name(binding.value) +
           " to not exactly one of state, output and metric");
  const ValueT &result = value(binding.value);
  if (!binding.output.empty() && !result.strides.empty())
    refuse("gives out '" + binding.output + "', which is not contiguous");
  if (!binding.metric.empty() && checkedElements(result.shape) != 1)
    refuse("reports '" + binding.metric + "', which is no number");
  if (binding.state == -1)
    return;
  const ValueT &base = value(root(binding.value));
  if (base.place != Place::state ||
      static_cast<int64_t>(base.state) != binding.state)
    refuse("leaves result " + name(binding.value) +
           " elsewhere than in its state");
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

void ProgramVerifier::verifyArg(const plan::ArgT &arg,
                                std::vector<size_t> &operands) const {
  using plan::ArgKind;
  auto expect = [&](size_t values, size_t ints, size_t doubles) {
    if (arg.values.size() != values || arg.ints.size() != ints ||
        arg.doubles.size() != doubles)
      refuse("has an argument whose contents do not fit its kind");
  };
  switch (arg.kind) {
  case ArgKind::none:
  case ArgKind::text:
  case ArgKind::device:
  case ArgKind::layout:
    expect(0, 0, 0);
    break;
  case ArgKind::tensor:
    expect(1, 0, 0);
    break;
  case ArgKind::tensors:
  case ArgKind::optional_tensors:
    expect(arg.values.size(), 0, 0);
    break;
  case ArgKind::integer:
  case ArgKind::boolean:
    expect(0, 1, 0);
    break;
  case ArgKind::number:
    expect(0, 0, 1);
    break;
  case ArgKind::integers:
  case ArgKind::booleans:
    expect(0, arg.ints.size(), 0);
    break;
  case ArgKind::numbers:
    expect(0, 0, arg.doubles.size());
    break;
  case ArgKind::complex:
    expect(0, 0, 2);
    break;
  case ArgKind::dtype:
    expect(0, 1, 0);
    enumerator(arg.ints[0] >= 0 &&
               arg.ints[0] <= static_cast<int64_t>(plan::DType::MAX));
    break;
  case ArgKind::memory_format:
    expect(0, 1, 0);
    enumerator(arg.ints[0] >= 0 && arg.ints[0] <= 3);
    break;
  default:
    refuse("has an argument of an unknown kind");
  }
  for (int32_t v : arg.values) {
    if (v == -1 && arg.kind == ArgKind::optional_tensors)
      continue;
    use(v);
    operands.push_back(root(v));
  }
}

void ProgramVerifier::verify(const plan::CallT &call) {
  if (call.op >= plan.operators.size())
    refuse("calls an operator that does not exist");
  std::vector<size_t> operands;
  for (const auto &arg : call.args)
    verifyArg(*arg, operands);
  for (int32_t result : call.results) {
    if (result == -1)
      continue;
    const ValueT &v = value(result);
    if (v.place == Place::literal)
      refuse("defines the literal " + name(result) + " by a call");
    if (v.place == Place::view &&
        std::find(operands.begin(), operands.end(), v.base) == operands.end())
      refuse("defines " + name(result) + " as a view of no operand");
    define(result);
  }
}

void ProgramVerifier::start(uint32_t future,
                            const std::vector<uint32_t> &inputs,
                            const std::vector<uint32_t> &outputs) {
  if (future >= futures.size() || futures[future].started)
    refuse("starts a future that does not exist or was started");
  for (uint32_t v : inputs)
    ++inFlight[root(v)];
  // Claimed now, readable after the wait.
  for (uint32_t v : outputs) {
    if (defined[v])
      refuse("defines " + name(v) + " twice");
    if (value(v).place != Place::view)
      ++inFlight[v];
  }
  futures[future] = {true, false, inputs, outputs};
}

void ProgramVerifier::verify(const plan::AllGatherT &op) {
  stream(op.stream);
  const plan::GroupT &ranks = group(op.group);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size() ||
      op.inputs.size() != op.dims.size())
    refuse("has not one output and dim for each input");
  movesRows(op.dims);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    useContiguous(op.inputs[i]);
    const ValueT &full = value(op.outputs[i]);
    if ((full.place != Place::slot && full.place != Place::state) ||
        !full.strides.empty())
      refuse("gathers into " + name(op.outputs[i]) + ", which is no slot");
    verifySplit(op.outputs[i], op.inputs[i], op.dims[i], ranks);
    verifyRoom(op.outputs[i], value(op.inputs[i]).shape[0] * ranks.size);
  }
  start(op.future, op.inputs, op.outputs);
}

template <typename OpTy>
void ProgramVerifier::verifyDivision(const OpTy &op) {
  enumerator(op.reduction <= plan::Reduction::MAX);
  if (op.pre == 1 && op.post == 1)
    return;
  for (double factor : {op.pre, op.post})
    if (!std::isfinite(factor) || factor <= 0)
      refuse("divides by a number that is not finite and above zero");
  if (op.reduction != plan::Reduction::sum)
    refuse("divides what is no sum");
}

void ProgramVerifier::verify(const plan::ReduceScatterT &op) {
  stream(op.stream);
  verifyDivision(op);
  const plan::GroupT &ranks = group(op.group);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size() ||
      op.inputs.size() != op.dims.size() ||
      (!op.of.empty() && op.of.size() != op.inputs.size()))
    refuse("has not one output, dim and parameter for each input");
  movesRows(op.dims);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    useContiguous(op.inputs[i]);
    const ValueT &shard = value(op.outputs[i]);
    if ((shard.place != Place::slot && shard.place != Place::state) ||
        !shard.strides.empty())
      refuse("reduces into " + name(op.outputs[i]) + ", which is no slot");
    verifySplit(op.inputs[i], op.outputs[i], op.dims[i], ranks);
    verifyRoom(op.inputs[i], shard.shape[0] * ranks.size);
  }
  for (uint32_t parameter : op.of)
    if (parameter >= plan.states.size())
      refuse("reduces the gradient of a state that does not exist");
  start(op.future, op.inputs, op.outputs);
}

void ProgramVerifier::verify(const plan::AllReduceT &op) {
  stream(op.stream);
  verifyDivision(op);
  group(op.group);
  if (op.inputs.empty() || op.inputs.size() != op.outputs.size())
    refuse("has not one output for each input");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    useContiguous(op.inputs[i]);
    change(op.inputs[i]);
    const ValueT &result = value(op.outputs[i]);
    if (result.place != Place::view || result.base != root(op.inputs[i]) ||
        !result.strides.empty())
      refuse("reduces into " + name(op.outputs[i]) +
             ", which is no view of its input");
    sameType(op.inputs[i], op.outputs[i]);
  }
  start(op.future, op.inputs, op.outputs);
}

void ProgramVerifier::verify(const plan::WaitT &op) {
  if (op.future >= futures.size() || !futures[op.future].started ||
      futures[op.future].waited)
    refuse("waits for a future that was not started or was waited for");
  Future &future = futures[op.future];
  future.waited = true;
  for (uint32_t v : future.inputs)
    --inFlight[root(v)];
  for (uint32_t v : future.outputs) {
    if (value(v).place != Place::view)
      --inFlight[v];
    define(v);
  }
}

void ProgramVerifier::verify(const plan::FreeT &op) {
  for (uint32_t v : op.values) {
    change(v);
    freed[root(v)] = true;
  }
}

void ProgramVerifier::verify(const plan::ZeroPaddingT &op) {
  const ValueT &v = change(op.value);
  if (op.dim != 0 || v.shape.empty() || !v.strides.empty())
    refuse("pads " + name(op.value) + ", which has no rows");
  int64_t size = group(op.group).size;
  verifyRoom(op.value, shardRows(v.shape[0], size) * size);
}

void ProgramVerifier::verify(const plan::ShardT &op) {
  useContiguous(op.input);
  const ValueT &output = value(op.output);
  if (output.place != Place::slot || !output.strides.empty())
    refuse("cuts into " + name(op.output) + ", which is no slot");
  verifySplit(op.input, op.output, op.dim, group(op.group));
  define(op.output);
}

void ProgramVerifier::verifyFoundInf(int32_t v) {
  if (v == -1)
    return;
  use(v);
  if (value(v).dtype != plan::DType::f32 || !value(v).shape.empty())
    refuse("expects a scalar of f32 for " + name(v));
}

void ProgramVerifier::verify(const plan::AdamT &op) {
  enumerator(op.kind <= plan::AdamKind::MAX);
  for (double number : {op.beta1, op.beta2, op.eps, op.weight_decay})
    finite(number);
  size_t count = op.params.size();
  if (op.grads.size() != count || op.exp_avgs.size() != count ||
      op.exp_avg_sqs.size() != count)
    refuse("has not one gradient and two moments for each parameter");
  for (size_t i = 0; i < count; ++i)
    for (uint32_t v :
         {op.params[i], op.grads[i], op.exp_avgs[i], op.exp_avg_sqs[i]}) {
      change(v);
      if (value(v).shape != value(op.params[i]).shape)
        refuse("expects the shape of " + name(op.params[i]) + " for " +
               name(v));
    }
  use(op.step);
  use(op.lr);
  if (op.grad_scale != -1)
    use(op.grad_scale);
  verifyFoundInf(op.found_inf);
}

void ProgramVerifier::verify(const plan::SgdT &op) {
  finite(op.momentum);
  finite(op.weight_decay);
  size_t count = op.params.size();
  if (op.grads.size() != count ||
      op.momentum_buffers.size() != (op.momentum != 0 ? count : 0))
    refuse("has not one gradient and momentum buffer for each parameter");
  auto expect = [&](uint32_t v, uint32_t parameter) {
    change(v);
    if (value(v).shape != value(parameter).shape)
      refuse("expects the shape of " + name(parameter) + " for " + name(v));
  };
  for (size_t i = 0; i < count; ++i) {
    change(op.params[i]);
    expect(op.grads[i], op.params[i]);
    if (op.momentum != 0)
      expect(op.momentum_buffers[i], op.params[i]);
  }
  use(op.lr);
  if (op.grad_scale != -1)
    use(op.grad_scale);
  verifyFoundInf(op.found_inf);
}

void ProgramVerifier::verify(const plan::CopyT &op) {
  use(op.from);
  change(op.to);
  sameType(op.from, op.to);
}

static bool isInteger(plan::DType dtype) {
  return (dtype >= plan::DType::i64 && dtype <= plan::DType::bool_) ||
         (dtype >= plan::DType::u16 && dtype <= plan::DType::u64);
}

void ProgramVerifier::verify(const plan::DrawT &op) {
  enumerator(op.distribution <= plan::Distribution::MAX);
  auto index = static_cast<size_t>(op.distribution);
  if (std::string problem =
          describeDrawProblem(index, op.numbers, op.given.size(), op.range);
      !problem.empty())
    refuse(problem);
  const ValueT &random = useContiguous(op.random);
  if (random.dtype != plan::DType::i64 ||
      random.shape != std::vector<int64_t>{2})
    refuse("draws from " + name(op.random) + ", which is no seed and offset");
  for (uint32_t given : op.given) {
    useContiguous(given);
    sameType(given, op.output);
  }
  const ValueT &output = value(op.output);
  if (output.place != Place::slot && output.place != Place::state)
    refuse("draws into " + name(op.output) + ", which is no place");
  if (!isFloat(output.dtype) &&
      !(kDistributions[index].isInteger && isInteger(output.dtype)))
    refuse("draws elements of another type into " + name(op.output));
  uint64_t element = dtypeBytes(output.dtype);
  if (checkedExtent(output.shape, output.strides, element) !=
          checkedExtent(output.shape, {}, element) ||
      (!op.given.empty() && !output.strides.empty()))
    refuse("draws into " + name(op.output) + ", which has gaps");
  define(op.output);
}

void ProgramVerifier::verify(const plan::AccumulateT &op) {
  const ValueT &gradient = useContiguous(op.gradient);
  const ValueT &into = useContiguous(op.into);
  const ValueT &output = value(op.output);
  if (!isFloat(gradient.dtype) || !isFloat(into.dtype) ||
      gradient.shape != into.shape)
    refuse("adds " + name(op.gradient) + " to " + name(op.into) +
           ", which has another shape or is no number");
  sameType(op.into, op.output);
  // In place of one of the two.
  size_t base =
      output.place == Place::view ? output.base : program.values.size();
  uint32_t place = base == root(op.into) ? op.into : op.gradient;
  if (base != root(place) || !output.strides.empty())
    refuse("leaves the sum at " + name(op.output) +
           ", which is no view of what is summed");
  sameType(place, op.output);
  change(place);
  if (op.divisor < 1)
    refuse("divides a sum by 0");
  define(op.output);
}

void ProgramVerifier::verify(const plan::PackTensorsT &op) {
  const ValueT &output = value(op.output);
  if (output.shape.size() != 1 || !output.strides.empty() ||
      (output.place != Place::slot && output.place != Place::state))
    refuse("packs into " + name(op.output) + ", which is no row of elements");
  if (op.offsets.size() != op.inputs.size())
    refuse("has not one offset for each input");
  auto room = static_cast<uint64_t>(output.shape[0]);
  uint64_t end = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueT &input = use(op.inputs[i]);
    uint64_t count = *checkedElements(input.shape);
    if (input.dtype != output.dtype || op.offsets[i] < end ||
        op.offsets[i] > room || count > room - op.offsets[i])
      refuse("has no place for " + name(op.inputs[i]) + " in " +
             name(op.output));
    end = op.offsets[i] + count;
  }
  define(op.output);
}

void ProgramVerifier::verifyInstruction(const plan::InstructionT &instruction) {
  if (instruction.at < -1 ||
      instruction.at >= static_cast<int64_t>(plan.locations.size()))
    refuse("has a location that does not exist");
  if (!instruction.body.value)
    refuse("is empty");
  if (!visitBody(instruction, [&](const auto &op) { verify(op); }))
    refuse("is of an unknown kind");
}

void ProgramVerifier::run() {
  size_t count = program.values.size();
  defined.assign(count, false);
  freed.assign(count, false);
  inFlight.assign(count, 0);
  // Bounded by what could possibly start them, not by the counter.
  size_t instructions = program.instructions.size();
  if (program.futures > instructions)
    refuse("states more futures than instructions");
  futures.resize(program.futures);

  for (size_t i = 0; i < count; ++i) {
    verifyValue(i);
    if (program.values[i]->place == Place::literal)
      define(i);
  }
  for (const auto &binding : program.arguments)
    verifyArgument(*binding);
  std::string whole = where;
  for (size_t i = 0; i < instructions; ++i) {
    const plan::InstructionT &instruction = *program.instructions[i];
    where = whole + ", instruction " + std::to_string(i) + " (" +
            plan::EnumNameBody(instruction.body.type) + ")";
    verifyInstruction(instruction);
  }
  where = whole;
  for (size_t i = 0; i < futures.size(); ++i)
    if (!futures[i].waited)
      refuse("never waits for future " + std::to_string(i));
  for (const auto &binding : program.results)
    verifyResult(*binding);
}

} // namespace

void fsdp::verifyProgram(const PlanT &plan, const ProgramT &program) {
  ProgramVerifier(plan, program).run();
}
