#include "am/formats/setting_value.h"

#include <algorithm>

#include "am/formats/torch_slice.h"

namespace am::formats {

std::optional<double> number_of(const PickleValue& value) {
  if (const auto integer = value.integer()) return static_cast<double>(*integer);
  return value.real();
}

namespace {

std::optional<SettingValue> sequence(const PickleValue& value) {
  const auto items = value.items();
  const bool texts = !items.empty() && items.front().is(PickleKind::kText);
  std::vector<double> numbers;
  std::vector<std::string> names;
  for (const PickleValue& item : items) {
    const auto number = number_of(item);
    const auto text = item.text();
    if (texts ? !text : !number) return std::nullopt;
    if (texts) {
      names.emplace_back(*text);
    } else {
      numbers.push_back(*number);
    }
  }
  if (texts) return names;
  return numbers;
}

struct Writer {
  PickleWriter& pickle;

  void operator()(std::monostate /*none*/) const { pickle.none(); }
  void operator()(bool value) const { pickle.boolean(value); }
  void operator()(int64_t value) const { pickle.integer(value); }
  void operator()(double value) const { pickle.real(value); }
  void operator()(const std::string& value) const { pickle.text(value); }
  void operator()(const std::vector<double>& values) const {
    pickle.open_mark();
    for (const double value : values) pickle.real(value);
    pickle.close_tuple();
  }
  void operator()(const std::vector<std::string>& values) const {
    pickle.empty_list();
    pickle.open_mark();
    for (const std::string& value : values) pickle.text(value);
    pickle.close_list_items();
  }
};

}  // namespace

std::optional<SettingValue> setting_value(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::kNone:
      return SettingValue();
    case PickleKind::kBool:
      return value.truth();
    case PickleKind::kInt:
      return *value.integer();
    case PickleKind::kFloat:
      return *value.real();
    case PickleKind::kText:
      return std::string(*value.text());
    case PickleKind::kTuple:
    case PickleKind::kList:
      return sequence(value);
    default:
      return std::nullopt;
  }
}

void write_setting(PickleWriter& pickle, const SettingValue& value) {
  std::visit(Writer{pickle}, value);
}

std::string setting_archive(const SettingValue& value) {
  PickleWriter pickle;
  write_setting(pickle, value);
  return value_slice(std::move(pickle).finish());
}

const SettingValue* find_setting(const Settings& settings, std::string_view name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const auto& each) { return each.first == name; });
  return found == settings.end() ? nullptr : &found->second;
}

std::optional<double> number_setting(const Settings& settings, std::string_view name) {
  const SettingValue* value = find_setting(settings, name);
  if (value == nullptr) return std::nullopt;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

}  // namespace am::formats
