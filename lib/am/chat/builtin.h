// Builtins: the filters, tests, methods and global functions that templates can call, as rows of
// tables.
//
//   const Builtin* trim = chat::find_filter("trim");
//   chat::call_builtin(*trim, in, Value::text(" a "), {});   // "a"
//
// Arguments are bound to parameters by position and by name, as in Python.
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
  const Value& self;       // value before `|`, `.` or `is`; None for a function
  const Arguments& given;  // arguments before they are bound to parameters
  std::array<Value, 6> arguments;
  std::array<bool, 6> is_given;

  bool has(size_t i) const { return is_given[i]; }
  const Value& operator[](size_t i) const { return arguments[i]; }
  // Return argument i as a truth value, an integer or a text; `otherwise` if the call does not
  // contain this argument. integer() and text() throw Failure for a value of another type.
  bool flag(size_t i, bool otherwise) const;
  Int integer(size_t i, Int otherwise) const;
  std::string_view text(size_t i, std::string_view otherwise) const;
  // Returns argument i, a number of characters or elements, clamped to the range -2^62 to 2^62;
  // `otherwise` if the call does not contain this argument.
  Int count(size_t i, Int otherwise) const;
  // Returns Python's str(self), marked as safe (Value::safe) if `self` is a safe text. Counts the
  // bytes of the result with Heap::scan().
  Value self_text() const;
};

inline Value truth(bool value) { return Value::boolean_of(value); }

struct Builtin {
  std::string_view name;
  // Names of the parameters, separated by blanks. A parameter "-" is positional-only. If the last
  // name is "*", further arguments are allowed; only Call::given contains them.
  std::string_view parameters;
  size_t required;  // every call must give the first `required` parameters
  Value (*run)(Call& call);
};

// Return the builtin with this name; null if there is none.
const Builtin* find_filter(std::string_view name);
const Builtin* find_test(std::string_view name);
const Builtin* find_function(std::string_view name);
const Builtin* find_method(const Value& self, std::string_view name);

// Calls a builtin. Throws Failure for missing, unknown and surplus arguments.
Value call_builtin(const Builtin& builtin, Interpreter& in, const Value& self,
                   const Arguments& arguments);

// Return the tables of builtins; each table is defined in the file of its name, for example
// chat/text_methods.cpp.
std::span<const Builtin> text_methods();
std::span<const Builtin> container_methods(Kind kind);
std::span<const Builtin> text_filters();
std::span<const Builtin> sequence_filters();

// Functions that several builtins share.
std::string escaped_html(std::string_view text);
Int integer_of(const Value& value);     // throws Failure for other types
Int checked(bool overflow, Int value);  // returns `value`; throws Failure if `overflow`
// Returns the byte offset of the first `part` that begins at offset `from` or later, or npos. Takes
// time linear in the size of the text.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
Value replaced(Heap& heap, std::string_view text, std::string_view from, std::string_view to,
               Int count);
Value joined(Heap& heap, std::string_view separator, const std::vector<Value>& parts);
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);
// Compute Python's int(text, base) and float(text). Return false if the text is not an integer or a
// float, respectively. parse_int() throws Failure for more than 127 bits.
bool parse_int(std::string_view text, Int base, Int& out);
bool parse_float(std::string_view text, double& out);

// Return the results of Python's text % values and text.format(...) (chat/format.cpp).
Value percent_format(Interpreter& in, const Value& self, const Value& values);
Value brace_format(Interpreter& in, std::string_view text, const Arguments& arguments);
// The filter tojson as transformers defines it: json.dumps (chat/json_text.cpp).
Value json_dumps(Call& call);

}  // namespace am::chat
