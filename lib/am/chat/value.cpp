#include "am/chat/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>

#include "am/base/text.h"
#include "am/chat/characters.h"

namespace am::chat {
namespace {

bool equal_items(const List& a, const List& b, Heap& heap) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [&](const Value& x, const Value& y) { return equal(x, y, heap); });
}

bool equal_dicts(const Dict& a, const Dict& b, Heap& heap) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
           const Value* const other = find(b, item.first, heap);
           return other != nullptr && equal(item.second, *other, heap);
         });
}

template <typename T>
int three_way(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

size_t hash_of(const Value& value, Heap& heap) {
  heap.step();
  switch (value.kind) {
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kFloat:
      return std::hash<double>()(value.as_real());
    case Kind::kText:
      heap.scan(value.string.size());
      return std::hash<std::string_view>()(value.string);
    case Kind::kTuple:
    case Kind::kRange: {
      size_t hash = 17;
      for (const Value& item : value.list->items) hash = hash * 31 + hash_of(item, heap);
      return hash;
    }
    case Kind::kUndefined:
    case Kind::kNone:
      return static_cast<size_t>(value.kind);
    case Kind::kIterator:
      return std::hash<const void*>()(value.list);
    case Kind::kObject:
      return std::hash<const void*>()(value.object);
    default:
      throw Failure(cat("unhashable type: '", type_name(value), "'"));
  }
}

Value Value::undefined(std::string_view message) {
  Value out;
  out.string = message;
  return out;
}

Value Value::none() {
  Value out;
  out.kind = Kind::kNone;
  return out;
}

Value Value::boolean_of(bool value) {
  Value out;
  out.kind = Kind::kBool;
  out.boolean = value;
  return out;
}

Value Value::integer(Int value) {
  Value out;
  out.kind = Kind::kInt;
  out.number = value;
  return out;
}

Value Value::floating(double value) {
  Value out;
  out.kind = Kind::kFloat;
  out.real = value;
  return out;
}

Value Value::text(std::string_view value, bool safe) {
  Value out;
  out.kind = Kind::kText;
  out.safe = safe;
  out.string = value;
  return out;
}

std::string Object::repr(Heap&) const { return cat("<", type(), " object>"); }

bool Object::attribute(std::string_view, Interpreter&, Value&) { return false; }

Value Object::call(Interpreter&, const Arguments&) {
  throw Failure(cat("'", type(), "' object is not callable"));
}

std::string_view type_name(const Value& value) {
  static constexpr std::array<std::string_view, 13> kNames = {
      "Undefined", "NoneType",  "bool",  "int",       "float", "str",   "list",
      "tuple",     "dict_view", "range", "generator", "dict",  "object"};
  if (value.is(Kind::kObject)) return value.object->type();
  if (value.is(Kind::kView)) return value.list->name;
  return kNames.at(static_cast<size_t>(value.kind));
}

bool is_true(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return value.boolean;
    case Kind::kInt:
      return value.number != 0;
    case Kind::kFloat:
      return value.real != 0;
    case Kind::kText:
      return !value.string.empty();
    case Kind::kDict:
      return !value.dict->items.empty();
    case Kind::kIterator:
    case Kind::kObject:
      return true;
    default:
      return !value.list->items.empty();
  }
}

Value str(const Value& value, Heap& heap) {
  if (value.is(Kind::kText)) return Value::text(value.string);
  if (value.is(Kind::kUndefined)) return Value::text("");
  return heap.text(repr(value, heap));
}

bool equal(const Value& a, const Value& b, Heap& heap) {
  heap.step();
  if (a.is_number() && b.is_number()) {
    return a.is_integral() && b.is_integral() ? a.as_integer() == b.as_integer()
                                              : a.as_real() == b.as_real();
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kText:
      if (a.string.size() == b.string.size()) heap.scan(a.string.size());
      return a.string == b.string;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return equal_items(*a.list, *b.list, heap);
    case Kind::kView:
    case Kind::kIterator:
      return a.list == b.list;
    case Kind::kDict:
      return equal_dicts(*a.dict, *b.dict, heap);
    case Kind::kObject:
      return a.object == b.object;
    default:
      return true;
  }
}

int compare(const Value& a, const Value& b, std::string_view op, Heap& heap) {
  heap.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return three_way(a.as_integer(), b.as_integer());
    if (std::isnan(a.as_real()) || std::isnan(b.as_real())) return 2;
    return three_way(a.as_real(), b.as_real());
  }
  if (a.is(Kind::kText) && b.is(Kind::kText)) {
    heap.scan(std::min(a.string.size(), b.string.size()));
    return three_way(a.string, b.string);
  }
  if (a.kind == b.kind && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    const auto& x = a.list->items;
    const auto& y = b.list->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i], heap)) return compare(x[i], y[i], op, heap);
    }
    return three_way(x.size(), y.size());
  }
  for (const Value* side : {&a, &b}) {
    if (side->is(Kind::kUndefined)) throw Failure(std::string(side->string));
  }
  throw Failure(cat("'", op, "' not supported between instances of '", type_name(a), "' and '",
                    type_name(b), "'"));
}

const Value* find(const Dict& dict, const Value& key, Heap& heap) {
  const size_t hash = hash_of(key, heap);
  if (dict.index.empty()) {
    for (const auto& item : dict.items) {
      if (equal(item.first, key, heap)) return &item.second;
    }
    return nullptr;
  }
  const auto [begin, end] = dict.index.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (equal(dict.items[at->second].first, key, heap)) return &dict.items[at->second].second;
  }
  return nullptr;
}

const Value* find(const Dict& dict, std::string_view key, Heap& heap) {
  return find(dict, Value::text(key), heap);
}

int64_t length(const Value& value, Heap& heap) {
  switch (value.kind) {
    case Kind::kUndefined:
      return 0;
    case Kind::kText:
      heap.scan(value.string.size());
      return static_cast<int64_t>(length(value.string));
    case Kind::kDict:
      return static_cast<int64_t>(value.dict->items.size());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
    case Kind::kRange:
      return static_cast<int64_t>(value.list->items.size());
    default:
      throw Failure(cat("object of type '", type_name(value), "' has no len()"));
  }
}

bool take_next(List& iterator, Value& out) {
  if (iterator.taken < iterator.items.size()) {
    out = iterator.items[iterator.taken++];
    return true;
  }
  return iterator.pull && iterator.pull(out);
}

bool is_iterable(const Value& value) {
  return value.is(Kind::kUndefined) || value.is(Kind::kText) || value.is(Kind::kDict) ||
         value.is_sequence();
}

std::vector<Value> elements(const Value& value, Heap& heap) {
  if (!is_iterable(value)) throw Failure(cat("'", type_name(value), "' object is not iterable"));
  const size_t count = value.is(Kind::kText)        ? value.string.size()
                       : value.is(Kind::kDict)      ? value.dict->items.size()
                       : value.is(Kind::kUndefined) ? 0
                                                    : value.list->items.size();
  heap.step(static_cast<int64_t>(count));
  heap.charge(static_cast<int64_t>(2 * count * sizeof(Value)));
  std::vector<Value> out;
  if (value.is(Kind::kText)) {
    for (size_t at = 0; at < value.string.size();) {
      const size_t begin = at;
      next_character(value.string, at);
      out.push_back(Value::text(value.string.substr(begin, at - begin)));
    }
  } else if (value.is(Kind::kDict)) {
    for (const auto& item : value.dict->items) out.push_back(item.first);
  } else if (value.is(Kind::kIterator)) {
    for (Value item; take_next(*value.list, item);) {
      heap.step();
      heap.charge(sizeof(Value));
      out.push_back(item);
    }
  } else if (value.is_sequence()) {
    out = value.list->items;
  }
  return out;
}

}  // namespace am::chat
