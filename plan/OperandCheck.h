//===- OperandCheck.h - What a rule says about operands ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PLAN_OPERANDCHECK_H
#define FSDP_PLAN_OPERANDCHECK_H

#include "plan/DType.h"
#include "plan/Operators.h"
#include "plan/Shape.h"

#include <algorithm>
#include <limits>

namespace fsdp::operands {

using Dims = std::vector<int64_t>;

/// Collects what is wrong with operands, and the indices among them.
class Check {
public:
  explicit Check(const CallOperands &operands) : operands(operands) {}

  std::string problem;
  std::vector<IndexOperand> indices;

  void fail(const std::string &what) {
    if (problem.empty())
      problem = what;
  }
  /// An operand's shape; empty, with a problem, if there is none.
  const Dims &shape(size_t argument) {
    static const Dims none;
    const plan::ValueT *value = operands.tensor(argument);
    if (!value)
      fail("expects a tensor as argument " + std::to_string(argument));
    return value ? value->shape : none;
  }
  bool has(size_t argument) const { return operands.has(argument); }
  const Dims &integers(size_t argument) const {
    return operands.integers(argument);
  }
  int64_t integer(size_t argument) const {
    const Dims &list = operands.integers(argument);
    return list.size() == 1 ? list[0] : -1;
  }
  const plan::ValueT *value(size_t argument) const {
    return operands.tensor(argument);
  }
  std::optional<double> number(size_t argument) const {
    return operands.number(argument);
  }
  /// In elements, of a dim that may count from the end; 1 where there is no
  /// second one.
  int64_t strideOf(size_t argument, int64_t dim) const {
    const plan::ValueT *value = operands.tensor(argument);
    if (!value)
      return 1;
    int64_t rank = static_cast<int64_t>(value->shape.size());
    auto i = static_cast<size_t>(dim < 0 ? dim + rank : dim);
    bool isOne = i >= value->strides.size() || value->shape[i] == 1;
    return isOne ? 1 : value->strides[i];
  }
  void expect(size_t argument, const Dims &wanted) {
    if (const Dims &found = shape(argument); found != wanted)
      fail("expects shape " + toString(wanted) + " for argument " +
           std::to_string(argument) + ", found " + toString(found));
  }
  void expectIfThere(size_t argument, const Dims &wanted) {
    if (has(argument))
      expect(argument, wanted);
  }
  void same(size_t a, size_t b) { expect(a, Dims(shape(b))); }
  void that(bool holds, const char *what) {
    if (!holds)
      fail(std::string("expects ") + what);
  }
  /// No element lies over another, and there are no gaps.
  void dense(size_t argument) {
    const plan::ValueT *value = operands.tensor(argument);
    uint64_t element = value ? dtypeBytes(value->dtype) : 1;
    if (value && checkedExtent(value->shape, value->strides, element) !=
                     checkedExtent(value->shape, {}, element))
      fail("expects no gaps in argument " + std::to_string(argument));
  }
  void contiguous(size_t argument) {
    const plan::ValueT *value = operands.tensor(argument);
    that(!value || value->strides.empty(), "contiguous operands");
  }
  /// Elements are integers from `least` to `greatest`, or `other`.
  void index(size_t argument, int64_t least, int64_t greatest,
             std::optional<int64_t> other = std::nullopt) {
    dense(argument);
    const plan::ValueT *value = operands.tensor(argument);
    that(value && (value->dtype == plan::DType::i64 ||
                   value->dtype == plan::DType::i32),
         "indices of i64 or i32");
    indices.push_back({argument, least, greatest, other});
  }

private:
  const CallOperands &operands;
};

/// Of sizes, which are no less than 0; the greatest number if it is beyond.
inline int64_t product(const Dims &dims, size_t first, size_t end) {
  int64_t count = 1;
  for (size_t i = first; i < end; ++i)
    if (__builtin_mul_overflow(count, dims[i], &count))
      return std::numeric_limits<int64_t>::max();
  return count;
}

inline bool isEmpty(const Dims &shape) {
  return product(shape, 0, shape.size()) == 0;
}

/// The sum; no size at all if it is beyond what numbers hold.
inline int64_t sum(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_add_overflow(a, b, &result) ? -1 : result;
}

/// `shape` but for its last dims, which are `last`.
inline Dims withLast(const Dims &shape, const Dims &last) {
  Dims dims = shape;
  if (dims.size() >= last.size())
    std::copy(last.begin(), last.end(), dims.end() - ptrdiff_t(last.size()));
  return dims;
}

using Rule = void (*)(Check &);

/// Of kernels over images and windows; null if there is none.
Rule findSpatialRule(std::string_view op);

} // namespace fsdp::operands

#endif // FSDP_PLAN_OPERANDCHECK_H
