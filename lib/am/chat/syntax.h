// The syntax tree of a template: expressions and statements.
//
//   const Block body = chat::parse("{{ 1 + 2 }}");
//   std::get<Output>(body[0].node).value;  // an Expression that holds a Binary
//
// The parser resolves the names of filters and tests, as jinja2 does. If FilterOf::builtin is null,
// evaluating the filter or test fails.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "am/chat/value.h"

namespace am::chat {

struct Expression;
struct Statement;
struct Builtin;
using ExpressionPointer = std::unique_ptr<Expression>;
using Block = std::vector<Statement>;

struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer rest;        // *rest
  ExpressionPointer named_rest;  // **named_rest
};

struct Constant {
  Value value;  // not a text
};
struct TextLiteral {
  std::string text;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  std::vector<ExpressionPointer> items;
  bool is_tuple = false;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> items;
};
struct Unary {
  char op;  // '-', '+', or '!' for `not`
  ExpressionPointer operand;
};
struct Binary {
  std::string op;  // + - * / // % **, `and`, `or`
  ExpressionPointer left, right;
};
struct Comparison {
  ExpressionPointer first;
  std::vector<std::pair<std::string, ExpressionPointer>> rest;  // a < b < c
};
struct Concatenation {
  std::vector<ExpressionPointer> parts;  // a ~ b ~ c
};
struct Conditional {
  ExpressionPointer condition, value, otherwise;  // `otherwise` may be null
};
struct AttributeOf {
  ExpressionPointer object;
  std::string name;
};
struct ItemOf {
  ExpressionPointer object, key;
};
struct SliceOf {
  ExpressionPointer object, start, stop, step;  // start, stop and step may be null
};
struct CallOf {
  ExpressionPointer function;
  CallArguments arguments;
};
// The filter `x | name(arguments)` or the test `x is name(arguments)`.
struct FilterOf {
  ExpressionPointer object;  // null for the first filter of a filter block or set block
  std::string name;
  const Builtin* builtin = nullptr;
  CallArguments arguments;
  bool is_test = false;
};

struct Expression {
  std::variant<Constant, TextLiteral, Name, ListLiteral, DictLiteral, Unary, Binary, Comparison,
               Concatenation, Conditional, AttributeOf, ItemOf, SliceOf, CallOf, FilterOf>
      node;
  int line = 1;
  int depth = 1;  // levels of nested expressions, including this expression
};

// Target of an assignment: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name;
  std::string attribute;
  std::vector<Target> parts;
  bool is_tuple = false;
};

// Name, parameters and body of a macro. Also describes a call block, which has no name.
struct Signature {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPointer> defaults;  // default values of the last parameters
  Block body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

struct Text {
  std::string text;
};
struct Output {
  ExpressionPointer value;
};
struct Assignment {
  Target target;
  ExpressionPointer value;
};
struct CaptureBlock {
  Target target;
  ExpressionPointer filter;  // may be null
  Block body;
};
struct IfBlock {
  std::vector<std::pair<ExpressionPointer, Block>> branches;
  Block otherwise;
};
struct ForBlock {
  Target target;
  ExpressionPointer iterable, condition;
  Block body, otherwise;
  bool is_recursive = false;
};
struct MacroBlock {
  Signature macro;
};
struct CallBlock {
  ExpressionPointer call;  // a CallOf
  Signature caller;
};
struct FilterBlock {
  ExpressionPointer filter;
  Block body;
};
struct WithBlock {
  std::vector<std::pair<Target, ExpressionPointer>> values;
  Block body;
};
struct GenerationBlock {
  Block body;
};
struct LoopControl {
  bool is_break = false;
};

struct Statement {
  std::variant<Text, Output, Assignment, CaptureBlock, IfBlock, ForBlock, MacroBlock, CallBlock,
               FilterBlock, WithBlock, GenerationBlock, LoopControl>
      node;
  int line = 1;
};

// Returns the statements of a template. Throws SyntaxFailure (chat/lexer.h) with the line of the
// error.
Block parse(std::string_view source);

}  // namespace am::chat
