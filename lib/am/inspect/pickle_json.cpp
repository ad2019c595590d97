#include "am/inspect/pickle_json.h"

#include "am/base/text.h"

namespace am::inspect {
namespace {

using formats::PickleKind;
using formats::PickleValue;

constexpr int kDeepest = 20;

struct PickleBudget {
  int64_t values = 1000;
  int depth = 0;
};

Json json_of(const PickleValue& value, PickleBudget& budget);

Json dict_json(std::span<const PickleValue> items, PickleBudget& budget) {
  Json json = Json::object();
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    const Json key = json_of(items[i], budget);
    json[key.is_string() ? key.get<std::string>() : dump_json(key, -1)] =
        json_of(items[i + 1], budget);
    if (budget.values <= 0) break;
  }
  return json;
}

Json list_json(std::span<const PickleValue> items, PickleBudget& budget) {
  Json json = Json::array();
  for (const PickleValue& item : items) {
    json.push_back(json_of(item, budget));
    if (budget.values <= 0) break;
  }
  return json;
}

// Converts an OrderedDict like a dict with the same contents. Converts any other object to its
// class name ("object"), the arguments of its constructor ("arguments") and its state ("state").
Json object_json(const PickleValue& value, PickleBudget& budget) {
  if (value.is_object("collections", "OrderedDict")) return dict_json(value.contents(), budget);
  Json json = {{"object", cat(value.global().module(), ".", value.global().name())}};
  json["arguments"] = json_of(value.arguments(), budget);
  if (!value.state().is(PickleKind::kNone)) json["state"] = json_of(value.state(), budget);
  return json;
}

Json nested_json(const PickleValue& value, PickleBudget& budget) {
  switch (value.kind()) {
    case PickleKind::kTuple:
    case PickleKind::kList:
    case PickleKind::kSet:
      return list_json(value.items(), budget);
    case PickleKind::kDict:
      return dict_json(value.items(), budget);
    case PickleKind::kObject:
      return object_json(value, budget);
    default:
      return nullptr;
  }
}

Json json_of(const PickleValue& value, PickleBudget& budget) {
  if (--budget.values < 0 || budget.depth > kDeepest) return "...";
  switch (value.kind()) {
    case PickleKind::kNone:
      return nullptr;
    case PickleKind::kBool:
      return value.truth();
    case PickleKind::kInt:
      return *value.integer();
    case PickleKind::kFloat:
      return *value.real();
    case PickleKind::kText:
      return std::string(*value.text());
    case PickleKind::kBytes:
    case PickleKind::kLongInt:
      return cat(value.bytes().size(), " bytes");
    case PickleKind::kGlobal:
      return cat(value.module(), ".", value.name());
    case PickleKind::kPersistent:
      return "a tensor's storage";
    default:
      break;
  }
  ++budget.depth;
  Json json = nested_json(value, budget);
  --budget.depth;
  return json;
}

}  // namespace

Json to_json(const PickleValue& value) {
  PickleBudget budget;
  return json_of(value, budget);
}

}  // namespace am::inspect
