// Reads the keys of a config.json as typed values. Each wrong value adds a diagnostic that points
// at its key.
//
// integer(), number(), boolean() and text() return nothing for a key that is absent or null. The
// caller adds the default:
//
//   config.rms_norm_eps = reader.number("rms_norm_eps", 0.0, 1.0).value_or(1e-6);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "am/base/diagnostic.h"
#include "am/base/json.h"

namespace am::model {

class ConfigReader {
 public:
  // All arguments must outlive the reader. `json` must be an object that was parsed from `text`,
  // the content of the file `file`.
  ConfigReader(const Json& json, const std::string& text, const std::string& file,
               Diagnostics& found);

  // Each of these functions returns the value of the key, or nothing if the key is absent or null.
  // A value of another type adds an error of rule "model.type", and a number outside [low, high]
  // adds an error of rule "model.value". The functions also return nothing after an error.
  std::optional<int64_t> integer(std::string_view key, int64_t low, int64_t high);
  std::optional<double> number(std::string_view key, double low, double high);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  // Returns the integer under the key. Adds the errors of integer(), and an error of rule
  // "model.key" if the key is absent or null. Returns 0 after an error. Callers recognise this
  // value, because no size may be 0.
  int64_t required_integer(std::string_view key, int64_t low, int64_t high);

  // Whether the key is present, even if null.
  bool has(std::string_view key) const { return json_.contains(std::string(key)); }
  // Returns the value under the key as JSON, or a JSON null if the key is absent.
  const Json& raw(std::string_view key) const;
  auto items() const { return json_.items(); }
  // Returns a reader of the object under `key`; the value under `key` must be an object. The
  // returned reader's diagnostics point at `key`, and name the key "inner" of the object as
  // "key.inner".
  ConfigReader nested(std::string_view key) const;
  // Like nested(), but an absent key or null counts as an empty object. A value of another type
  // adds an error of rule "model.type".
  ConfigReader nested_or_empty(std::string_view key);

  // Returns the location of the key in the file or, in a nested reader, the location of the object.
  Span span(std::string_view key) const;
  // error() and warning() add a diagnostic that points at span(key).
  void error(std::string_view rule, std::string_view key, std::string message,
             std::string help = {});
  void warning(std::string_view rule, std::string_view key, std::string message,
               std::string help = {});

 private:
  std::string full_name(std::string_view key) const;
  void wrong_type(std::string_view key, std::string_view wanted);

  const Json& json_;
  const std::string& text_;
  const std::string& file_;
  Diagnostics& found_;
  std::string parent_;  // key of the object that a nested reader reads; empty for the top level
};

}  // namespace am::model
