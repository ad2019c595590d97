// Codecs, each of which reads, describes and writes one kind of value in a plan file.
//
// A codec is a small struct with these members:
//
//   template <typename T>
//   struct Codec {
//     std::optional<T> read(const Input& input) const;   // the value; nothing after an error
//     Json write(const T& value) const;                  // as in a plan file; null: key left out
//     Json schema() const;                               // JSON Schema of the legal values
//     std::string type() const;                          // legal values for people: "integer >= 1"
//   };
//
// The field table (field.h) connects codecs to the plan's members. strategy_codec.h contains
// further codecs for values of [strategy], and table_codec.h contains codecs for tables.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "am/base/json.h"
#include "am/config/value.h"

namespace am::config {

// A value of a plan file that a codec reads.
struct Input {
  const Value& value;
  std::string key;  // full name of the key, for example "mesh.tp_size"
  Diagnostics& found;

  // Adds an error "plan.type" that names the wanted kind of value and the actual kind. The help
  // text shows how to write the value if only the notation is wrong (a number in quotes); otherwise
  // the help text lists the `legal` values.
  void wrong_type(std::string_view wanted, const std::string& legal) const;
  // Add an error "plan.range" or "plan.value". Its text is the key, followed directly by `message`.
  void out_of_range(const std::string& message, const std::string& help) const;
  void bad_value(const std::string& message, const std::string& help) const;
  // Adds an error "plan.value" if `pattern` is not a valid glob, as glob_problem() decides.
  void check_glob(std::string_view pattern) const;
  // Returns the input for an item of an array or a member of a table.
  Input part(const Value& inner, std::string_view name) const;
};

struct Integer {
  int64_t min = 0;
  int64_t max = int64_t{1} << 53;  // readers that store numbers as doubles are exact up to 2^53

  std::optional<int64_t> read(const Input& input) const;
  Json write(int64_t value) const { return value; }
  Json schema() const;
  std::string type() const;
};

// Accepts finite numbers, integers included, from `min` to less than `below`, and at most `most`.
struct Number {
  double min = 0.0;
  double below = std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();

  std::optional<double> read(const Input& input) const;
  Json write(double value) const { return value; }
  Json schema() const;
  std::string type() const;
};

struct Boolean {
  std::optional<bool> read(const Input& input) const;
  Json write(bool value) const { return value; }
  Json schema() const { return {{"type", "boolean"}}; }
  std::string type() const { return "true or false"; }
};

struct Text {
  enum class Empty { kAllowed, kRefused };
  Empty empty = Empty::kRefused;
  std::string what = "text";  // description of the legal values in messages

  std::optional<std::string> read(const Input& input) const;
  Json write(const std::string& value) const { return value; }
  Json schema() const;
  std::string type() const { return what; }
};

// Accepts a time, for example "23h30m", "90m" or "45s"; the value is in seconds.
struct Duration {
  std::optional<double> read(const Input& input) const;
  Json write(double seconds) const;
  Json schema() const;
  std::string type() const { return "a time, for example \"23h30m\""; }
};

// Accepts a token: its id, or its name in the tokenizer's vocabulary.
struct TokenCodec {
  std::optional<std::variant<int64_t, std::string>> read(const Input& input) const;
  Json write(const std::variant<int64_t, std::string>& value) const;
  Json schema() const;
  std::string type() const { return "integer >= 0, or a token in quotes"; }
};

// Accepts each of `names`. Also accepts the keys of `also`, which are alternative spellings, and
// reads them as the names to which `also` maps them.
struct Choice {
  std::vector<std::string> names;
  std::map<std::string, std::string, std::less<>> also = {};
  // If not empty, for example ".csv", a path with this ending is legal too.
  std::string file_ending = {};

  std::optional<std::string> read(const Input& input) const;
  Json write(const std::string& value) const { return value; }
  Json schema() const;
  std::string type() const;
};

// Returns the choice of float32, bfloat16 and float16. Alternative spellings are fp32, float, bf16,
// fp16, half and PyTorch's, for example "torch.float32".
Choice dtype_choice();

// Codec of a key that may be absent; an absent key is not written.
template <typename Codec>
struct Optional {
  Codec codec;

  template <typename T>
  Json write(const std::optional<T>& value) const {
    return value ? codec.write(*value) : Json(nullptr);
  }
  auto read(const Input& input) const {
    auto value = codec.read(input);
    return value ? std::optional(std::optional(std::move(*value))) : std::nullopt;
  }
  Json schema() const { return codec.schema(); }
  std::string type() const { return codec.type(); }
};

// Accepts one text or an array of texts, each of which must be a valid glob and not empty.
struct Texts {
  std::string what = "text or array of texts";

  std::optional<std::vector<std::string>> read(const Input& input) const;
  Json write(const std::vector<std::string>& value) const { return value; }
  Json schema() const;
  std::string type() const { return what; }
};

// Accepts an array of names that `item` accepts, without duplicates.
struct Choices {
  Choice item;

  std::optional<std::vector<std::string>> read(const Input& input) const;
  Json write(const std::vector<std::string>& value) const { return value; }
  Json schema() const;
  std::string type() const { return "array of " + item.type(); }
};

struct Integers {
  Integer item;

  std::optional<std::vector<int64_t>> read(const Input& input) const;
  Json write(const std::vector<int64_t>& value) const { return value; }
  Json schema() const { return {{"type", "array"}, {"items", item.schema()}}; }
  std::string type() const { return "array of " + item.type(); }
};

struct NumberPair {
  Number item;

  std::optional<std::array<double, 2>> read(const Input& input) const;
  Json write(const std::array<double, 2>& value) const { return value; }
  Json schema() const;
  std::string type() const { return "array of two, each a " + item.type(); }
};

// Returns the names in quotes, for example `"a", "b" or "c"`.
std::string quoted_list(const std::vector<std::string>& names);

}  // namespace am::config
