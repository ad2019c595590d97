// Evaluates the syntax tree of a template, with jinja2's scopes and Python's operators.
//
//   const Block body = chat::parse("{{ greeting ~ '!' }}");
//   Heap heap(Limits{});
//   Interpreter in(heap, {{"greeting", Value::text("Hi")}});
//   in.render(body).text;                  // "Hi!"
//
// Chat templates come from the Hugging Face hub and are not trusted. A template can access only its
// variables, and the functions and methods of chat/builtin.h and chat/objects.h. The heap limits
// the work, memory and recursion of a rendering.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/chat/syntax.h"
#include "am/chat/value.h"

namespace am::chat {

struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string_view, Value>> names;

  void set(std::string_view name, const Value& value);
};

// Output of a {% generation %} block: bytes [begin, end) of the rendered text.
struct GeneratedSpan {
  size_t begin = 0, end = 0;

  bool operator==(const GeneratedSpan&) const = default;
};

struct Rendered {
  std::string text;
  std::vector<GeneratedSpan> generated;
};

using Variables = std::vector<std::pair<std::string_view, Value>>;

class Interpreter {
 public:
  // The heap must outlive the interpreter. `now` is the time for the template's function
  // strftime_now(), in seconds since 1970; nullopt means the current time.
  Interpreter(Heap& heap, const Variables& variables, std::optional<int64_t> now = {});

  // Renders a template. Throws Failure for an error in the template; line() then returns the line
  // of the error.
  Rendered render(const Block& body);
  int line() const { return line_; }

  Heap& heap() { return heap_; }
  int64_t now() const;

  // Return object.name and object[key], or an undefined value if the object does not contain them.
  // Throw Failure for an undefined object.
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  Value call(const Value& function, const Arguments& arguments);

  // The functions below are for macros and loops (chat/objects.h).
  enum class Flow { kNext, kBreak, kContinue };
  Value evaluate(const Expression& expression, Scope& scope);
  Flow execute(const Block& body, Scope& scope);
  void assign(const Target& target, const Value& value, Scope& scope);
  // Executes a block, and returns its output as a text.
  Value capture(const Block& body, Scope& scope);
  // Runs a loop over `items`. Then runs the loop's `else` block if no iteration reached the end of
  // the loop's body. If the loop is recursive, `depth` is the number of its runs that enclose this
  // run.
  void run_loop(const ForBlock& block, std::vector<Value> items, Scope& scope, int depth);
  Value capture_loop(const ForBlock& block, std::vector<Value> items, Scope& scope, int depth);

 private:
  class Captured;  // redirects output to a buffer

  Value lookup(std::string_view name, const Scope& scope) const;
  Value evaluate_binary(const Binary& binary, Scope& scope);
  Value evaluate_comparison(const Comparison& comparison, Scope& scope);
  Value evaluate_concatenation(const Concatenation& concatenation, Scope& scope);
  Value evaluate_slice(const SliceOf& slice, Scope& scope);
  Value evaluate_filter(const FilterOf& filter, Scope& scope, const Value* object);
  Arguments evaluate_arguments(const CallArguments& arguments, Scope& scope);
  Value apply_filters(const Expression& filters, const Value& text, Scope& scope);
  Flow execute_one(const Statement& statement, Scope& scope);
  Flow execute_capture(const Statement& statement, Scope& scope);
  void execute_call(const CallBlock& block, Scope& scope);
  void execute_generation(const GenerationBlock& block, Scope& scope);
  void write(const Value& value);

  Heap& heap_;
  Scope globals_;
  std::optional<int64_t> now_;
  std::string root_;              // the rendered text
  std::string* output_ = &root_;  // current destination of output
  // Until rendering ends, `end` is the span's length in characters instead of a byte offset.
  std::vector<GeneratedSpan> generated_;
  int line_ = 1;
};

// Returns `a op b`, where `op` is one of + - * / // % **. Throws Failure if the types do not
// support the operator, or if there is no result, for example for a division by zero.
Value arithmetic(Interpreter& in, const std::string& op, const Value& a, const Value& b);
Value negative(const Value& value);
bool contains(Heap& heap, const Value& container, const Value& element);
// Returns object[start:stop:step]. None stands for a bound or step that is left out.
Value sliced(Heap& heap, const Value& object, const Value& start, const Value& stop,
             const Value& step);

}  // namespace am::chat
