//===- Number.cpp - Numbers computed from sizes ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/symbolic/Number.h"

#include "support/Error.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace fsdp;
using namespace fsdp::capture;

namespace {

using Arguments = llvm::ArrayRef<Number>;

[[noreturn]] void fail(const std::string &message) {
  throw Error(ErrorId::DynamicDimension,
              "a size that the model computes " + message +
                  "; give its dimensions other sizes with --dim");
}

bool isFloat(const Number &number) {
  return std::holds_alternative<double>(number);
}

bool anyFloat(Arguments numbers) { return llvm::any_of(numbers, isFloat); }

/// Of an int or a bool.
int64_t toInt(const Number &number) {
  if (const bool *flag = std::get_if<bool>(&number))
    return *flag;
  if (const int64_t *value = std::get_if<int64_t>(&number))
    return *value;
  fail("is the float " + toString(number) + " where an integer is needed");
}

int64_t toIntChecked(double value) {
  // -2^63 is a double, 2^63 - 1 is not.
  if (!(value >= -0x1p63 && value < 0x1p63))
    fail("is beyond 64 bits");
  return static_cast<int64_t>(value);
}

void checkFits(bool overflows) {
  if (overflows)
    fail("is beyond 64 bits");
}

void checkDivisor(const Number &divisor) {
  if (toDouble(divisor) == 0)
    fail("divides by zero");
}

/// Exact for all of int64.
long double toReal(const Number &number) {
  return isFloat(number) ? static_cast<long double>(std::get<double>(number))
                         : static_cast<long double>(toInt(number));
}

int64_t multiply(int64_t a, int64_t b) {
  int64_t result;
  checkFits(__builtin_mul_overflow(a, b, &result));
  return result;
}

int64_t subtract(int64_t a, int64_t b) {
  int64_t result;
  checkFits(__builtin_sub_overflow(a, b, &result));
  return result;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Number add(Arguments arguments) {
  if (anyFloat(arguments)) {
    double sum = 0;
    for (const Number &number : arguments)
      sum += toDouble(number);
    return sum;
  }
  int64_t sum = 0;
  for (const Number &number : arguments)
    checkFits(__builtin_add_overflow(sum, toInt(number), &sum));
  return sum;
}

Number mul(Arguments arguments) {
  if (anyFloat(arguments)) {
    double product = 1;
    for (const Number &number : arguments)
      product *= toDouble(number);
    return product;
  }
  int64_t product = 1;
  for (const Number &number : arguments)
    product = multiply(product, toInt(number));
  return product;
}

Number neg(Arguments a) {
  if (isFloat(a[0]))
    return -toDouble(a[0]);
  return subtract(0, toInt(a[0]));
}

Number sub(Arguments a) {
  if (anyFloat(a))
    return toDouble(a[0]) - toDouble(a[1]);
  return subtract(toInt(a[0]), toInt(a[1]));
}

Number pos(Arguments a) { return isFloat(a[0]) ? a[0] : Number(toInt(a[0])); }

/// Rounds down; `remainder` has the divisor's sign.
int64_t divideDown(int64_t a, int64_t b, int64_t &remainder) {
  if (b == -1) { // the one quotient that may not fit
    remainder = 0;
    return subtract(0, a);
  }
  int64_t quotient = a / b;
  remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    --quotient;
  }
  return quotient;
}

double moduloDown(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0))
    remainder += b;
  return remainder;
}

Number floordiv(Arguments a) {
  checkDivisor(a[1]);
  if (anyFloat(a)) {
    double x = toDouble(a[0]), y = toDouble(a[1]);
    return std::round((x - moduloDown(x, y)) / y);
  }
  int64_t remainder;
  return divideDown(toInt(a[0]), toInt(a[1]), remainder);
}

Number mod(Arguments a) {
  checkDivisor(a[1]);
  if (anyFloat(a))
    return moduloDown(toDouble(a[0]), toDouble(a[1]));
  int64_t remainder;
  divideDown(toInt(a[0]), toInt(a[1]), remainder);
  return remainder;
}

Number ceildiv(Arguments a) {
  Number negated[] = {neg(a[0]), a[1]};
  return neg(floordiv(negated));
}

Number truediv(Arguments a) {
  checkDivisor(a[1]);
  return static_cast<double>(toReal(a[0]) / toReal(a[1]));
}

Number floatPow(Arguments a) {
  double base = toDouble(a[0]), exponent = toDouble(a[1]);
  if (base == 0 && exponent < 0)
    fail("divides by zero");
  if (base < 0 && exponent != std::floor(exponent))
    fail("is a root of a negative number");
  return std::pow(base, exponent);
}

Number pow(Arguments a) {
  if (anyFloat(a) || toInt(a[1]) < 0)
    return floatPow(a);
  int64_t base = toInt(a[0]), result = 1;
  // Beyond 63 factors only these three stay within 64 bits.
  int64_t exponent = toInt(a[1]);
  if (base == 0 || base == 1)
    return exponent == 0 ? int64_t(1) : base;
  if (base == -1)
    return exponent % 2 ? int64_t(-1) : int64_t(1);
  for (; exponent > 0; --exponent)
    result = multiply(result, base);
  return result;
}

Number modularIndexing(Arguments a) {
  Number quotient[] = {floordiv(a.take_front(2)), a[2]};
  return mod(quotient);
}

Number lshift(Arguments a) {
  int64_t shift = toInt(a[1]);
  if (shift < 0)
    fail("shifts by a negative number");
  Number power[] = {int64_t(2), shift};
  return multiply(toInt(a[0]), toInt(pow(power)));
}

Number rshift(Arguments a) {
  int64_t shift = toInt(a[1]);
  if (shift < 0)
    fail("shifts by a negative number");
  return toInt(a[0]) >> std::min<int64_t>(shift, 63);
}

Number abs(Arguments a) { return toDouble(a[0]) < 0 ? neg(a) : pos(a); }

bool areBools(Arguments a) {
  return std::holds_alternative<bool>(a[0]) &&
         std::holds_alternative<bool>(a[1]);
}

Number bitAnd(Arguments a) {
  int64_t result = toInt(a[0]) & toInt(a[1]);
  return areBools(a) ? Number(result != 0) : Number(result);
}

Number bitOr(Arguments a) {
  int64_t result = toInt(a[0]) | toInt(a[1]);
  return areBools(a) ? Number(result != 0) : Number(result);
}

Number bitXor(Arguments a) {
  int64_t result = toInt(a[0]) ^ toInt(a[1]);
  return areBools(a) ? Number(result != 0) : Number(result);
}

//===----------------------------------------------------------------------===//
// Comparisons and choices
//===----------------------------------------------------------------------===//

Number eq(Arguments a) { return toReal(a[0]) == toReal(a[1]); }
Number ne(Arguments a) { return toReal(a[0]) != toReal(a[1]); }
Number lt(Arguments a) { return toReal(a[0]) < toReal(a[1]); }
Number le(Arguments a) { return toReal(a[0]) <= toReal(a[1]); }
Number gt(Arguments a) { return toReal(a[0]) > toReal(a[1]); }
Number ge(Arguments a) { return toReal(a[0]) >= toReal(a[1]); }
Number logicalNot(Arguments a) { return !isTrue(a[0]); }
Number logicalAnd(Arguments a) { return llvm::all_of(a, isTrue); }
Number logicalOr(Arguments a) { return llvm::any_of(a, isTrue); }
Number choose(Arguments a) { return isTrue(a[0]) ? a[1] : a[2]; }

/// The result is a float if any argument is, as sym_max has it.
template <bool IsMax>
Number extreme(Arguments a) {
  Number best = a[0];
  for (const Number &number : a.drop_front())
    if (IsMax ? toReal(number) > toReal(best) : toReal(number) < toReal(best))
      best = number;
  return anyFloat(a) ? Number(toDouble(best)) : best;
}

//===----------------------------------------------------------------------===//
// Floats and integers
//===----------------------------------------------------------------------===//

Number toFloat(Arguments a) { return toDouble(a[0]); }

template <double (*Round)(double)>
Number roundWith(Arguments a) {
  return isFloat(a[0]) ? toIntChecked(Round(toDouble(a[0]))) : toInt(a[0]);
}
double truncate(double value) { return std::trunc(value); }
double roundDown(double value) { return std::floor(value); }
double roundUp(double value) { return std::ceil(value); }

Number truncToFloat(Arguments a) { return std::trunc(toDouble(a[0])); }

Number round(Arguments a) {
  if (a.size() == 1) {
    if (!isFloat(a[0]))
      return toInt(a[0]);
    double value = toDouble(a[0]);
    double below = std::floor(value), rest = value - below;
    bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) != 0);
    return toIntChecked(below + up);
  }
  int64_t digits = toInt(a[1]);
  if (!isFloat(a[0]) && digits >= 0)
    return toInt(a[0]);
  if (digits < 0 || digits > 300)
    fail("is rounded to " + std::to_string(digits) +
         " digits, which is not supported");
  // Decimal rounding of the exact value, as Python does it.
  char text[700];
  std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(digits),
                toDouble(a[0]));
  return std::strtod(text, nullptr);
}

Number squareRoot(Arguments a) {
  if (toDouble(a[0]) < 0)
    fail("is a root of a negative number");
  return std::sqrt(toDouble(a[0]));
}

template <double (*Function)(double)>
Number apply(Arguments a) {
  double result = Function(toDouble(a[0]));
  if (!std::isfinite(result))
    fail("is not a finite number");
  return result;
}

struct Function {
  Number (*run)(Arguments);
  unsigned least, most;
};

constexpr unsigned kAny = std::numeric_limits<unsigned>::max();

/// Names of Python's operator module, builtins and math; of torch (sym_…); and
/// of the classes in torch.export's expressions.
struct Named {
  Function function;
  llvm::StringRef names; ///< with blanks between them
};
constexpr Named kNamed[] = {
    {{add, 1, kAny}, "add Add"},
    {{sub, 2, 2}, "sub"},
    {{mul, 1, kAny}, "mul Mul"},
    {{neg, 1, 1}, "neg"},
    {{pos, 1, 1}, "pos Identity"},
    {{abs, 1, 1}, "abs Abs fabs"},
    {{floordiv, 2, 2}, "floordiv FloorDiv CleanDiv"},
    {{ceildiv, 2, 2}, "CeilDiv"},
    {{mod, 2, 2}, "mod Mod PythonMod"},
    {{truediv, 2, 2}, "truediv IntTrueDiv FloatTrueDiv Rational"},
    {{pow, 2, 2}, "pow Pow PowByNatural"},
    {{floatPow, 2, 2}, "FloatPow"},
    {{modularIndexing, 3, 3}, "ModularIndexing"},
    {{lshift, 2, 2}, "lshift LShift"},
    {{rshift, 2, 2}, "rshift RShift"},
    {{bitAnd, 2, 2}, "and_ BitwiseFn_bitwise_and"},
    {{bitOr, 2, 2}, "or_ BitwiseFn_bitwise_or"},
    {{bitXor, 2, 2}, "xor BitwiseFn_bitwise_xor"},
    {{eq, 2, 2}, "eq Equality Eq"},
    {{ne, 2, 2}, "ne Unequality Ne"},
    {{lt, 2, 2}, "lt StrictLessThan"},
    {{le, 2, 2}, "le LessThan"},
    {{gt, 2, 2}, "gt StrictGreaterThan"},
    {{ge, 2, 2}, "ge GreaterThan"},
    {{logicalNot, 1, 1}, "not_ Not sym_not"},
    {{logicalAnd, 1, kAny}, "And"},
    {{logicalOr, 1, kAny}, "Or"},
    {{choose, 3, 3}, "sym_ite Where"},
    {{extreme<true>, 1, kAny}, "max Max sym_max"},
    {{extreme<false>, 1, kAny}, "min Min sym_min"},
    {{add, 1, kAny}, "sym_sum"},
    {{toFloat, 1, 1}, "float sym_float ToFloat"},
    {{roundWith<truncate>, 1, 1}, "int sym_int trunc TruncToInt"},
    {{roundWith<roundDown>, 1, 1}, "floor FloorToInt"},
    {{roundWith<roundUp>, 1, 1}, "ceil ceiling CeilToInt"},
    {{truncToFloat, 1, 1}, "TruncToFloat"},
    {{round, 1, 2}, "round RoundToInt RoundDecimal"},
    {{squareRoot, 1, 1}, "sqrt sym_sqrt _sym_sqrt OpaqueUnaryFn_sqrt"},
};

/// Known as they are, and with two prefixes.
constexpr std::pair<llvm::StringRef, Number (*)(Arguments)> kOpaque[] = {
    {"cos", apply<std::cos>},   {"cosh", apply<std::cosh>},
    {"sin", apply<std::sin>},   {"sinh", apply<std::sinh>},
    {"tan", apply<std::tan>},   {"tanh", apply<std::tanh>},
    {"asin", apply<std::asin>}, {"asinh", apply<std::asinh>},
    {"acos", apply<std::acos>}, {"atan", apply<std::atan>},
    {"exp", apply<std::exp>},   {"log", apply<std::log>},
    {"log2", apply<std::log2>},
};

const llvm::StringMap<Function> &getFunctions() {
  static const llvm::StringMap<Function> functions = [] {
    llvm::StringMap<Function> table;
    for (const Named &each : kNamed)
      for (llvm::StringRef name : llvm::split(each.names, ' '))
        table[name] = each.function;
    for (auto [name, run] : kOpaque)
      for (const char *prefix : {"", "_sym_", "OpaqueUnaryFn_"})
        table[(llvm::Twine(prefix) + name).str()] = {run, 1, 1};
    return table;
  }();
  return functions;
}

} // namespace

bool fsdp::capture::isTrue(const Number &number) {
  return toDouble(number) != 0;
}

double fsdp::capture::toDouble(const Number &number) {
  return std::visit([](auto value) { return static_cast<double>(value); },
                    number);
}

std::string fsdp::capture::toString(const Number &number) {
  if (const bool *flag = std::get_if<bool>(&number))
    return *flag ? "True" : "False";
  char text[32];
  char *end = std::visit(
      [&](auto value) {
        if constexpr (std::is_same_v<decltype(value), bool>)
          return text;
        else
          return std::to_chars(text, text + sizeof(text), value).ptr;
      },
      number);
  return std::string(text, end);
}

bool fsdp::capture::isNumberFunction(llvm::StringRef name) {
  return getFunctions().contains(name);
}

Number fsdp::capture::callNumberFunction(llvm::StringRef name,
                                         llvm::ArrayRef<Number> arguments) {
  auto found = getFunctions().find(name);
  if (found == getFunctions().end())
    throw Error(ErrorId::DynamicDimension,
                "a size is computed by '" + name.str() +
                    "', which is not known; export the model without "
                    "dynamic_shapes, at the shapes to train with");
  const Function &function = found->second;
  if (arguments.size() < function.least || arguments.size() > function.most)
    throw Error(ErrorId::DynamicDimension,
                "a size is computed by '" + name.str() + "' of " +
                    std::to_string(arguments.size()) + " arguments");
  return function.run(arguments);
}
