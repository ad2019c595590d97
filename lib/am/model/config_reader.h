// Typed access to the keys of a config.json: every wrong key becomes a diagnostic that points at
// it.
//
// A key that is absent or null gives nothing, so that the caller states its default beside the
// read:
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
  // All arguments must outlive the reader. `json` is an object, `text` its bytes, `file` its name.
  ConfigReader(const Json& json, const std::string& text, const std::string& file,
               Diagnostics& found);

  // Each adds "model.type" for a value of another kind, "model.value" for one outside [low, high].
  std::optional<int64_t> integer(std::string_view key, int64_t low, int64_t high);
  std::optional<double> number(std::string_view key, double low, double high);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  // As integer(), but absence is an error too ("model.key"); then 0, which is legal for no size.
  int64_t required_integer(std::string_view key, int64_t low, int64_t high);

  // Whether the key is there at all; null counts.
  bool has(std::string_view key) const { return json_.contains(std::string(key)); }
  // The value, or null when it is absent.
  const Json& raw(std::string_view key) const;
  // All keys, with their values.
  auto items() const { return json_.items(); }
  // A reader of a nested object whose diagnostics point at `key` and name "key.inner".
  ConfigReader nested(std::string_view key) const;

  Span span(std::string_view key) const;
  // Adds an error that points at `key`.
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
  std::string parent_;  // the key of the object that this reader is in; empty at the top
};

}  // namespace am::model
