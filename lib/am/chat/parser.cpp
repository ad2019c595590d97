#include "am/chat/parser.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::chat {
namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block parse_template() {
    Block body = parse_block({});
    if (!tokens_.is(TokenType::kEnd)) tokens_.fail_unexpected();
    if (!unknown_.empty()) throw SyntaxFailure(unknown_.front());
    return body;
  }

 private:
  using Names = std::vector<std::string_view>;

  // Sets the parser's state for the body of a statement. The destructor restores the previous
  // state.
  class Body {
   public:
    Body(Parser& parser, int loops, bool is_soft)
        : parser_(parser), loops_(parser.loops_), soft_(parser.is_soft_) {
      parser.loops_ = loops;
      parser.is_soft_ = is_soft;
    }
    Body(const Body&) = delete;
    Body& operator=(const Body&) = delete;
    ~Body() {
      parser_.loops_ = loops_;
      parser_.is_soft_ = soft_;
    }

   private:
    Parser& parser_;
    int loops_;
    bool soft_;
  };

  // Parses text and statements up to a tag whose name is in `ends`; this name is then the current
  // token. If `ends` is empty, parses up to the end of the template.
  Block parse_block(const Names& ends) {
    const Level level(*this);
    Block out;
    while (!tokens_.is(TokenType::kEnd)) {
      const int line = tokens_.current().line;
      if (tokens_.is(TokenType::kData)) {
        out.push_back({Text{tokens_.next().text}, line});
      } else if (tokens_.is(TokenType::kVariableBegin)) {
        tokens_.next();
        ExpressionPointer value = parse_tuple();
        tokens_.expect(TokenType::kVariableEnd);
        out.push_back({Output{std::move(value)}, line});
      } else {
        tokens_.expect(TokenType::kBlockBegin);
        if (std::any_of(ends.begin(), ends.end(),
                        [&](std::string_view name) { return tokens_.is_name(name); })) {
          return out;
        }
        parse_statement(out, ends);
        tokens_.expect(TokenType::kBlockEnd);
      }
    }
    if (!ends.empty()) tokens_.fail(cat("the template ends before \"{% ", ends.back(), " %}\""));
    return out;
  }

  // Parses the end of the current tag, and then a block up to a tag whose name is in `ends`.
  Block parse_body(const Names& ends) {
    tokens_.take_operator(":");
    tokens_.expect(TokenType::kBlockEnd);
    return parse_block(ends);
  }
  Block parse_body_until(std::string_view end) {
    Block out = parse_body({end});
    tokens_.next();
    return out;
  }

  void parse_statement(Block& out, const Names& ends) {
    const int line = tokens_.current().line;
    const std::string name = tokens_.take_any_name();
    if (name == "print") return parse_print(out, line);
    Statement statement{Text{}, line};
    if (name == "if") {
      statement.node = parse_if();
    } else if (name == "for") {
      statement.node = parse_for();
    } else if (name == "set") {
      parse_set(statement);
    } else if (name == "macro") {
      statement.node = parse_macro();
    } else if (name == "call") {
      statement.node = parse_call_block();
    } else if (name == "filter") {
      FilterBlock block{parse_filters(nullptr, true), {}};
      const Body body(*this, loops_, false);
      block.body = parse_body_until("endfilter");
      statement.node = std::move(block);
    } else if (name == "with") {
      statement.node = parse_with();
    } else if (name == "generation") {
      const Body body(*this, 0, false);
      statement.node = GenerationBlock{parse_body_until("endgeneration")};
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) tokens_.fail(cat("\"", name, "\" is not inside a loop"));
      statement.node = LoopControl{name == "break"};
    } else if (!ends.empty()) {
      tokens_.fail(cat("unknown tag \"", name, "\" before \"{% ", ends.back(), " %}\""));
    } else {
      tokens_.fail(cat("unknown tag \"", name, "\""));
    }
    out.push_back(std::move(statement));
  }

  void parse_print(Block& out, int line) {
    bool is_first = true;
    while (!tokens_.is(TokenType::kBlockEnd)) {
      if (!is_first) tokens_.expect_operator(",");
      is_first = false;
      out.push_back({Output{parse_expression()}, line});
    }
  }

  IfBlock parse_if() {
    IfBlock out;
    const Body soft(*this, loops_, true);
    do {
      ExpressionPointer condition = parse_tuple(false);
      out.branches.emplace_back(std::move(condition), parse_body({"elif", "else", "endif"}));
    } while (tokens_.take_name("elif"));
    if (tokens_.take_name("else")) out.otherwise = parse_body({"endif"});
    tokens_.expect_name("endif");
    return out;
  }

  ForBlock parse_for() {
    ForBlock out;
    out.target = parse_target("in", false);
    if (assigns(out.target, "loop")) tokens_.fail("a loop's variable cannot be called \"loop\"");
    tokens_.expect_name("in");
    out.iterable = parse_tuple(false, false, "recursive");
    if (tokens_.take_name("if")) out.condition = parse_expression();
    out.is_recursive = tokens_.take_name("recursive");
    {
      const Body body(*this, loops_ + 1, false);
      out.body = parse_body({"else", "endfor"});
    }
    const Body body(*this, loops_, false);
    if (tokens_.take_name("else")) out.otherwise = parse_body({"endfor"});
    tokens_.expect_name("endfor");
    return out;
  }

  void parse_set(Statement& statement) {
    Target target = parse_target({}, true);
    if (tokens_.take_operator("=")) {
      statement.node = Assignment{std::move(target), parse_tuple()};
      return;
    }
    CaptureBlock block{std::move(target), parse_filters(nullptr, false), {}};
    const Body body(*this, loops_, false);
    block.body = parse_body_until("endset");
    statement.node = std::move(block);
  }

  MacroBlock parse_macro() {
    MacroBlock out;
    out.macro.name = tokens_.take_any_name();
    parse_parameters(out.macro);
    parse_macro_body(out.macro, "endmacro");
    return out;
  }

  CallBlock parse_call_block() {
    CallBlock out;
    if (tokens_.is_operator("(")) parse_parameters(out.caller);
    out.call = parse_expression();
    if (!std::holds_alternative<CallOf>(out.call->node)) tokens_.fail("expected a call");
    parse_macro_body(out.caller, "endcall");
    return out;
  }

  void parse_parameters(Signature& macro) {
    tokens_.expect_operator("(");
    macros_.push_back(&macro);  // a name in a default counts as used by the macro
    while (!tokens_.is_operator(")")) {
      if (!macro.parameters.empty()) tokens_.expect_operator(",");
      const std::string name = tokens_.take_any_name();
      check_assignable(name);
      if (std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
          macro.parameters.end()) {
        tokens_.fail(cat("the parameter \"", name, "\" is repeated"));
      }
      if (tokens_.take_operator("=")) {
        macro.defaults.push_back(parse_expression());
      } else if (!macro.defaults.empty()) {
        tokens_.fail("a parameter without a default follows one with a default");
      }
      macro.parameters.push_back(name);
    }
    macros_.pop_back();
    tokens_.expect_operator(")");
  }

  void parse_macro_body(Signature& macro, std::string_view end) {
    const Body body(*this, 0, false);
    macros_.push_back(&macro);
    macro.body = parse_body_until(end);
    macros_.pop_back();
  }

  WithBlock parse_with() {
    WithBlock out;
    while (!tokens_.is(TokenType::kBlockEnd)) {
      if (!out.values.empty()) tokens_.expect_operator(",");
      Target target = parse_target({}, false);
      tokens_.expect_operator("=");
      out.values.emplace_back(std::move(target), parse_expression());
    }
    const Body body(*this, loops_, false);
    out.body = parse_body_until("endwith");
    return out;
  }

  static bool assigns(const Target& target, std::string_view name) {
    return target.name == name ||
           std::any_of(target.parts.begin(), target.parts.end(),
                       [&](const Target& part) { return assigns(part, name); });
  }

  void check_assignable(std::string_view name) {
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) tokens_.fail(cat("\"", name, "\" cannot be assigned"));
    }
  }

  // Parses the target of an assignment: a name, or names that are separated by commas and form a
  // tuple. Stops before the name `end` unless `end` is empty.
  Target parse_target(std::string_view end, bool with_attributes) {
    const Level level(*this);
    std::vector<Target> parts;
    bool is_tuple = false;
    while (true) {
      if (!parts.empty()) tokens_.expect_operator(",");
      if (tokens_.is(TokenType::kBlockEnd) || tokens_.is_operator(")") ||
          (!end.empty() && tokens_.is_name(end))) {
        break;
      }
      parts.push_back(parse_one_target(with_attributes));
      if (!tokens_.is_operator(",")) break;
      is_tuple = true;
    }
    if (!is_tuple && parts.empty()) tokens_.fail("expected a name to assign");
    if (!is_tuple) return std::move(parts.front());
    Target out;
    out.is_tuple = true;
    out.parts = std::move(parts);
    return out;
  }

  static Target empty_tuple() {
    Target out;
    out.is_tuple = true;
    return out;
  }

  Target parse_one_target(bool with_attributes) {
    if (tokens_.take_operator("(")) {
      if (tokens_.take_operator(")")) return empty_tuple();
      Target out = parse_target({}, false);
      tokens_.expect_operator(")");
      return out;
    }
    Target out;
    out.name = tokens_.take_any_name();
    check_assignable(out.name);
    if (with_attributes && tokens_.take_operator(".")) out.attribute = tokens_.take_any_name();
    return out;
  }

  int loops_ = 0;  // loops around the statement within its macro, call or generation block
};

}  // namespace

Block parse(std::string_view source) {
  Tokens tokens(source);
  return Parser(tokens).parse_template();
}

}  // namespace am::chat
