#include "am/chat/builtin.h"

#include <algorithm>
#include <ctime>

#include "am/base/text.h"
#include "am/chat/characters.h"
#include "am/chat/interpreter.h"
#include "am/chat/objects.h"

namespace am::chat {
namespace {

// Binds the arguments of a call to the parameters of a builtin: fills Call::arguments and
// Call::is_given.
class Binder {
 public:
  Binder(const Builtin& builtin, Call& call) : builtin_(builtin), call_(call) {
    for (std::string_view rest = builtin.parameters; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      names_[count_++] = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  void bind() {
    takes_rest_ = count_ > 0 && names_[count_ - 1] == "*";
    if (takes_rest_) --count_;
    const auto& positional = call_.given.positional;
    if (positional.size() > count_ && !takes_rest_) {
      fail(cat("takes at most ", count_, " argument", count_ == 1 ? "" : "s", ", not ",
               positional.size()));
    }
    for (size_t i = 0; i < std::min(count_, positional.size()); ++i) set(i, positional[i]);
    for (const auto& [name, value] : call_.given.named) bind_named(name, value);
    for (size_t i = 0; i < builtin_.required; ++i) {
      if (!call_.is_given[i]) fail(cat("needs at least ", builtin_.required, " argument(s)"));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw Failure(cat(builtin_.name, "() ", reason));
  }

  void set(size_t i, const Value& value) {
    call_.arguments[i] = value;
    call_.is_given[i] = true;
  }

  void bind_named(std::string_view name, const Value& value) {
    for (size_t i = 0; i < count_; ++i) {
      if (names_[i] != name || name == "-") continue;
      if (call_.is_given[i]) fail(cat("has several values for its argument '", name, "'"));
      return set(i, value);
    }
    if (!takes_rest_) fail(cat("has no argument '", name, "'"));
  }

  const Builtin& builtin_;
  Call& call_;
  std::array<std::string_view, 7> names_;
  size_t count_ = 0;
  bool takes_rest_ = false;
};

// ---- global functions ----

Value make_range(Call& call) {
  const Int first = call.integer(0, 0);
  if (!call.has(1)) return call.heap.range(0, first, 1);
  return call.heap.range(first, call.integer(1, 0), call.integer(2, 1));
}

// Returns the items of dict(...) or namespace(...): first the items of the positional argument,
// which is a mapping or a list of pairs, then the named arguments.
std::vector<std::pair<Value, Value>> pairs_of(Call& call) {
  std::vector<std::pair<Value, Value>> out;
  if (call.given.positional.size() > 1)
    throw Failure("dict() and namespace() take at most 1 positional argument");
  if (!call.given.positional.empty()) {
    const Value& source = call.given.positional[0];
    if (source.is(Kind::kDict)) {
      out = source.dict->items;
    } else {
      for (const Value& pair : elements(source, call.heap)) {
        const std::vector<Value> parts = elements(pair, call.heap);
        if (parts.size() != 2) throw Failure("dict() and namespace() need a mapping or pairs");
        out.emplace_back(parts[0], parts[1]);
      }
    }
  }
  for (const auto& [name, value] : call.given.named) out.emplace_back(Value::text(name), value);
  return out;
}

Value make_namespace(Call& call) {
  auto* const made = call.heap.make<Namespace>();
  for (const auto& [key, value] : pairs_of(call)) {
    if (!key.is(Kind::kText)) throw Failure("the name of a namespace's attribute must be str");
    call.heap.charge(sizeof(Value) * 2);
    made->set(key.string, value);
  }
  return Heap::object(made);
}

Value make_cycler(Call& call) {
  if (call.given.positional.empty() || !call.given.named.empty()) {
    throw Failure("cycler() requires the items to cycle through, as positional arguments");
  }
  return Heap::object(call.heap.make<Cycler>(call.given.positional));
}

Value make_joiner(Call& call) {
  return Heap::object(call.heap.make<Joiner>(Value::text(call.text(0, ", "))));
}

Value raise_exception(Call& call) { throw Failure(std::string(str(call[0], call.heap).string)); }

Value strftime_now(Call& call) {
  const std::string format(call.text(0, ""));
  const std::time_t now = call.in.now();
  std::tm parts{};
  ::localtime_r(&now, &parts);
  const size_t most = format.size() * 64 + 1;
  call.heap.charge(static_cast<int64_t>(most));
  std::string out(most, '\0');
  out.resize(format.empty() ? 0 : std::strftime(out.data(), out.size(), format.c_str(), &parts));
  return call.heap.text(std::move(out));
}

constexpr Builtin kFunctions[] = {
    {"range", "- - -", 1, make_range},
    {"dict", "*", 0, [](Call& call) { return call.heap.dict(pairs_of(call)); }},
    {"namespace", "*", 0, make_namespace},
    {"cycler", "*", 0, make_cycler},
    {"joiner", "sep", 0, make_joiner},
    {"raise_exception", "message", 1, raise_exception},
    {"strftime_now", "format", 1, strftime_now},
};

// ---- tests ----

// Whether compare(), applied to self and the argument, returns `way` or `other_way`, each of which
// is -1 (less), 0 (equal) or 1 (greater).
Value ordered(Call& call, int way, int other_way) {
  const int order = compare(call.self, call[0], "<", call.heap);
  return truth(order == way || order == other_way);
}

Value is_equal(Call& call) { return truth(equal(call.self, call[0], call.heap)); }
Value is_unequal(Call& call) { return truth(!equal(call.self, call[0], call.heap)); }
Value is_greater(Call& call) { return ordered(call, 1, 1); }
Value is_less(Call& call) { return ordered(call, -1, -1); }
Value is_at_least(Call& call) { return ordered(call, 1, 0); }
Value is_at_most(Call& call) { return ordered(call, -1, 0); }

// Whether self % divisor == remainder.
Value has_remainder(Call& call, const Value& divisor, Int remainder) {
  return truth(
      equal(arithmetic(call.in, "%", call.self, divisor), Value::integer(remainder), call.heap));
}

bool is_same_object(const Value& a, const Value& b, Heap& heap) {
  if (a.kind != b.kind) return false;
  if (a.is_sequence()) return a.list == b.list;
  if (a.is(Kind::kDict)) return a.dict == b.dict;
  return equal(a, b, heap);
}

// Whether the text has characters for which `wanted` holds, and none for which `other` holds.
bool has_case(std::string_view text, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (other(c)) return false;
    found = found || wanted(c);
  }
  return found;
}

constexpr Builtin kTests[] = {
    {"boolean", "", 0, [](Call& c) { return truth(c.self.is(Kind::kBool)); }},
    {"callable", "", 0,
     [](Call& c) {
       return truth(c.self.is(Kind::kUndefined) ||
                    (c.self.is(Kind::kObject) && c.self.object->callable()));
     }},
    {"defined", "", 0, [](Call& c) { return truth(!c.self.is(Kind::kUndefined)); }},
    {"undefined", "", 0, [](Call& c) { return truth(c.self.is(Kind::kUndefined)); }},
    {"divisibleby", "num", 1, [](Call& c) { return has_remainder(c, c[0], 0); }},
    {"even", "", 0, [](Call& c) { return has_remainder(c, Value::integer(2), 0); }},
    {"odd", "", 0, [](Call& c) { return has_remainder(c, Value::integer(2), 1); }},
    {"eq", "-", 1, is_equal},
    {"equalto", "-", 1, is_equal},
    {"==", "-", 1, is_equal},
    {"ne", "-", 1, is_unequal},
    {"!=", "-", 1, is_unequal},
    {"gt", "-", 1, is_greater},
    {"greaterthan", "-", 1, is_greater},
    {">", "-", 1, is_greater},
    {"lt", "-", 1, is_less},
    {"lessthan", "-", 1, is_less},
    {"<", "-", 1, is_less},
    {"ge", "-", 1, is_at_least},
    {">=", "-", 1, is_at_least},
    {"le", "-", 1, is_at_most},
    {"<=", "-", 1, is_at_most},
    {"in", "seq", 1, [](Call& c) { return truth(contains(c.heap, c[0], c.self)); }},
    {"escaped", "", 0, [](Call& c) { return truth(c.self.is(Kind::kText) && c.self.safe); }},
    {"false", "", 0, [](Call& c) { return truth(c.self.is(Kind::kBool) && !c.self.boolean); }},
    {"true", "", 0, [](Call& c) { return truth(c.self.is(Kind::kBool) && c.self.boolean); }},
    {"none", "", 0, [](Call& c) { return truth(c.self.is(Kind::kNone)); }},
    {"filter", "", 0,
     [](Call& c) {
       return truth(c.self.is(Kind::kText) && find_filter(c.self.string) != nullptr);
     }},
    {"test", "", 0,
     [](Call& c) { return truth(c.self.is(Kind::kText) && find_test(c.self.string) != nullptr); }},
    {"float", "", 0, [](Call& c) { return truth(c.self.is(Kind::kFloat)); }},
    {"integer", "", 0, [](Call& c) { return truth(c.self.is(Kind::kInt)); }},
    {"number", "", 0, [](Call& c) { return truth(c.self.is_number()); }},
    {"string", "", 0, [](Call& c) { return truth(c.self.is(Kind::kText)); }},
    {"mapping", "", 0, [](Call& c) { return truth(c.self.is(Kind::kDict)); }},
    {"iterable", "", 0, [](Call& c) { return truth(is_iterable(c.self)); }},
    {"sequence", "", 0,
     [](Call& c) {
       return truth(is_iterable(c.self) && !c.self.is(Kind::kView) && !c.self.is(Kind::kIterator));
     }},
    {"lower", "", 0,
     [](Call& c) { return truth(has_case(c.self_text().string, is_lower, is_upper)); }},
    {"upper", "", 0,
     [](Call& c) { return truth(has_case(c.self_text().string, is_upper, is_lower)); }},
    {"sameas", "other", 1, [](Call& c) { return truth(is_same_object(c.self, c[0], c.heap)); }},
};

const Builtin* find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

bool Call::flag(size_t i, bool otherwise) const {
  return is_given[i] ? is_true(arguments[i]) : otherwise;
}

Int Call::integer(size_t i, Int otherwise) const {
  return is_given[i] ? integer_of(arguments[i]) : otherwise;
}

Int Call::count(size_t i, Int otherwise) const {
  constexpr Int kMost = Int{1} << 62;
  return std::clamp(integer(i, otherwise), -kMost, kMost);
}

std::string_view Call::text(size_t i, std::string_view otherwise) const {
  if (!is_given[i]) return otherwise;
  if (!arguments[i].is(Kind::kText)) {
    throw Failure(cat("an argument must be str, not ", type_name(arguments[i])));
  }
  heap.scan(arguments[i].string.size());
  return arguments[i].string;
}

Value Call::self_text() const {
  Value out = str(self, heap);
  out.safe = self.is(Kind::kText) && self.safe;
  heap.scan(out.string.size());
  return out;
}

const Builtin* find_filter(std::string_view name) {
  const Builtin* const found = find_in(text_filters(), name);
  return found != nullptr ? found : find_in(sequence_filters(), name);
}

const Builtin* find_test(std::string_view name) { return find_in(kTests, name); }

const Builtin* find_function(std::string_view name) { return find_in(kFunctions, name); }

const Builtin* find_method(const Value& self, std::string_view name) {
  return find_in(self.is(Kind::kText) ? text_methods() : container_methods(self.kind), name);
}

Value call_builtin(const Builtin& builtin, Interpreter& in, const Value& self,
                   const Arguments& arguments) {
  const Heap::Level level(in.heap());
  in.heap().step();
  Call call{in, in.heap(), self, arguments, {}, {}};
  Binder(builtin, call).bind();
  return builtin.run(call);
}

}  // namespace am::chat
