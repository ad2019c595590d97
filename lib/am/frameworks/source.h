// The settings of a framework's file during an import. A setting counts as used when the import
// reads it; settings that are never read are reported as ignored.
//
//   Source source(*root, "llama.toml", found);
//   const int64_t tp = source.size("parallelism.tensor_parallel_degree", 1);
//   source.ignored("torchtitan's own");        // every setting that was not read
//
// Paths are keys joined by dots. A value of the wrong type is reported as "exchange.type".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "am/config/value.h"
#include "am/frameworks/exchange.h"

namespace am::frameworks {

class Source {
 public:
  Source(config::Value root, std::string file, Diagnostics& found);

  // Returns the value at a path; null if there is no value. Marks the value and everything inside
  // of it as used.
  const config::Value* take(std::string_view path);
  // Returns the value at a path without marking it as used; null if there is no value.
  const config::Value* find(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }
  // Returns the position of the value in the file; if the value does not exist, the position of the
  // whole file.
  Span span(std::string_view path) const;

  // integer(), number(), boolean() and text() return the value at a path, and mark it as used. They
  // return nullopt if there is no value. For a value of the wrong type, and for an integer below
  // `low`, they report an error and return nullopt.
  std::optional<int64_t> integer(std::string_view path,
                                 int64_t low = std::numeric_limits<int64_t>::min());
  // Returns the size of a mesh axis, an integer from 1 to 2^20. Returns `absent` if the setting is
  // missing or invalid.
  int64_t size(std::string_view path, int64_t absent);
  std::optional<double> number(std::string_view path);
  std::optional<bool> boolean(std::string_view path);
  // Also accepts a number, and converts it to text.
  std::optional<std::string> text(std::string_view path);

  // Reports an error "exchange.value" at the position of the value.
  void refuse(std::string_view path, const std::string& message, const std::string& help);

  // Marks a setting as used without reading it, because a plan does not need it or implies its
  // value.
  void skip(std::string_view path);
  // Whether the file has any of these settings. A file without any of a framework's main settings
  // is not a file of that framework.
  bool has_any(std::initializer_list<std::string_view> paths) const;
  // Reports an error "exchange.framework": the file is not one of the framework `title`, because it
  // contains none of the settings that the text `expected` lists.
  void refuse_framework(
      std::string_view title, std::string_view expected,
      const std::string& help = "set --from to the framework that the file was written for");

  // Returns all unused settings, in the file's order. If a YAML alias repeats a value, all
  // repetitions count as used if one of them is used.
  std::vector<Ignored> ignored(const std::string& why) const;

  Diagnostics& found() { return found_; }
  const std::string& file() const { return file_; }

 private:
  void wrong_type(std::string_view path, const config::Value& value, std::string_view wanted);
  // Calls `seen(value, path, used)` for every value that is not a table, in the file's order.
  // `used`: the value or an enclosing table was marked as used.
  template <typename Seen>
  void walk(const config::Value& value, const std::string& path, bool used, const Seen& seen) const;

  config::Value root_;
  std::string file_;
  Diagnostics& found_;
  std::set<std::string, std::less<>> used_;
};

// Converts a setting's value to JSON, for messages and for Ignored::value.
Json to_json(const config::Value& value);

}  // namespace am::frameworks
