//===- ExprParser.cpp - Expressions as they are written -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "ir/capture/symbolic/Expr.h"

#include "support/Error.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <limits>
#include <utility>

using namespace fsdp;
using namespace fsdp::capture;

/// Deeper nesting than any real size has would use up the stack.
static constexpr unsigned kMaxDepth = 200;
/// A chain of operators is as deep as it is long.
static constexpr unsigned kMaxCalls = 4000;

using Node = SymbolicExpr::Node;
using Kind = Node::Kind;

namespace {

/// Recursive descent over Python's grammar of expressions.
class Parser {
public:
  explicit Parser(llvm::StringRef text) : text(text) {}

  Node parse() {
    Node node = parseConditional();
    skipSpace();
    if (position != text.size())
      fail();
    return node;
  }

private:
  [[noreturn]] void fail() {
    throw Error(ErrorId::DynamicDimension,
                "the model's expression of sizes '" + text.str() +
                    "' is not understood; export the model without "
                    "dynamic_shapes, at the shapes to train with");
  }

  void skipSpace() {
    while (position < text.size() && llvm::isSpace(text[position]))
      ++position;
  }
  bool consume(llvm::StringRef token) {
    skipSpace();
    if (!text.substr(position).starts_with(token))
      return false;
    position += token.size();
    return true;
  }
  void expect(llvm::StringRef token) {
    if (!consume(token))
      fail();
  }
  bool consumeWord(llvm::StringRef word) {
    skipSpace();
    llvm::StringRef rest = text.substr(position);
    if (!rest.starts_with(word) ||
        (rest.size() > word.size() && isNamePart(rest[word.size()])))
      return false;
    position += word.size();
    return true;
  }
  static bool isNamePart(char c) { return llvm::isAlnum(c) || c == '_'; }
  llvm::StringRef consumeName() {
    skipSpace();
    llvm::StringRef name = text.substr(position).take_while(isNamePart);
    if (name.empty() || llvm::isDigit(name.front()))
      fail();
    position += name.size();
    return name;
  }

  Node call(llvm::StringRef name, std::vector<Node> operands) {
    if (++calls > kMaxCalls)
      fail();
    Node node;
    node.kind = Kind::Call;
    node.name = name.str();
    node.operands = std::move(operands);
    return node;
  }
  static Node makeNumber(Number value) {
    Node node;
    node.number = value;
    return node;
  }

  Node parseConditional() {
    // All recursion passes through here, or through unary operators.
    if (++depth > kMaxDepth)
      fail();
    Node value = parseOr();
    if (consumeWord("if")) {
      Node condition = parseOr();
      if (!consumeWord("else"))
        fail();
      Node otherwise = parseConditional();
      value = call(
          "if", {std::move(condition), std::move(value), std::move(otherwise)});
    }
    --depth;
    return value;
  }
  Node parseOr() { return parseChain("or", &Parser::parseAnd); }
  Node parseAnd() { return parseChain("and", &Parser::parseNot); }
  /// Parts of one kind with the word between them, from the left.
  Node parseChain(llvm::StringRef word, Node (Parser::*parsePart)()) {
    Node left = (this->*parsePart)();
    while (consumeWord(word)) {
      Node right = (this->*parsePart)();
      left = call(word, {std::move(left), std::move(right)});
    }
    return left;
  }
  Node parseNot() {
    if (!consumeWord("not"))
      return parseComparison();
    if (++depth > kMaxDepth)
      fail();
    Node operand = parseNot();
    --depth;
    return call("not_", {std::move(operand)});
  }
  /// a < b <= c is a < b and b <= c.
  Node parseComparison() {
    Node left = parseBinary(0);
    std::optional<Node> all;
    while (true) {
      static constexpr std::pair<const char *, const char *> operators[] = {
          {"==", "eq"}, {"!=", "ne"}, {"<=", "le"},
          {">=", "ge"}, {"<", "lt"},  {">", "gt"}};
      const auto *found = llvm::find_if(
          operators, [&](const auto &entry) { return consume(entry.first); });
      if (found == std::end(operators))
        return all ? std::move(*all) : left;
      Node right = parseBinary(0);
      Node test = call(found->second, {std::move(left), right});
      all = all ? call("and", {std::move(*all), std::move(test)})
                : std::move(test);
      left = std::move(right);
    }
  }
  /// Binary operators from the loosest to the tightest, `**` excepted.
  Node parseBinary(unsigned level) {
    struct Level {
      std::pair<const char *, const char *> operators[4];
    };
    static constexpr Level levels[] = {
        {{{"|", "or_"}}},
        {{{"^", "xor"}}},
        {{{"&", "and_"}}},
        {{{"<<", "lshift"}, {">>", "rshift"}}},
        {{{"+", "add"}, {"-", "sub"}}},
        {{{"//", "floordiv"}, {"*", "mul"}, {"/", "truediv"}, {"%", "mod"}}},
    };
    if (level == std::size(levels))
      return parseUnary();
    Node left = parseBinary(level + 1);
    while (true) {
      const char *name = nullptr;
      for (auto [token, function] : levels[level].operators)
        if (token && consume(token)) {
          name = function;
          break;
        }
      if (!name)
        return left;
      Node right = parseBinary(level + 1);
      left = call(name, {std::move(left), std::move(right)});
    }
  }
  Node parseUnary() {
    for (auto [token, function] : {std::pair{"-", "neg"}, {"+", "pos"}})
      if (consume(token)) {
        if (++depth > kMaxDepth)
          fail();
        Node operand = parseUnary();
        --depth;
        return call(function, {std::move(operand)});
      }
    Node base = parsePrimary();
    if (!consume("**"))
      return base;
    if (++depth > kMaxDepth)
      fail();
    Node exponent = parseUnary(); // to the right, tighter than a minus before
    --depth;
    return call("pow", {std::move(base), std::move(exponent)});
  }

  Node parsePrimary() {
    skipSpace();
    if (position == text.size())
      fail();
    char first = text[position];
    if (consume("(")) {
      Node node = parseConditional();
      expect(")");
      return node;
    }
    if (first == '\'' || first == '"')
      return parseString();
    if (llvm::isDigit(first) || first == '.')
      return parseNumber();
    size_t begin = position;
    llvm::StringRef name = consumeName();
    if (name == "L")
      return parseSource(begin);
    if (name == "True" || name == "true")
      return makeNumber(true);
    if (name == "False" || name == "false")
      return makeNumber(false);
    // math.floor, torch.sym_max: what they are called tells which they are.
    bool isDotted = false;
    while (consume(".")) {
      name = consumeName();
      isDotted = true;
    }
    if (consume("("))
      return parseCall(name);
    if (isDotted && name == "inf")
      return makeNumber(std::numeric_limits<double>::infinity());
    if (isDotted)
      fail();
    Node node;
    node.kind = Kind::Symbol;
    node.name = name.str();
    return node;
  }

  Node parseString() {
    char quote = text[position++];
    size_t end = text.find(quote, position);
    if (end == llvm::StringRef::npos)
      fail();
    Node node;
    node.kind = Kind::String;
    node.name = text.slice(position, end).str();
    position = end + 1;
    return node;
  }

  Node parseNumber() {
    llvm::StringRef digits = text.substr(position).take_while(llvm::isDigit);
    size_t end = position + digits.size();
    bool isFloat = false;
    if (end < text.size() && text[end] == '.') {
      isFloat = true;
      do
        ++end;
      while (end < text.size() && llvm::isDigit(text[end]));
    }
    if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
      isFloat = true;
      ++end;
      if (end < text.size() && (text[end] == '-' || text[end] == '+'))
        ++end;
      while (end < text.size() && llvm::isDigit(text[end]))
        ++end;
    }
    llvm::StringRef literal = text.slice(position, end);
    position = end;
    int64_t integer;
    double real;
    if (!isFloat && !literal.getAsInteger(10, integer))
      return makeNumber(integer);
    if (isFloat && !literal.getAsDouble(real))
      return makeNumber(real);
    fail();
  }

  /// Behind "L": subscripts and attributes that lead to an input, then perhaps
  /// one of its properties.
  Node parseSource(size_t begin) {
    Node node;
    node.kind = Kind::Source;
    node.begin = begin;
    SymbolicSource &source = node.source;
    auto addKey = [&](llvm::StringRef key) {
      source.input += (source.input.empty() ? "" : "_") + key.str();
    };
    auto parseIndex = [&] {
      Node index = parseNumber();
      const int64_t *number = std::get_if<int64_t>(&index.number);
      if (!number)
        fail();
      return *number;
    };
    while (true) {
      if (consume("[")) {
        skipSpace();
        if (position < text.size() && llvm::isDigit(text[position]))
          addKey(std::to_string(parseIndex()));
        else if (position < text.size() &&
                 (text[position] == '\'' || text[position] == '"'))
          addKey(parseString().name);
        else
          fail();
        expect("]");
      } else if (consume(".")) {
        llvm::StringRef name = consumeName();
        if (!consume("(")) {
          addKey(name);
          continue;
        }
        expect(")");
        source.property = name.str();
        if (consume("[")) {
          skipSpace();
          source.index = parseIndex();
          expect("]");
        }
        break;
      } else {
        break;
      }
    }
    if (source.input.empty())
      fail();
    node.end = position;
    return node;
  }

  /// Behind "name(".
  Node parseCall(llvm::StringRef name) {
    std::vector<Node> operands;
    bool isPositive = false, isFirst = true;
    while (!consume(")")) {
      if (!std::exchange(isFirst, false))
        expect(",");
      // Keywords only qualify symbols and floats.
      size_t start = position;
      skipSpace();
      llvm::StringRef word = text.substr(position).take_while(isNamePart);
      position += word.size();
      if (!word.empty() && consume("=") && !consume("=")) {
        Node value = parseConditional();
        isPositive |= word == "positive" && value.kind == Kind::Number &&
                      isTrue(value.number);
        continue;
      }
      position = start;
      operands.push_back(parseConditional());
    }
    bool isNamed = operands.size() == 1 && operands[0].kind == Kind::String;
    if ((name == "Symbol" || name == "Dummy") && isNamed) {
      Node node = std::move(operands[0]);
      node.kind = Kind::Symbol;
      node.isPositive = isPositive;
      return node;
    }
    if (name == "Float" && isNamed) {
      double value;
      if (llvm::StringRef(operands[0].name).getAsDouble(value))
        fail();
      return makeNumber(value);
    }
    if (name == "Integer" && operands.size() == 1)
      return std::move(operands[0]);
    if (name == "ExprCondPair" && operands.size() == 2) {
      Node node = call(name, std::move(operands));
      node.kind = Kind::Pair;
      return node;
    }
    return call(name, std::move(operands));
  }

  llvm::StringRef text;
  size_t position = 0;
  unsigned depth = 0, calls = 0;
};

} // namespace

SymbolicExpr SymbolicExpr::parse(llvm::StringRef text) {
  SymbolicExpr expr;
  expr.text = text.str();
  expr.root = std::make_shared<const Node>(Parser(expr.text).parse());
  return expr;
}
