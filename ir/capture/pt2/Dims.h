//===- Dims.h - Dynamic dimensions of an archive ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An archive exported with dynamic_shapes has symbols in the sizes of its
// inputs, ranges for them, and conditions on sizes under which its graph is
// right. Capture gives each symbol a size, and holds that against both.
//
//===----------------------------------------------------------------------===//

#ifndef FSDP_IR_CAPTURE_PT2_DIMS_H
#define FSDP_IR_CAPTURE_PT2_DIMS_H

#include "ir/capture/pt2/Json.h"
#include "ir/capture/request/Dims.h"
#include "ir/capture/symbolic/Expr.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp::capture {

class Pt2Dims {
public:
  /// Collects the symbols of the inputs; `document` (models/model.json) must
  /// outlive the result. Throws Error.
  static Pt2Dims read(const json::Object &document);

  /// Gives the symbols their sizes. Those that `sizes` leaves open keep the
  /// exported size if `sizes.keepExported`, else they are an error that lists
  /// them. Throws Error: InputNotKnown for names that are not known and for
  /// sizes outside of the range or of the exported conditions, DynamicDimension
  /// for open symbols.
  void bind(const DimSizes &sizes, const std::string &path);

  /// A size, stride or offset, {"as_int": 3} or {"as_expr": …}; `what` is "a
  /// dimension of 'x'", for messages. Throws Error (DynamicDimension) if it is
  /// not bound.
  int64_t evaluate(const json::Value &size, const std::string &what) const;

  /// The number that stands for an input which is no tensor, if it is bound.
  std::optional<Number> getNumber(const std::string &input) const;

  /// Each symbol of the inputs, in order. They are bound.
  std::vector<DynamicDim> describe() const;

private:
  struct Symbol {
    std::string name;
    std::vector<std::string> places; ///< "x.0", "z.0 (2*s17)"
    std::optional<int64_t> min, max;
    std::optional<int64_t> exported, bound;
    bool isPositive = false;
  };
  /// A size that is a symbol or computed from symbols, else a number.
  struct Size {
    std::optional<SymbolicExpr> expr;
    std::string text; ///< of the expression, for people
    std::optional<int64_t> number, exported;
  };
  struct Input {
    std::string name;
    std::vector<Size> sizes, strides;
    std::optional<Size> value; ///< of an input that is a number
  };
  struct Range {
    std::string text;
    SymbolicExpr expr;
    std::optional<int64_t> min, max;
  };

  Size readSize(const json::Value &size) const;
  void addInput(const json::Object &spec, const json::Object &graph);
  void addPlace(const Size &size, const std::string &place);
  void readRanges(const json::Object &document);

  Symbol *find(llvm::StringRef name);
  const Symbol *find(llvm::StringRef name) const;
  const Size *findPlace(llvm::StringRef name) const;
  std::optional<Number> lookup(llvm::StringRef symbol) const;
  std::optional<Number> lookup(const SymbolicSource &source) const;
  const Input *findInput(const SymbolicSource &source) const;
  std::optional<int64_t> solve(const Size &size, llvm::StringRef symbol,
                               int64_t value) const;
  void bindName(const std::string &name, int64_t value);
  void bindSymbol(Symbol &symbol, int64_t value, const std::string &given);
  void checkRanges() const;
  void checkConditions() const;
  bool isExported() const;
  [[noreturn]] void refuseName(const std::string &name) const;
  [[noreturn]] void refuseUnbound(const std::string &path) const;
  std::string describe(const Symbol &symbol) const;
  std::string describeSizes() const;

  std::vector<Symbol> symbols;
  std::vector<Input> inputs; ///< all of the call, in order
  std::vector<Range> ranges;
  std::vector<std::string> conditions;
};

} // namespace fsdp::capture

#endif // FSDP_IR_CAPTURE_PT2_DIMS_H
