#include <algorithm>

#include "am/base/text.h"
#include "am/chat/builtin.h"

namespace am::chat {
namespace {

Value items_view(Call& call) {
  std::vector<Value> items;
  for (const auto& [key, value] : call.self.dict->items) {
    items.push_back(call.heap.list({key, value}, Kind::kTuple));
  }
  return call.heap.list(std::move(items), Kind::kView, "dict_items");
}

Value keys_view(Call& call) {
  return call.heap.list(elements(call.self, call.heap), Kind::kView, "dict_keys");
}

Value values_view(Call& call) {
  std::vector<Value> items;
  for (const auto& item : call.self.dict->items) items.push_back(item.second);
  return call.heap.list(std::move(items), Kind::kView, "dict_values");
}

Value get_item(Call& call) {
  const Value* const found = find(*call.self.dict, call[0], call.heap);
  return found != nullptr ? *found : call.has(1) ? call[1] : Value::none();
}

Value index_of(Call& call) {
  const std::vector<Value> items = elements(call.self, call.heap);
  const auto count = static_cast<Int>(items.size());
  const auto place = [&](size_t i, Int otherwise) {
    const Int at = call.integer(i, otherwise);
    return std::clamp(at < 0 ? at + count : at, Int{0}, count);
  };
  const Int end = place(2, count);
  for (Int i = place(1, 0); i < end; ++i) {
    if (equal(items[static_cast<size_t>(i)], call[0], call.heap)) return Value::integer(i);
  }
  throw Failure("the list has no such value");
}

Value count_items(Call& call) {
  const std::vector<Value> items = elements(call.self, call.heap);
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(item, call[0], call.heap);
  }));
}

Value copy_value(Call& call) { return call.self; }

constexpr Builtin kDictMethods[] = {{"items", "", 0, items_view},
                                    {"keys", "", 0, keys_view},
                                    {"values", "", 0, values_view},
                                    {"get", "- -", 1, get_item},
                                    {"copy", "", 0, copy_value}};
constexpr Builtin kListMethods[] = {
    {"index", "- - -", 1, index_of}, {"count", "-", 1, count_items}, {"copy", "", 0, copy_value}};

}  // namespace

std::span<const Builtin> container_methods(Kind kind) {
  if (kind == Kind::kDict) return kDictMethods;
  const std::span<const Builtin> list_methods = kListMethods;
  if (kind == Kind::kList) return list_methods;
  if (kind == Kind::kTuple || kind == Kind::kRange) return list_methods.first(2);
  return {};
}

}  // namespace am::chat
