#include "am/model/config_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/base/units.h"

namespace am::model {
namespace {

const Json kNull;

std::string kind_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "true or false";
    case Json::value_t::string:
      return "a text";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::number_float:
      return "a fraction";
    default:
      return "an integer";
  }
}

// Returns the integer as an int64. A larger value becomes the largest int64; callers report it as
// out of range, because all their limits are smaller.
int64_t clamped_integer(const Json& value) {
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::numeric_limits<int64_t>::max();
  }
  return value.get<int64_t>();
}

}  // namespace

ConfigReader::ConfigReader(const Json& json, const std::string& text, const std::string& file,
                           Diagnostics& found)
    : json_(json), text_(text), file_(file), found_(found) {
  AM_ASSERT(json.is_object(), "a config reader needs an object");
}

const Json& ConfigReader::raw(std::string_view key) const {
  const auto at = json_.find(std::string(key));
  return at == json_.end() ? kNull : *at;
}

std::optional<int64_t> ConfigReader::integer(std::string_view key, int64_t low, int64_t high) {
  const Json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number_integer()) {
    wrong_type(key, "an integer");
    return std::nullopt;
  }
  const int64_t number = clamped_integer(value);
  if (number < low || number > high) {
    error("model.value", key, cat(full_name(key), " = ", value.dump(), " is out of range"),
          cat("legal values: ", low, " to ", high));
    return std::nullopt;
  }
  return number;
}

std::optional<double> ConfigReader::number(std::string_view key, double low, double high) {
  const Json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_number()) {
    wrong_type(key, "a number");
    return std::nullopt;
  }
  const double number = value.get<double>();
  if (!std::isfinite(number) || number < low || number > high) {
    const std::string written = std::isfinite(number) ? value.dump() : cat(number);
    error("model.value", key, cat(full_name(key), " = ", written, " is out of range"),
          cat("legal values: ", format_general(low, 6), " to ", format_general(high, 6)));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> ConfigReader::boolean(std::string_view key) {
  const Json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_boolean()) {
    wrong_type(key, "true or false");
    return std::nullopt;
  }
  return value.get<bool>();
}

std::optional<std::string> ConfigReader::text(std::string_view key) {
  const Json& value = raw(key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_string()) {
    wrong_type(key, "a text");
    return std::nullopt;
  }
  return value.get<std::string>();
}

int64_t ConfigReader::required_integer(std::string_view key, int64_t low, int64_t high) {
  if (raw(key).is_null()) {
    error("model.key", key, cat("the config has no ", full_name(key)),
          cat("add \"", key, "\": an integer"));
    return 0;
  }
  return integer(key, low, high).value_or(0);
}

ConfigReader ConfigReader::nested(std::string_view key) const {
  ConfigReader reader(raw(key), text_, file_, found_);
  reader.parent_ = full_name(key);
  return reader;
}

ConfigReader ConfigReader::nested_or_empty(std::string_view key) {
  static const Json kEmpty = Json::object();
  const Json& value = raw(key);
  if (value.is_object()) return nested(key);
  if (!value.is_null()) wrong_type(key, "an object");
  ConfigReader reader(kEmpty, text_, file_, found_);
  reader.parent_ = full_name(key);
  return reader;
}

Span ConfigReader::span(std::string_view key) const {
  const std::string_view parent = parent_;
  const std::string_view top = parent.empty() ? key : parent.substr(0, parent.find('.'));
  return find_json_key(text_, file_, top);
}

void ConfigReader::error(std::string_view rule, std::string_view key, std::string message,
                         std::string help) {
  found_.error(std::string(rule), span(key), std::move(message), std::move(help));
}

void ConfigReader::warning(std::string_view rule, std::string_view key, std::string message,
                           std::string help) {
  found_.warning(std::string(rule), span(key), std::move(message), std::move(help));
}

std::string ConfigReader::full_name(std::string_view key) const {
  return parent_.empty() ? std::string(key) : cat(parent_, ".", key);
}

void ConfigReader::wrong_type(std::string_view key, std::string_view wanted) {
  error("model.type", key, cat(full_name(key), " must be ", wanted, ", not ", kind_name(raw(key))));
}

}  // namespace am::model
