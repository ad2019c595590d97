// Filters, tests, methods and global functions of templates, as rows of tables.
//
//   const Builtin* trim = chat::find_filter("trim");
//   chat::call_builtin(*trim, in, Value::text(" a "), {});   // "a"
//
// Parameters are bound to their names as Python does.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "am/chat/value.h"

namespace am::chat {

class Interpreter;

// A call of a builtin, with its arguments in the order of the parameters.
struct Call {
  Interpreter& in;
  Heap& heap;
  const Value& self;       // value before the bar, the dot or the `is`
  const Arguments& given;  // as written
  std::array<Value, 6> arguments;
  std::array<bool, 6> is_given;

  bool has(size_t i) const { return is_given[i]; }
  const Value& operator[](size_t i) const { return arguments[i]; }
  // The argument's truth, integer or text; `otherwise` if it is not given. Throw Failure for a
  // value of another type.
  bool flag(size_t i, bool otherwise) const;
  Int integer(size_t i, Int otherwise) const;
  std::string_view text(size_t i, std::string_view otherwise) const;
  // An integer that counts characters or elements: values beyond 62 bits are cut to that.
  Int count(size_t i, Int otherwise) const;
  // str() of `self`, with the mark of safe text. Counts as reading the text.
  Value self_text() const;
};

inline Value truth(bool value) { return Value::boolean_of(value); }

struct Builtin {
  std::string_view name;
  // Names of the parameters, separated by blanks. The argument of "-" is given by position only.
  // "*" is the last name: any further arguments are allowed, and are in `given` only.
  std::string_view parameters;
  size_t required;
  Value (*run)(Call& call);
};

// Return null if there is none.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);

// Throws Failure for missing, unknown and surplus arguments.
Value call_builtin(const Builtin& builtin, Interpreter& in, const Value& self,
                   const Arguments& arguments);

// Tables of builtins, by file.
std::span<const Builtin> text_methods();
std::span<const Builtin> container_methods(Kind kind);
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();

// Functions that several builtins share.
std::string escaped_html(std::string_view text);
Int integer_of(const Value& value);  // throws Failure for other types
Int checked(bool overflow, Int value);
// First place of `part` at or behind `from`, or npos; takes time linear in the text.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
Value replaced(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
               Int count);
Value joined(Heap& heap, std::string_view separator, const std::vector<Value>& parts);
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);
// Python's int(text, base) and float(text). Return false if the text is not such a number.
bool parse_int(std::string_view text, Int base, Int& out);
bool parse_float(std::string_view text, double& out);

// template % values (chat/format.cpp), text.format(...).
Value percent_format(Interpreter& in, const Value& self, const Value& values);
Value brace_format(Interpreter& in, std::string_view text, const Arguments& arguments);
// The filter tojson as transformers defines it: json.dumps (chat/json_text.cpp).
Value json_dumps(Call& call);

}  // namespace am::chat
