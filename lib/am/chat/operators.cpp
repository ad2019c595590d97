#include <algorithm>
#include <cmath>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"
#include "am/chat/interpreter.h"

namespace am::chat {
namespace {

[[noreturn]] void fail_operands(const std::string& op, const Value& a, const Value& b) {
  for (const Value* side : {&a, &b}) {
    if (side->is(Kind::kUndefined)) throw Failure(std::string(side->string));
  }
  throw Failure(cat("unsupported operand type(s) for ", op, ": '", type_name(a), "' and '",
                    type_name(b), "'"));
}

Int checked_product(Int a, Int b) {
  Int out = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &out);
  return checked(overflow, out);
}

// Returns a ** b. `b` must not be negative. Throws Failure if the result has more than 127 bits.
Int integer_power(Int a, Int b) {
  Int out = 1;
  for (Int base = a; b > 0; b /= 2) {
    if (b % 2 == 1) out = checked_product(out, base);
    if (b > 1) base = checked_product(base, base);
  }
  return out;
}

Int floor_quotient(Int a, Int b) {
  if (b == -1) return checked_product(a, -1);
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int floor_remainder(Int a, Int b) {
  if (b == -1) return 0;
  const Int remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

Value integer_arithmetic(const std::string& op, Int a, Int b) {
  Int out = 0;
  if (op == "+" || op == "-") {
    const bool overflow =
        op == "+" ? __builtin_add_overflow(a, b, &out) : __builtin_sub_overflow(a, b, &out);
    return Value::integer(checked(overflow, out));
  }
  if (op == "*") return Value::integer(checked_product(a, b));
  if (op == "**" && b >= 0) {
    // Exponents are clamped to 128, because larger powers overflow anyway unless `a` is 0, 1 or -1.
    // For these three bases, an exponent of at most 3 with the parity of `b` gives the same result.
    return Value::integer(
        integer_power(a, a >= -1 && a <= 1 ? b % 2 + 2 * (b > 1) : std::min(b, Int{128})));
  }
  if (b == 0 && op != "**") throw Failure("division by zero");
  if (op == "//") return Value::integer(floor_quotient(a, b));
  if (op == "%") return Value::integer(floor_remainder(a, b));
  if (op == "/") return Value::floating(static_cast<double>(a) / static_cast<double>(b));
  if (a == 0) throw Failure("0 cannot be raised to a negative power");
  return Value::floating(std::pow(static_cast<double>(a), static_cast<double>(b)));
}

// Returns the quotient, rounded down, and the remainder, as Python's divmod() does for floats. `b`
// must not be 0.
std::pair<double, double> float_divmod(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
  double rounded = std::floor(quotient);
  if (quotient - rounded > 0.5) rounded += 1;
  return {rounded, remainder};
}

double float_arithmetic(const std::string& op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (b == 0 && op != "**") throw Failure("float division by zero");
  if (op == "/") return a / b;
  if (op == "//") return float_divmod(a, b).first;
  if (op == "%") return float_divmod(a, b).second;
  if (a == 0 && b < 0) throw Failure("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    throw Failure(
        "a negative number cannot be raised to a fractional power: the result is complex");
  }
  const double out = std::pow(a, b);
  if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) throw Failure("result too large");
  return out;
}

Value added_texts(Heap& heap, const Value& a, const Value& b) {
  const bool safe = a.safe || b.safe;
  const auto part = [&](const Value& value) {
    return safe && !value.safe ? escaped_html(value.string) : std::string(value.string);
  };
  heap.charge(static_cast<int64_t>(a.string.size() + b.string.size()));
  std::string out = part(a);
  out += part(b);
  return heap.text(std::move(out), safe);
}

Value added_lists(Heap& heap, const Value& a, const Value& b) {
  heap.charge(static_cast<int64_t>((a.list->items.size() + b.list->items.size()) * sizeof(Value)));
  std::vector<Value> items = a.list->items;
  items.insert(items.end(), b.list->items.begin(), b.list->items.end());
  return heap.list(std::move(items), a.kind);
}

// Returns a text, list or tuple repeated `count` times; empty if `count` is negative.
Value repeated(Heap& heap, const Value& value, Int count) {
  const bool is_text = value.is(Kind::kText);
  const size_t size = is_text ? value.string.size() : value.list->items.size() * sizeof(Value);
  if (size == 0) count = 0;
  count = std::max(count, Int{0});
  if (count > heap.limits().bytes) count = heap.limits().bytes + 1;
  const Int bytes = count * static_cast<Int>(size);
  heap.charge(static_cast<int64_t>(std::min(bytes, static_cast<Int>(INT64_MAX))));
  if (is_text) {
    std::string out;
    out.reserve(static_cast<size_t>(bytes));
    for (Int i = 0; i < count; ++i) out += value.string;
    return heap.text(std::move(out), value.safe);
  }
  std::vector<Value> items;
  for (Int i = 0; i < count; ++i) {
    items.insert(items.end(), value.list->items.begin(), value.list->items.end());
  }
  return heap.list(std::move(items), value.kind);
}

bool repeats(const Value& value) {
  return value.is(Kind::kText) || value.is(Kind::kList) || value.is(Kind::kTuple);
}

// Bounds and step of a slice, as Python's slice.indices() returns them.
struct Bounds {
  Int start, stop, step;
};
Bounds bounds_of(const Value& start, const Value& stop, const Value& step, Int count) {
  const Int stride = step.is(Kind::kNone) ? 1 : integer_of(step);
  if (stride == 0) throw Failure("slice step cannot be zero");
  const Int lowest = stride < 0 ? -1 : 0;
  const Int highest = stride < 0 ? count - 1 : count;
  const auto clipped = [&](const Value& bound, Int otherwise) {
    if (bound.is(Kind::kNone)) return otherwise;
    const Int at = integer_of(bound);
    return std::clamp(at < 0 ? at + count : at, lowest, highest);
  };
  return {clipped(start, stride < 0 ? highest : lowest),
          clipped(stop, stride < 0 ? lowest : highest), stride};
}

}  // namespace

Int integer_of(const Value& value) {
  if (value.is(Kind::kUndefined)) throw Failure(std::string(value.string));
  if (!value.is_integral()) {
    throw Failure(cat("'", type_name(value), "' object cannot be interpreted as an integer"));
  }
  return value.as_integer();
}

Int checked(bool overflow, Int value) {
  if (overflow) throw Failure("the integer has more than 127 bits, which is the limit");
  return value;
}

Value arithmetic(Interpreter& in, const std::string& op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral())
      return integer_arithmetic(op, a.as_integer(), b.as_integer());
    return Value::floating(float_arithmetic(op, a.as_real(), b.as_real()));
  }
  if (op == "+" && a.kind == b.kind) {
    if (a.is(Kind::kText)) return added_texts(in.heap(), a, b);
    if (a.is(Kind::kList) || a.is(Kind::kTuple)) return added_lists(in.heap(), a, b);
  }
  if (op == "*" && repeats(a) && b.is_integral()) return repeated(in.heap(), a, b.as_integer());
  if (op == "*" && repeats(b) && a.is_integral()) return repeated(in.heap(), b, a.as_integer());
  if (op == "%" && a.is(Kind::kText)) return percent_format(in, a, b);
  fail_operands(op, a, b);
}

Value negative(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::floating(-value.real);
  return Value::integer(checked_product(integer_of(value), -1));
}

bool contains(Heap& heap, const Value& container, const Value& element) {
  switch (container.kind) {
    case Kind::kUndefined:
      return false;
    case Kind::kText:
      if (!element.is(Kind::kText)) {
        throw Failure(
            cat("'in <string>' requires a string as left operand, not ", type_name(element)));
      }
      heap.scan(container.string.size());
      return find_text(container.string, element.string) != std::string_view::npos;
    case Kind::kDict:
      return find(*container.dict, element, heap) != nullptr;
    default: {
      const std::vector<Value> items = elements(container, heap);
      return std::any_of(items.begin(), items.end(),
                         [&](const Value& item) { return equal(item, element, heap); });
    }
  }
}

Value sliced(Heap& heap, const Value& object, const Value& start, const Value& stop,
             const Value& step) {
  const bool is_text = object.is(Kind::kText);
  if (!is_text && !object.is(Kind::kList) && !object.is(Kind::kTuple) && !object.is(Kind::kRange)) {
    throw Failure(cat("'", type_name(object), "' object is not subscriptable by a slice"));
  }
  const Bounds bounds = bounds_of(start, stop, step, length(object, heap));
  if (object.is(Kind::kRange)) {
    const List& range = *object.list;
    return heap.range(range.start + bounds.start * range.step,
                      range.start + bounds.stop * range.step,
                      checked_product(range.step, bounds.step));
  }
  if (is_text && bounds.step == 1) {
    if (bounds.start >= bounds.stop) return Value::text("", object.safe);
    const std::string_view from =
        object.string.substr(byte_offset(object.string, static_cast<size_t>(bounds.start)));
    return Value::text(
        from.substr(0, byte_offset(from, static_cast<size_t>(bounds.stop - bounds.start))),
        object.safe);
  }
  const std::vector<Value> items = elements(object, heap);
  std::vector<Value> chosen;
  std::string text;
  for (Int i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;) {
    const Value& item = items[static_cast<size_t>(i)];
    if (is_text) {
      text += item.string;
    } else {
      chosen.push_back(item);
    }
    if (__builtin_add_overflow(i, bounds.step, &i)) break;
  }
  return is_text ? heap.text(std::move(text), object.safe)
                 : heap.list(std::move(chosen), object.kind);
}

}  // namespace am::chat
