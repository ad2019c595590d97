#include <algorithm>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/parser.h"

namespace am::chat {
namespace {

constexpr int kDeepestExpression = 200;

int levels_of(const ExpressionPointer& expression) { return expression ? expression->depth : 0; }

int deepest(const std::vector<ExpressionPointer>& expressions) {
  int depth = 0;
  for (const auto& expression : expressions) depth = std::max(depth, levels_of(expression));
  return depth;
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (++parser.levels_ > kDeepestExpression) {
    --parser.levels_;
    parser.tokens_.fail(
        cat("the template is nested deeper than the limit of ", kDeepestExpression));
  }
}

template <typename Node>
ExpressionPointer ExpressionParser::make(int line, Node node, int depth_below) {
  if (depth_below >= kDeepestExpression) {
    tokens_.fail(cat("an expression is nested deeper than the limit of ", kDeepestExpression));
  }
  auto made = std::make_unique<Expression>();
  made->node = std::move(node);
  made->line = line;
  made->depth = depth_below + 1;
  return made;
}

ExpressionPointer ExpressionParser::parse_expression(bool with_conditional) {
  const Level level(*this);
  const size_t known_failures = unknown_.size();
  ExpressionPointer value = parse_and_or(true);
  while (with_conditional && tokens_.is_name("if")) {
    const int line = tokens_.next().line;
    const bool was_soft = is_soft_;
    is_soft_ = true;
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(known_failures), unknown_.end());
    ExpressionPointer condition = parse_and_or(true);
    ExpressionPointer otherwise;
    if (tokens_.take_name("else")) otherwise = parse_expression();
    is_soft_ = was_soft;
    const int depth = std::max({levels_of(value), levels_of(condition), levels_of(otherwise)});
    value = make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)},
                 depth);
  }
  return value;
}

ExpressionPointer ExpressionParser::parse_and_or(bool is_or) {
  const std::string op = is_or ? "or" : "and";
  ExpressionPointer left = is_or ? parse_and_or(false) : parse_not();
  while (tokens_.is_name(op)) {
    const int line = tokens_.next().line;
    ExpressionPointer right = is_or ? parse_and_or(false) : parse_not();
    const int depth = std::max(levels_of(left), levels_of(right));
    left = make(line, Binary{op, std::move(left), std::move(right)}, depth);
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_not() {
  if (!tokens_.is_name("not")) return parse_comparison();
  const Level level(*this);
  const int line = tokens_.next().line;
  ExpressionPointer operand = parse_not();
  const int depth = levels_of(operand);
  return make(line, Unary{'!', std::move(operand)}, depth);
}

ExpressionPointer ExpressionParser::parse_comparison() {
  static constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};
  const int line = tokens_.current().line;
  Comparison comparison{parse_binary(0), {}};
  int depth = levels_of(comparison.first);
  while (true) {
    std::string op;
    if (tokens_.is(TokenType::kOperator) &&
        std::find(std::begin(kComparisons), std::end(kComparisons), tokens_.current().text) !=
            std::end(kComparisons)) {
      op = tokens_.next().text;
    } else if (tokens_.take_name("in")) {
      op = "in";
    } else if (tokens_.is_name("not") && tokens_.following().type == TokenType::kName &&
               tokens_.following().text == "in") {
      tokens_.next();
      tokens_.next();
      op = "not in";
    } else {
      break;
    }
    ExpressionPointer operand = parse_binary(0);
    depth = std::max(depth, levels_of(operand));
    comparison.rest.emplace_back(std::move(op), std::move(operand));
  }
  if (comparison.rest.empty()) return std::move(comparison.first);
  return make(line, std::move(comparison), depth);
}

// Parses a chain of binary operators. `level` selects the operators: 0 is + and -, which bind less
// strongly than ~; 1 is * / // %; 2 is **. All these operators are left-associative, even **, as in
// jinja2.
ExpressionPointer ExpressionParser::parse_binary(int level) {
  static constexpr std::string_view kOperators[] = {" + - ", " * / // % ", " ** "};
  const auto operand = [&] {
    return level == 0 ? parse_concatenation() : level == 1 ? parse_binary(2) : parse_unary(true);
  };
  ExpressionPointer left = operand();
  while (tokens_.is(TokenType::kOperator) &&
         kOperators[level].find(cat(' ', tokens_.current().text, ' ')) != std::string_view::npos) {
    const Token op = tokens_.next();
    ExpressionPointer right = operand();
    const int depth = std::max(levels_of(left), levels_of(right));
    left = make(op.line, Binary{op.text, std::move(left), std::move(right)}, depth);
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_concatenation() {
  const int line = tokens_.current().line;
  std::vector<ExpressionPointer> parts;
  do parts.push_back(parse_binary(1));
  while (tokens_.take_operator("~"));
  if (parts.size() == 1) return std::move(parts.front());
  const int depth = deepest(parts);
  return make(line, Concatenation{std::move(parts)}, depth);
}

ExpressionPointer ExpressionParser::parse_unary(bool with_filters) {
  const Level level(*this);
  const Token token = tokens_.current();
  ExpressionPointer node;
  if (token.type == TokenType::kOperator && (token.text == "-" || token.text == "+")) {
    tokens_.next();
    ExpressionPointer operand = parse_unary(false);
    const int depth = levels_of(operand);
    node = make(token.line, Unary{token.text[0], std::move(operand)}, depth);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  while (with_filters) {
    if (tokens_.is_operator("|")) {
      node = parse_filters(std::move(node), false);
    } else if (tokens_.is_name("is")) {
      node = parse_test(std::move(node));
    } else if (tokens_.is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExpressionPointer ExpressionParser::parse_primary() {
  const Token token = tokens_.current();
  switch (token.type) {
    case TokenType::kName:
      return parse_name();
    case TokenType::kText: {
      std::string text;
      while (tokens_.is(TokenType::kText)) text += tokens_.next().text;
      return make(token.line, TextLiteral{std::move(text)}, 0);
    }
    case TokenType::kInteger:
      tokens_.next();
      return make(token.line, Constant{Value::integer(token.integer)}, 0);
    case TokenType::kFloat:
      tokens_.next();
      return make(token.line, Constant{Value::floating(token.real)}, 0);
    default:
      break;
  }
  if (tokens_.take_operator("(")) {
    ExpressionPointer node = parse_tuple(true, true);
    tokens_.expect_operator(")");
    return node;
  }
  if (tokens_.is_operator("[")) return parse_list();
  if (tokens_.is_operator("{")) return parse_dict();
  tokens_.fail_unexpected();
}

ExpressionPointer ExpressionParser::parse_name() {
  const Token token = tokens_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True")
    return make(token.line, Constant{Value::boolean_of(true)}, 0);
  if (name == "false" || name == "False")
    return make(token.line, Constant{Value::boolean_of(false)}, 0);
  if (name == "none" || name == "None") return make(token.line, Constant{Value::none()}, 0);
  for (Signature* macro : macros_) {
    macro->uses_caller = macro->uses_caller || name == "caller";
    macro->uses_varargs = macro->uses_varargs || name == "varargs";
    macro->uses_kwargs = macro->uses_kwargs || name == "kwargs";
  }
  return make(token.line, Name{name}, 0);
}

ExpressionPointer ExpressionParser::parse_tuple(bool with_conditional, bool in_parentheses,
                                                std::string_view end) {
  const int line = tokens_.current().line;
  std::vector<ExpressionPointer> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.is(TokenType::kVariableEnd) || tokens_.is(TokenType::kBlockEnd) ||
        tokens_.is_operator(")") || (!end.empty() && tokens_.is_name(end))) {
      break;
    }
    items.push_back(parse_expression(with_conditional));
    if (!tokens_.is_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !in_parentheses) tokens_.fail("expected an expression");
  const int depth = deepest(items);
  return make(line, ListLiteral{std::move(items), true}, depth);
}

ExpressionPointer ExpressionParser::parse_list() {
  const int line = tokens_.next().line;
  std::vector<ExpressionPointer> items;
  while (!tokens_.is_operator("]")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("]")) break;
    items.push_back(parse_expression());
  }
  tokens_.expect_operator("]");
  const int depth = deepest(items);
  return make(line, ListLiteral{std::move(items), false}, depth);
}

ExpressionPointer ExpressionParser::parse_dict() {
  const int line = tokens_.next().line;
  DictLiteral dict;
  int depth = 0;
  while (!tokens_.is_operator("}")) {
    if (!dict.items.empty()) tokens_.expect_operator(",");
    if (tokens_.is_operator("}")) break;
    ExpressionPointer key = parse_expression();
    tokens_.expect_operator(":");
    ExpressionPointer value = parse_expression();
    depth = std::max({depth, levels_of(key), levels_of(value)});
    dict.items.emplace_back(std::move(key), std::move(value));
  }
  tokens_.expect_operator("}");
  return make(line, std::move(dict), depth);
}

ExpressionPointer ExpressionParser::parse_postfix(ExpressionPointer node) {
  while (true) {
    if (tokens_.is_operator(".")) {
      const int line = tokens_.next().line;
      const int depth = levels_of(node);
      const Token name = tokens_.next();
      if (name.type == TokenType::kName) {
        node = make(line, AttributeOf{std::move(node), name.text}, depth);
      } else if (name.type == TokenType::kInteger) {
        ExpressionPointer key = make(line, Constant{Value::integer(name.integer)}, 0);
        node = make(line, ItemOf{std::move(node), std::move(key)}, depth);
      } else {
        tokens_.fail("expected a name or a number behind the dot");
      }
    } else if (tokens_.is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (tokens_.is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPointer ExpressionParser::parse_subscript(ExpressionPointer object) {
  const int line = tokens_.next().line;
  std::vector<ExpressionPointer> keys;
  SliceOf slice;
  bool is_slice = false;
  const auto is_end = [&] { return tokens_.is_operator("]") || tokens_.is_operator(","); };
  while (!tokens_.is_operator("]")) {
    if (!keys.empty()) tokens_.expect_operator(",");
    if (is_slice) tokens_.fail("a slice among several keys is not supported");
    ExpressionPointer key;
    if (!tokens_.is_operator(":")) key = parse_expression();
    if (tokens_.take_operator(":")) {
      is_slice = true;
      slice.start = std::move(key);
      if (!tokens_.is_operator(":") && !is_end()) slice.stop = parse_expression();
      if (tokens_.take_operator(":") && !is_end()) slice.step = parse_expression();
    }
    keys.push_back(std::move(key));
  }
  tokens_.expect_operator("]");
  const int depth = std::max({levels_of(object), deepest(keys), levels_of(slice.start),
                              levels_of(slice.stop), levels_of(slice.step)});
  if (is_slice) {
    if (keys.size() > 1) tokens_.fail("a slice among several keys is not supported");
    slice.object = std::move(object);
    return make(line, std::move(slice), depth);
  }
  ExpressionPointer key;
  if (keys.size() == 1) {
    key = std::move(keys.front());
  } else {
    key = make(line, ListLiteral{std::move(keys), true}, depth);
  }
  return make(line, ItemOf{std::move(object), std::move(key)}, depth + 1);
}

CallArguments ExpressionParser::parse_arguments(int& depth) {
  tokens_.expect_operator("(");
  CallArguments out;
  bool needs_comma = false;
  const auto ensure = [&](bool valid) {
    if (!valid) tokens_.fail("invalid order of the call's arguments");
  };
  const auto argument = [&] {
    ExpressionPointer value = parse_expression();
    depth = std::max(depth, levels_of(value));
    return value;
  };
  while (!tokens_.is_operator(")")) {
    if (needs_comma) {
      tokens_.expect_operator(",");
      if (tokens_.is_operator(")")) break;
    }
    if (tokens_.take_operator("*")) {
      ensure(!out.rest && !out.named_rest);
      out.rest = argument();
    } else if (tokens_.take_operator("**")) {
      ensure(!out.named_rest);
      out.named_rest = argument();
    } else if (tokens_.is(TokenType::kName) && tokens_.following().type == TokenType::kOperator &&
               tokens_.following().text == "=") {
      ensure(!out.named_rest);
      std::string name = tokens_.next().text;
      tokens_.next();
      for (const auto& other : out.named) {
        if (other.first == name) tokens_.fail(cat("the argument \"", name, "\" is repeated"));
      }
      out.named.emplace_back(std::move(name), argument());
    } else {
      ensure(!out.rest && !out.named_rest && out.named.empty());
      out.positional.push_back(argument());
    }
    needs_comma = true;
  }
  tokens_.expect_operator(")");
  return out;
}

ExpressionPointer ExpressionParser::parse_call(ExpressionPointer function) {
  const int line = tokens_.current().line;
  int depth = levels_of(function);
  CallArguments arguments = parse_arguments(depth);
  return make(line, CallOf{std::move(function), std::move(arguments)}, depth);
}

ExpressionPointer ExpressionParser::parse_filters(ExpressionPointer object, bool start_inside) {
  while (start_inside || tokens_.take_operator("|")) {
    start_inside = false;
    FilterOf filter;
    const int line = tokens_.current().line;
    filter.name = tokens_.take_any_name();
    while (tokens_.take_operator(".")) filter.name += "." + tokens_.take_any_name();
    filter.builtin = find_filter(filter.name);
    if (filter.builtin == nullptr && !is_soft_) {
      unknown_.emplace_back(cat("there is no filter \"", filter.name, "\""), line);
    }
    int depth = levels_of(object);
    if (tokens_.is_operator("(")) filter.arguments = parse_arguments(depth);
    filter.object = std::move(object);
    object = make(line, std::move(filter), depth);
  }
  return object;
}

ExpressionPointer ExpressionParser::parse_test(ExpressionPointer object) {
  const int line = tokens_.next().line;
  const bool is_negated = tokens_.take_name("not");
  FilterOf test;
  test.is_test = true;
  test.name = tokens_.take_any_name();
  while (tokens_.take_operator(".")) test.name += "." + tokens_.take_any_name();
  test.builtin = find_test(test.name);
  if (test.builtin == nullptr && !is_soft_) {
    unknown_.emplace_back(cat("there is no test \"", test.name, "\""), line);
  }
  int depth = levels_of(object);
  const bool is_value = tokens_.is(TokenType::kName) || tokens_.is(TokenType::kText) ||
                        tokens_.is(TokenType::kInteger) || tokens_.is(TokenType::kFloat) ||
                        tokens_.is_operator("[") || tokens_.is_operator("{");
  if (tokens_.is_operator("(")) {
    test.arguments = parse_arguments(depth);
  } else if (is_value && !tokens_.is_name("else") && !tokens_.is_name("or") &&
             !tokens_.is_name("and")) {
    if (tokens_.is_name("is")) tokens_.fail("tests cannot be chained with \"is\"");
    ExpressionPointer argument = parse_postfix(parse_primary());
    depth = std::max(depth, levels_of(argument));
    test.arguments.positional.push_back(std::move(argument));
  }
  test.object = std::move(object);
  ExpressionPointer node = make(line, std::move(test), depth);
  if (!is_negated) return node;
  return make(line, Unary{'!', std::move(node)}, depth + 1);
}

}  // namespace am::chat
