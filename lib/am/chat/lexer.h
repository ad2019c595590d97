// Splits a Jinja template into tokens: text between tags, and the words of each tag.
//
//   const auto tokens = chat::tokenize("Hi {{ name -}} \n!");
//   tokens[1].type;                        // TokenType::kVariableBegin
//   tokens[4].text;                        // "!", after the white space that the dash removes
//
// White space around tags is that of jinja2 with trim_blocks and lstrip_blocks: a line break behind
// a block or comment is dropped, and so are blanks between the beginning of a line and such a tag.
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
  kText,  // a string literal; adjacent ones are separate tokens
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

// Error in the template's text, with its line.
struct SyntaxFailure : Failure {
  SyntaxFailure(const std::string& message, int at) : Failure(message), line(at) {}
  int line;
};

// Returns the tokens, the last of which is kEnd. Throws SyntaxFailure. `source` must be valid
// UTF-8.
std::vector<Token> tokenize(std::string_view source);

}  // namespace am::chat
