#include "am/data/tokenizer/json_field.h"

#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::data {

void JsonField::fail(const std::string& reason) const {
  throw Error(ErrorKind::kFormat, cat(*file_, ": ", place_, place_.empty() ? "" : ": ", reason));
}

JsonField JsonField::inside(const SortedJson& value, const std::string& name) const {
  std::string place;
  place.reserve(place_.size() + name.size() + 1);
  place += place_;
  if (!place.empty() && !starts_with(name, "[")) place += '.';
  place += name;
  return {value, std::move(place), *file_};
}

std::optional<JsonField> JsonField::find(const char* key) const {
  const auto found = object().find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return inside(*found, key);
}

JsonField JsonField::at(const char* key) const {
  const auto found = object().find(key);
  if (found == value_->end()) fail(cat("\"", key, "\" is missing"));
  return inside(*found, key);
}

std::vector<JsonField> JsonField::items() const {
  if (!value_->is_array()) fail("the value is not a list");
  std::vector<JsonField> out;
  out.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    out.push_back(inside((*value_)[i], "[" + std::to_string(i) + "]"));
  }
  return out;
}

const SortedJson& JsonField::object() const {
  if (!value_->is_object()) fail("the value is not an object");
  return *value_;
}

const std::string& JsonField::text() const {
  if (!value_->is_string()) fail("the value is not a text");
  return value_->get_ref<const std::string&>();
}

bool JsonField::flag() const {
  if (!value_->is_boolean()) fail("the value is not true or false");
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) fail("the value is not a number");
  return value_->get<double>();
}

uint32_t JsonField::id() const {
  const bool fits = value_->is_number_unsigned() && value_->get<uint64_t>() < UINT32_MAX;
  if (!fits)
    fail(cat("the id ", value_->dump(-1, ' ', false, SortedJson::error_handler_t::replace),
             " is not a whole number below 2^32 - 1"));
  return static_cast<uint32_t>(value_->get<uint64_t>());
}

std::string JsonField::text(const char* key, const char* otherwise) const {
  const auto field = find(key);
  return field ? field->text() : otherwise;
}

bool JsonField::flag(const char* key, bool otherwise) const {
  const auto field = find(key);
  return field ? field->flag() : otherwise;
}

int64_t JsonField::count(const char* key, int64_t otherwise) const {
  const auto field = find(key);
  return field ? static_cast<int64_t>(field->id()) : otherwise;
}

}  // namespace am::data
