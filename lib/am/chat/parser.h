// ExpressionParser parses the expressions of a template. The parser of statements in parser.cpp
// derives from ExpressionParser.
//
//   Tokens tokens("{{ 'a' ~ 1 }}");
//   tokens.next();                                           // passes {{
//   const ExpressionPointer sum = ExpressionParser(tokens).parse_expression();
//
// Grammar and precedence are those of jinja2. The levels from the weakest binding to the strongest
// are: `a if b else c`, or, and, not, comparisons, + -, ~, * / // %, **, filters and tests, sign,
// and last attributes, subscripts and calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/chat/lexer.h"
#include "am/chat/syntax.h"

namespace am::chat {

// A cursor over the tokens of a template.
class Tokens {
 public:
  explicit Tokens(std::string_view source) : tokens_(tokenize(source)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next();
  bool is(TokenType type) const { return current().type == type; }
  bool is_name(std::string_view name) const;
  bool is_operator(std::string_view op) const;
  // If the current token is this name or operator, consume the token and return true.
  bool take_name(std::string_view name);
  bool take_operator(std::string_view op);
  // Consume the current token: the given operator, the given name, a token of the given type, or
  // any name. Throw SyntaxFailure for another token.
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  void expect(TokenType type);
  std::string take_any_name();
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_unexpected() const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(Tokens& tokens) : tokens_(tokens) {}

  ExpressionPointer parse_expression(bool with_conditional = true);
  // Parses an expression, or a tuple: several expressions, separated by commas. If `end` is not
  // empty, the tuple ends before the name `end`.
  ExpressionPointer parse_tuple(bool with_conditional = true, bool in_parentheses = false,
                                std::string_view end = {});

 protected:
  // Counts one level of recursion while the object exists. The constructor throws SyntaxFailure if
  // the limit is exceeded.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --parser_.levels_; }

   private:
    ExpressionParser& parser_;
  };

  template <typename Node>
  ExpressionPointer make(int line, Node node, int depth_below);

  // Parses a chain of filters, `|name(...)|name(...)`, and returns their application to `object`.
  // `start_inside`: the current token is the name of the first filter, not a bar.
  ExpressionPointer parse_filters(ExpressionPointer object, bool start_inside);
  ExpressionPointer parse_primary();

  Tokens& tokens_;
  int levels_ = 0;
  // If true, an unknown filter or test fails only when it is evaluated, as in jinja2 inside `if`.
  // If false, it is a syntax error.
  bool is_soft_ = false;
  std::vector<SyntaxFailure> unknown_;  // errors for unknown filters and tests
  std::vector<Signature*> macros_;      // macros and call blocks that are being parsed

 private:
  ExpressionPointer parse_binary(int level);
  ExpressionPointer parse_and_or(bool is_or);
  ExpressionPointer parse_not();
  ExpressionPointer parse_comparison();
  ExpressionPointer parse_concatenation();
  ExpressionPointer parse_unary(bool with_filters);
  ExpressionPointer parse_name();
  ExpressionPointer parse_list();
  ExpressionPointer parse_dict();
  ExpressionPointer parse_postfix(ExpressionPointer node);
  ExpressionPointer parse_subscript(ExpressionPointer object);
  ExpressionPointer parse_call(ExpressionPointer function);
  ExpressionPointer parse_test(ExpressionPointer object);
  CallArguments parse_arguments(int& depth);
};

}  // namespace am::chat
