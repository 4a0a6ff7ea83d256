//===- Expr.h - Expressions over symbolic sizes -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.export writes sizes and conditions on sizes as text, in three forms
// that are all expressions of Python:
//
//   FloorDiv(Symbol('s27', positive=True, integer=True), Integer(2))   sizes
//   2*s17                                                        ranges of
//   sizes 2*L['x'].size()[0] > L['y'].size()[1] conditions
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_SYMBOLIC_EXPR_H
#define FSDP_IR_CAPTURE_SYMBOLIC_EXPR_H

#include "ir/capture/symbolic/Number.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::capture {

/// "L['x'].size()[0]": a number that belongs to an argument of the model.
struct SymbolicSource {
  /// The keys that lead to the argument, joined by "_" as torch.export names
  /// inputs: "x", "batch_y", "flat_args_1".
  std::string input;
  std::string property; ///< "size", "stride", "storage_offset"; empty: itself
  int64_t index = 0;    ///< the dim of a size or stride
};

class SymbolicExpr {
public:
  /// Throws Error (DynamicDimension) for text that is no such expression.
  static SymbolicExpr parse(llvm::StringRef text);

  /// What symbols and sources stand for; nullopt where that is not known.
  struct Environment {
    llvm::function_ref<std::optional<Number>(llvm::StringRef)> symbol;
    llvm::function_ref<std::optional<Number>(const SymbolicSource &)> source;
  };

  /// Throws Error (DynamicDimension) for what the environment does not know
  /// and for functions that are not known. Branches that are not taken are not
  /// evaluated.
  Number evaluate(const Environment &environment) const;

  /// Names of the symbols, each once, in order.
  std::vector<std::string> getSymbols() const;
  /// Whether the symbol is known to be positive, as sizes are.
  bool isPositive(llvm::StringRef symbol) const;
  /// The symbol's name if the expression is nothing but a symbol, else empty.
  std::string getAsSymbol() const;

  /// The text with its sources written as `describe` has them.
  std::string
  print(llvm::function_ref<std::string(const SymbolicSource &)> describe) const;

  struct Node;

private:
  std::string text;
  std::shared_ptr<const Node> root;
};

struct SymbolicExpr::Node {
  enum class Kind {
    Number,
    String,
    Symbol,
    Source,
    Call, ///< of the function `name`; "and", "or", "if" and "Piecewise" do not
          ///< evaluate all operands
    Pair, ///< ExprCondPair(value, condition) of a Piecewise
  };
  Kind kind = Kind::Number;
  Number number = int64_t(0);
  std::string name; ///< of a symbol or function; a string's content
  bool isPositive = false;
  SymbolicSource source;
  size_t begin = 0, end = 0; ///< of a source in the text
  std::vector<Node> operands;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_SYMBOLIC_EXPR_H
