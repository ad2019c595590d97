#include "am/base/text.h"
#include "am/chat/parser.h"

namespace am::chat {
namespace {

std::string described(const Token& token) {
  switch (token.type) {
    case TokenType::kVariableEnd:
      return "\"}}\"";
    case TokenType::kBlockEnd:
      return "\"%}\"";
    case TokenType::kText:
      return "a string";
    case TokenType::kInteger:
    case TokenType::kFloat:
      return "a number";
    case TokenType::kName:
    case TokenType::kOperator:
      return cat('"', token.text, '"');
    case TokenType::kEnd:
      return "end of the template";
    default:
      return "text";
  }
}

}  // namespace

const Token& Tokens::next() {
  const Token& passed = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return passed;
}

bool Tokens::is_name(std::string_view name) const {
  return is(TokenType::kName) && current().text == name;
}

bool Tokens::is_operator(std::string_view op) const {
  return is(TokenType::kOperator) && current().text == op;
}

bool Tokens::take_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

bool Tokens::take_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  next();
  return true;
}

void Tokens::expect_operator(std::string_view op) {
  if (!take_operator(op)) fail(cat("expected \"", op, "\", not ", described(current())));
}

void Tokens::expect_name(std::string_view name) {
  if (!take_name(name)) fail(cat("expected \"", name, "\", not ", described(current())));
}

void Tokens::expect(TokenType type) {
  if (!is(type)) {
    fail(cat("expected ", described({.type = type}), ", not ", described(current())));
  }
  next();
}

std::string Tokens::take_any_name() {
  if (!is(TokenType::kName)) fail(cat("expected a name, not ", described(current())));
  return next().text;
}

void Tokens::fail(const std::string& message) const {
  throw SyntaxFailure(message, current().line);
}

void Tokens::fail_unexpected() const { fail(cat("unexpected ", described(current()))); }

}  // namespace am::chat
