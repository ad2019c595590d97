// Settings of an optimizer, as torch.optim's param_groups store them: names, for example "lr" and
// "betas", with a plain Python value each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "am/formats/pickle.h"
#include "am/formats/pickle_writer.h"

namespace am::formats {

// Python's None, a boolean, an integer, a float, a string, a tuple of floats, or a list of strings.
using SettingValue = std::variant<std::monostate, bool, int64_t, double, std::string,
                                  std::vector<double>, std::vector<std::string>>;

// Names and values of settings, in the order in which they are stored.
using Settings = std::vector<std::pair<std::string, SettingValue>>;

// Returns the number in a pickled integer or float; nullopt for any other value.
std::optional<double> number_of(const PickleValue& value);
// Converts a pickled value to a setting. A list or tuple of numbers becomes a tuple of floats; a
// list or tuple of strings becomes a list of strings. Returns nullopt for any other value, for
// example a tensor, or a list that contains both integers and strings.
std::optional<SettingValue> setting_value(const PickleValue& value);
// Appends the value to `pickle`.
void write_setting(PickleWriter& pickle, const SettingValue& value);
// Returns a torch.save archive that contains only the value. torch.distributed.checkpoint stores
// values that are not tensors in this form.
std::string setting_archive(const SettingValue& value);

// Returns the value of the setting `name`; null if `settings` does not contain this name.
const SettingValue* find_setting(const Settings& settings, std::string_view name);
// Returns the number in the setting `name`; nullopt if the setting is missing or is not a number.
std::optional<double> number_setting(const Settings& settings, std::string_view name);

}  // namespace am::formats
