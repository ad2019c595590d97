#include "am/frameworks/shared_key.h"

#include "am/base/text.h"

namespace am::frameworks {
namespace {

// Maximum gradient norm that stands for "no clipping" in files that require a number. No gradient
// norm exceeds this value.
constexpr double kNoClipping = 1e30;

bool is_empty(const Json& value) {
  return value.is_null() || value == "" || value == 0 || value == false;
}

// Returns the JSON value at a path (names joined by dots). Creates the value and its enclosing
// tables if they are missing.
Json& at_path(Json& root, std::string_view path) {
  Json* at = &root;
  for (const std::string& name : split(path, '.')) at = &(*at)[name];
  return *at;
}

void read_key(const SharedKey& key, PlanBuilder& builder) {
  Source& source = builder.source();
  if (const auto* count = std::get_if<int64_t>(&key.absent)) {
    builder.set(key.ours, source.integer(key.theirs).value_or(*count), key.theirs);
  } else if (const auto* size = std::get_if<double>(&key.absent)) {
    const double value = source.number(key.theirs).value_or(*size);
    const bool off = key.form == Form::kZeroIsOff && value >= kNoClipping;
    builder.set(key.ours, off ? 0.0 : value, key.theirs);
  } else {
    builder.copy(key.theirs, key.ours);
  }
}

}  // namespace

std::optional<Json> written_value(const SharedKey& key, const JobShape& shape) {
  auto value = shape.value(key.ours);
  if (!value.has_value() || (key.form == Form::kOptional && is_empty(*value))) return std::nullopt;
  if (key.form == Form::kZeroIsOff && *value <= 0.0) return Json(kNoClipping);
  return value;
}

void write_keys(std::span<const SharedKey> keys, std::string_view theirs, const JobShape& shape,
                Json& out) {
  for (const SharedKey& key : keys) {
    if (!starts_with(key.theirs, theirs)) continue;
    if (auto value = written_value(key, shape)) at_path(out, key.theirs) = *std::move(value);
  }
}

void read_keys(std::span<const SharedKey> keys, std::string_view theirs, PlanBuilder& builder) {
  for (const SharedKey& key : keys) {
    if (starts_with(key.theirs, theirs)) read_key(key, builder);
  }
}

}  // namespace am::frameworks
