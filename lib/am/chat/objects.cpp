#include "am/chat/objects.h"

#include <algorithm>

#include "am/base/text.h"

namespace am::chat {
namespace {

// Methods of the template's objects `loop` and cycler(...).
constexpr Builtin kLoopChanged = {"changed", "*", 0, [](Call& call) {
                                    auto* loop = static_cast<Loop*>(call.self.object);
                                    return Value::boolean_of(loop->changed(call.given.positional));
                                  }};
constexpr Builtin kLoopCycle = {"cycle", "*", 0, [](Call& call) {
                                  const auto* loop = static_cast<Loop*>(call.self.object);
                                  return loop->cycle(call.given.positional);
                                }};
constexpr Builtin kCyclerNext = {
    "next", "", 0, [](Call& call) { return static_cast<Cycler*>(call.self.object)->next(); }};
constexpr Builtin kCyclerReset = {"reset", "", 0, [](Call& call) {
                                    static_cast<Cycler*>(call.self.object)->reset();
                                    return Value::none();
                                  }};

Value bound(Interpreter& in, const Builtin& method, Object* self) {
  return Heap::object(in.heap().make<BoundBuiltin>(method, Heap::object(self)));
}

}  // namespace

std::string Macro::repr(Heap&) const {
  return signature_.name.empty() ? "<Macro anonymous>" : cat("<Macro '", signature_.name, "'>");
}

bool Macro::attribute(std::string_view name, Interpreter& in, Value& out) {
  if (name == "name") {
    out = signature_.name.empty() ? Value::none() : Value::text(signature_.name);
  } else if (name == "arguments") {
    std::vector<Value> names;
    for (const std::string& parameter : signature_.parameters)
      names.push_back(Value::text(parameter));
    out = in.heap().list(std::move(names), Kind::kTuple);
  } else if (name == "caller" || name == "catch_kwargs" || name == "catch_varargs") {
    out = Value::boolean_of(name == "caller"         ? signature_.uses_caller
                            : name == "catch_kwargs" ? signature_.uses_kwargs
                                                     : signature_.uses_varargs);
  } else {
    return false;
  }
  return true;
}

Value Macro::call(Interpreter& in, const Arguments& arguments) {
  const Heap::Level level(in.heap());
  auto* const inner = in.heap().make<Scope>();
  inner->parent = &scope_;
  bind(in, arguments, *inner);
  return in.capture(signature_.body, *inner);
}

void Macro::bind(Interpreter& in, const Arguments& arguments, Scope& inner) const {
  const auto& parameters = signature_.parameters;
  auto named = arguments.named;
  const auto take = [&](std::string_view name, Value& out) {
    const auto found = std::find_if(named.begin(), named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (found == named.end()) return false;
    out = found->second;
    named.erase(found);
    return true;
  };
  const size_t first_default = parameters.size() - signature_.defaults.size();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Value value;
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
    } else if (!take(parameters[i], value)) {
      value = i >= first_default
                  ? in.evaluate(*signature_.defaults[i - first_default], inner)
                  : in.heap().undefined(cat("parameter '", parameters[i], "' was not provided"));
    }
    inner.set(parameters[i], value);
  }
  if (signature_.uses_caller) {
    Value caller = Value::undefined("No caller defined");
    take("caller", caller);
    inner.set("caller", caller);
  }
  if (signature_.uses_kwargs) {
    std::vector<std::pair<Value, Value>> items;
    for (const auto& [name, value] : named) items.emplace_back(Value::text(name), value);
    inner.set("kwargs", in.heap().dict(items));
  } else if (!named.empty()) {
    throw Failure(
        cat("macro '", signature_.name, "' takes no keyword argument '", named[0].first, "'"));
  }
  const size_t count = std::min(parameters.size(), arguments.positional.size());
  if (signature_.uses_varargs) {
    inner.set("varargs",
              in.heap().list({arguments.positional.begin() + static_cast<std::ptrdiff_t>(count),
                              arguments.positional.end()},
                             Kind::kTuple));
  } else if (arguments.positional.size() > parameters.size()) {
    throw Failure(cat("macro '", signature_.name, "' takes not more than ", parameters.size(),
                      " argument(s)"));
  }
}

std::string Namespace::repr(Heap& heap) const {
  const Heap::Level level(heap);
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [name, value] : values_) items.emplace_back(Value::text(name), value);
  return cat("<Namespace ", chat::repr(heap.dict(items), heap), ">");
}

bool Namespace::attribute(std::string_view name, Interpreter&, Value& out) {
  for (const auto& [known, value] : values_) {
    if (known != name) continue;
    out = value;
    return true;
  }
  return false;
}

void Namespace::set(std::string_view name, const Value& value) {
  if (starts_with(name, "_")) {
    throw Failure(cat("the namespace's attribute '", name, "' begins with an underscore"));
  }
  for (auto& [known, old] : values_) {
    if (known != name) continue;
    old = value;
    return;
  }
  values_.emplace_back(name, value);
}

bool Loop::advance() {
  if (!find_next()) return false;
  ++index_;
  return true;
}

bool Loop::find_next() {
  while (passed_.size() == index_ && looked_at_ < items_.size()) {
    const Value& item = items_[looked_at_++];
    if (block_.condition) {
      auto* const inner = in_.heap().make<Scope>();
      inner->parent = &scope_;
      in_.assign(block_.target, item, *inner);
      if (!is_true(in_.evaluate(*block_.condition, *inner))) continue;
    }
    passed_.push_back(item);
  }
  return passed_.size() > index_;
}

Int Loop::length() {
  const size_t index = index_;
  while (find_next()) index_ = passed_.size();
  index_ = index;
  return static_cast<Int>(passed_.size());
}

std::string Loop::repr(Heap&) const {
  return cat("<LoopContext ", index_, "/",
             const_cast<Loop*>(this)->length() == 0 ? 0 : passed_.size(), ">");
}

bool Loop::attribute(std::string_view name, Interpreter& in, Value& out) {
  const auto index = static_cast<Int>(index_);
  if (name == "index") {
    out = Value::integer(index);
  } else if (name == "index0") {
    out = Value::integer(index - 1);
  } else if (name == "first") {
    out = Value::boolean_of(index == 1);
  } else if (name == "last") {
    out = Value::boolean_of(!find_next());
  } else if (name == "length") {
    out = Value::integer(length());
  } else if (name == "revindex") {
    out = Value::integer(length() - index + 1);
  } else if (name == "revindex0") {
    out = Value::integer(length() - index);
  } else if (name == "depth") {
    out = Value::integer(depth_ + 1);
  } else if (name == "depth0") {
    out = Value::integer(depth_);
  } else if (name == "previtem") {
    out = index_ > 1 ? passed_[index_ - 2] : Value::undefined("there is no previous item");
  } else if (name == "nextitem") {
    out = find_next() ? passed_[index_] : Value::undefined("there is no next item");
  } else if (name == "changed") {
    out = bound(in, kLoopChanged, this);
  } else if (name == "cycle") {
    out = bound(in, kLoopCycle, this);
  } else {
    return false;
  }
  return true;
}

Value Loop::call(Interpreter& in, const Arguments& arguments) {
  if (!block_.is_recursive) throw Failure("the loop must be marked \"recursive\" to be called");
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    throw Failure("a recursive loop takes one argument");
  }
  return in.capture_loop(block_, elements(arguments.positional[0], in.heap()), scope_, depth_ + 1);
}

bool Loop::changed(const std::vector<Value>& values) {
  const bool same =
      has_values_ &&
      std::equal(values.begin(), values.end(), last_values_.begin(), last_values_.end(),
                 [&](const Value& a, const Value& b) { return equal(a, b, in_.heap()); });
  last_values_ = values;
  has_values_ = true;
  return !same;
}

Value Loop::cycle(const std::vector<Value>& values) const {
  if (values.empty()) throw Failure("no items for cycling given");
  return values[(index_ - 1) % values.size()];
}

bool Cycler::attribute(std::string_view name, Interpreter& in, Value& out) {
  if (name == "current") {
    out = items_[at_];
  } else if (name == "next") {
    out = bound(in, kCyclerNext, this);
  } else if (name == "reset") {
    out = bound(in, kCyclerReset, this);
  } else {
    return false;
  }
  return true;
}

Value Cycler::next() {
  const Value out = items_[at_];
  at_ = (at_ + 1) % items_.size();
  return out;
}

Value Joiner::call(Interpreter&, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty()) {
    throw Failure("a joiner takes no arguments");
  }
  const Value out = is_used_ ? separator_ : Value::text("");
  is_used_ = true;
  return out;
}

}  // namespace am::chat
