#include <algorithm>
#include <chrono>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"
#include "am/chat/interpreter.h"
#include "am/chat/objects.h"

namespace am::chat {
namespace {

// A visitor of a variant, with an overload for each alternative.
template <typename... Overloads>
struct Cases : Overloads... {
  using Overloads::operator()...;
};
template <typename... Overloads>
Cases(Overloads...) -> Cases<Overloads...>;

// Whether jinja2's sandbox hides the attribute `name` of Python's dicts, for example `pop` or
// `__class__`. dict.name is then undefined, even if the dict contains the key `name`.
bool is_hidden(std::string_view name) {
  static constexpr std::string_view kMutators[] = {"clear", "pop", "popitem", "setdefault",
                                                   "update"};
  return (name.size() > 4 && starts_with(name, "__") && ends_with(name, "__")) ||
         std::find(std::begin(kMutators), std::end(kMutators), name) != std::end(kMutators);
}

// Converts a Python index, which may be negative, to an index below `count`. Returns nullopt if the
// key is out of range or not an integer.
std::optional<size_t> place(const Value& key, size_t count) {
  if (!key.is_integral()) return std::nullopt;
  Int index = key.as_integer();
  if (index < 0) index += static_cast<Int>(count);
  if (index < 0 || index >= static_cast<Int>(count)) return std::nullopt;
  return static_cast<size_t>(index);
}

[[noreturn]] void fail_undefined(const Value& value) { throw Failure(std::string(value.string)); }

bool is_group_attribute(const Value& object, std::string_view name) {
  return object.is(Kind::kTuple) && object.list->is_group && (name == "grouper" || name == "list");
}

Value missing(Heap& heap, const Value& object, std::string_view name) {
  return heap.undefined(cat("'", type_name(object), " object' has no attribute '", name, "'"));
}

}  // namespace

void Scope::set(std::string_view name, const Value& value) {
  for (auto& [known, old] : names) {
    if (known != name) continue;
    old = value;
    return;
  }
  names.emplace_back(name, value);
}

Interpreter::Interpreter(Heap& heap, const Variables& variables, std::optional<int64_t> now)
    : heap_(heap), now_(now) {
  for (const auto& [name, value] : variables) globals_.set(name, value);
}

int64_t Interpreter::now() const {
  if (now_) return *now_;
  return std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
}

Value Interpreter::lookup(std::string_view name, const Scope& scope) const {
  for (const Scope* at = &scope; at != nullptr; at = at->parent) {
    for (const auto& [known, value] : at->names) {
      if (known == name) return value;
    }
  }
  if (const Builtin* function = find_function(name)) {
    return Heap::object(heap_.make<BoundBuiltin>(*function, Value::none()));
  }
  return heap_.undefined(cat("'", name, "' is undefined"));
}

Value Interpreter::evaluate(const Expression& expression, Scope& scope) {
  const Heap::Level level(heap_);
  heap_.step();
  line_ = expression.line;
  return std::visit(
      Cases{
          [&](const Constant& node) { return node.value; },
          [&](const TextLiteral& node) { return Value::text(node.text); },
          [&](const Name& node) { return lookup(node.name, scope); },
          [&](const ListLiteral& node) {
            std::vector<Value> items;
            for (const auto& item : node.items) items.push_back(evaluate(*item, scope));
            return heap_.list(std::move(items), node.is_tuple ? Kind::kTuple : Kind::kList);
          },
          [&](const DictLiteral& node) {
            std::vector<std::pair<Value, Value>> items;
            for (const auto& [key, value] : node.items) {
              const Value made = evaluate(*key, scope);
              items.emplace_back(made, evaluate(*value, scope));
            }
            return heap_.dict(items);
          },
          [&](const Unary& node) {
            const Value value = evaluate(*node.operand, scope);
            if (node.op == '!') return Value::boolean_of(!is_true(value));
            if (node.op == '-') return negative(value);
            if (value.is(Kind::kFloat)) return value;
            return Value::integer(integer_of(value));
          },
          [&](const Binary& node) { return evaluate_binary(node, scope); },
          [&](const Comparison& node) { return evaluate_comparison(node, scope); },
          [&](const Concatenation& node) { return evaluate_concatenation(node, scope); },
          [&](const Conditional& node) {
            if (is_true(evaluate(*node.condition, scope))) return evaluate(*node.value, scope);
            if (node.otherwise) return evaluate(*node.otherwise, scope);
            return Value::undefined(
                "the inline if-expression evaluated to false and has no else section");
          },
          [&](const AttributeOf& node) {
            return attribute(evaluate(*node.object, scope), node.name);
          },
          [&](const ItemOf& node) {
            const Value object = evaluate(*node.object, scope);
            return item(object, evaluate(*node.key, scope));
          },
          [&](const SliceOf& node) { return evaluate_slice(node, scope); },
          [&](const CallOf& node) {
            const Value function = evaluate(*node.function, scope);
            const Value out = call(function, evaluate_arguments(node.arguments, scope));
            line_ = expression.line;
            return out;
          },
          [&](const FilterOf& node) { return evaluate_filter(node, scope, nullptr); },
      },
      expression.node);
}

Value Interpreter::evaluate_binary(const Binary& binary, Scope& scope) {
  const Value left = evaluate(*binary.left, scope);
  if (binary.op == "and") return is_true(left) ? evaluate(*binary.right, scope) : left;
  if (binary.op == "or") return is_true(left) ? left : evaluate(*binary.right, scope);
  return arithmetic(*this, binary.op, left, evaluate(*binary.right, scope));
}

Value Interpreter::evaluate_comparison(const Comparison& comparison, Scope& scope) {
  Value left = evaluate(*comparison.first, scope);
  for (const auto& [op, operand] : comparison.rest) {
    const Value right = evaluate(*operand, scope);
    bool holds = false;
    if (op == "==" || op == "!=") {
      holds = equal(left, right, heap_) == (op == "==");
    } else if (op == "in" || op == "not in") {
      holds = contains(heap_, right, left) == (op == "in");
    } else {
      const int order = compare(left, right, op, heap_);
      holds = order != 2 && (op == "<"    ? order < 0
                             : op == "<=" ? order <= 0
                             : op == ">"  ? order > 0
                                          : order >= 0);
    }
    if (!holds) return Value::boolean_of(false);
    left = right;
  }
  return Value::boolean_of(true);
}

Value Interpreter::evaluate_concatenation(const Concatenation& concatenation, Scope& scope) {
  std::vector<Value> parts;
  for (const auto& part : concatenation.parts) {
    const Value value = evaluate(*part, scope);
    parts.push_back(str(value, heap_));
  }
  return joined(heap_, "", parts);
}

Value Interpreter::evaluate_slice(const SliceOf& slice, Scope& scope) {
  const Value object = evaluate(*slice.object, scope);
  const auto bound = [&](const ExpressionPointer& expression) {
    return expression ? evaluate(*expression, scope) : Value::none();
  };
  const Value start = bound(slice.start);
  const Value stop = bound(slice.stop);
  const Value step = bound(slice.step);
  if (object.is(Kind::kUndefined)) fail_undefined(object);
  return sliced(heap_, object, start, stop, step);
}

Value Interpreter::evaluate_filter(const FilterOf& filter, Scope& scope, const Value* object) {
  const Value self = object != nullptr ? *object : evaluate(*filter.object, scope);
  if (filter.builtin == nullptr) {
    throw Failure(
        cat("there is no ", filter.is_test ? "test" : "filter", " \"", filter.name, "\""));
  }
  const Arguments arguments = evaluate_arguments(filter.arguments, scope);
  return call_builtin(*filter.builtin, *this, self, arguments);
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments, Scope& scope) {
  Arguments out;
  for (const auto& argument : arguments.positional) {
    out.positional.push_back(evaluate(*argument, scope));
  }
  for (const auto& [name, argument] : arguments.named) {
    out.named.emplace_back(name, evaluate(*argument, scope));
  }
  if (arguments.rest) {
    for (const Value& value : elements(evaluate(*arguments.rest, scope), heap_)) {
      out.positional.push_back(value);
    }
  }
  if (!arguments.named_rest) return out;
  const Value rest = evaluate(*arguments.named_rest, scope);
  if (!rest.is(Kind::kDict)) throw Failure("the argument after ** must be a mapping");
  for (const auto& [key, value] : rest.dict->items) {
    if (!key.is(Kind::kText)) throw Failure("keywords must be strings");
    for (const auto& named : out.named) {
      if (named.first == key.string) {
        throw Failure(cat("multiple values for the keyword argument '", key.string, "'"));
      }
    }
    out.named.emplace_back(key.string, value);
  }
  return out;
}

Value Interpreter::call(const Value& function, const Arguments& arguments) {
  if (function.is(Kind::kUndefined)) fail_undefined(function);
  if (!function.is(Kind::kObject)) {
    throw Failure(cat("'", type_name(function), "' object is not callable"));
  }
  return function.object->call(*this, arguments);
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::kUndefined)) fail_undefined(object);
  Value out;
  if (object.is(Kind::kObject)) {
    return object.object->attribute(name, *this, out) ? out : missing(heap_, object, name);
  }
  if (const Builtin* method = find_method(object, name)) {
    return Heap::object(heap_.make<BoundBuiltin>(*method, object));
  }
  if (is_group_attribute(object, name)) {
    return object.list->items[name == "list" ? 1 : 0];
  }
  if (object.is(Kind::kDict) && !is_hidden(name)) {
    if (const Value* value = find(*object.dict, name, heap_)) return *value;
  }
  return missing(heap_, object, name);
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is(Kind::kUndefined)) fail_undefined(object);
  const bool has_keys = object.is(Kind::kDict) && !key.is(Kind::kList) && !key.is(Kind::kDict);
  if (has_keys) {
    if (const Value* value = find(*object.dict, key, heap_)) return *value;
  } else if (object.is(Kind::kList) || object.is(Kind::kTuple) || object.is(Kind::kRange)) {
    const auto at = place(key, object.list->items.size());
    if (at) return object.list->items[*at];
  } else if (object.is(Kind::kText) && key.is_integral()) {
    heap_.scan(object.string.size());
    if (const auto at = place(key, length(object.string))) {
      const std::string_view rest = object.string.substr(byte_offset(object.string, *at));
      return Value::text(rest.substr(0, byte_offset(rest, 1)), object.safe);
    }
  }
  const bool has_attributes =
      key.is(Kind::kText) && (object.is(Kind::kObject) || is_group_attribute(object, key.string) ||
                              find_method(object, key.string) != nullptr);
  if (has_attributes) {
    return attribute(object, key.string);
  }
  return heap_.undefined(cat("'", type_name(object), " object' has no ",
                             key.is(Kind::kText) ? "attribute " : "element ", repr(key, heap_)));
}

}  // namespace am::chat
