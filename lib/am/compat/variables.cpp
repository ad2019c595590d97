#include "am/compat/variables.h"

#include <cstdlib>
#include <utility>

#include "am/base/text.h"

namespace am::compat {

Variables Variables::process() { return {}; }

Variables Variables::of(std::map<std::string, std::string> values) {
  Variables variables;
  variables.own_ = std::make_shared<Own>();
  variables.own_->values = std::move(values);
  return variables;
}

std::optional<std::string> Variables::get(const std::string& name) const {
  if (!own_) return launch::process_environment()(name);
  const std::lock_guard lock(own_->mutex);
  const auto found = own_->values.find(name);
  return found == own_->values.end() ? std::nullopt : std::optional(found->second);
}

void Variables::set(const std::string& name, const std::string& value) {
  if (!own_) {
    ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    return;
  }
  const std::lock_guard lock(own_->mutex);
  own_->values[name] = value;
}

launch::EnvironmentLookup Variables::lookup() const {
  return [variables = *this](const std::string& name) { return variables.get(name); };
}

SetResult set_variable(Variables& variables, const std::string& name, const std::string& value,
                       const SetOptions& options) {
  const auto shown = [&](const std::string& text) {
    return options.secret ? std::string("****") : text;
  };
  const auto present = variables.get(name);
  if (!present) {
    variables.set(name, value);
    return {SetOutcome::kSet, cat("set ", name, "=", shown(value)), false};
  }
  if (*present == value) {
    return {SetOutcome::kAlreadySet, cat(name, "=", shown(value), " is already set"), false};
  }
  if (!options.override_value) {
    return {SetOutcome::kKept,
            cat(name, "=", shown(*present), " is kept, instead of the requested ", shown(value)),
            true};
  }
  variables.set(name, value);
  return {SetOutcome::kOverridden, cat(name, "=", shown(*present), " becomes ", shown(value)),
          true};
}

}  // namespace am::compat
