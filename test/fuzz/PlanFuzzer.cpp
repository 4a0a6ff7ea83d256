//===- PlanFuzzer.cpp - Hostile plans under a right hash ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The input is an artifact's payload; it is put into an artifact whose hash
// fits. Mutations are made to the bytes, or to the fields of the plan, so that
// what comes out is a plan again.
//
//===----------------------------------------------------------------------===//

#include "plan/Kernels.h"
#include "plan/Print.h"
#include "plan/Reader.h"
#include "plan/Writer.h"
#include "support/Error.h"
#include "test/fuzz/KernelRuns.h"
#include "test/unit/plan/RawArtifact.h"

#include <algorithm>
#include <random>

using namespace fsdp;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    PlanFile file = PlanFile::fromBytes(
        test::wrapPayload({reinterpret_cast<const char *>(data), size}),
        "step.fsdp");
    printArtifact(file);
    test::runKernels(file.plan());
    // What one side accepts, the other does.
    try {
      serializePlan(file.plan());
    } catch (const Error &) {
      __builtin_trap();
    }
  } catch (const Error &) {
  }
  return 0;
}

namespace {

class Mutator {
public:
  explicit Mutator(unsigned seed) : random(seed) {}

  void mutate(plan::PlanT &plan) {
    if (plan.programs.empty())
      return;
    for (size_t times = 1 + below(3); times > 0; --times)
      switch (below(plan.kernels.empty() ? 8 : 12)) {
      case 0:
        return mutateTables(plan);
      case 1:
      case 2:
        return mutateValue(pick(plan.programs));
      case 8:
      case 9:
        mutateOperand(pick(plan.kernels));
        break;
      case 10:
      case 11:
        mutateOp(pick(plan.kernels));
        break;
      default:
        mutateInstruction(plan, pick(plan.programs));
      }
  }

private:
  size_t below(size_t count) { return count ? random() % count : 0; }
  template <typename T>
  T &pick(std::vector<std::unique_ptr<T>> &list) {
    return *list[below(list.size())];
  }

  template <typename T>
  T number(T old) {
    static constexpr int64_t kSizes[] = {
        0,        1,        2,        3,         4,        8,
        16,       64,       127,      4096,      -1,       1 << 20,
        1l << 31, 1l << 40, 1l << 47, INT64_MAX, INT64_MIN};
    switch (below(4)) {
    case 0:
      // Beyond the greatest comes the least.
      return static_cast<T>(static_cast<uint64_t>(old) + 1);
    case 1:
      return static_cast<T>(static_cast<uint64_t>(old) - 1);
    case 2:
      return static_cast<T>(random());
    default:
      return static_cast<T>(kSizes[below(std::size(kSizes))]);
    }
  }
  template <typename T>
  void change(T &field) {
    field = number(field);
  }
  template <typename T>
  void changeList(std::vector<T> &list) {
    switch (below(3)) {
    case 0:
      if (!list.empty()) {
        size_t at = below(list.size());
        list[at] = number(list[at]);
      }
      break;
    case 1:
      list.push_back(list.empty() ? T(1) : list[below(list.size())]);
      break;
    default:
      if (!list.empty())
        list.erase(list.begin() + ptrdiff_t(below(list.size())));
    }
  }
  template <typename T>
  void changeEnum(T &field) {
    field = static_cast<T>(below(static_cast<size_t>(T::MAX) + 2));
  }

  void mutateTables(plan::PlanT &plan) {
    switch (below(7)) {
    case 0:
      if (plan.memory)
        change(plan.memory->peak);
      break;
    case 1:
      if (!plan.groups.empty())
        change(below(2) ? pick(plan.groups).size : pick(plan.groups).stride);
      break;
    case 2:
      if (!plan.operators.empty()) {
        static constexpr const char *kNames[] = {
            "aten::max_pool2d_with_indices_backward",
            "aten::from_file",
            "aten::native_layer_norm_backward",
            "aten::_embedding_bag_backward",
            "aten::native_group_norm",
            "aten::nll_loss_backward",
            "aten::reflection_pad2d_backward",
            "aten::unfold_backward",
            "aten::_ctc_loss_backward",
            "aten::_fft_c2r",
            "aten::lu_unpack",
            "aten::_scaled_dot_product_flash_attention_for_cpu"};
        plan::OperatorT &op = pick(plan.operators);
        op.name = kNames[below(std::size(kNames))];
        op.overload.clear();
      }
      break;
    default:
      if (plan.states.empty())
        return;
      plan::StateT &state = pick(plan.states);
      switch (below(8)) {
      case 0:
        return changeList(state.shape);
      case 1:
        return change(state.bytes);
      case 2:
        return change(state.offset);
      case 3:
        return change(state.shard_dim);
      case 4:
        return change(state.flat_offset);
      case 5:
        return changeList(state.init);
      case 6:
        return changeEnum(state.dtype);
      default:
        state.flat = static_cast<int>(below(plan.states.size() + 1)) - 1;
      }
    }
  }

  void mutateValue(plan::ProgramT &program) {
    if (program.values.empty())
      return;
    plan::ValueT &value = pick(program.values);
    switch (below(8)) {
    case 0:
      return changeList(value.shape);
    case 1:
      return changeList(value.strides);
    case 2:
      return change(value.offset);
    case 3:
      return change(value.bytes);
    case 4:
      return changeEnum(value.place);
    case 5:
      return changeEnum(value.dtype);
    case 6:
      value.base = static_cast<uint32_t>(below(program.values.size() + 1));
      return;
    default:
      return changeList(value.literal);
    }
  }

  /// A number that may be one of `count`.
  template <typename T>
  void changeIndex(T &field, size_t count) {
    field = below(4) ? static_cast<T>(below(count + 1)) : number(field);
  }

  void mutateOperand(plan::KernelProgramT &kernel) {
    if (kernel.operands.empty() || !below(6))
      return changeList(kernel.rows);
    plan::KernelOperandT &operand = pick(kernel.operands);
    switch (below(6)) {
    case 0:
      return changeList(operand.row_strides);
    case 1:
      return change(operand.columns);
    case 2:
      return change(operand.column_stride);
    case 3:
      return changeEnum(operand.dtype);
    case 4:
      kernel.operands.push_back(
          std::make_unique<plan::KernelOperandT>(operand));
      return;
    default:
      return changeIndex(operand.written, kernel.ops.size());
    }
  }

  void mutateOp(plan::KernelProgramT &kernel) {
    if (kernel.ops.empty())
      return;
    plan::KernelOpT &op = pick(kernel.ops);
    switch (below(5)) {
    case 0:
      return changeIndex(op.kind, getKernelOps().size());
    case 1:
      return changeList(op.integers);
    case 2:
      if (!op.args.empty())
        changeIndex(op.args[below(op.args.size())], kernel.ops.size());
      return;
    case 3:
      return changeList(op.args);
    default:
      kernel.ops.push_back(std::make_unique<plan::KernelOpT>(op));
    }
  }

  void mutateInstruction(plan::PlanT &plan, plan::ProgramT &program) {
    if (program.instructions.empty())
      return;
    size_t at = below(program.instructions.size());
    switch (below(5)) {
    case 0:
      std::swap(program.instructions[at],
                program.instructions[below(program.instructions.size())]);
      return;
    case 1:
      program.instructions.erase(program.instructions.begin() + ptrdiff_t(at));
      return;
    case 2:
      program.instructions.insert(
          program.instructions.begin() + ptrdiff_t(at),
          std::make_unique<plan::InstructionT>(*program.instructions[at]));
      return;
    default:
      break;
    }
    plan::CallT *call = program.instructions[at]->body.AsCall();
    if (!call || call->args.empty())
      return;
    if (!below(4))
      return changeList(call->results);
    if (!below(4)) {
      call->op = static_cast<uint32_t>(below(plan.operators.size() + 1));
      return;
    }
    plan::ArgT &arg = pick(call->args);
    switch (below(4)) {
    case 0:
      return changeEnum(arg.kind);
    case 1:
      return changeList(arg.ints);
    case 2:
      return changeList(arg.values);
    default:
      call->args.push_back(std::make_unique<plan::ArgT>(arg));
    }
  }

  std::minstd_rand random;
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t most, unsigned seed) {
  flatbuffers::Verifier verifier(data, size, 16, ~0u);
  if (seed % 4 == 0 || !verifier.VerifyBuffer<plan::Plan>(nullptr))
    return LLVMFuzzerMutate(data, size, most);
  plan::PlanT plan;
  flatbuffers::GetRoot<plan::Plan>(data)->UnPackTo(&plan);
  // A kind without a body can be read, but not written.
  for (const auto &program : plan.programs)
    for (const auto &instruction : program->instructions)
      if (instruction->body.type != plan::Body::NONE &&
          !instruction->body.value)
        return LLVMFuzzerMutate(data, size, most);
  Mutator(seed / 4).mutate(plan);
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(plan::Plan::Pack(builder, &plan));
  if (builder.GetSize() > most)
    return LLVMFuzzerMutate(data, size, most);
  std::copy_n(builder.GetBufferPointer(), builder.GetSize(), data);
  return builder.GetSize();
}
