//===- Work.cpp - What an instruction computes and moves ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulate/Work.h"
#include "simulate/AttentionWork.h"

#include "plan/DType.h"
#include "plan/Instructions.h"
#include "plan/Target.h"
#include "simulate/KernelWork.h"
#include "support/Optimizers.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <unordered_map>

using namespace fsdp;
using plan::ArgKind;

const char *fsdp::getName(WorkKind kind) {
  static constexpr const char *names[kWorkKinds] = {
      "none",        "matmul",    "attention", "convolution",
      "elementwise", "reduction", "indexing",  "random",
      "sort",        "optimizer", "copy"};
  return names[size_t(kind)];
}

namespace {

enum class Family : uint8_t {
  Elementwise,
  View,
  Matmul,
  MatmulAdd,
  Convolution,
  ConvolutionBackward,
  Attention,
  AttentionBackward,
  Gather,
  Scatter,
  Pick,
  Sort,
  Reduction,
  Copy,
  Pack,
  Fill
};

/// What a family is where nothing else says, in the order of the families;
/// products and attention say their kind themselves.
struct FamilyCost {
  WorkKind kind;
  bool isFusible;
  int kernels = 1;
};
constexpr FamilyCost kFamilyCosts[] = {
    {WorkKind::elementwise, true},  // Elementwise
    {WorkKind::none, false},        // View
    {WorkKind::none, false},        // Matmul
    {WorkKind::none, false},        // MatmulAdd
    {WorkKind::none, false},        // Convolution
    {WorkKind::none, false, 2},     // ConvolutionBackward
    {WorkKind::none, false},        // Attention
    {WorkKind::none, false, 3},     // AttentionBackward
    {WorkKind::indexing, false},    // Gather
    {WorkKind::indexing, false, 2}, // Scatter
    {WorkKind::indexing, false},    // Pick
    {WorkKind::sort, false},        // Sort
    {WorkKind::reduction, true},    // Reduction
    {WorkKind::copy, true},         // Copy
    {WorkKind::copy, false},        // Pack
    {WorkKind::elementwise, true},  // Fill
};
static_assert(std::size(kFamilyCosts) == size_t(Family::Fill) + 1);

/// "aten::add_" -> "add_"
std::string_view baseName(std::string_view name) {
  size_t colon = name.rfind("::");
  return colon == std::string_view::npos ? name : name.substr(colon + 2);
}

Family findFamily(std::string_view name) {
  static const std::unordered_map<std::string_view, Family> families = {
#define FSDP_FAMILY(name, family) {name, Family::family},
#include "simulate/OperatorFamilies.def"
  };
  auto found = families.find(name);
  return found == families.end() ? Family::Elementwise : found->second;
}

double findWeight(std::string_view name) {
  static const std::unordered_map<std::string_view, double> weights = {
#define FSDP_WEIGHT(name, operations) {name, operations},
#include "simulate/OperatorFamilies.def"
  };
  auto found = weights.find(name);
  return found == weights.end() ? 1 : found->second;
}

double elementsOf(const plan::ValueT &value) {
  double product = 1;
  for (int64_t size : value.shape)
    product *= double(size);
  return product;
}

/// Those that memory holds: what is expanded counts once.
double bytesOf(const plan::ValueT &value) {
  double product = double(dtypeBytes(value.dtype));
  for (size_t i = 0; i < value.shape.size(); ++i)
    if (value.strides.empty() || value.strides[i] != 0)
      product *= double(value.shape[i]);
  return product;
}

int64_t sizeAt(const plan::ValueT &value, int fromEnd) {
  auto rank = static_cast<int>(value.shape.size());
  return fromEnd > rank ? 1 : value.shape[size_t(rank - fromEnd)];
}

class Estimate {
public:
  Estimate(const plan::PlanT &plan, const plan::ProgramT &program)
      : plan(plan), program(program) {}

  Work work;

  void add(const plan::CallT &call);
  void add(const plan::UpdateT &op) {
    const OptimizerFacts &facts = getFacts(OptimizerKind(op.kind));
    update(op.params, op, facts.operations, facts.cost);
  }
  void add(const plan::BlockMaximaT &op) {
    update(op.params, op, 4, "block_maxima");
  }
  void add(const plan::CopyT &op) {
    move(WorkKind::copy, bytes(op.from) + bytes(op.to), op.to);
  }
  void add(const plan::ShardT &op) {
    move(WorkKind::copy, 2 * bytes(op.output), op.output);
  }
  void add(const plan::SelectRowsT &op) {
    move(WorkKind::copy, 2 * bytes(op.output), op.output);
  }
  void add(const plan::DrawT &op) {
    move(WorkKind::random, bytes(op.output), op.output);
    work.flops = 30 * elementsOf(value(op.output));
  }
  void add(const plan::DequantizeT &op) {
    move(WorkKind::elementwise, bytes(op.input) + bytes(op.output), op.output);
    work.flops = elementsOf(value(op.output));
  }
  void add(const plan::AccumulateT &op) {
    move(WorkKind::elementwise, bytes(op.gradient) + 2 * bytes(op.into),
         op.output);
    work.flops = elementsOf(value(op.into));
  }
  void add(const plan::PackTensorsT &op) {
    // What was computed in its place stays there.
    double moved = 0;
    for (uint32_t input : op.inputs)
      if (rootOf(program, input) != rootOf(program, op.output))
        moved += 2 * bytes(input);
    if (moved != 0)
      move(WorkKind::copy, moved, op.output);
  }
  void add(const plan::ZeroPaddingT &op) {
    const plan::ValueT &v = value(op.value);
    double rows = double(v.shape[size_t(op.dim)]);
    uint32_t size = plan.groups[op.group]->size;
    double padding = double((uint64_t(rows) + size - 1) / size * size) - rows;
    if (padding != 0 && rows != 0)
      move(WorkKind::copy, bytes(op.value) / rows * padding, op.value);
  }
  void add(const plan::SquareSumT &op) {
    double moved = bytes(op.output), elements = 0;
    for (uint32_t input : op.inputs) {
      moved += bytes(input);
      elements += elementsOf(value(input));
    }
    move(WorkKind::reduction, moved, op.output);
    work.op = "square_sum";
    work.flops = findWeight(work.op) * elements;
    work.tensors = std::max<size_t>(op.inputs.size(), 1);
    if (!op.inputs.empty())
      work.dtype = value(op.inputs.front()).dtype;
  }
  void add(const plan::SquareRootT &op) {
    double moved = bytes(op.output);
    for (uint32_t input : op.inputs)
      moved += bytes(input);
    move(WorkKind::reduction, moved, op.output);
  }
  void add(const plan::SumPartsT &op) {
    move(WorkKind::reduction, bytes(op.input) + bytes(op.output), op.output);
  }
  void add(const plan::KernelT &op) {
    const plan::KernelProgramT &kernel = *plan.kernels[op.program];
    double moved = 0;
    for (uint32_t input : op.inputs)
      moved += bytes(input);
    for (uint32_t output : op.outputs)
      moved += bytes(output);
    move(WorkKind::elementwise, moved,
         op.outputs.empty() ? op.inputs.front() : op.outputs.front());
    work.op = "kernel";
    addKernel(kernel, !isForHost(plan), work);
  }
  // These compute nothing; what moves between ranks and memories is a
  // transfer's time. A kind that is not named does not compile.
  void add(const plan::FreeT &) {}
  void add(const plan::WaitT &) {}
  void add(const plan::TransferT &) {}
  void add(const plan::CopyAcrossT &) {}

private:
  const plan::ValueT &value(int64_t index) const {
    return *program.values[size_t(index)];
  }
  double bytes(uint32_t index) const { return bytesOf(value(index)); }

  void move(WorkKind kind, double moved, uint32_t at) {
    work.kind = kind;
    work.bytes = moved;
    work.kernels = 1;
    work.dtype = value(at).dtype;
  }

  /// Optimizers read all that they name and write all but the gradients;
  /// `each` operations an element and operand.
  template <typename Op>
  void update(const std::vector<uint32_t> &params, const Op &op, double each,
              std::string_view name) {
    Operands operands;
    listOperands(op, operands);
    work.op = name;
    work.kind = WorkKind::optimizer;
    work.kernels = 1;
    for (auto [access, index] : operands) {
      double size = bytesOf(value(index));
      work.bytes += (reads(access) ? size : 0) + (writes(access) ? size : 0);
      work.flops += each * elementsOf(value(index));
    }
    if (!params.empty())
      work.dtype = value(params.front()).dtype;
    work.tensors = std::max<size_t>(params.size(), 1);
  }

  /// The tensors that a call names, in order.
  std::vector<const plan::ValueT *> tensors(const plan::CallT &call) const {
    std::vector<const plan::ValueT *> all;
    for (const auto &arg : call.args)
      for (int32_t index : arg->values)
        if (index != -1)
          all.push_back(&value(index));
    return all;
  }

  /// What a call names; bytes, but for the elements of the largest result and
  /// of the largest tensor.
  struct Named {
    std::set<const plan::ValueT *> read;
    double readBytes = 0, written = 0, results = 0, largest = 0;
  };
  Named measure(const plan::CallT &call) const;
  void refine(const plan::CallT &call, Family family, const Named &named);
  void scatter(const Named &named);
  void multiply(const plan::CallT &call, bool adds);
  void convolve(const plan::CallT &call, bool isBackward);
  void attend(const plan::CallT &call, bool isBackward);

  const plan::PlanT &plan;
  const plan::ProgramT &program;
};

void Estimate::multiply(const plan::CallT &call, bool adds) {
  std::vector<const plan::ValueT *> operands = tensors(call);
  size_t first = adds ? 1 : 0;
  if (operands.size() < first + 2 || call.results.empty())
    return;
  const plan::ValueT &a = *operands[first], &b = *operands[first + 1];
  double results = elementsOf(value(call.results[0]));
  MatmulShape &shape = work.matmul;
  shape.k = a.shape.empty() ? 1 : a.shape.back();
  // A vector has one column, or one row.
  shape.n = b.shape.size() < 2 ? 1 : sizeAt(b, 1);
  if (baseName(plan.operators[call.op]->name) == "linear")
    shape.n = sizeAt(b, 2);
  work.isTransposed = a.shape.size() >= 2 && !a.strides.empty() &&
                      a.strides.back() != 1 && a.shape.back() != 1;
  bool isBatched = b.shape.size() > 2;
  shape.m = isBatched ? sizeAt(a, 2) : 0;
  if (!isBatched) {
    shape.m =
        shape.n == 0 ? 0 : int64_t(results) / std::max<int64_t>(shape.n, 1);
    shape.batch = 1;
  } else {
    double each = double(shape.m) * double(shape.n);
    shape.batch = each == 0 ? 0 : int64_t(results / each);
  }
  work.kind = WorkKind::matmul;
  work.dtype = a.dtype;
  work.flops = 2 * results * double(shape.k);
}

void Estimate::convolve(const plan::CallT &call, bool isBackward) {
  // (input, weight, …, transposed, …), backward (gradient, input, weight, …,
  // output_mask).
  std::vector<const plan::ValueT *> operands = tensors(call);
  if (operands.size() < (isBackward ? 3u : 2u))
    return;
  const plan::ValueT &weight = *operands[isBackward ? 2 : 1];
  const plan::ValueT &input = *operands[isBackward ? 1 : 0];
  const plan::ValueT &output =
      isBackward ? *operands[0] : value(call.results[0]);
  bool isTransposed = false;
  double products = 1;
  for (const auto &arg : call.args) {
    if (arg->kind == ArgKind::boolean && !arg->ints.empty() && !isTransposed)
      isTransposed = arg->ints[0] != 0;
    // Which gradients are wanted; the bias's is a sum.
    if (isBackward && arg->kind == ArgKind::booleans && arg->ints.size() == 3)
      products = double((arg->ints[0] != 0) + (arg->ints[1] != 0));
  }
  double window =
      elementsOf(weight) /
      double(std::max<int64_t>(weight.shape.empty() ? 1 : weight.shape[0], 1));
  const plan::ValueT &positions = isTransposed ? input : output;
  work.kind = WorkKind::convolution;
  work.dtype = input.dtype;
  work.flops = 2 * products * elementsOf(positions) * window;
}

void Estimate::attend(const plan::CallT &call, bool isBackward) {
  std::optional<AttentionWork> found =
      estimateAttention(program, call, tensors(call),
                        baseName(plan.operators[call.op]->name), isBackward);
  if (!found)
    return;
  work.kind = WorkKind::attention;
  work.isBackward = isBackward;
  work.dtype = found->dtype;
  work.flops = found->flops;
  work.bytes += found->bytes;
  work.share = found->share;
}

Estimate::Named Estimate::measure(const plan::CallT &call) const {
  Named named;
  for (const plan::ValueT *operand : tensors(call))
    if (named.read.insert(operand).second) {
      named.readBytes += bytesOf(*operand);
      named.largest = std::max(named.largest, elementsOf(*operand));
    }
  for (int32_t index : call.results)
    if (index != -1) {
      named.written += bytesOf(value(index));
      named.results = std::max(named.results, elementsOf(value(index)));
    }
  named.largest = std::max(named.largest, named.results);
  return named;
}

void Estimate::scatter(const Named &named) {
  // The largest operand that is not as large as the result.
  double values = 0;
  bool copies = false;
  for (const plan::ValueT *operand : named.read)
    if (double size = bytesOf(*operand); size < named.written)
      values = std::max(values, size);
    else
      copies = true;
  work.bytes = named.written + (copies ? named.written : 0) + 3 * values;
}

void Estimate::add(const plan::CallT &call) {
  std::string_view name = baseName(plan.operators[call.op]->name);
  // What works in place has the name of what does not.
  std::string_view plain = name;
  if (plain.size() > 1 && plain.back() == '_')
    plain.remove_suffix(1);
  Family family = findFamily(name);
  if (family == Family::Elementwise)
    family = findFamily(plain);
  if (family == Family::View)
    return;

  Named named = measure(call);
  const FamilyCost &cost = kFamilyCosts[size_t(family)];
  work.kind = cost.kind;
  work.isFusible = cost.isFusible;
  work.kernels = cost.kernels;
  work.op = plain;
  work.bytes = named.readBytes + named.written;
  if (name.starts_with("_foreach_") && !call.args.empty())
    work.tensors = std::max<size_t>(call.args[0]->values.size(), 1);
  if (!call.results.empty() && call.results[0] != -1)
    work.dtype = value(call.results[0]).dtype;
  work.flops = findWeight(plain) * named.largest;
  refine(call, family, named);
}

/// What of a call's work is otherwise in its family.
void Estimate::refine(const plan::CallT &call, Family family,
                      const Named &named) {
  switch (family) {
  case Family::View:
  case Family::Elementwise:
  case Family::Reduction:
    return;
  case Family::Copy:
  case Family::Pack:
    work.flops = 0;
    return;
  case Family::Fill:
    // What works in place writes its operand.
    work.bytes = named.written != 0 ? named.written : named.readBytes;
    return;
  case Family::Sort:
    // Radix sort: a pass for each byte.
    work.bytes *= double(std::max<size_t>(dtypeBytes(work.dtype), 1));
    work.flops = 8 * named.largest;
    return;
  case Family::Gather:
    work.bytes = 2 * named.written;
    return;
  case Family::Pick:
    work.bytes = 8 * named.written;
    work.flops = named.results;
    return;
  case Family::Scatter:
    return scatter(named);
  case Family::Matmul:
  case Family::MatmulAdd:
    return multiply(call, /*adds=*/family == Family::MatmulAdd);
  case Family::Convolution:
  case Family::ConvolutionBackward:
    return convolve(call, family == Family::ConvolutionBackward);
  case Family::Attention:
  case Family::AttentionBackward:
    return attend(call, family == Family::AttentionBackward);
  }
}

} // namespace

Work fsdp::estimateWork(const plan::PlanT &plan, const plan::ProgramT &program,
                        const plan::InstructionT &instruction) {
  Estimate estimate(plan, program);
  visitBody(instruction, [&](const auto &op) { estimate.add(op); });
  // Where the memory of a device is apart, the host computes what it holds.
  if (estimate.work.kind != WorkKind::none)
    for (uint32_t index : valuesOf(instruction, writes))
      if (program.values[rootOf(program, index)]->memory ==
          plan::MemorySpace::host)
        estimate.work.onHost = true;
  return estimate.work;
}
