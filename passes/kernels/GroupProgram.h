//===- GroupProgram.h - A group over given rows -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef FSDP_PASSES_KERNELS_GROUPPROGRAM_H
#define FSDP_PASSES_KERNELS_GROUPPROGRAM_H

#include "passes/kernels/Access.h"
#include "passes/kernels/Program.h"
#include "passes/kernels/Spaces.h"

namespace fsdp {

/// Whether a program holds the value as a number.
bool isKernelConstant(mlir::Value value);
/// That number; nothing for other values.
std::optional<Term> buildConstant(mlir::Value value, KernelBuilder &builder);

/// Writes the program of members whose rows are assigned.
class KernelGroupBuilder {
public:
  /// `order`: of the dims of each shape, if all are alike; none: as they are.
  KernelGroupBuilder(llvm::ArrayRef<KernelMember> members,
                     llvm::ArrayRef<mlir::Value> results, int64_t rows,
                     llvm::ArrayRef<unsigned> order)
      : members(members), results(results), rows(rows), order(order) {}

  std::optional<KernelOfOps> build(std::string &why);

private:
  struct Made {
    Term term;
    bool isOneRow, isRowSum;
    int64_t columns;
  };
  struct Operand {
    mlir::Value value;
    Access access;
    plan::DType dtype;
    int32_t written = -1;
  };

  int64_t rowsOf(const KernelMember &member) const {
    return member.isOneRow ? 1 : rows;
  }
  AccessDims listDims(mlir::RankedTensorType type,
                      llvm::ArrayRef<int64_t> frame) const;
  std::optional<Term> read(const KernelMember &member, unsigned operand);
  std::optional<Term> load(const KernelMember &member, unsigned operand);
  bool isFit(const KernelMember &member, unsigned operand,
             const Made &made) const;
  mlir::LogicalResult emit(const KernelMember &member);
  mlir::LogicalResult write(mlir::Value result);
  mlir::LogicalResult finish(KernelOfOps &kernel);
  void removeDead(plan::KernelProgramT &program);
  mlir::LogicalResult fail(std::string reason) {
    why = std::move(reason);
    return mlir::failure();
  }

  llvm::ArrayRef<KernelMember> members;
  llvm::ArrayRef<mlir::Value> results;
  int64_t rows;
  llvm::ArrayRef<unsigned> order;

  KernelBuilder builder;
  llvm::DenseMap<mlir::Value, Made> made;
  llvm::SmallVector<Operand, 0> reads, writes;
  std::string why;
};

} // namespace fsdp

#endif // FSDP_PASSES_KERNELS_GROUPPROGRAM_H
