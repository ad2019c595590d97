// Settings of an optimizer as Python stores them: plain values under names, for example "lr" and
// "betas" in torch.optim's param_groups.
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

// None, a boolean, a number, a text, a tuple of numbers, or a list of texts.
using SettingValue = std::variant<std::monostate, bool, int64_t, double, std::string,
                                  std::vector<double>, std::vector<std::string>>;

// Names and values of settings, in the order in which they are stored.
using Settings = std::vector<std::pair<std::string, SettingValue>>;

// Returns a pickled integer or float as a number; nullopt for any other value.
std::optional<double> number_of(const PickleValue& value);
// Converts a pickled value to a setting; a list of numbers becomes a tuple. Returns nullopt for a
// value that a setting cannot have, for example a tensor or a list of integers and texts.
std::optional<SettingValue> setting_value(const PickleValue& value);
// Writes the value to a pickle.
void write_setting(PickleWriter& pickle, const SettingValue& value);
// Returns the value as a torch.save archive, which torch.distributed.checkpoint reads.
std::string setting_archive(const SettingValue& value);

// Returns the value of this name; null if there is none.
const SettingValue* find_setting(const Settings& settings, std::string_view name);
// Returns an integer or real setting; nullopt if it is missing or not a number.
std::optional<double> number_setting(const Settings& settings, std::string_view name);

}  // namespace am::formats
