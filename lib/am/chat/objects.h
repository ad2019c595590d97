// Objects that a template can use as values: methods bound to their values, functions, macros,
// namespaces, loops, cyclers and joiners.
//
//   Namespace* state = in.heap().make<Namespace>();
//   state->set("count", Value::integer(1));
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/chat/builtin.h"
#include "am/chat/interpreter.h"

namespace am::chat {

// A global function, or a method that is bound to its value.
class BoundBuiltin : public Object {
 public:
  BoundBuiltin(const Builtin& builtin, const Value& self) : builtin_(builtin), self_(self) {}

  std::string_view type() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, const Arguments& arguments) override {
    return call_builtin(builtin_, in, self_, arguments);
  }

 private:
  const Builtin& builtin_;
  Value self_;
};

class Macro : public Object {
 public:
  Macro(const Signature& signature, Scope& scope) : signature_(signature), scope_(scope) {}

  std::string_view type() const override { return "Macro"; }
  std::string repr(Heap& heap) const override;
  bool attribute(std::string_view name, Interpreter& in, Value& out) override;
  bool callable() const override { return true; }
  Value call(Interpreter& in, const Arguments& arguments) override;

 private:
  void bind(Interpreter& in, const Arguments& arguments, Scope& inner) const;

  const Signature& signature_;
  Scope& scope_;
};

class Namespace : public Object {
 public:
  std::string_view type() const override { return "Namespace"; }
  std::string repr(Heap& heap) const override;
  bool attribute(std::string_view name, Interpreter& in, Value& out) override;
  // Throws Failure if the name begins with an underscore, because transformers refuses these names.
  void set(std::string_view name, const Value& value);

 private:
  std::vector<std::pair<std::string_view, Value>> values_;
};

// The variable `loop` in the body of a `for` statement.
class Loop : public Object {
 public:
  Loop(Interpreter& in, const ForBlock& block, std::vector<Value> items, Scope& scope, int depth)
      : in_(in), block_(block), items_(std::move(items)), scope_(scope), depth_(depth) {}

  // Moves to the next item for which the loop's condition is true. Returns false if no item is
  // left.
  bool advance();
  const Value& current() const { return passed_[index_ - 1]; }

  std::string_view type() const override { return "LoopContext"; }
  std::string repr(Heap& heap) const override;
  bool attribute(std::string_view name, Interpreter& in, Value& out) override;
  bool callable() const override { return true; }
  Value call(Interpreter& in, const Arguments& arguments) override;
  // Returns true in the first call, and in later calls if the values differ from those of the
  // previous call.
  bool changed(const std::vector<Value>& values);
  Value cycle(const std::vector<Value>& values) const;

 private:
  // Evaluates the loop's condition for the items after the current item, until the condition is
  // true for an item. Returns false if no item is left.
  bool find_next();
  Int length();

  Interpreter& in_;
  const ForBlock& block_;
  std::vector<Value> items_;
  Scope& scope_;
  int depth_;
  size_t looked_at_ = 0;       // number of items that were checked, from the first item on
  std::vector<Value> passed_;  // items for which the condition is true
  size_t index_ = 0;           // number of the current item in `passed_`, from 1; 0: none yet
  std::vector<Value> last_values_;
  bool has_values_ = false;
};

class Cycler : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}

  std::string_view type() const override { return "Cycler"; }
  bool attribute(std::string_view name, Interpreter& in, Value& out) override;
  Value next();
  void reset() { at_ = 0; }

 private:
  std::vector<Value> items_;
  size_t at_ = 0;
};

// The first call returns an empty text, later calls return the separator.
class Joiner : public Object {
 public:
  explicit Joiner(const Value& separator) : separator_(separator) {}

  std::string_view type() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Interpreter& in, const Arguments& arguments) override;

 private:
  Value separator_;
  bool is_used_ = false;
};

}  // namespace am::chat
