#include "am/frameworks/source.h"

#include <algorithm>
#include <utility>

#include "am/base/text.h"
#include "am/base/units.h"

namespace am::frameworks {

using config::Value;

namespace {

constexpr int64_t kMostRanks = int64_t{1} << 20;

}  // namespace

Source::Source(Value root, std::string file, Diagnostics& found)
    : root_(std::move(root)), file_(std::move(file)), found_(found) {}

const Value* Source::find(std::string_view path) const {
  const Value* at = &root_;
  while (!path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    const config::Member* member = at->find(path.substr(0, dot));
    if (member == nullptr) return nullptr;
    at = &member->value;
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return at;
}

const Value* Source::take(std::string_view path) {
  const Value* value = find(path);
  if (value != nullptr) used_.emplace(path);
  return value;
}

Span Source::span(std::string_view path) const {
  const Value* value = find(path);
  return value != nullptr ? value->span : Span{file_, 0, 0, 1, {}};
}

void Source::wrong_type(std::string_view path, const Value& value, std::string_view wanted) {
  found_.error("exchange.type", value.span,
               cat(path, " is ", config::kind_name(value.kind), ", not ", wanted));
}

std::optional<int64_t> Source::integer(std::string_view path, int64_t low) {
  const Value* value = take(path);
  if (value == nullptr) return std::nullopt;
  if (value->kind != Value::Kind::kInteger) {
    wrong_type(path, *value, "an integer");
    return std::nullopt;
  }
  if (value->integer < low) {
    refuse(path, cat(path, " = ", value->integer, " is out of range"),
           cat("give an integer of at least ", low));
    return std::nullopt;
  }
  return value->integer;
}

int64_t Source::size(std::string_view path, int64_t absent) {
  const auto value = integer(path, 1);
  if (!value.has_value()) return absent;
  if (*value <= kMostRanks) return *value;
  refuse(path, cat(path, " = ", *value, " is out of range"),
         cat("legal values: 1 to ", kMostRanks));
  return absent;
}

std::optional<double> Source::number(std::string_view path) {
  const Value* value = take(path);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Value::Kind::kInteger) return static_cast<double>(value->integer);
  if (value->kind == Value::Kind::kNumber) return value->number;
  wrong_type(path, *value, "a number");
  return std::nullopt;
}

std::optional<bool> Source::boolean(std::string_view path) {
  const Value* value = take(path);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Value::Kind::kBoolean) return value->boolean;
  wrong_type(path, *value, "true or false");
  return std::nullopt;
}

std::optional<std::string> Source::text(std::string_view path) {
  const Value* value = take(path);
  if (value == nullptr) return std::nullopt;
  switch (value->kind) {
    case Value::Kind::kText:
      return value->text;
    case Value::Kind::kInteger:
      return std::to_string(value->integer);
    case Value::Kind::kNumber:
      return format_general(value->number, 12);
    default:
      wrong_type(path, *value, "text");
      return std::nullopt;
  }
}

void Source::refuse(std::string_view path, const std::string& message, const std::string& help) {
  found_.error("exchange.value", span(path), message, help);
}

bool Source::has_any(std::initializer_list<std::string_view> paths) const {
  return std::any_of(paths.begin(), paths.end(),
                     [this](std::string_view path) { return has(path); });
}

void Source::refuse_framework(std::string_view title, std::string_view expected,
                              const std::string& help) {
  found_.error("exchange.framework", Span{file_, 0, 0, 1, {}},
               cat("this is not a file of ", title, ": it has none of ", expected), help);
}

void Source::skip(std::string_view path) {
  if (has(path)) used_.emplace(path);
}

std::vector<Ignored> Source::ignored(const std::string& why) const {
  std::set<std::pair<int, int>> used_places;
  walk(root_, "", false, [&](const Value& value, const std::string&, bool used) {
    if (used) used_places.emplace(value.span.line, value.span.column);
  });
  std::vector<Ignored> out;
  walk(root_, "", false, [&](const Value& value, const std::string& path, bool used) {
    if (used || used_places.count({value.span.line, value.span.column}) > 0) return;
    out.push_back({path, dump_json(to_json(value), -1), why, value.span});
  });
  return out;
}

template <typename Seen>
void Source::walk(const Value& value, const std::string& path, bool used, const Seen& seen) const {
  used = used || (!path.empty() && used_.count(path) > 0);
  if (!value.is_table()) return seen(value, path, used);
  for (const config::Member& member : value.members) {
    walk(member.value, path.empty() ? member.key : cat(path, ".", member.key), used, seen);
  }
}

Json to_json(const Value& value) {
  switch (value.kind) {
    case Value::Kind::kInteger:
      return value.integer;
    case Value::Kind::kNumber:
      return value.number;
    case Value::Kind::kBoolean:
      return value.boolean;
    case Value::Kind::kArray: {
      Json items = Json::array();
      for (const Value& item : value.items) items.push_back(to_json(item));
      return items;
    }
    case Value::Kind::kTable: {
      Json members = Json::object();
      for (const config::Member& member : value.members) {
        members[member.key] = to_json(member.value);
      }
      return members;
    }
    default:
      return value.text;
  }
}

}  // namespace am::frameworks
