#include <algorithm>
#include <functional>

#include "am/base/text.h"
#include "am/chat/builtin.h"
#include "am/chat/characters.h"
#include "am/chat/interpreter.h"

namespace am::chat {
namespace {

Value iterator(Heap& heap, std::vector<Value> items) {
  return heap.list(std::move(items), Kind::kIterator, "generator");
}

// Returns the components of an attribute path: "a", "b" and 0 for "a.b.0". A value that is not a
// text, for example an integer, is the only component. Empty if `attribute` is None or undefined.
std::vector<Value> path_of(const Value& attribute) {
  if (attribute.is(Kind::kNone) || attribute.is(Kind::kUndefined)) return {};
  if (!attribute.is(Kind::kText)) return {attribute};
  std::vector<Value> out;
  std::string_view rest = attribute.string;
  while (true) {
    const size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, end);
    const bool is_number =
        !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    Int index = 0;
    if (is_number) parse_int(name, 10, index);
    out.push_back(is_number ? Value::integer(index) : Value::text(name));
    if (end == rest.size()) return out;
    rest.remove_prefix(end + 1);
  }
}

// Returns the value at `path`, starting from `value`. If `otherwise` is not null, it replaces
// undefined values on the path.
Value follow(Interpreter& in, Value value, const std::vector<Value>& path, const Value* otherwise) {
  for (const Value& part : path) {
    value = in.item(value, part);
    if (value.is(Kind::kUndefined) && otherwise != nullptr) value = *otherwise;
  }
  return value;
}

Value without_case(Heap& heap, const Value& value) {
  return value.is(Kind::kText) ? heap.text(lower(value.string)) : value;
}

// Pairs {key, element} for the elements of `self`. The key is the element's value at the attribute
// path `attribute`, or the element itself if `attribute` is None. A key that is a text is in lower
// case unless `case_sensitive` is true. `otherwise`: as in follow().
using Keyed = std::vector<std::pair<Value, Value>>;
Keyed keyed(const Call& call, const Value& attribute, bool case_sensitive,
            const Value* otherwise = nullptr) {
  const std::vector<Value> path = path_of(attribute);
  Keyed out;
  for (const Value& item : elements(call.self, call.heap)) {
    const Value key = follow(call.in, item, path, otherwise);
    out.emplace_back(case_sensitive ? key : without_case(call.heap, key), item);
  }
  return out;
}

void sort_by_key(Keyed& items, bool reverse, Heap& heap) {
  std::stable_sort(items.begin(), items.end(), [&](const auto& a, const auto& b) {
    return compare(reverse ? b.first : a.first, reverse ? a.first : b.first, "<", heap) == -1;
  });
}

std::vector<Value> values_of(const Keyed& items) {
  std::vector<Value> out;
  for (const auto& item : items) out.push_back(item.second);
  return out;
}

Value sort(Call& call) {
  const Value attribute = call[2];
  const bool several =
      attribute.is(Kind::kText) && attribute.string.find(',') != std::string_view::npos;
  const bool case_sensitive = call.flag(1, false);
  Keyed items;
  if (several) {
    for (const Value& item : elements(call.self, call.heap)) {
      std::vector<Value> keys;
      for (const std::string& part : split(attribute.string, ',')) {
        const Value path = call.heap.text(part);
        const Value key = follow(call.in, item, path_of(path), nullptr);
        keys.push_back(case_sensitive ? key : without_case(call.heap, key));
      }
      items.emplace_back(call.heap.list(std::move(keys)), item);
    }
  } else {
    items = keyed(call, attribute, case_sensitive);
  }
  sort_by_key(items, call.flag(0, false), call.heap);
  return call.heap.list(values_of(items));
}

Value sort_dict(Call& call) {
  if (!call.self.is(Kind::kDict)) throw Failure("dictsort() needs a mapping");
  const std::string_view by = call.text(1, "key");
  if (by != "key" && by != "value")
    throw Failure("You can only sort by either \"key\" or \"value\"");
  Keyed items;
  for (const auto& [key, value] : call.self.dict->items) {
    const Value& chosen = by == "key" ? key : value;
    items.emplace_back(call.flag(0, false) ? chosen : without_case(call.heap, chosen),
                       call.heap.list({key, value}, Kind::kTuple));
  }
  sort_by_key(items, call.flag(2, false), call.heap);
  return call.heap.list(values_of(items));
}

Value unique(Call& call) {
  std::vector<Value> out;
  // In a dict, a later pair replaces an earlier pair with an equal key. Therefore `first_of`, which
  // is built from the reversed pairs, maps each key to its first element. `order` contains the keys
  // in their original order.
  const Keyed items = keyed(call, call[1], call.flag(0, false));
  Keyed backwards(items.rbegin(), items.rend());
  const Value first_of = call.heap.dict(backwards);
  const Value order = call.heap.dict(items);
  for (const auto& entry : order.dict->items)
    out.push_back(*find(*first_of.dict, entry.first, call.heap));
  return iterator(call.heap, std::move(out));
}

Value group_by(Call& call) {
  const Value* const otherwise = call.has(1) && !call[1].is(Kind::kNone) ? &call[1] : nullptr;
  const bool case_sensitive = call.flag(2, false);
  Keyed items = keyed(call, call[0], case_sensitive, otherwise);
  sort_by_key(items, false, call.heap);
  std::vector<Value> groups;
  for (size_t i = 0; i < items.size();) {
    size_t end = i + 1;
    while (end < items.size() && equal(items[i].first, items[end].first, call.heap)) ++end;
    const Keyed group(items.begin() + static_cast<std::ptrdiff_t>(i),
                      items.begin() + static_cast<std::ptrdiff_t>(end));
    const Value key = follow(call.in, items[i].second, path_of(call[0]), otherwise);
    groups.push_back(call.heap.list({key, call.heap.list(values_of(group))}, Kind::kTuple));
    groups.back().list->is_group = true;
    i = end;
  }
  return call.heap.list(std::move(groups));
}

template <int wanted>
Value extreme(Call& call) {
  const Keyed items = keyed(call, call[1], call.flag(0, false));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (compare(items[i].first, items[best].first, wanted < 0 ? "<" : ">", call.heap) == wanted)
      best = i;
  }
  return items[best].second;
}

Value join(Call& call) {
  const std::vector<Value> path = path_of(call[1]);
  std::vector<Value> parts;
  for (const Value& item : elements(call.self, call.heap)) {
    parts.push_back(str(follow(call.in, item, path, nullptr), call.heap));
  }
  return joined(call.heap, call.has(0) ? str(call[0], call.heap).string : "", parts);
}

Value sum(Call& call) {
  const std::vector<Value> path = path_of(call[0]);
  Value out = call.has(1) ? call[1] : Value::integer(0);
  if (out.is(Kind::kText)) throw Failure("sum() can't sum strings");
  for (const Value& item : elements(call.self, call.heap)) {
    out = arithmetic(call.in, "+", out, follow(call.in, item, path, nullptr));
  }
  return out;
}

Value first(Call& call) {
  if (call.self.is(Kind::kIterator)) {
    if (Value out; take_next(*call.self.list, out)) return out;
  } else if (const std::vector<Value> items = elements(call.self, call.heap); !items.empty()) {
    return items.front();
  }
  return Value::undefined("No first item, sequence was empty.");
}

Value last(Call& call) {
  if (call.self.is(Kind::kIterator)) throw Failure("'generator' object is not reversible");
  const std::vector<Value> items = elements(call.self, call.heap);
  if (items.empty()) return Value::undefined("No last item, sequence was empty.");
  return items.back();
}

Value reverse(Call& call) {
  std::vector<Value> items = elements(call.self, call.heap);
  std::reverse(items.begin(), items.end());
  if (call.self.is(Kind::kText)) {
    Value out = joined(call.heap, "", items);
    out.safe = call.self.safe;
    return out;
  }
  if (call.self.is(Kind::kIterator)) return call.heap.list(std::move(items));
  return call.heap.list(std::move(items), Kind::kIterator, "list_reverseiterator");
}

// Returns an iterator over the converted elements of `self`. convert(element, out) sets `out` to
// the converted element and returns true, or returns false to leave out the element. As in a Python
// generator, an element is converted only when it is requested.
template <typename Convert>
Value lazy(const Call& call, const Convert& convert) {
  const Value out = iterator(call.heap, {});
  // As in jinja2, whose generators begin with `if value`, a false value has no elements.
  if (!is_true(call.self)) return out;
  out.list->pull = [self = call.self, &heap = call.heap, convert, items = std::vector<Value>(),
                    at = size_t{0}, started = false](Value& next) mutable {
    const Heap::Level level(heap);
    if (!started && !self.is(Kind::kIterator)) items = elements(self, heap);
    started = true;
    for (Value item;;) {
      heap.step();
      if (self.is(Kind::kIterator)) {
        if (!take_next(*self.list, item)) return false;
      } else {
        if (at == items.size()) return false;
        item = items[at++];
      }
      if (convert(item, next)) return true;
    }
  };
  return out;
}

// Removes the first positional argument and returns it.
Value take_first(Arguments& arguments) {
  const Value out = arguments.positional.front();
  arguments.positional.erase(arguments.positional.begin());
  return out;
}

Value map_attribute(Call& call) {
  Value attribute, otherwise;
  bool has_attribute = false, has_default = false;
  for (const auto& [name, value] : call.given.named) {
    if (name != "attribute" && name != "default")
      throw Failure(cat("map() has no argument '", name, "'"));
    (name == "default" ? otherwise : attribute) = value;
    (name == "default" ? has_default : has_attribute) = true;
  }
  if (!has_attribute) throw Failure("map requires a filter argument");
  has_default = has_default && !otherwise.is(Kind::kNone);
  return lazy(call, [&in = call.in, path = path_of(attribute), otherwise, has_default](
                        const Value& item, Value& out) {
    out = follow(in, item, path, has_default ? &otherwise : nullptr);
    return true;
  });
}

Value map(Call& call) {
  if (call.given.positional.empty()) return map_attribute(call);
  Arguments given = call.given;
  const Value name = take_first(given);
  return lazy(call, [&in = call.in, name, given](const Value& item, Value& out) {
    const Builtin* const filter = name.is(Kind::kText) ? find_filter(name.string) : nullptr;
    if (filter == nullptr) throw Failure(cat("there is no filter ", repr(name, in.heap())));
    out = call_builtin(*filter, in, item, given);
    return true;
  });
}

// Implements the filters select, reject, selectattr and rejectattr.
template <bool wanted, bool by_attribute>
Value select(Call& call) {
  Arguments given = call.given;
  if (by_attribute && given.positional.empty())
    throw Failure("Missing parameter for attribute name");
  const std::vector<Value> path = path_of(by_attribute ? take_first(given) : Value::none());
  const bool has_test = !given.positional.empty();
  const Value name = has_test ? take_first(given) : Value::none();
  return lazy(call, [&in = call.in, path, has_test, name, given](const Value& item, Value& out) {
    out = item;
    const Value value = follow(in, item, path, nullptr);
    if (!has_test) return is_true(value) == wanted;
    const Builtin* const test = name.is(Kind::kText) ? find_test(name.string) : nullptr;
    if (test == nullptr) throw Failure(cat("there is no test ", repr(name, in.heap())));
    return is_true(call_builtin(*test, in, value, given)) == wanted;
  });
}

Value batch(Call& call) {
  const Int size = call.count(0, 0);
  const bool fills = call.has(1) && !call[1].is(Kind::kNone);
  std::vector<Value> out, row;
  const auto finish = [&] {
    out.push_back(call.heap.list(std::move(row)));
    row.clear();
  };
  for (const Value& item : elements(call.self, call.heap)) {
    if (static_cast<Int>(row.size()) == size) finish();
    row.push_back(item);
  }
  if (!row.empty()) {
    const Int missing = fills ? size - static_cast<Int>(row.size()) : 0;
    if (missing > call.heap.bytes_left() / 32) call.heap.charge(INT64_MAX);
    for (Int i = 0; i < missing; ++i) row.push_back(call[1]);
    finish();
  }
  return iterator(call.heap, std::move(out));
}

Value slice(Call& call) {
  const Int count = call.count(0, 0);
  if (count == 0) throw Failure("integer division or modulo by zero");
  const std::vector<Value> items = elements(call.self, call.heap);
  const auto size = static_cast<Int>(items.size());
  if (count > call.heap.bytes_left() / 64) call.heap.charge(INT64_MAX);
  std::vector<Value> out;
  Int at = 0;
  for (Int i = 0; i < count; ++i) {
    const Int end = at + size / count + (i < size % count ? 1 : 0);
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(at),
                           items.begin() + static_cast<std::ptrdiff_t>(end));
    if (call.has(1) && !call[1].is(Kind::kNone) && i >= size % count) row.push_back(call[1]);
    out.push_back(call.heap.list(std::move(row)));
    at = end;
  }
  return iterator(call.heap, std::move(out));
}

Value default_value(Call& call) {
  const bool replaces =
      call.self.is(Kind::kUndefined) || (call.flag(1, false) && !is_true(call.self));
  if (!replaces) return call.self;
  return call.has(0) ? call[0] : Value::text("");
}

Value items_filter(Call& call) {
  if (call.self.is(Kind::kUndefined)) return iterator(call.heap, {});
  if (!call.self.is(Kind::kDict)) throw Failure("Can only get item pairs from a mapping.");
  std::vector<Value> out;
  for (const auto& [key, value] : call.self.dict->items) {
    out.push_back(call.heap.list({key, value}, Kind::kTuple));
  }
  return iterator(call.heap, std::move(out));
}

// Implements the filter attr, which returns attributes of an object, but not the values of a dict.
Value attribute_filter(Call& call) {
  const std::string_view name = call.text(0, "");
  if (call.self.is(Kind::kDict) && find_method(call.self, name) == nullptr) {
    return call.heap.undefined(cat("'dict object' has no attribute '", name, "'"));
  }
  return call.in.attribute(call.self, name);
}

Value count_filter(Call& call) { return Value::integer(length(call.self, call.heap)); }

constexpr Builtin kSequenceFilters[] = {
    {"attr", "name", 1, attribute_filter},
    {"batch", "linecount fill_with", 1, batch},
    {"count", "", 0, count_filter},
    {"d", "default_value boolean", 0, default_value},
    {"default", "default_value boolean", 0, default_value},
    {"dictsort", "case_sensitive by reverse", 0, sort_dict},
    {"first", "", 0, first},
    {"groupby", "attribute default case_sensitive", 1, group_by},
    {"items", "", 0, items_filter},
    {"join", "d attribute", 0, join},
    {"last", "", 0, last},
    {"length", "", 0, count_filter},
    {"list", "", 0, [](Call& c) { return c.heap.list(elements(c.self, c.heap)); }},
    {"map", "*", 0, map},
    {"max", "case_sensitive attribute", 0, extreme<1>},
    {"min", "case_sensitive attribute", 0, extreme<-1>},
    {"reject", "*", 0, select<false, false>},
    {"rejectattr", "*", 0, select<false, true>},
    {"reverse", "", 0, reverse},
    {"select", "*", 0, select<true, false>},
    {"selectattr", "*", 0, select<true, true>},
    {"slice", "slices fill_with", 1, slice},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"sum", "attribute start", 0, sum},
    {"unique", "case_sensitive attribute", 0, unique},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }

}  // namespace am::chat
