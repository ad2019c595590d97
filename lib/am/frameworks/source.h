// The settings of a framework's file during an import. Settings that the importing code queries
// count as used, all other settings as ignored.
//
//   Source source(*root, "llama.toml", found);
//   const int64_t tp = source.size("parallelism.tensor_parallel_degree", 1);
//   source.ignored("torchtitan's own");        // every setting that was not queried
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

  // Returns the value and marks it and its contents as used; null if it does not exist.
  const config::Value* take(std::string_view path);
  // Returns the value without marking it.
  const config::Value* find(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }
  // Returns the location of the value; the location of the whole file if the value does not exist.
  Span span(std::string_view path) const;

  std::optional<int64_t> integer(std::string_view path,
                                 int64_t low = std::numeric_limits<int64_t>::min());
  // Returns a size of the mesh, an integer from 1 to 2^20; `absent` if it is missing or invalid.
  int64_t size(std::string_view path, int64_t absent);
  std::optional<double> number(std::string_view path);
  std::optional<bool> boolean(std::string_view path);
  // Returns a text, or a number converted to text.
  std::optional<std::string> text(std::string_view path);

  // Reports an error "exchange.value" at the location of the value.
  void refuse(std::string_view path, const std::string& message, const std::string& help);

  // Marks a setting as used without reading it, because it is irrelevant to a plan or has the value
  // that a plan implies.
  void skip(std::string_view path);
  // Whether any of these settings exists. If none of a framework's main settings does, the file is
  // not one of the framework.
  bool has_any(std::initializer_list<std::string_view> paths) const;
  // Reports an error "exchange.framework": the file is not one of the framework `title`, because it
  // has none of the settings that the text `expected` lists.
  void refuse_framework(
      std::string_view title, std::string_view expected,
      const std::string& help = "--from names the framework that the file was written for");

  // Returns all unused settings, in the file's order. If a YAML alias repeats a value, all its
  // places count as used if one of them is used.
  std::vector<Ignored> ignored(const std::string& why) const;

  Diagnostics& found() { return found_; }
  const std::string& file() const { return file_; }

 private:
  void wrong_type(std::string_view path, const config::Value& value, std::string_view wanted);
  // Calls `seen(value, path, used)` for every value that is not a table, in the file's order.
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
