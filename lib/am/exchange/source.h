// A framework's settings while they are read: what somebody asks for is used, the rest is ignored.
//
//   Source source(*root, "llama.toml", found);
//   const int64_t tp = source.size("parallelism.tensor_parallel_degree", 1);
//   source.ignored("torchtitan's own");        // every setting that nobody asked for
//
// Paths are keys joined by dots. A value of another kind than asked for is "exchange.type".
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
#include "am/exchange/exchange.h"

namespace am::exchange {

class Source {
 public:
  Source(config::Value root, std::string file, Diagnostics& found);

  // The value, marked as used with all that it holds; null when it is not there.
  const config::Value* take(std::string_view path);
  // The same without a mark.
  const config::Value* find(std::string_view path) const;
  bool has(std::string_view path) const { return find(path) != nullptr; }
  // Where it stands; the file as a whole when it is not there.
  Span span(std::string_view path) const;

  std::optional<int64_t> integer(std::string_view path,
                                 int64_t low = std::numeric_limits<int64_t>::min());
  // A size of a mesh: 1 to 2^20; `absent` when it is not there or wrong.
  int64_t size(std::string_view path, int64_t absent);
  std::optional<double> number(std::string_view path);
  std::optional<bool> boolean(std::string_view path);
  // A number counts as its text.
  std::optional<std::string> text(std::string_view path);

  // "exchange.value" at the value.
  void refuse(std::string_view path, const std::string& message, const std::string& help);

  // Settings that mean the same by default, or that are none of the plan's business.
  void skip(std::string_view path);
  // Whether one of these is there: a file without any is not of this framework.
  bool has_any(std::initializer_list<std::string_view> paths) const;
  // "exchange.framework" for the file as a whole.
  void refuse_framework(
      std::string_view title, std::string_view expected,
      const std::string& help = "--from names the framework that the file was written for");

  // All that was not used, in the file's order. What an alias repeats is used where either is.
  std::vector<Ignored> ignored(const std::string& why) const;

  Diagnostics& found() { return found_; }
  const std::string& file() const { return file_; }

 private:
  void wrong_type(std::string_view path, const config::Value& value, std::string_view wanted);
  // Calls `seen(value, path, used)` for every value that holds no others, in the file's order.
  template <typename Seen>
  void walk(const config::Value& value, const std::string& path, bool used, const Seen& seen) const;

  config::Value root_;
  std::string file_;
  Diagnostics& found_;
  std::set<std::string, std::less<>> used_;
};

// As JSON, for messages and lists.
Json to_json(const config::Value& value);

// A value that does not stand in a file as it is, at the place that it follows from.
config::Value value_of(int64_t value, const Span& span);
config::Value value_of(double value, const Span& span);
config::Value value_of(bool value, const Span& span);
config::Value value_of(std::string value, const Span& span);
config::Value value_of(const std::vector<config::Value>& items, const Span& span);

}  // namespace am::exchange
