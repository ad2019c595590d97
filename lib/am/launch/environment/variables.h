// Reads a launcher's environment variables, and reports an error for each invalid value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "am/base/diagnostic.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/launch/environment/environment.h"

namespace am::launch {

class Variables {
 public:
  // Largest legal number. No id or size of a job is larger, and sums of legal numbers do not
  // overflow int64.
  static constexpr int64_t kMost = int64_t{1} << 40;

  Variables(const EnvironmentLookup& lookup, Diagnostics& found) : lookup_(lookup), found_(found) {}

  bool has(const std::string& name) const { return text(name).has_value(); }

  // Returns a variable's value. An empty variable counts as unset, because schedulers export empty
  // placeholders.
  std::optional<std::string> text(const std::string& name) const {
    std::optional<std::string> value = lookup_(name);
    if (value && trim(*value).empty()) value.reset();
    return value;
  }

  // Returns a variable's value; nothing if the variable is unset. Reports an error and returns
  // nothing if the value is not an integer from `least` to kMost.
  std::optional<int64_t> number(const std::string& name, int64_t least) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    const auto result = parse_integer(trim(*value));
    if (!result || *result < least) {
      error(cat(name, "=", *value, " is not a whole number of at least ", least), "");
      return std::nullopt;
    }
    if (*result > kMost) {
      error(cat(name, "=", *value, " is more than ", kMost, ", which no job has"), "");
      return std::nullopt;
    }
    return result;
  }

  // Returns the value of the variable `name`, which must be set because the variable `because` is
  // set. If `name` is missing or invalid, reports an error and returns `least`.
  int64_t required(const std::string& name, int64_t least, const std::string& because) const {
    if (!has(name)) {
      error(cat(because, " is set, but ", name, " is not"),
            cat("set ", name, " too, or unset ", because,
                " to let am-run start the ranks of this machine"));
      return least;
    }
    return number(name, least).value_or(least);
  }

  bool ok() const { return found_.ok(); }

  void error(const std::string& message, const std::string& help) const {
    found_.error("launch.environment", Span{}, message, help);
  }

 private:
  const EnvironmentLookup& lookup_;
  Diagnostics& found_;
};

// Returns an address without the brackets of an IPv6 address, for example "fd00::1" for
// "[fd00::1]". Brackets are needed only if a port follows.
inline std::string without_brackets(const std::string& host) {
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return brackets ? host.substr(1, host.size() - 2) : host;
}

}  // namespace am::launch
