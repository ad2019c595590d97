// Splits a Jinja template into tokens: text between tags, and the words of each tag.
//
//   const auto tokens = chat::tokenize("Hi {{ name -}} \n!");
//   tokens[1].type;                        // TokenType::kVariableBegin
//   tokens[4].text;                        // "!", after the white space that the dash removes
//
// White space around tags is removed as by jinja2 with trim_blocks and lstrip_blocks. A line break
// after a comment or block tag, except {% raw %}, is dropped. If only blanks precede a comment or
// block tag in its line, these blanks are dropped too. The signs - and + in a tag override these
// rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "am/chat/value.h"

namespace am::chat {

enum class TokenType : uint8_t {
  kData,           // text outside tags
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kText,  // a string literal; adjacent literals are separate tokens
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text = {};  // kData, kText: the characters; kName, kOperator: as written
  int line = 1;
  Int integer = 0;
  double real = 0;
};

// Syntax error in a template. `line` is the number of the line with the error, from 1.
struct SyntaxFailure : Failure {
  SyntaxFailure(const std::string& message, int at) : Failure(message), line(at) {}
  int line;
};

// Returns the tokens of a template; the last token is kEnd. Throws SyntaxFailure. `source` must be
// valid UTF-8.
std::vector<Token> tokenize(std::string_view source);

}  // namespace am::chat
