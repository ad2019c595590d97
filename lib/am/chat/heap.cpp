#include <algorithm>

#include "am/base/text.h"
#include "am/chat/value.h"

namespace am::chat {
namespace {

constexpr int kDeepestValue = 100;
constexpr size_t kLinearSearch = 8;  // largest number of keys of a dict without an index

int value_depth(const Value& value) {
  if (value.is_sequence()) return value.list->depth;
  return value.is(Kind::kDict) ? value.dict->depth : 0;
}

void check_depth(int depth) {
  if (depth > kDeepestValue) {
    throw Failure(cat("a list or dict is nested deeper than the limit of ", kDeepestValue));
  }
}

}  // namespace

void Heap::step(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) {
    throw Failure(cat("the template takes more than the limit of ", limits_.steps, " steps"));
  }
}

void Heap::charge(int64_t bytes) {
  if (bytes > limits_.bytes - bytes_) {
    throw Failure(
        cat("the template's values need more than the limit of ", limits_.bytes, " bytes"));
  }
  bytes_ += bytes;
}

Heap::Level::Level(Heap& heap) : heap_(heap) {
  if (++heap.levels_ > heap.limits_.depth) {
    --heap.levels_;
    throw Failure(cat("the template recurses deeper than the limit of ", heap.limits_.depth,
                      " nested expressions, blocks and macro calls"));
  }
}

Value Heap::text(std::string text, bool safe) {
  charge(static_cast<int64_t>(text.size() + sizeof(std::string)));
  return Value::text(texts_.emplace_back(std::move(text)), safe);
}

Value Heap::undefined(std::string message) {
  return Value::undefined(text(std::move(message)).string);
}

Value Heap::list(std::vector<Value> items, Kind kind, std::string_view name) {
  charge(static_cast<int64_t>(sizeof(List) + items.size() * sizeof(Value)));
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, 1 + value_depth(item));
  check_depth(depth);
  List& made = lists_.emplace_back();
  made.items = std::move(items);
  made.depth = depth;
  made.name = name;
  Value out;
  out.kind = kind;
  out.list = &made;
  return out;
}

Value Heap::range(Int start, Int stop, Int step) {
  constexpr Int kLongestRange = 100'000;  // the limit of jinja2's sandbox
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  constexpr Int kLargestStride = Int{1} << 100;
  Int span = 0;
  const bool is_wide = step > 0 ? __builtin_sub_overflow(stop, start, &span)
                                : __builtin_sub_overflow(start, stop, &span);
  const Int stride = step > 0 ? step : -std::max(step, -kLargestStride);
  const Int count = is_wide ? kLongestRange + 1 : span > 0 ? (span - 1) / stride + 1 : 0;
  if (count > kLongestRange) {
    throw Failure(cat("the range is longer than the limit of ", int_text(kLongestRange)));
  }
  std::vector<Value> items;
  for (Int i = 0; i < count; ++i) items.push_back(Value::integer(start + i * step));
  Value out = list(std::move(items), Kind::kRange);
  out.list->start = start;
  out.list->stop = stop;
  out.list->step = step;
  return out;
}

Value Heap::dict(const std::vector<std::pair<Value, Value>>& items) {
  charge(static_cast<int64_t>(sizeof(Dict) + items.size() * (2 * sizeof(Value) + 48)));
  Dict& made = dicts_.emplace_back();
  for (const auto& [key, value] : items) {
    made.depth = std::max({made.depth, 1 + value_depth(key), 1 + value_depth(value)});
    const size_t hash = hash_of(key, *this);
    if (const Value* const old = find(made, key, *this)) {
      *const_cast<Value*>(old) = value;
      continue;
    }
    if (items.size() > kLinearSearch) made.index.emplace(hash, made.items.size());
    made.items.emplace_back(key, value);
  }
  check_depth(made.depth);
  Value out;
  out.kind = Kind::kDict;
  out.dict = &made;
  return out;
}

Value Heap::from_json(const Json& json) {
  step();
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean_of(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      return Value::integer(Int{json.get<uint64_t>()});
    case Json::value_t::number_float:
      return Value::floating(json.get<double>());
    case Json::value_t::string:
      return Value::text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(from_json(item));
      return list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (const auto& item : json.items()) {
        items.emplace_back(Value::text(item.key()), from_json(item.value()));
      }
      return dict(items);
    }
    default:
      return Value::none();
  }
}

Value Heap::object(Object* object) {
  Value out;
  out.kind = Kind::kObject;
  out.object = object;
  return out;
}

}  // namespace am::chat
