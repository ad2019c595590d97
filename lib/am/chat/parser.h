// Parses the expressions of a template; the statements' parser (parser.cpp) derives from it.
//
//   Tokens tokens("{{ 'a' ~ 1 }}");
//   tokens.next();                                           // passes {{
//   const ExpressionPointer sum = ExpressionParser(tokens).parse_expression();
//
// Grammar and precedence are jinja2's: the levels from `a if b else c` down to a value are
// conditional, or, and, not, comparison, + -, ~, * / // %, **, sign, then filters and tests.
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
  // Consume the current token. Throw SyntaxFailure if the token is not what the function names.
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
  // Parses an expression, or several that commas join to a tuple. If `end` is not empty, the tuple
  // ends before the name `end`.
  ExpressionPointer parse_tuple(bool with_conditional = true, bool in_parentheses = false,
                                std::string_view end = {});

 protected:
  // Counts a level of recursion during its lifetime. Throws SyntaxFailure beyond the limit.
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

  // Parses `|name(...)|name(...)`. `start_inside`: the text begins with a name, without a bar.
  ExpressionPointer parse_filters(ExpressionPointer object, bool start_inside);
  ExpressionPointer parse_primary();

  Tokens& tokens_;
  int levels_ = 0;
  // Whether an unknown filter or test is an error only when it is evaluated, as in jinja2 inside
  // `if`; elsewhere it is an error of parsing.
  bool is_soft_ = false;
  std::vector<SyntaxFailure> unknown_;  // unknown filters and tests that are errors of parsing
  std::vector<Signature*> macros_;      // macros whose bodies are being parsed

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
